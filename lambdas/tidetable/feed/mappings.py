"""Mappings follow tables: each open table of a stream with a feed has a change stream, mapped once to the function.

AWS: "The operation conflicts with the resource's availability. For example, you tried to update an event source mapping in the
CREATING state" (ResourceInUseException). A mapping outlives its table, and its function, until somebody deletes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import NamedTuple

from tidetable.catalog import Entry, State
from tidetable.catalog_steps import read_entry
from tidetable.config import Config, FeedPolicy
from tidetable.errors import InvalidName, NotReady, TableMissing, judge_failure
from tidetable.expiry import compute_settling
from tidetable.names import parse_table_name
from tidetable.ports import CatalogReader, Tables
from tidetable.ports.feeds import FeedSettings, Mappings, StreamMapping

_ENABLED, _DISABLED = "Enabled", "Disabled"
# AWS: a record of a change stream stays for 24 hours, even if its table is deleted earlier: "the corresponding stream
# on that table goes into the DISABLED state, and the stream is automatically deleted after 24 hours" (DeleteTable).
RECORDS_STAY = timedelta(hours=24)
# A mapping that somebody deleted or disabled is found after this time, even if no table has changed.
LOOK_AGAIN = timedelta(hours=1)
# The states of a period whose table exists, and takes no more events: its last records may still be unread.
_CLOSED = frozenset({State.CLOSED, State.RETAINED, State.ARCHIVING, State.ARCHIVED})
_THERE = _CLOSED | {State.CREATING, State.OPEN}


class FeedStep(NamedTuple):
    """A change of a table's stream or of a mapping, and its outcome: planned, done, deferred or failed."""

    action: str
    table: str
    reason: str
    outcome: str = "planned"
    detail: str = ""


# A change that is due: the action, its reason, and the function that does it.
_Due = tuple[str, str, Callable[[], object]]


@dataclass(slots=True)
class FollowedFeeds:
    """What a process knows of an earlier run that found every mapping right: the tables then, and the run's time."""

    tables: object = None
    at: datetime | None = None


@dataclass(slots=True)
class FeedTables:
    """The ports and the configuration of a run over the feeds of a stage."""

    config: Config
    stage: str
    tables: Tables
    mappings: Mappings
    catalog: CatalogReader
    followed: FollowedFeeds = field(default_factory=FollowedFeeds)
    # True if a change is still under way, so that a later run must look again.
    _waits: bool = False

    def follow(self, periods: Mapping[str, Iterable[Entry]], now: datetime, *, dry_run: bool = False) -> list[FeedStep]:
        """Make, mend and remove mappings so that they fit the tables.

        A change that is still under way is completed by a later run. A closed table keeps its mapping. While the
        table's last records may be unread, a lost mapping is made again. If the table is deleted in that time, its
        mapping stays.

        ``periods`` has the periods of each stream with a feed. If a stream is missing there, its periods could not be
        read, and its mappings stay. A problem with one table does not stop the work on other tables. Nothing is looked
        at if an earlier run found every mapping right, less than ``LOOK_AGAIN`` ago, and no table has changed since.
        """
        seen, known = self._list_facts(periods, now), self.followed
        if not dry_run and known.at is not None and known.tables == seen and known.at <= now < known.at + LOOK_AGAIN:
            return []
        steps = self._follow_all(periods, now, dry_run=dry_run)
        if not steps and not self._waits:
            known.tables, known.at = seen, now
        return steps

    def _list_facts(self, periods: Mapping[str, Iterable[Entry]], now: datetime) -> object:
        """List the facts that decide which mappings there must be."""
        return {
            stream: (feed, [(entry.table, entry.state, self._has_records(entry, now)) for entry in entries])
            for stream, entries in periods.items()
            if (feed := self._find_feed(stream)) is not None
        }

    def _follow_all(self, periods: Mapping[str, Iterable[Entry]], now: datetime, *, dry_run: bool) -> list[FeedStep]:
        mapped = self.mappings.list()
        by_source = {mapping.source: mapping for mapping in mapped}
        tables_in_use: set[str] = set()
        steps: list[FeedStep] = []
        for stream, entries in periods.items():
            feed = self._find_feed(stream)
            for entry in entries:
                if feed is None or entry.state not in _THERE:
                    continue
                tables_in_use.add(entry.table)
                if entry.state is State.OPEN or (entry.state in _CLOSED and self._has_records(entry, now)):
                    steps += self._attempt(entry.table, self._plan_table(entry, feed, by_source), dry_run=dry_run)
        for mapping in mapped:
            if mapping.table not in tables_in_use and not self._is_unread(mapping, periods, now):
                steps += self._attempt(mapping.table, self._plan_removal(mapping), dry_run=dry_run)
        return steps

    def _has_records(self, entry: Entry, now: datetime) -> bool:
        """True if the change stream of a table that takes no more events may still have records."""
        return now < compute_settling(entry, self.config.streams[entry.stream].late) + RECORDS_STAY

    def _is_unread(self, mapping: StreamMapping, periods: Mapping[str, Iterable[Entry]], now: datetime) -> bool:
        """True if a feed still needs the mapping: its periods are unknown, or a deleted table may have unread records."""
        try:
            stream, period = parse_table_name(self.stage, mapping.table)
        except InvalidName:
            return False
        if self._find_feed(stream) is None:
            return False
        if stream not in periods:
            return True
        # ``periods`` may lack a deleted period, so the catalog is read here.
        entry = read_entry(self.catalog, stream, period)
        return entry is not None and entry.state is State.DELETED and self._has_records(entry, now)

    def remove_all(self) -> list[FeedStep]:
        """Remove every mapping, because the function will be deleted."""
        mapped = self.mappings.list()
        return [step for mapping in mapped for step in self._attempt(mapping.table, self._plan_removal(mapping))]

    def _find_feed(self, stream: str) -> FeedPolicy | None:
        policy = self.config.streams.get(stream)
        return policy.feed if policy is not None else None

    def _plan_table(self, entry: Entry, feed: FeedPolicy, mapped: Mapping[str, StreamMapping]) -> Iterator[_Due]:
        """Yield the changes that a table needs: its change stream (only if it is open), and the stream's mapping."""
        table, tables, mappings = self.tables.describe(entry.table), self.tables, self.mappings
        if table is None or table.status != "ACTIVE":
            self._waits = True
            return
        if table.stream_arn and not table.has_images:
            if entry.state is not State.OPEN:
                return
            # AWS cannot change which images a stream shows. A new stream could show others, but readers of the old
            # stream would not follow it.
            raise NotReady("its change stream shows no new images; the feed begins with the next table")
        if not table.stream_arn and entry.state is not State.OPEN:
            # The table takes no more events. A restored table would only have records of restored events.
            return
        if not table.stream_arn:
            yield "stream", "its stream has a feed", lambda: tables.set_stream(entry.table, "new-image")
            return
        mapping, settings = mapped.get(table.stream_arn), make_settings(feed)
        self._waits |= mapping is not None and mapping.state not in (_ENABLED, _DISABLED)
        if mapping is None:
            yield "map", "its stream has a feed", lambda: mappings.create(table.stream_arn, settings)
        elif mapping.state == _DISABLED or (mapping.state == _ENABLED and mapping.settings != settings):
            why = "it was disabled" if mapping.state == _DISABLED else "batch, window or parallel changed"
            yield "remap", why, lambda: mappings.update(mapping, settings)

    def _plan_removal(self, mapping: StreamMapping) -> Iterator[_Due]:
        if mapping.state != "Deleting":
            yield "unmap", "its table is gone, or its stream has no feed", lambda: self.mappings.delete(mapping)

    def _attempt(self, table: str, due: Iterator[_Due], *, dry_run: bool = False) -> Iterator[FeedStep]:
        action, reason = "look", ""
        try:
            for action, reason, change in due:
                if not dry_run:
                    change()
                yield FeedStep(action, table, reason, "planned" if dry_run else "done")
        except TableMissing as error:
            yield FeedStep(action, table, reason, "deferred", str(error))
        except Exception as error:  # an error of one table must not stop the work on the others
            yield FeedStep(action, table, reason, *judge_failure(error))


def make_settings(feed: FeedPolicy) -> FeedSettings:
    """Make the settings of a feed's mappings."""
    return FeedSettings(feed.batch, int(feed.window.total_seconds()), feed.parallel)
