"""Estimates, each calculated by hand: units are 4 KB, half of one if the read is eventual, and a page is 1 MB."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes import SEAL
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import Stream, TableClass, parse
from tidetable.layout import Index, Layout, Packing
from tidetable.periods import Kind, find_containing
from tidetable.ports import Table
from tidetable.query import parse_query
from tidetable.query.estimate import Estimate, estimate_query, estimate_ranking
from tidetable.query.index_scans import IndexScan
from tidetable.query.plan import plan_query
from tidetable.query.rankings import parse_ranking
from tidetable.query.rankings.ranking_parameters import plan_ranking
from tidetable.query.scans import Plan
from tidetable.times import to_text

DAY = timedelta(days=1)
FIRST = datetime(2026, 3, 1, tzinfo=UTC)
NOW = FIRST + 10 * DAY
KIND, BEST = Index("by_kind", "kind", 2, project=()), Index("best", "*", 1, sort_by="n", project=())
TIMED = Layout("time", 4, "id", 86_400, (KIND,))
ONE = replace(TIMED, shards=1)
SERIAL = Layout("series", 1, "id", indexes=(BEST,))


def policy(by: str, more: str = "") -> Stream:
    key = 'partition_by = "series"' if by == "series" else f'partition_by = "time", bucket = "24h", shards = 4{more}'
    indexes = '[[streams.s.index]]\nname = "by_kind"\npartition_by = "kind"\nshards = 2\nproject = "keys"\n'
    indexes += '[[streams.s.index]]\nname = "best"\npartition_by = "*"\nsort_by = "n"\nproject = "keys"'
    return parse(f'[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 20\nkey = {{ {key} }}\n{indexes}').streams["s"]


STREAMS = {by: policy(by) for by in ("time", "series")}


def live(layout: Layout, day: int = 0, stream: str = "s") -> Entry:
    return Entry(stream, find_containing(FIRST + day * DAY, Kind.DAY), f"t{day}", layout, State.OPEN, FIRST)


def archived(events: int, layout: Layout = TIMED, day: int = 0) -> Entry:
    own = live(layout, day)
    return replace(own, state=State.DELETED, archive=ArchiveFacts("m", events, 0, NOW))


def table(items: int, size: int = 1024, day: int = 0, **more: Any) -> Table:
    """A table of so many items of ``size`` bytes."""
    return Table(
        f"t{day}", "ACTIVE", None, None, TableClass.STANDARD, item_count=items, size_bytes=items * size, **more
    )


def judge(
    entries: list[Entry], *tables: Table, by: str = "time", now: datetime = NOW, days: float = 3, **parameters: str
) -> Estimate:
    """The estimate of a query of the first days."""
    texts = {"from": to_text(FIRST), "to": to_text(FIRST + days * DAY)} | parameters
    query = parse_query(STREAMS[by], {name: [text] for name, text in texts.items()}, now, SEAL)
    found = {own.name: own for own in tables}
    return estimate_query(query, plan_query(query, entries), found, now, query.limit + 1)


def spent(estimated: Estimate) -> tuple[float, float, float, float, int]:
    page, whole = estimated.page, estimated.all
    return page.units, page.requests, whole.units, whole.requests, estimated.pages


@pytest.mark.parametrize(
    ("estimated", "expected"),
    [
        # Eleven events of four suffixes are four of each; a quarter of 4,000 KB is 250 units, each half.
        (judge([live(TIMED)], table(4000), limit="4000"), (500, 4, 500, 4, 1)),
        (judge([live(TIMED)], table(12), limit="10"), (2, 4, 4, 8, 2)),
        (judge([live(TIMED)], table(12), limit="10", consistent="true"), (4, 4, 8, 8, 2)),
        # The cells of a rollup are read consistently.
        (judge([live(TIMED, stream="s-m")], table(12), limit="10"), (4, 4, 8, 8, 2)),
        # 1.25 MB of each suffix are two pages.
        (judge([live(TIMED)], table(5000), limit="10000"), (626, 8, 626, 8, 1)),
        (judge([live(TIMED)], table(0)), (2, 4, 2, 4, 1)),
        # A read of an archive costs a request and no unit.
        (judge([archived(1000)], limit="100"), (0, 1, 0, 10, 10)),
        (judge([archived(1000)], limit="100", days=0.5), (0, 1, 0, 5, 5)),
        # A hundred pages are followed, and the others cost as much.
        (judge([live(TIMED)], table(2000), limit="10"), (2, 4, 400, 800, 200)),
        # One event more than is shown: four of 4 KB.
        (judge([live(ONE)], table(3, 4096), limit="2"), (1.5, 1, 2.0, 2, 2)),
        # The first period has eight of ten events; then two are begun at once, of which one suffices.
        (
            judge(
                [live(ONE, day) for day in range(3)], *(table(8, day=day) for day in range(3)), limit="10"
            ).page.document(),
            {"read_units": 2.0, "requests": 3},
        ),
    ],
)
def test_a_query_costs(estimated: Any, expected: Any) -> None:
    if isinstance(estimated, Estimate):
        estimated = spent(estimated)
    assert estimated == pytest.approx(expected)


def test_a_page_begins_eight_periods_at_a_time_at_the_most() -> None:
    """Each day has one event. A page of 16 begins 1, 2, 4 and 8 days, which are 15, and then eight more."""
    days = range(24)
    found = judge(
        [live(ONE, day) for day in days],
        *(table(1, day=day) for day in days),
        limit="16",
        days=24,
        now=FIRST + 30 * DAY,
    )
    assert found.page.document() == {"read_units": 11.5, "requests": 23}


def test_an_archive_is_neither_of_unknown_size_nor_guessed() -> None:
    estimated = judge([archived(1000, SERIAL)], by="series", series="a")
    assert (estimated.unknown, estimated.guessed) == (0, 0)
    estimated = judge([live(SERIAL)], table(0), by="series", series="a")
    assert (estimated.unknown, estimated.guessed) == (1, 1)


@pytest.mark.parametrize(("series", "units"), [({"series": "a"}, 125.0), ({}, None)])
def test_what_an_archive_filters_is_taken_to_let_nothing_through(series: Any, units: float | None) -> None:
    """A page of ten events goes on to the end then: 1,000 events of a series, of 1 KB each."""
    entries = [live(SERIAL, 1), archived(1000, SERIAL)]
    if units is None:
        entries = [live(TIMED, 1), archived(1000)]
        assert judge(entries, table(4000, day=1), limit="10").page.units == 2
        return
    assert judge(entries, table(100_000, day=1), by="series", limit="10", **series).page.units == units


def test_all_pages_cost_what_the_range_costs_at_least() -> None:
    """Of two hundred pages of an archive, which cost nothing, no page of the table is followed."""
    estimated = judge([archived(2000), live(TIMED, 1)], table(8000, day=1), limit="10", order="asc")
    assert estimated.pages == 1000
    assert estimated.all.units == 4 * 500 / 2


def test_only_what_has_passed_of_a_period_has_events() -> None:
    """At noon the last six hours have half of the events."""
    noon = FIRST + DAY / 2
    query = parse_query(STREAMS["time"], {"from": [to_text(FIRST + DAY / 4)], "to": [to_text(noon)]}, noon, SEAL)
    (scan,) = plan_query(query, [live(TIMED)]).scans
    assert scan.estimate_events(table(1000), noon) == (500, 1024)
    assert scan.estimate_events(table(1000), FIRST + DAY) == (250, 1024)
    late = parse_query(STREAMS["time"], {"from": [to_text(FIRST + DAY / 4)], "to": [to_text(FIRST + DAY)]}, noon, SEAL)
    (beyond,) = plan_query(late, [live(TIMED)]).scans
    assert beyond.estimate_events(table(1000), noon) == (500, 1024)
    # What is to come of the period has none yet.
    assert scan.estimate_events(table(1000), FIRST + DAY / 8) == (0, 1024)
    # A period that has not begun is taken whole.
    assert scan.estimate_events(table(1000), FIRST) == (1000, 1024)


def scan_of_kind(layout: Layout = TIMED) -> IndexScan:
    query = parse_query(
        STREAMS["time"], {"where.kind": ["a"], "from": [to_text(FIRST)], "to": [to_text(FIRST + DAY)]}, NOW, SEAL
    )
    (scan,) = plan_query(query, [live(layout)]).scans
    assert isinstance(scan, IndexScan)
    return scan


def test_fetched_events_cost_their_whole_units_and_a_request_per_hundred() -> None:
    """Events of 5 KB take two units, each half; each of the two suffixes takes half a unit for 40 events of 100 bytes."""
    scan = scan_of_kind()
    own = table(1000, 5000, index_sizes={"by_kind": (80, 8000)})
    segment = Estimate().add_scan(scan, own, NOW)
    assert (segment.events, segment.size) == (80, 100)
    assert segment.compute_cost(80, 101) == (2 * 0.5 + 101, 2 + 2)
    assert segment.compute_cost(80, 0) == (1.0, 2)
    assert replace(segment, consistent=True).compute_cost(80, 101) == (2 * 1.0 + 202, 2 + 2)
    assert replace(segment, table=table(0)).compute_cost(80, 101) == (1.0, 2)
    held = replace(segment, scan=replace(scan, fetches=False))
    assert held.compute_cost(80, 101) == (1.0, 2)


def test_shares_of_what_nobody_has_counted() -> None:
    """A value is taken for its whole index, a series for a hundredth of its table."""
    assert scan_of_kind().estimate_share() == 1
    query = {"from": [to_text(FIRST)], "to": [to_text(FIRST + DAY)]}
    shares = []
    for by, layout, more in (
        ("series", SERIAL, {"series": ["a", "b"]}),
        ("series", replace(SERIAL, indexes=(), pack=Packing(60, 9_000)), {"series": ["a"]}),
        ("time", TIMED, {"id": ["7"]}),
        ("time", TIMED, {}),
        ("time", TIMED, {"where.kind": ["a"], "id": ["7"]}),
    ):
        (scan,) = plan_query(parse_query(STREAMS[by], query | more, NOW, SEAL), [live(layout)]).scans
        shares.append(scan.estimate_share())  # type: ignore[union-attr]
    assert shares == [0.02, 0.01, 0.25, 1, 0.5]


NEAR = (Index("near", local=True, levels=("kind", "state")),)


def test_a_local_index_has_the_shares_of_its_table() -> None:
    """One of four suffixes, and two series of a hundred."""
    span = {"from": [to_text(FIRST)], "to": [to_text(FIRST + DAY)], "where.kind": ["a"]}
    shares = []
    for by, layout, more in (("time", TIMED, {"id": ["7"]}), ("series", SERIAL, {"series": ["a", "b"]})):
        own = replace(layout, indexes=NEAR)
        (scan,) = plan_query(parse_query(STREAMS[by], span | more, NOW, SEAL), [live(own)]).scans
        assert isinstance(scan, IndexScan)
        shares.append(scan.estimate_share())
    assert shares == [0.25, 0.02]


def test_what_is_gathered_is_the_whole_bucket() -> None:
    """Three of its six hours are queried, and a quarter of the day's events are read."""
    layout = replace(TIMED, bucket=21_600, indexes=NEAR)
    span = {"from": [to_text(FIRST)], "to": [to_text(FIRST + DAY / 8)], "where.kind": ["a"]}
    (scan,) = plan_query(parse_query(STREAMS["time"], span, NOW, SEAL), [live(layout)]).scans
    own = table(1000, index_sizes={"near": (800, 80_000)})
    assert scan.estimate_events(own, NOW) == (200, 100)
    # Of a period that begins just now or later, all events are taken.
    assert scan.estimate_events(own, FIRST) == (800, 100)


def test_each_page_of_what_is_gathered_reads_all_of_it() -> None:
    """800 events of 100 bytes in four ranges: five units each, half as they need not be consistent. Eight pages."""
    layout = replace(TIMED, bucket=86_400, indexes=NEAR)
    span = {"from": [to_text(FIRST)], "to": [to_text(FIRST + DAY)], "where.kind": ["a"], "limit": ["100"]}
    query = parse_query(STREAMS["time"], span, NOW, SEAL)
    own = table(1000, index_sizes={"near": (800, 80_000)})
    plan = plan_query(query, [live(layout)])
    (scan,) = plan.scans
    estimated = estimate_query(query, plan, {scan.entry.table: own}, NOW, 101)
    assert estimated.pages == 8
    assert (estimated.all.units, estimated.all.requests) == (8 * 4 * 2.5, 8 * 4)


def test_the_events_of_a_level_are_guessed_and_those_of_a_whole_index_are_not() -> None:
    layouts = [replace(SERIAL, indexes=(Index("all", "*", levels=levels),)) for levels in (("kind",), ())]
    own = table(1000, index_sizes={"all": (1000, 80_000)})
    kind: Any = {"where.kind": "a"}
    found = [judge([live(layout)], own, by="series", days=1, **kind) for layout in layouts]
    assert [estimated.guessed for estimated in found] == [1, 0]


def test_packs_are_read_whole_and_one_more_settles_the_last() -> None:
    """100 packs of 10 KB hold 409.6 events of 25 bytes each; the first request takes two packs."""
    packs = replace(TIMED, shards=1, indexes=(), pack=Packing(60, 65_536))
    query = parse_query(STREAMS["time"], {"from": [to_text(FIRST)], "to": [to_text(FIRST + DAY)]}, NOW, SEAL)
    (scan,) = plan_query(query, [live(packs)]).scans
    estimated = Estimate()
    segment = estimated.add_scan(scan, table(100, 10_240), NOW, count=101)
    assert (segment.events, scan.make_first_reads(101)[0].limit, estimated.guessed) == (40_960, 2, 1)
    assert segment.compute_cost(100, 100) == (2.5, 1)
    assert segment.compute_cost(1000, 1000) == (5.0, 2)
    # The rest is all that there is.
    assert replace(segment, events=500).compute_cost(100, 100) == (2.0, 1)


@pytest.mark.parametrize(
    ("days", "limit", "page", "whole"),
    [
        # Four events of 4 KB, each of which is a fetch, too, but for the last.
        (1, "3", 4 * 0.5 + 3 * 0.5, 100 * 0.5 + 100 * 0.5),
        # Half of a period is filtered: all of it is taken to be read.
        (0.5, "3", 50 * 0.5 + 3 * 0.5, 17 * (50 * 0.5 + 3 * 0.5)),
    ],
)
def test_a_ranking_reads_one_more_than_it_shows(days: float, limit: str, page: float, whole: float) -> None:
    parameters = {"index": ["best"], "from": [to_text(FIRST)], "to": [to_text(FIRST + days * DAY)], "limit": [limit]}
    ranking = parse_ranking(STREAMS["series"], parameters, NOW, SEAL)
    plan = plan_ranking(ranking, [live(STREAMS["series"].layout)])
    own = table(100, 4096, index_sizes={"best": (100, 409_600)})
    estimated = estimate_ranking(plan, ranking.limit, {"t0": own}, NOW)
    assert estimated.page.units == page
    assert estimated.pages == (34 if days == 1 else 17)
    assert estimated.all.units == max(whole, estimated.pages * page)


def test_what_a_ranking_shows_is_fetched_from_each_of_its_ranges() -> None:
    """Of each of two days four events of 4 KB are read, and two are fetched."""
    parameters = {"index": ["best"], "from": [to_text(FIRST)], "to": [to_text(FIRST + 2 * DAY)], "limit": ["4"]}
    ranking = parse_ranking(STREAMS["series"], parameters, NOW, SEAL)
    plan = plan_ranking(ranking, [live(STREAMS["series"].layout, day) for day in range(2)])
    tables: dict[str, Table | None] = {
        f"t{day}": table(100, 4096, day, index_sizes={"best": (100, 409_600)}) for day in range(2)
    }
    assert estimate_ranking(plan, 4, tables, NOW).page.document() == {"read_units": 6.0, "requests": 4}


def test_the_ranges_of_a_ranking_are_ranges_of_tables() -> None:
    """The archive has no range. So five events of 4 KB are read of the table's only range, and four are fetched."""
    parameters = {"index": ["best"], "from": [to_text(FIRST)], "to": [to_text(FIRST + 2 * DAY)], "limit": ["4"]}
    ranking = parse_ranking(STREAMS["series"], parameters, NOW, SEAL)
    layout = STREAMS["series"].layout
    plan = plan_ranking(ranking, [archived(35, layout), live(layout, 1)])
    own = table(100, 4096, 1, index_sizes={"best": (100, 409_600)})
    assert estimate_ranking(plan, 4, {"t1": own}, NOW).page.units == 2.5 + 2.0


def test_a_ranking_of_an_archive_costs_a_request_and_an_empty_range_nothing() -> None:
    parameters = {"index": ["best"], "from": [to_text(FIRST)], "to": [to_text(FIRST + DAY)]}
    ranking = parse_ranking(STREAMS["series"], parameters, NOW, SEAL)
    plan = plan_ranking(ranking, [archived(35, STREAMS["series"].layout)])
    assert spent(estimate_ranking(plan, 10, {}, NOW)) == (0, 1, 0, 4, 4)
    (scan,) = plan_ranking(ranking, [live(STREAMS["series"].layout)]).scans
    none = Plan([replace(scan, partitions=[])], ())
    assert spent(estimate_ranking(none, 10, {"t0": table(100)}, NOW))[:2] == (0, 0)
