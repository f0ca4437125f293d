"""Archiving: verified, complete, once, and safe to interrupt anywhere."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.archive_parquet import Parquet
from tests.fakes import FakeCatalog, FakeClock
from tidetable.archive import Digest, Exporter, Manifest, archive_period
from tidetable.archive.manifest import Part
from tidetable.archive.reading import read_archive
from tidetable.catalog import Entry, State
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch, TableMissing
from tidetable.events import Event, Item
from tidetable.keys import Layout
from tidetable.periods import Kind, containing
from tidetable.ports import ArchiveRange

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
    def __init__(self, events: list[Event]) -> None:
        self.tables: dict[str, list[Item]] = {"t": [LAYOUT.item_of(event) for event in events][::-1]}
        self.bucket: dict[str, bytes] = {}
        self.catalog = FakeCatalog()
        self.calls = 10**9
        period = containing(START, Kind.DAY)
        self.catalog.add(Entry("s", period, "t", LAYOUT, State.CLOSED, START))

    def _call(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt

    def scan(self, table: str) -> Iterator[Item]:
        self._call()
        if table not in self.tables:
            raise TableMissing(table)
        yield from self.tables[table]

    def put(self, key: str, body: bytes) -> None:
        self._call()
        self.bucket[key] = body

    def get(self, key: str) -> bytes:
        self._call()
        return self.bucket[key]

    def clear(self, prefix: str) -> None:
        self._call()
        self.bucket = {key: body for key, body in self.bucket.items() if not key.startswith(prefix)}

    def archive(self, owner: str = "one") -> Entry:
        exporter = Exporter(self.catalog, self, self, Parquet(), FakeClock(NOW), part_events=40)
        return archive_period("s", "2026-03-01", exporter, owner, MINUTE)

    @property
    def state(self) -> State:
        return self.catalog.entries("s")[0].state

    # What reads the archive.
    def manifest(self, key: str) -> Manifest:
        return Manifest.decode(self.bucket[key])

    def events(self, part: Part, low: str, high: str) -> list[Event]:
        return Parquet().between(self.bucket[part.key], low, high)


def plain(events: list[Event]) -> list[Event]:
    return sorted(events, key=lambda one: (one.time, one.series, one.id))


def test_what_is_archived_is_what_the_table_held_value_by_value() -> None:
    world = World(some(100))
    facts = world.archive().archive
    assert facts is not None
    manifest = world.manifest(facts.manifest)
    held = [event for part in manifest.parts for event in Parquet().decode(world.bucket[part.key])]
    assert plain(held) == plain(some(100))
    assert (facts.events, len(manifest.parts), world.state) == (100, 3, State.ARCHIVED)
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


@pytest.mark.parametrize("calls", range(9))
def test_interrupted_after_any_call_it_is_done_again_with_one_copy(calls: int) -> None:
    world = World(some(100))
    world.calls = calls
    with pytest.raises(KeyboardInterrupt):
        world.archive()
    assert world.catalog.entries("s")[0].archive is None
    world.calls = 10**9
    world.tables["t"] = world.tables["t"][:50]  # fewer parts than before: none of the old may stay
    world.archive()
    assert sorted(world.bucket) == [
        "stream=s/period=2026-03-01/manifest.json",
        "stream=s/period=2026-03-01/part-00000.parquet",
        "stream=s/period=2026-03-01/part-00001.parquet",
    ]
    assert world.state is State.ARCHIVED


def test_one_damaged_byte_is_seen_and_nothing_is_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    get = world.get
    monkeypatch.setattr(world, "get", lambda key: get(key)[:-20] + b"?" + get(key)[-19:])
    with pytest.raises(ArchiveMismatch):
        world.archive()
    assert world.state is State.ARCHIVING


def test_a_format_that_loses_an_event_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(some(100))
    decode = Parquet.decode
    monkeypatch.setattr(Parquet, "decode", lambda self, body: decode(self, body)[1:])
    with pytest.raises(ArchiveMismatch, match="read back but 100 scanned"):
        world.archive()


def test_an_item_that_no_event_would_give_stops_the_archive() -> None:
    world = World(some(3))
    world.tables["t"].append({"pk": "2026-03-01T00:00:00.000000Z#0", "sk": "by#hand", "data": {}})
    with pytest.raises(ArchiveFailed, match="no event"):
        world.archive()


def test_a_missing_table_is_no_empty_archive() -> None:
    world = World([])
    del world.tables["t"]
    with pytest.raises(ArchiveFailed, match="does not exist"):
        world.archive()


def test_two_runs_at_once_are_one() -> None:
    world = World(some(3))
    world.catalog.acquire("archive#s#2026-03-01", "another", NOW, MINUTE)
    with pytest.raises(ArchiveBusy):
        world.archive()
    assert world.state is State.CLOSED


def test_duckdb_reads_the_parquet_alone(tmp_path: Path) -> None:
    world = World(some(100))
    world.archive()
    for key, body in world.bucket.items():
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_bytes(body)
    query = f"select count(*), count(distinct id), max(data->>'$.n') from read_parquet('{tmp_path}/**/*.parquet')"  # noqa: S608
    with duckdb.connect() as connection:
        assert connection.execute(query).fetchall()[0][:2] == (100, 100)


@given(st.permutations(some(8)), st.integers(0, 7))
def test_the_digest_knows_no_order_but_every_event(shuffled: list[Event], index: int) -> None:
    def digest(events: list[Event]) -> tuple[int, str]:
        total = Digest()
        for event in events:
            total.add(event)
        return total.count, total.hex()

    whole = digest(some(8))
    assert digest(shuffled) == whole
    changed = Event(shuffled[index].series, START, "other", {})
    assert digest(shuffled[:index] + shuffled[index + 1 :]) != whole
    assert digest([*shuffled, shuffled[index]]) != whole
    assert digest([*shuffled[:index], changed, *shuffled[index + 1 :]]) != whole


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
    keys = ArchiveRange("stream=s/period=2026-03-01/manifest.json", low, high, series, edge)
    page = read_archive(keys, archived, limit=limit, ascending=ascending)
    assert [event.id for event in page.events] == [event.id for event in wanted[:limit]]
    assert page.more == (len(wanted) > limit)
