"""A table to archive, with its bucket and its clock. Its calls may fail."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from aws.archive.parquet import Parquet
from tests.fakes import FakeCatalog, FakeClock
from tests.fakes.serial import Serial
from tests.fakes.work import FakeWork
from tests.fakes.work_queue import FakeWorkQueue
from tests.lifecycle.world import LADDER, configuration
from tests.worlds.codec import to_wire
from tests.worlds.parts import read_part
from tidetable.archive import Archived, Exporter, Manifest, archive_period
from tidetable.archive.export import work_on_message
from tidetable.archive.manifest import Part
from tidetable.archive.ports import RawPage
from tidetable.archive.reading import ArchivedEvent
from tidetable.catalog import Entry, State
from tidetable.config import TableClass
from tidetable.errors import TableMissing, TableThrottled
from tidetable.events import Event
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing
from tidetable.ports import ArchiveRange, Table
from tidetable.work.claim import ItemName

START = datetime(2026, 3, 1, tzinfo=UTC)


NOW = datetime(2026, 3, 20, tzinfo=UTC)


LAYOUT = Layout("time", 4, "id", 21_600)


AWKWARD: dict[str, Any] = {
    "big": Decimal(12345678901234567890123456789012345678),
    "small": Decimal("1E-130"),
    "text": 'é#%"\\\n\u2028',
    "null": None,
    "deep": [[{"x": []}], {}, True, ""],
}


def some(count: int) -> list[Event]:
    return [Event(f"s#{i % 3}", START + timedelta(minutes=i // 2), f"id%{i}", AWKWARD | {"n": i}) for i in range(count)]


class _Counted:
    """The records of work, whose calls are counted."""

    def __init__(self, records: FakeWork, count: Callable[[], None]) -> None:
        self._records = records
        self._count = count

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            self._count()
            return getattr(self._records, name)(*args, **options)

        return call


class World:
    """A table in memory, which is archived in the real format. The archiver is killed after ``calls`` calls."""

    def __init__(self, events: list[Event]) -> None:
        self.items: dict[str, list[Any]] = {"t": [to_wire(LAYOUT.make_item(event)) for event in events][::-1]}
        self.bucket: dict[str, bytes] = {}
        self.catalog = FakeCatalog()
        self.records = FakeWork()
        self.work: Any = _Counted(self.records, self._call)
        self.work_queue = FakeWorkQueue()
        self.clock = FakeClock(NOW)
        self.calls = 10**9
        self.throttles = 0
        self.read: int | None = 100
        self.units: float | None = None
        self.page_seconds = 0.0
        self.status = "ACTIVE"
        self.slept: list[float] = []
        self.seconds = 9e8
        self.table_bytes = 0
        self.segment_bytes = 1_000_000_000
        self.at_once_bytes = 1_000_000_000
        self.policy = ""
        self.part_bytes = 8_000
        self.capacity = LADDER
        self.time_travel = False
        self.catalog.add(Entry("s", find_containing(START, Kind.DAY), "t", LAYOUT, State.CLOSED, START))

    def _call(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt

    def describe(self, name: str) -> Table | None:
        exists = name in self.items
        write = None if self.read is None else 1
        table = Table(name, self.status, write, self.read, TableClass.STANDARD, size_bytes=self.table_bytes)
        return table if exists else None

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        """A page of seven items at most."""
        self._call()
        self.clock.time += timedelta(seconds=self.page_seconds)
        if table not in self.items:
            raise TableMissing(table)
        if self.throttles:
            self.throttles -= 1
            raise TableThrottled(table)
        mine = self.items[table][segment::segments]
        start = after["at"] if after is not None else 0
        items = mine[start : start + min(limit or 7, 7)]
        end = start + len(items)
        units = float(len(items)) if self.units is None else self.units
        return RawPage(json.dumps(items).encode(), len(items), units, {"at": end} if end < len(mine) else None)

    def now(self) -> datetime:
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        """Move the clock, and record the pause."""
        if seconds:
            self.slept.append(seconds)
        self.clock.sleep(seconds)

    def put(self, key: str, body: bytes) -> None:
        self._call()
        self.bucket[key] = body

    def get(self, key: str) -> bytes:
        self._call()
        return self.bucket[key]

    def find(self, key: str) -> bytes | None:
        self._call()
        return self.bucket.get(key)

    def sizes(self, prefix: str) -> dict[str, int]:
        self._call()
        return {key: len(body) for key, body in self.bucket.items() if key.startswith(prefix)}

    def clear(self, prefix: str) -> None:
        self._call()
        self.bucket = {key: body for key, body in self.bucket.items() if not key.startswith(prefix)}

    def make_exporter(self) -> Exporter:
        config = configuration(more=self.policy, capacity=self.capacity)
        world: Any = self
        return Exporter(
            config,
            self.catalog,
            tables=world,
            source=world,
            objects=world,
            format=Parquet(),
            clock=self,
            complete=world.complete,
            pools=Serial,
            work=self.work,
            work_queue=self.work_queue,
            part_bytes=self.part_bytes,
            segment_bytes=self.segment_bytes,
            at_once_bytes=self.at_once_bytes,
            time_travel=self.time_travel,
        )

    def measure_remaining(self) -> Callable[[], float]:
        """Return a function that returns the seconds that are left of a run that begins now."""
        end = self.clock.now() + timedelta(seconds=self.seconds)
        return lambda: (end - self.clock.now()).total_seconds()

    def run(self, owner: str = "one") -> Archived:
        return archive_period("s", "2026-03-01", self.make_exporter(), owner, self.measure_remaining())

    def work_on(self, name: ItemName, owner: str = "worker") -> Archived | None:
        """Let a worker have a message."""
        return work_on_message(name, self.make_exporter(), owner, self.measure_remaining())

    def archive(self, owner: str = "one") -> Entry:
        done = self.run(owner)
        assert done.done
        return done.entry

    @property
    def state(self) -> State:
        return self.catalog.entries("s")[0].state

    @property
    def parts(self) -> list[str]:
        return sorted(key for key in self.bucket if key.endswith(".parquet"))

    # The methods of the archive's reader.
    def manifest(self, key: str) -> Manifest:
        return Manifest.decode(self.bucket[key])

    def complete(self, items: bytes, _table: str) -> bytes:
        return items

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int = 1
    ) -> Iterator[ArchivedEvent]:
        return read_part(self.bucket[part.key], keys, layout, ascending=ascending)


def divide(world: World, count: int) -> None:
    """Let the table have so many segments, which one run reads."""
    world.segment_bytes, world.table_bytes = 10, 10 * count


def throttle_second_segment(world: World, patch: pytest.MonkeyPatch) -> None:
    """Refuse reads of the table's second segment, until the patch is undone."""
    page = world.page

    def throttle(table: str, *, segment: int, **options: Any) -> Any:
        if segment == 1:
            raise TableThrottled(table)
        return page(table, segment=segment, **options)

    patch.setattr(world, "page", throttle)
