"""A run of the lifecycle: its configuration, its ports, the owner of its leases and its time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidetable.config import Config
from tidetable.feed.mappings import FeedTables, FollowedFeeds
from tidetable.period_tables import WAIT_SECONDS, PeriodTables
from tidetable.ports import Archiver, Catalog, Clock, Pools, Rollups, Scaling, Tables
from tidetable.ports.feeds import Mappings
from tidetable.remaining import Remaining, limit_time

# The number of tables that a run describes or changes at once.
CONCURRENCY = 8
# The seconds that the actions of one rank wait for tables, in total. After that, actions are begun without a wait, and
# a later run finishes them: 40 tables that do not become ACTIVE must leave time for the archives of other tables.
RANK_SECONDS = 120.0


@dataclass(slots=True)
class LifecycleRun:
    """A run over the tables of a stage: by schedule, by hand, or for a deployment.

    ``owner`` is the name by which the run holds leases, ``catalog_table`` the name of the catalog's table.
    ``remaining`` returns the seconds that are left for the run, ``patience`` the seconds that the run may still wait
    for tables. ``find_rollups`` returns the state of the rollups, which few runs need. ``mappings`` is None if the
    function of the feeds is unknown, ``followed`` is what the process knows of them.
    """

    config: Config
    stage: str
    catalog: Catalog
    tables: Tables
    scaling: Scaling
    archiver: Archiver
    clock: Clock
    pools: Pools
    catalog_table: str
    owner: str
    remaining: Remaining
    find_rollups: Callable[[], Rollups] | None = None
    mappings: Mappings | None = None
    followed: FollowedFeeds = field(default_factory=FollowedFeeds)
    patience: Remaining | None = None

    def make_period_tables(self, most: float = WAIT_SECONDS) -> PeriodTables:
        """Return the tables for one action. It waits at most a minute for them, so that others are not delayed."""
        remaining = limit_time(most, self.clock, self.patience or self.remaining)
        return PeriodTables(self.stage, self.tables, self.clock, remaining)

    def make_feed_tables(self) -> FeedTables | None:
        """Make the object that fits the mappings of feeds to the tables."""
        if self.mappings is None:
            return None
        return FeedTables(self.config, self.stage, self.tables, self.mappings, self.catalog, self.followed)
