"""Pages of the oldest events of packs: exact whatever the packs hold, and bounded whatever they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import SEAL
from tests.query.positions import find_position
from tests.worlds.busy import START as BUSY
from tests.worlds.busy import make_events, make_stage
from tests.worlds.days import Days
from tests.worlds.pack_copies import Sent, Written, choose_counting, write_items
from tests.worlds.packed import STREAMS
from tidetable.events import Event, Item
from tidetable.layout import Layout, Packing
from tidetable.periods import Kind, find_containing
from tidetable.ports import KeyRange, RangeRead
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.query.packs import oldest_first
from tidetable.times import to_text

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = datetime(2026, 3, 5, tzinfo=UTC)
DAY = find_containing(START, Kind.DAY)
LAYOUTS = {
    "time": Layout("time", 3, "id", 21_600, pack=Packing(60, 65_536)),
    "series": Layout("series", 2, "id", pack=Packing(60, 65_536)),
}
SERIES = ["a", "a!", "b#1", "ü%"]
# Times around the edges of a span and of a bucket; instants repeat often.
_BASES = st.sampled_from([0, 0.000001, 1, 30, 59.999999, 60, 60.000001, 61, 119.999999, 120, 21_570, 21_599.999999])
_MORE = st.sampled_from([0, 0, 0.000001, 1, 29.999999, 30, 59.999999])
_NAMES = st.tuples(_MORE, st.sampled_from(SERIES), st.sampled_from(["1", "2#", "%"]))
# A request begins at a time. Its events have values and times when they were accepted; often they tie. Some are plain
# items.
_REQUEST = st.tuples(
    _BASES,
    st.dictionaries(_NAMES, st.tuples(st.integers(0, 9), st.integers(1, 2)), min_size=1, max_size=8),
    st.sampled_from([False, False, False, True]),
)
# The damages of packs: their bodies, and perhaps what they say of their oldest events.
_DAMAGES: dict[str, Item] = {"": {}, "body": {"pack": b"no"}, "oldest": {"pack": b"no", "oldest": "no time"}}
_RANGE = st.tuples(_BASES, st.sampled_from([1.0, 60.0, 21_600.0, 86_000.0]))


def write_table(requests: Sequence[Any], damages: Sequence[str], layout: Layout) -> list[Written]:
    """The items of a table, the damaged packs among them without copies."""
    sent = [
        Sent(
            [
                (Event(series, START + timedelta(seconds=base + more), id, {"v": v}), at)
                for (more, series, id), (v, at) in events.items()
            ],
            alone,
        )
        for base, events, alone in requests
    ]
    coming = iter(damages)
    return [
        Written(written.item | _DAMAGES[damage], []) if damage else written
        for written in write_items(sent, layout)
        for damage in [next(coming, "") if "pack" in written.item else ""]
    ]


def make_days(layout: Layout, items: Sequence[Item]) -> Days:
    days = Days()
    days.add_table(DAY, layout, items)
    return days


def read_pages(
    by: str, days: Days, remaining: Callable[[], float] = lambda: 100.0, /, **parameters: list[str]
) -> tuple[list[tuple[str, Any]], set[tuple[datetime, datetime]]]:
    """Read all pages of a query: its events, and its gaps."""
    rows: list[tuple[str, Any]] = []
    gaps: set[tuple[datetime, datetime]] = set()
    limit = {"limit": parameters["limit"]}
    for _ in range(3_000):
        query = parse_query(STREAMS[by], parameters, NOW, SEAL)
        page = run_query(query, STREAMS[by], days.reader, NOW, remaining)
        documents = page.document()["events"]
        assert len(documents) <= int(limit["limit"][0])
        rows += [
            (find_position(Event(row["series"], datetime.fromisoformat(row["time"]), row["id"], {})), row["data"]["v"])
            for row in documents
        ]
        gaps |= {(gap.start, gap.end) for gap in page.gaps}
        if page.next is None:
            return rows, gaps
        parameters = limit | {"cursor": [page.next]}
    raise AssertionError("the pages have no end")


def run_out(calls: int) -> Callable[[], float]:
    """Time that is up after some looks at it, and then for ever."""
    left = iter([100.0] * calls)
    return lambda: next(left, 0.0)


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(["time", "series"]),
    st.lists(_REQUEST, max_size=9),
    st.lists(st.sampled_from(["", "", "", "body", "oldest"]), max_size=9),
    _RANGE,
    st.integers(1, 9),
    st.sampled_from([[], [], ["a"], ["b#1", "a!"], SERIES]),
    st.sampled_from(["", "", "", "2"]),
    st.integers(0, 40),
    st.sampled_from([1, 2, 48]),
    st.sampled_from([1, 3, 1_000_000]),
    st.sampled_from([700, 16_000_000]),
)
def test_every_page_is_exact_however_little_is_read_at_a_time(
    by: str,
    requests: list[Any],
    damages: list[str],
    times: tuple[float, float],
    limit: int,
    series: list[str],
    prefix: str,
    looks: int,
    wave: int,
    page_size: int,
    memory: int,
) -> None:
    layout = LAYOUTS[by]
    written = write_table(requests, damages, layout)
    start = START + timedelta(seconds=times[0])
    end = min(start + timedelta(seconds=times[1]), START + timedelta(days=1))
    series = series or (SERIES if by == "series" else [])
    asked = {"from": [to_text(start)], "to": [to_text(end)], "limit": [str(limit)]}
    asked |= ({"series": series} if series else {}) | ({"id:prefix": [prefix]} if prefix else {})
    # Where packs are damaged, another copy of an event counts.
    expected = [
        (copy.position, copy.event.data["v"])
        for copy in choose_counting(copy for each in written for copy in each.copies)
        if start <= copy.event.time < end
        and copy.event.series in (series or SERIES)
        and copy.event.id.startswith(prefix)
    ]
    days = make_days(layout, [each.item for each in written])
    with (
        mock.patch.object(oldest_first, "AT_ONCE", wave),
        mock.patch.object(oldest_first, "_WHOLE_PAGE", page_size),
        mock.patch.object(oldest_first, "_MOST_BYTES", memory),
    ):
        rows, gaps = read_pages(by, days, order=["asc"], **asked)
        assert rows == expected
        # The time is up at any look, and in every page after it.
        hurried, hurried_gaps = read_pages(by, days, run_out(looks), order=["asc"], **asked)
    assert hurried == expected
    # A condition on data that every event meets is read by the walk in the order of time.
    walked, walked_gaps = read_pages(by, days, order=["asc"], **asked, **{"where.v:ge": ["0"]})
    assert (rows, gaps) == (walked, walked_gaps)
    assert hurried_gaps == gaps
    newest, _ = read_pages(by, days, order=["desc"], **asked)
    assert newest == rows[::-1]


def count_units(stage: Any, low: datetime, high: datetime) -> float:
    """The read units of the packs whose newest events are in a range, read in pages of 1 MB."""
    (entry,) = [entry for entry in stage.catalog.entries("s", consistent=True) if BUSY in entry.period]
    layout, units = entry.layout, 0.0
    for suffix in range(layout.shards):
        pk = f"{layout.name_partition(BUSY, '')}#{suffix}"
        keys: KeyRange | None = KeyRange(entry.table, pk, to_text(low), to_text(high))
        while keys is not None:
            (page,) = stage.store.query_many([RangeRead(keys, 100_000)], ascending=True)
            units += page.units
            keys = KeyRange(entry.table, pk, keys.low, keys.high, page.columns.sks[-1]) if page.more else None
    return units


@pytest.mark.parametrize(("shards", "requests"), [(1, 2), (4, 8)])
def test_a_page_of_a_busy_span_opens_one_pack_and_reads_one_span(shards: int, requests: int) -> None:
    """1,000 events per second in packs of 500, for 100 seconds. The page of 100 events ends a tenth of a second after
    its beginning, so it reads the packs of the first 60.1 seconds: in each suffix two packs, and then the others.
    """
    stage = make_stage(shards, make_events(100_000, timedelta(seconds=100)), span="1m")
    reader, expand, opened = stage.reader(), stage.reader().unpacker.compressor.expand, list[int]()

    class Counting:
        compress = staticmethod(reader.unpacker.compressor.compress)

        @staticmethod
        def expand(body: bytes) -> bytes:
            opened.append(len(body))
            return expand(body)

    reader.unpacker.compressor = Counting()
    stream, now = stage.config.streams["s"], stage.clock.now()
    asked = {"from": [to_text(BUSY)], "to": [to_text(BUSY + timedelta(seconds=100))], "order": ["asc"]}
    query = parse_query(stream, asked | {"limit": ["100"]}, now, stage.seal)
    page = run_query(query, stream, reader, now, lambda: 100.0)
    assert [row["id"] for row in page.document()["events"]] == [event.id for event in make_events(100)]
    assert len(opened) == 1
    assert page.cost.read == 2 * shards * 500
    assert page.cost.requests == requests
    last = BUSY + timedelta(milliseconds=100)
    assert page.cost.units <= 1.1 * count_units(stage, BUSY, last + timedelta(minutes=1))


def test_a_rare_series_is_found_without_holding_the_events_of_others() -> None:
    """Each pack holds one event of the series. Events of others do not count for the page, and are not kept."""
    events = [
        Event("rare" if n % 20 == 0 else f"s{n % 7}", START + timedelta(seconds=n / 10), str(n), {"v": n})
        for n in range(4_000)
    ]
    written = write_items(
        [Sent([(event, 1) for event in events[first : first + 20]]) for first in range(0, 4_000, 20)], LAYOUTS["time"]
    )
    days = make_days(LAYOUTS["time"], [each.item for each in written])
    stream, kept = STREAMS["time"], list[int]()
    from tidetable.packs import FirstEvents

    add_item = FirstEvents.add_item

    def count_kept(self: FirstEvents, item: Any) -> None:
        add_item(self, item)
        kept.append(len(self))

    asked = {"from": [to_text(START)], "to": [to_text(NOW)], "series": ["rare"], "order": ["asc"], "limit": ["30"]}
    with mock.patch.object(FirstEvents, "add_item", count_kept):
        page = run_query(parse_query(stream, asked, NOW, SEAL), stream, days.reader, NOW, lambda: 100.0)
    assert [row["id"] for row in page.document()["events"]] == [str(20 * n) for n in range(30)]
    assert max(kept) == 31


@pytest.fixture
def wide() -> Days:
    """A pack of two events in each of 250 suffixes."""
    layout = Layout("time", 250, "id", 21_600, pack=Packing(60, 65_536))
    requests = [
        Sent([(Event("a", START + timedelta(seconds=n / 100), f"{n}-{m}", {"v": m}), 1) for m in (1, 2)])
        for n in range(2_500)
    ]
    return make_days(layout, [each.item for each in write_items(requests, layout)])


def test_many_ranges_are_read_in_waves(wide: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, query_many = list[int](), wide.store.query_many

    def count_reads(reads: Sequence[RangeRead], **options: Any) -> Any:
        sizes.append(len(reads))
        return query_many(reads, **options)

    monkeypatch.setattr(wide.store, "query_many", count_reads)
    asked = {"from": [to_text(START)], "to": [to_text(START + timedelta(minutes=2))], "limit": ["7"]}
    rows, _ = read_pages("time", wide, order=["asc"], **asked | {"limit": ["10000"]})
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    assert len(rows) == 5_000
    assert max(sizes) == 48
    sizes.clear()
    stream = STREAMS["time"]
    page = run_query(
        parse_query(stream, asked | {"order": ["asc"]}, NOW, SEAL), stream, wide.reader, NOW, lambda: 100.0
    )
    assert [row["id"] for row in page.document()["events"]] == ["0-1", "0-2", "1-1", "1-2", "2-1", "2-2", "3-1"]
    # Each range has one read of its first packs, and one of the packs that may hold an event of the page.
    assert sum(sizes) <= 2 * 250
    assert max(sizes) == 48


def test_the_packs_of_many_ranges_are_bounded_by_bytes(wide: Days, monkeypatch: pytest.MonkeyPatch) -> None:
    """Newest first, the first packs of all ranges are compared. Each has a part of the memory, and at least one pack."""
    from tidetable.query import waves

    asked = {"from": [to_text(START)], "to": [to_text(START + timedelta(minutes=2))], "limit": ["7"]}
    stream = STREAMS["time"]
    query = parse_query(stream, asked, NOW, SEAL)
    ids = ["2499-2", "2499-1", "2498-2", "2498-1", "2497-2", "2497-1", "2496-2"]
    for memory in (215_000_000, 100_000):
        monkeypatch.setattr(waves, "MOST_BYTES", memory)
        page = run_query(query, stream, wide.reader, NOW, lambda: 100.0)
        assert [row["id"] for row in page.document()["events"]] == ids
    monkeypatch.setattr(waves, "MOST_BYTES", 20_000)
    with pytest.raises(ProblemError, match="name fewer series, or narrow from and to"):
        run_query(query, stream, wide.reader, NOW, lambda: 100.0)
    # Pages of the oldest events open one wave after the other.
    oldest = parse_query(stream, asked | {"order": ["asc"]}, NOW, SEAL)
    assert run_query(oldest, stream, wide.reader, NOW, lambda: 100.0).count == 7
