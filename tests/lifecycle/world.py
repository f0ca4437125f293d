"""A world in memory for the lifecycle: clock, catalog, tables, store, archive."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes import FakeArchive, FakeArchiver, FakeCatalog, FakeClock, FakeScaling, FakeStore, FakeTables
from tests.fakes.mappings import FakeMappings
from tests.fakes.rollups import FakeRollups
from tests.fakes.serial import Serial
from tidetable.catalog import State
from tidetable.config import Config, parse
from tidetable.lifecycle import LifecycleRun, RunReport, reconcile
from tidetable.ports import Pools
from tidetable.remaining import Remaining
from wiring_upkeep import Upkeep

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)


LADDER = """
        mode = "provisioned"
        ladder = [
            { age = 0, write = 10, read = 10 },
            { age = 1, write = 2, read = 5 },
            { age = 3, write = 1, read = 1, class = "infrequent-access" },
        ]
"""

SCALED = """
        mode = "provisioned"
        autoscaling = { write = { min = 5, max = 100 } }
        ladder = [
            { age = 0, write = 10, read = 10 },
            { age = 1, write = 2, read = 5 },
        ]
"""
INDEXED = """
        mode = "provisioned"
        ladder = [
            { age = 0, write = 10, read = 10, index = { status = { write = 7, read = 2 } } },
            { age = 1, write = 1, read = 1 },
        ]
        [[streams.s.index]]
        name = "status"
        partition_by = "status"
"""


def configuration(**changes: Any) -> Config:
    values = {"period": "day", "late": "1d", "retention": 5, "premake": 2, "on_expiry": "archive", "delete": "true"}
    values |= {"capacity": LADDER}
    values |= {"grace": "0s", "more": "", "max_deletes": 100, "stagger": "0s"}
    values |= changes
    return parse(
        f"""
        [lifecycle]
        delete_expired = {values["delete"]}
        delete_grace = "{values["grace"]}"
        max_deletes = {values["max_deletes"]}
        stagger = "{values["stagger"]}"
        [streams.s]
        period = "{values["period"]}"
        late = "{values["late"]}"
        retention = {values["retention"]}
        premake = {values["premake"]}
        on_expiry = "{values["on_expiry"]}"
        {values["more"]}
        [streams.s.key]
        partition_by = "series"
        [streams.s.capacity]
        {values["capacity"]}
        """
    )


class World:
    def __init__(self, now: datetime = NOON, **changes: Any) -> None:
        self.clock = FakeClock(now)
        self.catalog = FakeCatalog()
        self.store = FakeStore(self.catalog)
        self.tables = FakeTables(self.clock, self.store)
        self.scaling = FakeScaling()
        self.mappings = FakeMappings(self.clock)
        self.archive = FakeArchive()
        self.archiver = FakeArchiver(self.catalog, self.store, self.archive, self.clock)
        self.config = configuration(**changes)
        self.pools: Pools = Serial

    def begin_run(self, owner: str = "owner", remaining: Remaining = lambda: 1000.0, **changes: Any) -> LifecycleRun:
        return replace(self.pipeline().begin_run(owner, remaining), **changes)

    def pipeline(self, **ports: Any) -> Upkeep:
        """The functions' pipeline on these fakes."""
        held = {
            "config": self.config,
            "stage": "t",
            "catalog": self.catalog,
            "catalog_table": "tidetable-t-catalog",
            "store": self.store,
            "tables": self.tables,
            "scaling": self.scaling,
            "mappings": self.mappings,
            "archiver": self.archiver,
            "clock": self.clock,
            "pools": self.pools,
            "rollups": FakeRollups(),
        }
        return Upkeep(**(held | ports))

    def run(self, *, dry_run: bool = False) -> RunReport:
        # A run may take long by the fake clock, because every wait moves it; other tests check the time of a run.
        return reconcile(self.begin_run(), dry_run=dry_run)

    def at(self, now: datetime) -> RunReport:
        self.clock.time = now
        return self.run()

    def after(self, **length: float) -> RunReport:
        return self.at(self.clock.time + timedelta(**length))

    def states(self) -> dict[str, State]:
        return {entry.period.label: entry.state for entry in self.catalog.entries("s")}

    def levels(self) -> dict[str, tuple[int | None, int | None, str]]:
        """Units and class by period, after all changes in progress."""
        self.clock.sleep(5)
        tables = {}
        for name in sorted(self.tables.names):
            table = self.tables.describe(name)
            assert table is not None
            tables[name.removeprefix("tidetable-t.s.")] = (table.write, table.read, table.table_class.value)
        return tables


def outcomes(report: RunReport) -> list[tuple[str, str, str]]:
    """The actions of a run: action, period, outcome."""
    return [(result.action.name, result.action.entry.period.label, result.outcome) for result in report.done]
