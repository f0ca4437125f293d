"""Archiving: verified, complete, once, and safe to interrupt anywhere."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.archive.between import between
from aws.archive.parquet import Parquet, ParquetWriter
from aws.archive.render import canonical
from aws.codec import to_wire
from tests.fakes import FakeCatalog, FakeClock
from tests.fakes.serial import Serial
from tests.lifecycle.world import configuration
from tidetable.archive import Archived, Exporter, Facts, Manifest, archive_period
from tidetable.archive.manifest import Part
from tidetable.archive.pacing import rate_of
from tidetable.archive.ports import RawPage
from tidetable.archive.reading import Kept, read_archive
from tidetable.catalog import Entry, Opened, State
from tidetable.config import ArchivePolicy, TableClass
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch, StaleEntry, TableMissing, TableThrottled
from tidetable.events import Event
from tidetable.keys import Layout
from tidetable.periods import Kind, containing
from tidetable.ports import ArchiveRange, Table

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = datetime(2026, 3, 20, tzinfo=UTC)
LAYOUT = Layout("time", 4, "id", 21_600)
MINUTE = timedelta(minutes=1)
AWKWARD: dict[str, Any] = {
    "big": Decimal(12345678901234567890123456789012345678),
    "small": Decimal("1E-130"),
    "text": 'é#%"\\\n\u2028',
    "null": None,
    "deep": [[{"x": []}], {}, True, ""],
}


def some(count: int) -> list[Event]:
    return [Event(f"s#{i % 3}", START + timedelta(minutes=i // 2), f"id%{i}", AWKWARD | {"n": i}) for i in range(count)]


class World:
    """A table in memory behind the real format. ``calls`` are how many the archive may make before it is killed."""

    def __init__(self, events: list[Event]) -> None:
        self.held: dict[str, list[Any]] = {"t": [to_wire(LAYOUT.item_of(event)) for event in events][::-1]}
        self.bucket: dict[str, bytes] = {}
        self.catalog = FakeCatalog()
        self.clock = FakeClock(NOW)
        self.calls = 10**9
        self.throttles = 0
        self.read: int | None = 100
        self.units: float | None = None
        self.page_seconds = 0.0
        self.status = "ACTIVE"
        self.slept: list[float] = []
        self.seconds = 1e9
        self.policy = ""
        self.catalog.add(Entry("s", containing(START, Kind.DAY), "t", LAYOUT, State.CLOSED, START))

    def _call(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt

    def describe(self, name: str) -> Table | None:
        found = name in self.held
        write = None if self.read is None else 1
        return Table(name, self.status, write, self.read, TableClass.STANDARD) if found else None

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        """Seven items a page at the most."""
        self._call()
        self.clock.time += timedelta(seconds=self.page_seconds)
        if table not in self.held:
            raise TableMissing(table)
        if self.throttles:
            self.throttles -= 1
            raise TableThrottled(table)
        mine = self.held[table][segment::segments]
        start = after["at"] if after is not None else 0
        items = mine[start : start + min(limit or 7, 7)]
        end = start + len(items)
        units = float(len(items)) if self.units is None else self.units
        return RawPage(json.dumps(items).encode(), len(items), units, {"at": end} if end < len(mine) else None)

    def now(self) -> datetime:
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        """The clock's, noted."""
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

    def run(self, owner: str = "one") -> Archived:
        config = configuration(more=self.policy)
        parts: Any = Exporter(config, self.catalog, self, self, self, Parquet(), self, self, Serial, part_bytes=8000)  # type: ignore[arg-type]
        end = self.clock.now() + timedelta(seconds=self.seconds)
        return archive_period("s", "2026-03-01", parts, owner, lambda: (end - self.clock.now()).total_seconds())

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

    # What reads the archive.
    def manifest(self, key: str) -> Manifest:
        return Manifest.decode(self.bucket[key])

    def whole(self, items: bytes, table: str) -> bytes:
        return items

    def events(self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool) -> Iterator[Kept]:
        return between(BytesIO(self.bucket[part.key]), keys, layout, ascending=ascending)


def plain(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda one: (one.time, one.series, one.id))


def test_what_is_archived_is_what_the_table_held_value_by_value() -> None:
    world = World(some(100))
    facts = world.archive().archive
    assert facts is not None
    manifest = world.manifest(facts.manifest)
    held = [item for part in manifest.parts for item in Parquet().items(world.bucket[part.key], LAYOUT)]
    assert plain([LAYOUT.event_of(item) for item in held]) == plain(some(100))
    assert sorted(map(canonical, map(to_wire, held))) == sorted(map(canonical, world.held["t"]))
    assert (facts.events, facts.at, world.state) == (100, world.clock.now(), State.ARCHIVED)
    assert len(manifest.parts) > 1
    assert world.bucket.keys() == {facts.manifest, *(part.key for part in manifest.parts)}, "no progress is left"
    assert manifest.layout.layout() == LAYOUT


def test_an_empty_table_has_an_archive_without_parts() -> None:
    world = World([])
    facts = world.archive().archive
    assert facts is not None
    assert world.bucket.keys() == {facts.manifest}


def test_archiving_again_does_nothing() -> None:
    world = World(some(10))
    world.archive()
    before = dict(world.bucket)
    world.calls = 0
    world.archive()
    assert world.bucket == before


def test_killed_after_any_call_it_is_finished_by_the_next_with_one_copy() -> None:
    whole = World(some(100))
    whole.archive()
    calls = 10**9 - whole.calls
    assert calls > 20
    for allowed in range(calls):
        world = World(some(100))
        world.calls = allowed
        with pytest.raises(KeyboardInterrupt):
            world.archive()
        world.calls = 10**9
        world.clock.sleep(10**9)  # the dead run's lease runs out
        facts = world.archive().archive
        assert facts is not None
        manifest = world.manifest(facts.manifest)
        assert (manifest.events, manifest.digest) == (
            100,
            Parquet().page_facts(json.dumps(world.held["t"]).encode()).hex,
        )
        assert world.parts == [part.key for part in manifest.parts]


def test_it_goes_on_where_the_time_was_up_and_keeps_the_parts_that_are_verified() -> None:
    world = World(some(100))
    world.seconds, world.page_seconds = 33, 1
    first = world.run()
    assert not first.done
    assert first.events == 7 * 4, "no page is begun with less than 30 seconds left"
    before = {key: world.bucket[key] for key in world.parts}
    runs = 1
    while not world.run().done:
        runs += 1
    assert runs == 3
    assert before.items() <= world.bucket.items()
    assert world.state is State.ARCHIVED


def test_of_a_slow_table_a_run_reads_what_was_left_unused_and_ends_instead_of_sleeping() -> None:
    """8 units, a quarter of them: 2 per second, and five minutes of those unused are 600. An item is a unit here."""
    world = World(some(1500))
    world.read, world.policy = 8, "archive = { read_share = 0.25 }"
    begun = world.clock.now()
    first = world.run()
    assert (first.done, first.events) == (False, 602)
    assert world.clock.now() == begun, "nothing was slept"
    assert first.wait == pytest.approx(301, abs=1)
    again = world.run()
    assert (again.done, again.events) == (False, 602), "a run that comes too early finds nothing to read, and says so"
    assert again.wait == pytest.approx(301, abs=1)
    world.clock.sleep(100)
    assert world.run().events == pytest.approx(602 + 200, abs=7)
    world.clock.sleep(10_000)
    assert world.run().events == pytest.approx(802 + 600, abs=14), "what is unused for longer is lost"
    world.clock.sleep(300)
    assert world.run().done
    assert world.slept == []


def test_a_table_that_was_switched_to_on_demand_is_read_at_once() -> None:
    world = World(some(100))
    world.read = None
    assert world.run().done
    assert world.clock.now() == NOW


def test_a_table_that_is_fast_enough_is_read_at_its_pace() -> None:
    """At 1,000 units per second a run may wait: that costs less than what it reads."""
    world = World(some(1500))
    world.read, world.units = 2000, 2000.0
    begun = world.clock.now()
    assert world.run().done
    # 215 pages of 2,000 units, of which 300,000 were unused before.
    assert (world.clock.now() - begun).total_seconds() == pytest.approx((215 * 2000 - 300_000) / 1000, abs=10)


def test_what_a_table_on_demand_may_take_at_the_most_holds_for_its_export() -> None:
    table = Table("t", "ACTIVE", None, None, TableClass.STANDARD)
    assert rate_of(table, ArchivePolicy()) == 6000
    assert rate_of(table, ArchivePolicy(), 50) == 25
    assert rate_of(table, ArchivePolicy(), 50_000) == 6000


def test_a_table_that_is_changing_is_not_begun_with() -> None:
    world = World(some(10))
    world.status = "UPDATING"
    with pytest.raises(ArchiveBusy, match="UPDATING"):
        world.run()
    assert (world.state, world.bucket) == (State.CLOSED, {})
    world.status = "ACTIVE"
    assert world.run().done


def test_what_throttles_it_only_delays_it_and_ever_longer() -> None:
    world = World(some(100))
    world.throttles = 3
    world.archive()
    assert world.state is State.ARCHIVED
    assert world.slept == [1.0, 2.0, 4.0]


def test_a_table_that_throttles_on_is_left_to_a_later_run() -> None:
    world = World(some(100))
    world.throttles = 10**6
    assert not world.run().done
    assert sum(world.slept) == 7.0
    world.throttles = 0
    assert world.run().done


@pytest.mark.parametrize("state", [State.CREATING, State.OPEN])
def test_a_table_that_takes_events_is_not_archived(state: State) -> None:
    world = World(some(10))
    entry = world.catalog.entries("s")[0]
    world.catalog.move(entry, state, expected=[State.CLOSED])
    with pytest.raises(StaleEntry):
        world.archive()
    assert world.state is state


def test_a_table_is_not_archived_while_a_write_that_began_before_it_closed_may_land() -> None:
    world = World(some(10))
    # The period of the first of March with `late = "1d"` is open until the third, 00:00.
    world.clock.time = datetime(2026, 3, 3, 0, 15, tzinfo=UTC)
    with pytest.raises(ArchiveBusy, match=r"archive it after 2026-03-03T00:15:00\.000000Z"):
        world.archive()
    assert (world.state, world.bucket) == (State.CLOSED, {})
    world.clock.time += timedelta(seconds=1)
    assert world.archive().state is State.ARCHIVED


def test_a_table_is_not_archived_while_a_write_of_its_backfill_may_land() -> None:
    world = World(some(10))
    (entry,) = world.catalog.entries("s")
    world.catalog.move(entry, State.CLOSED, expected=[State.CLOSED], opened=Opened(NOW, None, None))
    with pytest.raises(ArchiveBusy, match=r"archive it after 2026-03-20T00:15:00\.000000Z"):
        world.archive()
    assert (world.state, world.bucket) == (State.CLOSED, {})
    world.clock.time += timedelta(minutes=15, seconds=1)
    assert world.archive().state is State.ARCHIVED


def test_an_archive_that_has_begun_goes_on_whatever_the_configuration_says_now() -> None:
    world = World(some(100))
    world.calls = 12
    with pytest.raises(KeyboardInterrupt):
        world.archive()
    assert world.state is State.ARCHIVING
    world.calls, world.clock.time = 10**9, datetime(2026, 3, 3, tzinfo=UTC)
    assert world.archive("two").state is State.ARCHIVED


def test_a_restored_period_is_archived_anew_not_from_what_was_left_of_the_first_time() -> None:
    world = World(some(10))
    world.archive()
    entry = world.catalog.entries("s")[0]
    stale = "stream=s/period=2026-03-01/_progress-segment-000.json"
    world.bucket[stale] = b'{"done": true}'
    world.catalog.move(entry, State.CLOSED, expected=[State.ARCHIVED])
    world.held["t"] += [to_wire(LAYOUT.item_of(Event("late", START, "came late", {})))]
    facts = world.archive().archive
    assert facts is not None
    assert facts.events == 11


def test_one_damaged_byte_is_seen_and_nothing_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    get = world.get
    monkeypatch.setattr(world, "get", lambda key: get(key)[:-20] + b"?" + get(key)[-19:])
    with pytest.raises(ArchiveMismatch):
        world.archive()
    assert world.state is State.ARCHIVING


def test_a_part_that_went_away_before_the_manifest_is_seen_and_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    sizes = world.sizes
    monkeypatch.setattr(
        world, "sizes", lambda prefix: {key: size for key, size in sizes(prefix).items() if "00001" not in key}
    )
    with pytest.raises(ArchiveMismatch, match="did not hold"):
        world.archive()
    monkeypatch.undo()
    world.archive()
    assert world.state is State.ARCHIVED


def test_a_format_that_loses_an_event_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    whole = ParquetWriter.finish
    monkeypatch.setattr(ParquetWriter, "finish", lambda self: lossy(self))

    def lossy(writer: ParquetWriter) -> bytes:
        writer._pages = [page.slice(1) for page in writer._pages]
        return whole(writer)

    with pytest.raises(ArchiveMismatch, match="read back but"):
        world.archive()


def test_a_format_that_changes_one_value_is_seen_though_the_count_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    whole = ParquetWriter.finish

    def changing(writer: ParquetWriter) -> bytes:
        page = writer._pages[0]
        column = page.column_names.index("field n")
        values = page.column("field n").to_pylist()
        writer._pages[0] = page.set_column(column, "field n", pa.array(["999", *values[1:]]))
        return whole(writer)

    monkeypatch.setattr(ParquetWriter, "finish", changing)
    with pytest.raises(ArchiveMismatch, match="digests differ"):
        world.archive()
    assert world.state is State.ARCHIVING


def test_facts_tell_partitions_apart_that_hold_as_many_items() -> None:
    one, other = Facts(), Facts()
    one.add([b"x"], Counter(["a"]), "1", "1")
    other.add([b"x"], Counter(["b"]), "1", "1")
    assert (one.items, one.digest) == (other.items, other.digest)
    assert one.same != other.same


@pytest.mark.parametrize(
    ("pk", "sk", "more"),
    [
        ("2026-03-01T00:00:00.000000Z#0", "by#hand", {}),
        ("2026-03-01T00:00:00.000000Z#0", "2026-03-01T00:00:00.000000Z#a", {}),
        ("2026-03-01T00:00:00.000000Z#0", "2026-03-01T00:00:00.000000Z#a#b#c", {}),
        ("2026-03-01T06:00:00.000000Z#0", "2026-03-01T00:00:00.000000Z#a#b", {}),
        ("2026-03-01T00:00:00.000000Z", "2026-03-01T00:00:00.000000Z#a#b", {}),
        ("2026-03-01T00:00:00.000000Z#0", "2026-99-01T00:00:00.000000Z#a#b", {}),
        ("2026-03-01T00:00:00.000000Z#0", "2026-03-01T00:00:00.000000Z#a#b", {"data": {"S": "text"}}),
    ],
)
def test_an_item_that_no_event_would_give_stops_the_archive(pk: str, sk: str, more: dict[str, Any]) -> None:
    world = World(some(3))
    world.held["t"].append({"pk": {"S": pk}, "sk": {"S": sk}, "data": {"M": {}}} | more)
    with pytest.raises(ArchiveFailed, match="no event"):
        world.archive()
    assert world.state is State.ARCHIVING


def test_a_missing_table_is_no_empty_archive() -> None:
    world = World([])
    del world.held["t"]
    with pytest.raises(ArchiveFailed, match="does not exist"):
        world.archive()


def test_two_runs_at_once_are_one() -> None:
    world = World(some(3))
    world.catalog.acquire("archive#s#2026-03-01", "another", NOW, MINUTE)
    with pytest.raises(ArchiveBusy):
        world.archive()
    assert world.state is State.CLOSED


def test_the_documented_duckdb_line_reads_the_parquet_alone(tmp_path: Path) -> None:
    line = re.search(r'duckdb -c "(.*)"', (Path(__file__).parents[2] / "docs" / "use" / "archive.md").read_text())
    assert line is not None
    world = World([Event(one.series, one.time, one.id, {"mag": n}) for n, one in enumerate(some(100))])
    world.archive()
    for key, body in world.bucket.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(body)
    query = line[1].replace("s3://BUCKET", str(tmp_path)).replace("stream=quakes", "stream=s")
    with duckdb.connect() as connection:
        found = connection.execute(query).fetchall()
    assert {series: (count, most) for series, count, most in found} == {
        "s#0": (34, 99),
        "s#1": (33, 97),
        "s#2": (33, 98),
    }


@pytest.fixture(scope="module")
def archived() -> World:
    world = World(some(200))
    world.archive()
    return world


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 110),
    st.integers(0, 110),
    st.none() | st.integers(0, 199),
    st.sampled_from([None, "s#0", "s#1"]),
    st.booleans(),
    st.integers(1, 250),
)
def test_reading_a_range_is_filtering_and_sorting(
    archived: World, first: int, minutes: int, after: int | None, series: str | None, ascending: bool, limit: int
) -> None:
    def place(event: Event) -> str:
        return LAYOUT.sort_key(event.time, event.series, event.id)

    low = place(Event("", START + timedelta(minutes=first), "", {}))[:27]
    high = place(Event("", START + timedelta(minutes=first + minutes), "", {}))[:27]
    edge = None if after is None else place(some(200)[after])
    wanted = [
        event
        for event in sorted(some(200), key=place, reverse=not ascending)
        if low <= place(event) <= high
        and series in (None, event.series)
        and (edge is None or (place(event) > edge if ascending else place(event) < edge))
    ]
    keys = ArchiveRange("stream=s/period=2026-03-01/_manifest.json", low, high, series, edge)
    page = read_archive(keys, archived, limit=limit, ascending=ascending)
    assert [event.id for event in page.events] == [event.id for event in wanted[:limit]]
    assert page.more == (len(wanted) > limit)
