"""A stream with rollups on fakes: writers that mark and write in steps, refreshers that may be killed, and queries with
and without rollups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from aws.sketches import DDSketches
from aws.zstd import Zstd
from tests.fakes import SEAL, FakeArchive, FakeCatalog, FakeStore, FakeValues, unpacker
from tests.fakes.archive import FakeArchiver
from tests.fakes.held_table import HeldTable
from tests.fakes.refresher import refresh_rollups
from tests.fakes.rollups import FakeRollups
from tests.fakes.serial import Serial
from tests.fakes.work import FakeWork
from tidetable.batch import Batch
from tidetable.catalog import ArchiveFacts, Entry, GapReason, State
from tidetable.config import Stream, parse
from tidetable.events import Event
from tidetable.exact_json import encode_json
from tidetable.forms.choose import choose_form
from tidetable.ingest.series_index import SeriesIndex
from tidetable.layout import Layout, Packing
from tidetable.periods import Kind, find_containing
from tidetable.ports import Guarded, Mark, Noting, Put, Transacted
from tidetable.query import Reader
from tidetable.query.aggregates import explain_aggregate, find_aggregate, parse_aggregation
from tidetable.query.aggregates.find import Aggregate
from tidetable.rollup_model import bounds
from tidetable.rollup_model.definition import Definition, QueryRollups
from tidetable.rollups.run import RefreshReport
from tidetable.rollups.services import Services
from tidetable.times import to_text

START = datetime(2026, 3, 2, tzinfo=UTC)
STREAM: Stream = parse(
    """
    [streams.s]
    period = "day"
    late = "5d"
    retention = 9
    key = { partition_by = "time", bucket = "6h", shards = 2 }
    """
).streams["s"]
# The same stream, but partitioned by series. Its rollups find the events through the series that are noted for its
# periods.
BY_SERIES: Stream = parse(
    """
    [streams.s]
    period = "day"
    late = "5d"
    retention = 9
    key = { partition_by = "series", shards = 2 }
    [[streams.s.rollup]]
    name = "m"
    every = "10m"
    retention = "30d"
    """
).streams["s"]
SERIES = Layout("series", 2, "id")
PACKED_SERIES = Layout("series", 2, "id", pack=Packing(3_600, 65_536))
PLAIN = Layout("time", 2, "id", 21_600)
PACKED = Layout("time", 2, "id", 21_600, pack=Packing(3_600, 65_536))
BY_SUFFIX = Layout("time", 3, "series", 21_600, pack=Packing(3_600, 65_536))
EVERYTHING = ("count", "sum", "min", "max", "first", "last", "first_at", "last_at", "percentiles")
MINUTES = Definition("m", timedelta(minutes=10), ("series", "kind"), ("mag",), EVERYTHING, 1_000, "s", "s-m")
HOURS = Definition("h", timedelta(hours=1), ("kind",), ("mag",), EVERYTHING, 1_000, "s", "s-h")
DAYS = 4
LENGTH = bounds.choose_lease_length(timedelta(seconds=300))
RawAnswer = tuple[bytes, set[tuple[datetime, datetime]]]
# Answers without rollups, by their events and their query: a test that stops a run at each of its requests asks about the
# same events a hundred times.
_RAW: dict[tuple[Any, ...], RawAnswer] = {}
# The longest life of a writer: the life of its function, and the time of its last request.
_LIFE = bounds.FUNCTION_LIFE + bounds.UNDER_WAY


class Killed(BaseException):
    """An error that stops a function."""


class World:
    """Four days of the stream ``s`` and of its rollups. Time passes only by ``sleep``.

    A world that is partitioned by series has a twin with the same events that is partitioned by time. The answers of
    the twin are the right ones.
    """

    def __init__(self, definitions: Sequence[Definition] = (MINUTES, HOURS), layout: Layout = PLAIN) -> None:
        self.time = START
        self.count = 0
        # Whether writers write new late events together with marks that name them, as ingest does.
        self.adds = False
        self.layout = layout
        self.catalog, self.archive = FakeCatalog(), FakeArchive()
        self.work = FakeWork()
        self.store = FakeStore(self.catalog)
        self.rollups = FakeRollups(self.store)
        self.archiver = FakeArchiver(self.catalog, self.store, self.archive, self)
        self.definitions: dict[str, Sequence[Definition]] = {"s": list(definitions)}
        self.values = FakeValues()
        whole = unpacker(self.store, self.values)
        rolled = QueryRollups(self.rollups, self.definitions)
        self.reader = Reader(self.catalog, self.store, self.archive, whole, SEAL, DDSketches(), Serial, rolled)
        self.writers: list[Writer] = []
        self.notes = SeriesIndex(self.rollups)
        self.twin: World | None = None
        self.stream = STREAM
        if layout.partition_by == "series":
            self.stream, self.twin = BY_SERIES, World((), PLAIN if layout.pack is None else PACKED)
            self.rollups.noting["s"] = Noting(START, START)
        for day in range(DAYS):
            self.add_period("s", Kind.DAY, START + timedelta(days=day), layout)
            self.add_period(
                "s-m", Kind.DAY, START + timedelta(days=day), Layout("time", 1, "id", 3_600, pack=Packing(600, 65_536))
            )
        self.add_period("s-h", Kind.MONTH, START, Layout("time", 1, "id", 86_400, pack=Packing(3_600, 65_536)))

    def now(self) -> datetime:
        """The true time."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let time pass. A writer whose life ends meanwhile does its remaining steps at the last moment of its life."""
        end = self.time + timedelta(seconds=seconds)
        for writer in sorted(self.writers, key=lambda writer: writer.end):
            if writer.end <= end:
                self.time = max(self.time, writer.end)
                while writer.steps:
                    writer.step()
        self.writers = [writer for writer in self.writers if writer.steps]
        self.time = end

    def add_period(self, stream: str, kind: Kind, at: datetime, layout: Layout) -> Entry:
        period = find_containing(at, kind)
        entry = Entry(stream, period, f"tidetable-t.{stream}.{period.label}", layout, State.OPEN, START)
        self.catalog.add(entry)
        self.store.tables[entry.table] = HeldTable()
        return entry

    def entry(self, stream: str, at: datetime) -> Entry:
        (found,) = [entry for entry in self.catalog.entries(stream, consistent=True) if at in entry.period]
        return found

    def set_state(self, stream: str, at: datetime, state: State) -> None:
        entry = self.entry(stream, at)
        self.catalog.items[stream, entry.period] = replace(entry, state=state)

    def move_to_archive(self, stream: str, at: datetime) -> None:
        """Archive a period and delete its table."""
        entry = self.entry(stream, at)
        self.set_state(stream, at, State.CLOSED)
        self.archiver.archive(stream, entry.period.label, within=100)
        self.set_state(stream, at, State.DELETED)
        del self.store.tables[entry.table]
        if self.twin is not None and stream == "s":
            self.twin.move_to_archive(stream, at)

    def restore(self, stream: str, at: datetime) -> None:
        """Write a period's archive back to its table."""
        entry = self.entry(stream, at)
        events = self.archive.periods[entry.table]
        self.store.tables[entry.table] = HeldTable()
        if stream == "s" and self.twin is not None:
            assert self.note(entry, events, self.time)
            self.twin.restore(stream, at)
        self.put(entry, events, 1)
        self.set_state(stream, at, State.CLOSED)

    def forget(self, stream: str, at: datetime) -> None:
        """Delete a period without an archive, as if its retention had ended."""
        entry = self.entry(stream, at)
        self.store.tables.pop(entry.table, None)
        self.catalog.items[stream, entry.period] = replace(entry, state=State.DELETED, archive=None)

    def note(self, entry: Entry, events: Sequence[Event], now: datetime) -> bool:
        """Write notes of the series of events, as writers do."""
        return self.notes.note([(entry, [event.series for event in events])], now)

    def put(self, entry: Entry, events: Sequence[Event], at: int) -> None:
        """Write events to a table."""
        if self.twin is not None and entry.stream == "s":
            self.twin.put(self.twin.entry("s", entry.period.start), events, at)
        self.put_batch(entry, replace(Batch.of(events, at), large=()))

    def put_batch(self, entry: Entry, batch: Batch) -> None:
        """Write events to a table, as ingest makes their items or packs."""
        form, table, held = choose_form(entry.layout), entry.table, self.store.tables[entry.table]
        numbers = range(len(batch.times))
        for put in form.make_puts(batch, numbers, table, Zstd(), lambda item: Put(table, item)).puts:
            held[put.key] = put.item

    # Writers

    def begin(self, events: Sequence[Event], error: float = 0.0) -> Writer:
        """Begin a writer: it reads its clock, which is wrong by ``error`` seconds, and has done no step yet."""
        writer = Writer(self, events, self.time + timedelta(seconds=error), self.time + _LIFE)
        self.writers.append(writer)
        return writer

    def write(self, *events: Event) -> None:
        """Begin a writer that does all of its steps at once."""
        writer = self.begin(events)
        while writer.steps:
            writer.step()

    # The refresher

    def services(self, error: float = 0.0, strike: Callable[[], None] = lambda: None) -> Services:
        struck: Any = {name: Struck(getattr(self, name), strike) for name in ("catalog", "store", "rollups", "work")}
        reader = replace(self.reader, catalog=struck["catalog"], store=struck["store"])
        ports = struck["catalog"], reader, struck["rollups"], struck["work"]
        return Services(*ports, _Wrong(self, error), lambda: 100.0)

    def refresh(
        self, error: float = 0.0, strike: Callable[[], None] = lambda: None, owner: str = "run"
    ) -> RefreshReport | None:
        return refresh_rollups(self.definitions, self.services(error, strike), owner, LENGTH)

    # Queries

    def ask(self, remaining: Callable[[], float] = lambda: 100.0, /, **parameters: str) -> Aggregate:
        now = max(self.time, START + timedelta(hours=1))
        given = (
            {"from": to_text(START), "to": to_text(START + timedelta(hours=8))} if "cursor" not in parameters else {}
        )
        asked = {name: [value] for name, value in (given | parameters).items()}
        query = parse_aggregation(self.stream, asked, now, SEAL)
        return find_aggregate(query, self.stream, self.reader, now, remaining)

    def explain(self, **parameters: str) -> dict[str, Any]:
        given = {"from": to_text(START), "to": to_text(START + timedelta(hours=8))} | parameters
        query = parse_aggregation(self.stream, {name: [value] for name, value in given.items()}, self.time, SEAL)
        return explain_aggregate(query, self.stream, self.reader, _NoTables(), self.time)  # type: ignore[arg-type]

    def check(self, queries: Sequence[Mapping[str, str]]) -> int:
        """Check that each query has the same answer with and without rollups; return how many queries used a rollup."""
        used, raw_world = 0, self.twin or self
        events = raw_world.identify_events()
        for query in queries:
            rolled, (rows, raw_gaps) = self.ask(**query), raw_world.ask_raw(events, query)
            # The rows are compared as JSON: 3 and 3.0 are equal numbers in Python, but different answers.
            assert encode_json(rolled.rows) == rows, (query, to_text(self.time))
            gaps = {(gap.start, gap.end) for gap in rolled.gaps if gap.reason is not GapReason.LATE_EVENTS_DELETED}
            assert gaps <= raw_gaps
            used += any(scan.entry.stream != "s" for scan in rolled.sources)
        return used

    def identify_events(self) -> bytes:
        """A hash of all that answers without rollups are made of: the periods of the stream, and their stored events."""
        entries = [entry for (stream, _), entry in self.catalog.items.items() if stream == "s"]
        held = [(entry, self.store.tables.get(entry.table), self.archive.periods.get(entry.table)) for entry in entries]
        return sha256(repr(held).encode()).digest()

    def ask_raw(self, events: bytes, query: Mapping[str, str]) -> RawAnswer:
        """The rows, as JSON, and the gaps of an answer without rollups."""
        known = (events, *query.items())
        if known not in _RAW:
            raw = self.ask(**query, rollups="false")
            _RAW[known] = encode_json(raw.rows), {(gap.start, gap.end) for gap in raw.gaps}
        return _RAW[known]


class _NoTables:
    def describe(self, table: str) -> None:
        """Find no table."""


class Struck:
    """A port that calls ``strike`` before and after each of its requests.

    When ``strike`` raises Killed at each call from some call on, every later request raises Killed, too.
    """

    def __init__(self, inner: Any, strike: Callable[[], None]) -> None:
        self._inner = inner
        self._strike = strike

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._inner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._strike()
            answer = inner(*args, **kwargs)
            self._strike()
            return answer

        return call


@dataclass
class _Wrong:
    """A clock that is wrong by some seconds."""

    world: World
    error: float

    def now(self) -> datetime:
        return self.world.time + timedelta(seconds=self.error)

    def sleep(self, seconds: float) -> None:
        self.world.sleep(seconds)


@dataclass
class Writer:
    """A writer does what ingest and the drain do with events: mark, then write; first those that are new, if it ``adds``.

    ``end`` is the latest instant at which its last step takes effect.
    """

    world: World
    events: Sequence[Event]
    clock: datetime
    end: datetime
    steps: list[str] = field(default_factory=lambda: ["mark", "write"])

    def __post_init__(self) -> None:
        if self.world.adds:
            self.steps.insert(0, "add")
        if self.world.twin is not None:
            self.steps.insert(0, "note")

    def step(self) -> None:
        """Do the next step."""
        getattr(self, f"_{self.steps.pop(0)}")()

    def _add(self) -> None:
        """Write the late events that are new; the other events are left."""
        world, every = self.world, min(definition.every for definition in self.world.definitions["s"])
        left = []
        for event in self.events:
            entry = world.entry("s", event.time)
            if entry.state is not State.OPEN or entry.layout.pack or not bounds.needs_mark(event.time, self.clock):
                left.append(event)
                continue
            world.count += 1
            at = bounds.to_millis(self.clock) * 1_000_000 + world.count
            put = Put(entry.table, entry.layout.make_item(event, at=at))
            bucket = START + (event.time - START) // every * every
            mark = Mark(bucket, bounds.to_millis(self.clock), every, event=(put.table, *put.key))
            done = world.store.transact([Guarded(put, "absent"), Guarded(world.rollups.make_mark("s", mark))])
            if done is not Transacted.DONE:
                left.append(event)
            elif world.twin is not None:
                world.twin.put(world.twin.entry("s", entry.period.start), [event], at)
        self.events = left

    def _mark(self) -> None:
        finest = min(self.world.definitions["s"], key=lambda definition: definition.every)
        late = [event for event in self.events if bounds.needs_mark(event.time, self.clock)]
        buckets = sorted({finest.floor(event.time) for event in late})
        self.world.rollups.put_marks("s", buckets, bounds.to_millis(self.clock), finest.every)

    def _note(self) -> None:
        for event in self.events:
            assert self.world.note(self.world.entry("s", event.time), [event], self.clock)

    def _write(self) -> None:
        for event in self.events:
            entry = self.world.entry("s", event.time)
            if entry.state is not State.OPEN:
                return
            # Two copies of an event never have the same instant, as then the instant would not say which copy counts.
            self.world.count += 1
            self.world.put(entry, [event], bounds.to_millis(self.clock) * 1_000_000 + self.world.count)


def begin_rollups(definitions: Sequence[Definition] = (MINUTES, HOURS), layout: Layout = PLAIN) -> World:
    """Make a world whose rollups begin at 00:10 and 01:00. The time is 01:20."""
    world = World(definitions, layout)
    world.refresh()
    world.sleep(4_800)
    return world


def show_edges(world: World, rollup: str) -> list[str]:
    """The edges of a rollup, such as 00:10-01:10: the rollup's start, and the instant up to which it is sealed."""
    edges = [edge for edge in world.rollups.read_state("s").edges if edge.rollup == rollup]
    return [f"{edge.start:%H:%M}-{edge.sealed:%H:%M}" for edge in edges]


def reading(minutes: float, mag: Any, series: str = "a", id: str = "", **more: Any) -> Event:
    """Make an event ``minutes`` after the start."""
    data = {name: value for name, value in {"mag": mag, **more}.items() if value is not None}
    return Event(series, START + timedelta(minutes=minutes), id or f"{minutes}", data)


QUERIES: list[Mapping[str, str]] = [
    {"step": "10m", "stat": "count,sum,min,max,avg,first,last,p50,p99", "field": "mag", "by": "series,kind"},
    {"step": "1h", "stat": "count,sum,min,max,avg,first,last,p50", "field": "mag"},
    {"step": "1h", "by": "kind"},
    {"by": "kind", "stat": "last_at,first_at,count", "top": "2", "order": "asc"},
    {"step": "20m", "by": "series", "stat": "first_at,last_at", "field": "mag"},
    {"stat": "avg,first,last", "field": "mag", "by": "kind", "where.kind": "x"},
    {"step": "20m", "by": "series", "series": "a", "stat": "count,last", "field": "mag"},
    {"step": "1h", "by": "kind", "top": "1", "stat": "sum", "field": "mag"},
    {"step": "2h", "stat": "count,sum", "field": "mag", "from": to_text(START + timedelta(minutes=17)), "fill": "zero"},
    {"step": "1h", "stat": "first,last", "field": "mag", "where.kind:prefix": "x"},
]
FACTS = ArchiveFacts
