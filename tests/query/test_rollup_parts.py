"""Which rollups fit a query, how their numbers are joined, and what a plan and a refusal say of them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from aws.sketches import DDSketches
from tests.fakes import SEAL, FakeCatalog
from tests.worlds.days import Days
from tidetable.catalog import Entry, GapReason, State
from tidetable.conditions import ANY
from tidetable.config import parse
from tidetable.copies.reader import Copies
from tidetable.events import Event
from tidetable.layout import Layout
from tidetable.periods import parse_label
from tidetable.ports import NotedSeries
from tidetable.problems import ProblemError
from tidetable.query import indexed_series
from tidetable.query.aggregates import aggregate_run, parse_aggregation
from tidetable.query.aggregates.find import Aggregate
from tidetable.query.aggregates.rolled import find_misfit
from tidetable.query.aggregates.stats import compute_stat
from tidetable.query.batches import TimeUp
from tidetable.query.indexed_series import Stretch, read_stretch
from tidetable.query.listings import parse_series
from tidetable.query.listings.listing_parameters import Place, refuse_unrolled
from tidetable.query.listings.names import NameCollector, SeenTimes
from tidetable.query.model import Position, Query
from tidetable.query.rollup_sources import read_events_alone, refuse_unnoted, refuse_unordered
from tidetable.query.scans import Gap
from tidetable.query.sections import CatalogWalk, Choice, Section, SectionReader
from tidetable.query.session import ReadSession
from tidetable.query.whole import WholeBatch
from tidetable.rollup_model.definition import Definition
from tidetable.rollup_model.numbers import Numbers

START = datetime(2026, 3, 5, tzinfo=UTC)
NOON = START + timedelta(hours=12)
STREAM = parse(
    """
    [streams.s]
    period = "day"
    late = "1d"
    retention = 9
    key = { partition_by = "series", shards = 3 }
    [[streams.s.rollup]]
    name = "hourly"
    every = "1h"
    by = ["series", "kind"]
    fields = ["mag"]
    stats = ["sum", "min"]
    retention = "30d"
    """
).streams["s"]
HOURLY = Definition("hourly", timedelta(hours=1), ("series", "kind"), ("mag",), ("sum", "min"), 100, "s", "s-hourly")
SPAN = {"from": ["2026-03-05T00:00:00Z"], "to": ["2026-03-06T00:00:00Z"]}


@pytest.mark.parametrize(
    ("parameters", "misfit"),
    [
        ({}, None),
        ({"step": "1h"}, None),
        ({"step": "3h", "by": "kind,series", "series": "a", "where.kind": "x"}, None),
        ({"step": "90m"}, "step is not a multiple of its every"),
        ({"step": "30m"}, "step is not a multiple of its every"),
        ({"id": "1"}, "it does not hold ids"),
        ({"id:prefix": "1"}, "it does not hold ids"),
        ({"where.series": "a"}, "it does not hold the field series of data"),
        ({"by": "state,kind,city"}, "its by lacks city, state"),
        ({"where.state": "CA"}, "its by lacks state"),
        ({"field": "depth", "stat": "sum"}, "its fields lack depth"),
        ({"field": "mag", "stat": "sum,min,count,avg"}, None),
        ({"field": "mag", "stat": "max,first,p50"}, "its stats lack first, max, percentiles"),
    ],
    ids=str,
)
def test_a_rollup_fits_or_says_why_not(parameters: dict[str, str], misfit: str | None) -> None:
    query_string = SPAN | {name: [value] for name, value in parameters.items()}
    assert find_misfit(parse_aggregation(STREAM, query_string, NOON, SEAL), HOURLY) == misfit


@pytest.mark.parametrize("name", ["series", "series:prefix"])
def test_a_rollup_without_series_answers_no_query_of_a_series(name: str) -> None:
    aggregation = parse_aggregation(STREAM, SPAN | {name: ["a"]}, NOON, SEAL)
    whole = Definition("all", timedelta(hours=1), ("kind",), (), ("sum",), 100, "s", "s-all")
    assert find_misfit(aggregation, whole) == "its by lacks series"


def numbers(number: int, place: str) -> Numbers:
    found = Numbers()
    found.add_all([number], DDSketches())
    found.add_ends((place, number), (place, number))
    return found


def test_numbers_of_a_bucket_are_joined_in_any_order() -> None:
    """The places say which number was the first and which the last; of one place the later one counts."""
    cell, sketches = Numbers(), DDSketches()
    for number, place in ((5, "2"), (9, "1"), (1, "3"), (7, "3"), (3, "1")):
        cell.merge(numbers(number, place), sketches)
    cell.merge(Numbers(), sketches)
    stats = ("count", "sum", "min", "max", "first", "last")
    assert [compute_stat(cell, name) for name in stats] == [5, Decimal(25), 1, 9, 9, 7]
    assert compute_stat(cell, "p50") == pytest.approx(5.0, rel=0.01)


def test_of_two_numbers_with_one_place_the_first_and_the_later_count() -> None:
    found = Numbers()
    for number in (5, 9):
        found.add_ends(("2", number), ("2", number))
    assert (found.first, found.last) == (5, 9)


def entry_of(day: int, layout: Layout) -> Entry:
    return Entry("s", parse_label(f"2026-03-{day:02d}"), f"t{day}", layout, State.OPEN, START)


def choose(
    since: datetime | None, after: Position | None = None, check: Callable[[Section], None] = lambda _: None
) -> Choice:
    """The sections of an aggregate of two days: the first has no index over all series, the second none either."""
    span = {"from": ["2026-03-04T12:00:00Z"], "to": ["2026-03-06T00:00:00Z"], "consistent": ["true"]}
    query = replace(parse_aggregation(STREAM, span, NOON, SEAL).query, after=after)
    layout, catalog = Layout("series", 3, "id"), FakeCatalog()
    for day in (4, 5):
        catalog.add(entry_of(day, layout))
    walk = CatalogWalk(catalog, consistent=False)
    return read_events_alone(query, walk, {"s-hourly": "why", "s-b": None}, lambda: since, check)


@pytest.mark.parametrize("since", [START, START - timedelta(days=1)], ids=["one noted period", "two noted periods"])
def test_a_page_that_begins_within_a_noted_period_reads_nothing_before_it(since: datetime) -> None:
    begin = START + timedelta(hours=6)
    (section,) = choose(since, Position(begin)).sections
    assert section.stretch is not None
    assert (section.start, section.query.start, section.stretch.start, section.query.after) == (begin,) * 3 + (None,)


def test_a_range_is_divided_where_the_series_of_a_period_are_noted() -> None:
    choice = choose(START)
    sections = list(choice.sections)
    assert [(section.start, section.query.end, section.stretch is not None) for section in sections] == [
        (START - timedelta(hours=12), START, False),
        (START, START + timedelta(days=1), True),
    ]
    assert [(gap.start, gap.reason) for gap in choice.gaps] == [(START - timedelta(hours=12), "no index")]
    asked: list[bool] = []

    def read_notes(stream: str, label: str, *, consistent: bool) -> NotedSeries:
        asked.append(consistent)
        return NotedSeries(series=["a", "b"], units=1.0)

    reader: Any = SimpleNamespace(rolled=SimpleNamespace(rollups=SimpleNamespace(read_notes=read_notes)))
    assert choice.document(reader, sections) == {
        "rollups": [
            {"rollup": "s-hourly", "used": False, "reason": "why"},
            {"rollup": "s-b", "used": True, "reason": None},
        ],
        # Two series of three suffixes are six requests of a unit each, as they are read consistently.
        "noted": [
            {
                "period": "2026-03-05",
                "from": "2026-03-05T00:00:00.000000Z",
                "to": "2026-03-06T00:00:00.000000Z",
                "series": 2,
                "requests": 6,
                "least_units": 6.0,
            }
        ],
    }
    assert asked == [True]


@pytest.mark.parametrize(
    ("since", "noted"),
    [(START, "that begins at 2026-03-05T00:00:00.000000Z or later"), (None, "after the next run of the refresher")],
)
def test_events_of_unknown_series_are_refused_with_the_time_from_which_series_are_noted(
    since: datetime | None, noted: str
) -> None:
    with pytest.raises(ProblemError, match="400 needs_series: s is partitioned by series") as caught:
        choose(since, check=partial(refuse_unnoted, STREAM, lambda: since))
    assert "The period that holds 2026-03-04T12:00:00.000000Z has no such list" in caught.value.problem.detail
    assert f"the first with a list is the one {noted}. Set from after" in caught.value.problem.detail
    with pytest.raises(ProblemError, match=r"400 needs_series: .*add series=, or ask us-east-1"):
        choose(since, check=partial(refuse_unordered, STREAM, Copies("eu-west-1", "us-east-1")))


def seen(first: int, last: int, within: str) -> SeenTimes:
    return SeenTimes(f"{first}", f"{last}", within, (within,))


def test_a_name_is_shown_from_its_first_to_its_last_sighting() -> None:
    names = NameCollector(2, Place("text", "a"))
    for head, sighting in (
        ("a", seen(1, 9, "1h")),
        ("b", seen(5, 6, "1h")),
        ("b", seen(3, 6, "2h")),
        ("b", seen(3, 7, "0s")),
        ("c", seen(1, 1, "1h")),
    ):
        names.add(Place("text", head), head, sighting)
    (_, b), (_, c) = names.list_sorted()
    assert (b.value, b.earliest.first, b.earliest.within, b.latest.last, b.latest.within) == ("b", "3", "2h", "7", "0s")
    assert (sorted(b.types), c.value) == (["0s", "1h", "2h"], "c")
    assert [names.holds(Place("text", head)) for head in "abc"] == [False, True, True]


def test_of_many_names_those_of_the_page_and_one_more_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that was dropped cannot come back, as its first sightings are forgotten."""
    monkeypatch.setattr("tidetable.query.listings.names._SLACK", 2)
    names = NameCollector(2, None)
    for head in "fedcba" + "df":
        names.add(Place("text", head), head, seen(1, 1, "1h"))
    assert [place.head for place, _ in names.list_sorted()] == ["a", "b", "c"]


def test_a_listing_that_no_rollup_answers_names_the_rollup_to_add() -> None:
    listing = parse_series(STREAM, {}, NOON, SEAL)
    problem = refuse_unrolled(listing, STREAM).problem
    assert (problem.status, problem.code) == (400, "needs_rollup")
    assert 'add [[streams.s.rollup]] with name = "series", every = "1h", by = ["series"]' in problem.detail
    assert listing.find_misfit(HOURLY) is None
    without = Definition("all", timedelta(hours=1), ("kind",), (), ("sum",), 100, "s", "s-all")
    assert listing.find_misfit(without) == "its by lacks series"


@pytest.mark.parametrize(("left", "batches", "ends"), [(3.0, 3, False), (2.99, 1, True)])
def test_noted_series_are_read_some_at_a_time_while_three_seconds_are_left(
    left: float, batches: int, ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five series of two suffixes, four ranges at a time. What was read of a stretch cannot be continued by time."""
    monkeypatch.setattr(indexed_series, "_RANGES", 4)
    days, layout, paced = Days(), Layout("series", 2, "id"), list[float]()
    events = [Event(name, NOON, "1", {"n": 1}) for name in "edcba"]
    days.add_table(parse_label("2026-03-05"), layout, [layout.make_item(event) for event in events])
    (entry,) = days.catalog.entries("s")
    query = Query("s", START, START + timedelta(days=1), ANY, ascending=True, limit=0)
    session = ReadSession(days.reader, lambda: left)
    stretch = Stretch(entry, query.start, query.end)
    series = NotedSeries(series=["a", "b", "c", "d", "e"], units=7.5)

    found = list(read_stretch(query, stretch, series, session, ("n",), pace=paced.append))
    names = [name for batch in found if isinstance(batch, WholeBatch) for name in batch.columns.series]
    assert sorted(names) == list("abcde")[: 2 * batches]
    # Later series may have events of any time, so nothing is complete yet.
    assert {batch.reached for batch in found if isinstance(batch, WholeBatch)} == {START}
    assert (found[-1] == TimeUp(Position(START))) is ends
    # A range takes half a unit, and the notes took 7.5.
    ranges = [4, 4, 2][:batches]
    assert paced == [count * 0.5 for count in ranges]
    assert (session.cost.units, session.cost.requests) == (7.5 + 0.5 * sum(ranges), sum(ranges))
    assert (session.cost.read, session.gaps, len(session.sources)) == (len(names), [], 1)


@pytest.mark.parametrize(("left", "read"), [(3.0, 17), (2.99, 16)])
def test_noted_series_end_after_the_first_sixteen_ranges_if_the_time_is_up(left: float, read: int) -> None:
    """Sixteen pages are read at once. What was read of a stretch cannot be continued by time."""
    days, layout = Days(), Layout("series", 1, "id")
    events = [Event(f"{number}", NOON, "1", {}) for number in range(17)]
    days.add_table(parse_label("2026-03-05"), layout, [layout.make_item(event) for event in events])
    (entry,) = days.catalog.entries("s")
    query = Query("s", START, START + timedelta(days=1), ANY, ascending=True, limit=0)
    session = ReadSession(days.reader, lambda: left)
    series = NotedSeries(series=[f"{number}" for number in range(17)], units=0.0)
    found = list(read_stretch(query, Stretch(entry, query.start, query.end), series, session, ("series",)))
    assert sum(len(batch.columns) for batch in found if isinstance(batch, WholeBatch)) == read
    assert (found[-1] == TimeUp(Position(START))) is (read == 16)


def test_a_page_has_begun_when_it_has_read_notes() -> None:
    """After that, a section is read only if there is time for it. The notes are a part of the cost."""
    noted_series = NotedSeries(series=["a"], units=7.5)
    rollups = SimpleNamespace(read_notes=lambda *_, **__: noted_series)
    reader: Any = SimpleNamespace(rolled=SimpleNamespace(rollups=rollups))
    session = ReadSession(reader)
    reading = SectionReader(session)
    query = Query("s", START, NOON, ANY, ascending=True, limit=0)
    assert not reading.has_begun
    assert reading.read_noted(query, Stretch(entry_of(5, Layout("series", 1, "id")), START, NOON)) == noted_series
    assert (reading.has_begun, session.cost.units) == (True, 7.5)


def test_a_missing_table_of_noted_series_is_one_gap_if_the_scanner_forgives() -> None:
    days, layout = Days(), Layout("series", 200, "id")
    days.add_table(parse_label("2026-03-05"), layout, [])
    (entry,) = days.catalog.entries("s")
    days.store.tables.clear()
    query = Query("s", START, START + timedelta(days=1), ANY, ascending=True, limit=0)
    session = ReadSession(days.reader, lambda: 100.0, forgiving=True)
    series = NotedSeries(series=["a", "b"], units=0.0)
    list(read_stretch(query, Stretch(entry, query.start, query.end), series, session, ("series",)))
    assert session.gaps == [Gap(START, START + timedelta(days=1), GapReason("table missing"))]


def test_the_groups_in_memory_are_as_many_as_a_function_has_room_for() -> None:
    """With a sketch of percentiles each group takes some KB."""
    assert (aggregate_run.MAX_CELLS, aggregate_run.MAX_SKETCHES) == (20_000, 10_000)


def test_the_events_and_the_cells_of_one_period_are_two_sources() -> None:
    aggregation = parse_aggregation(STREAM, SPAN, NOON, SEAL)
    scans: list[Any] = [
        SimpleNamespace(entry=SimpleNamespace(stream=name, period=parse_label("2026-03-05")), source=("table", i))
        for name, i in (("s", "all"), ("s-hourly", None), ("s", "all"))
    ]
    reader: Any = SimpleNamespace(sketches=DDSketches())
    cost: Any = None
    answer = Aggregate(
        stream="s", next=None, gaps=(), cost=cost, sources=scans, rows=[], aggregation=aggregation, reader=reader
    )
    assert answer.describe_rest()["sources"] == [
        {"period": "2026-03-05", "from": "table", "index": "all"},
        {"period": "2026-03-05", "from": "table", "rollup": "s-hourly"},
    ]
