"""The plan of a query, how much of each range it reads, what is explained of it, and the columns of its answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes import FakeCatalog
from tidetable.catalog import ArchiveFacts, Entry, GapReason, State
from tidetable.conditions import ANY, NameConditions
from tidetable.config import parse
from tidetable.layout import Index, Layout, Packing
from tidetable.periods import Kind, find_containing
from tidetable.ports import KeyRange, NotedSeries
from tidetable.query.explain import show_names, show_since
from tidetable.query.indexed_series import Stretch, is_noted, read_series
from tidetable.query.merge import Demand, PlacedColumns, _Range, compute_share
from tidetable.query.model import EVERYTHING, Position, Projection, Query
from tidetable.query.packs.scan import PackScan
from tidetable.query.page import MAX_BODY_BYTES, count_fitting_rows
from tidetable.query.plain.plain_scans import needs_table_data
from tidetable.query.plan import cover_range
from tidetable.query.render import _escape_cell
from tidetable.query.scans import Gap, find_visible_gaps, is_ahead
from tidetable.query.typed import _choose_converter, type_events, type_rows

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
LAYOUT = Layout("time", 1, "id", 86_400)
NOON = START + DAY / 2
PACKED = Layout("time", 1, "id", 86_400, pack=Packing(3600, 65_536))


def entry(day: int = 0, layout: Layout = LAYOUT, kind: Kind = Kind.DAY, state: State = State.OPEN) -> Entry:
    return Entry("s", find_containing(START + day * DAY, kind), f"t{day}", layout, state, START)


# Plans


def test_what_no_period_covers_is_a_gap_and_periods_that_only_touch_are_not_met() -> None:
    gaps: list[Gap] = []
    found = list(cover_range(START + HOUR, START + 4 * DAY, [entry(-1), entry(1), entry(2), entry(4)], gaps))
    assert [(own.table, start, end) for own, start, end in found] == [
        ("t1", START + DAY, START + 2 * DAY),
        ("t2", START + 2 * DAY, START + 3 * DAY),
    ]
    assert gaps == [
        Gap(START + HOUR, START + DAY, GapReason("no table")),
        Gap(START + 3 * DAY, START + 4 * DAY, GapReason("no table")),
    ]
    assert list(cover_range(START + DAY, START + DAY + HOUR, [entry(0), entry(2)], gaps)) == []


@pytest.mark.parametrize(
    ("project", "projection", "fetched"),
    [
        (None, Projection(), False),
        (("n",), Projection(fields=("n",)), False),
        (("n",), Projection(fields=("n", "m")), True),
        (("n",), Projection(), True),
        (("n",), Projection(fields=("n",), versions=True), True),
    ],
)
def test_an_index_without_what_is_shown_is_fetched_from(project: Any, projection: Projection, fetched: bool) -> None:
    assert needs_table_data(Index("by_kind", "kind", 1, project=project), projection, ()) is fetched


def test_gaps_of_the_future_are_not_shown_and_faults_are_losses() -> None:
    now = Gap(NOON, NOON + DAY, GapReason.TABLE_MISSING)
    before, after = (
        Gap(START, NOON, GapReason.DAMAGED_PACK),
        Gap(NOON + timedelta(microseconds=1), NOON + DAY, GapReason.DAMAGED_DATA),
    )
    assert find_visible_gaps([after, now, before], NOON) == [before, now]
    assert [
        len(Gap(START, NOON, reason).losses)
        for reason in (GapReason.TABLE_MISSING, GapReason.DAMAGED_PACK, GapReason.DAMAGED_DATA, GapReason.DELETED)
    ] == [1, 1, 1, 0]
    short = Gap(START + HOUR, START + 2 * HOUR, GapReason.DAMAGED_DATA)
    assert find_visible_gaps([short, before], NOON) == [before, short]
    assert Gap.of_missing(entry(), START + HOUR, START + 9 * DAY) == Gap(
        START + HOUR, START + DAY, GapReason.TABLE_MISSING
    )
    missing = Gap.of_missing(entry(), START - DAY, NOON)
    assert missing.document() == {
        "from": "2026-03-01T00:00:00.000000Z",
        "to": "2026-03-01T12:00:00.000000Z",
        "reason": "table missing",
    }


@pytest.mark.parametrize(
    ("count", "ranges", "each"), [(101, 1, 101), (3, 16, 3), (16, 16, 4), (100, 16, 8), (1000, 10, 106)]
)
def test_a_range_reads_its_share_and_a_little_more(count: int, ranges: int, each: int) -> None:
    """100 / 16 and six tenths of its root are 7.75; DynamoDB's least unit holds four events."""
    assert compute_share(count, ranges) == each


def make_range(waiting: int, *, more: bool) -> _Range:
    """A range whose last read had the limit 10, with some items that wait."""
    places = [f"{number:04d}" for number in range(waiting)]
    waiting_items = PlacedColumns(places, places, places)
    return _Range(KeyRange("t", "p", "", "~"), 10, more, waiting=waiting_items)


@pytest.mark.parametrize(
    ("demand", "waiting", "limits"),
    [
        (Demand(50, filtered=True), [0, 3, 9], {0: 20}),
        (Demand(50, filtered=False), [0], {0: 50}),
        (Demand(3, filtered=False), [0], {0: 4}),
        # 16 of 16 ranges give 100 more events: 7 each. Those with 6 or fewer are used up before.
        (Demand(100, filtered=False), [0, 3, 6, 7, *[7] * 12], {0: 8, 1: 5, 2: 4}),
        # Six each are all that is wanted: the next event of the second range may be among them.
        (Demand(96, filtered=False), [0, 6, *[7] * 14], {0: 8, 1: 4}),
        (Demand(100, filtered=False), [0, 60], {0: 55}),
        (Demand(100, filtered=False), [0, 5], {0: 55, 1: 52}),
    ],
)
def test_the_ranges_whose_items_will_be_used_up_are_read_further(
    demand: Demand, waiting: list[int], limits: dict[int, int]
) -> None:
    """With a filter, only those for which the others wait, and twice as much as before."""
    ranges = [make_range(count, more=True) for count in waiting]
    due = demand.choose_due(ranges)
    assert {
        number: reading.limit for number, reading in enumerate(ranges) if any(reading is one for one in due)
    } == limits


def test_a_range_without_more_items_is_never_read_further_and_the_others_give_what_it_lacks() -> None:
    ended, other = [make_range(1, more=False) for _ in range(9)], make_range(0, more=True)
    for filtered, limit in ((False, 91), (True, 182)):
        assert list(Demand(100, filtered=filtered).choose_due([*ended, other])) == [other]
        assert other.limit == limit


# What is explained and noted


INDEXED = parse(
    '[streams.s]\nperiod = "day"\nlate = "1d"\nretention = 9\nkey = { partition_by = "time", bucket = "24h" }\n'
    '[[streams.s.index]]\nname = "by_kind"\npartition_by = "kind"'
).streams["s"]


def catalog_of(*entries: Entry) -> FakeCatalog:
    catalog = FakeCatalog()
    for added in entries:
        catalog.add(added)
    return catalog


@pytest.mark.parametrize(
    ("with_index", "since"),
    [
        ((False, False, True), {"by_kind": "2026-03-03T00:00:00.000000Z"}),
        ((True, False, True), {"by_kind": "2026-03-03T00:00:00.000000Z"}),
        ((False, False, False), {"by_kind": None}),
        ((True, True, True), None),
        # Only a period behind the range's end lacks it.
        ((True, True, False), None),
    ],
)
def test_an_index_is_there_since_the_period_after_the_last_that_lacks_it(with_index: Any, since: Any) -> None:
    layouts = [INDEXED.layout if has else LAYOUT for has in with_index]
    entries = [entry(day, layout) for day, layout in enumerate(layouts)]
    shown = show_since(INDEXED, catalog_of(*entries), START, START + 2 * DAY)
    assert shown == ({"indexes_since": since} if since else {})


def test_an_archive_needs_no_index() -> None:
    deleted = Entry("s", entry().period, "t0", LAYOUT, State.DELETED, START, archive=ArchiveFacts("m", 1, 1, NOON))
    assert show_since(INDEXED, catalog_of(deleted), START, START + DAY) == {}


def test_names_are_shown_as_they_were_queried() -> None:
    assert show_names(ANY) == {"series": None}
    assert show_names(NameConditions(series=("a",), ids=("1",))) == {"series": "a", "id": ["1"]}
    assert show_names(NameConditions(series=("a", "b"), id_prefix="x")) == {"series": ["a", "b"], "id:prefix": "x"}
    assert show_names(NameConditions(series_prefix="p")) == {"series": None, "series:prefix": "p"}


def test_series_are_noted_of_periods_that_begin_then_or_later_and_a_prefix_chooses_among_them() -> None:
    assert [is_noted(entry(1), since) for since in (None, START + DAY, START + DAY + HOUR)] == [
        False,
        True,
        False,
    ]
    query = Query("s", START, NOON, NameConditions(series_prefix="a"), ascending=True, limit=1, consistent=True)
    asked: list[Any] = []

    def read_notes(stream: str, label: str, *, consistent: bool) -> NotedSeries:
        asked.append((stream, label, consistent))
        return NotedSeries(series=["a", "ab", "b"], units=2.0)

    rollups: Any = SimpleNamespace(read_notes=read_notes)
    assert read_series(query, Stretch(entry(), START, NOON), rollups) == NotedSeries(series=["a", "ab"], units=2.0)
    assert asked == [("s", "2026-03-01", True)]


def test_scans_name_what_is_filtered_after_reading() -> None:
    scan = PackScan.of(entry(layout=PACKED), START, NOON, ["p"])
    query = Query("s", START, NOON, NameConditions(series=("a",), ids=("1",)), ascending=True, limit=1)
    assert scan.list_filters(query) == ["series", "id"]
    series = PackScan.of(entry(layout=Layout("series", 1, "id", pack=Packing(60, 9_000))), START, NOON, ["p"])
    assert series.list_filters(query) == ["id"]
    assert scan.list_filters(None) == []


# Columns


def test_typed_columns_have_what_an_event_says_and_else_nothing() -> None:
    text = '{"series":"a","time":"2026-03-01T12:00:00Z","id":"1","ref":"r","data":{"n":1,"m":2.5}}'
    table = type_events(text, {"n": "integer", "m": "integer", "ref": "string"}, EVERYTHING)
    columns = {column.name: list(column.values) for column in table.columns}
    assert len(table.columns) == len(columns)
    assert columns == {
        "series": ["a"],
        "time": [1772366400000000],
        "id": ["1"],
        "n": [1],
        "m": [None],
        "data": ['{"m":2.5}'],
        "ref": ["r"],
        "incomplete": [False],
    }
    assert table.untyped == {"m": 1}
    only = type_events(text, {"n": "integer", "m": "double"}, Projection(fields=("m",))).columns
    assert [column.name for column in only][3:5] == ["m", "data"]
    versions = type_events(text, {}, Projection(versions=True)).columns
    assert {column.name for column in versions} >= {"version", "newest", "accepted", "versions_left_out"}


def test_rows_have_groups_by_their_types() -> None:
    rows: Any = [{"count": 2, "group": {"series": "a", "n": 1}}, {"group": {"n": "x"}}]
    table = type_rows(rows, ["count", "group.series", "group.n"], {"count": "integer"}, {"n": "integer"})
    assert [(column.name, column.type, list(column.values)) for column in table.columns] == [
        ("count", "integer", [2, None]),
        ("group.series", "string", ["a", None]),
        ("group.n", "integer", [1, None]),
        ("group", "string", ["{}", '{"n":"x"}']),
    ]
    assert table.untyped == {"group.n": 1}


@pytest.mark.parametrize(
    ("kind", "value", "held"),
    [
        ("integer", 2**63 - 1, 2**63 - 1),
        ("integer", 2**63, None),
        ("integer", -(2**63), -(2**63)),
        ("integer", Decimal("5.0"), 5),
        ("integer", Decimal("5.5"), None),
        ("decimal(3, 1)", Decimal("99.9"), 999),
        ("decimal(3, 1)", 100, None),
        ("decimal(3, 1)", Decimal("1.25"), None),
        ("double", True, None),
        ("boolean", 1, None),
    ],
)
def test_a_column_holds_what_it_holds_exactly(kind: str, value: Any, held: Any) -> None:
    assert _choose_converter(kind)(value) == held


@pytest.mark.parametrize(("after", "ahead"), [(NOON, False), (NOON - HOUR, True)])
def test_nothing_lies_ahead_of_a_place_at_the_end(after: datetime, ahead: bool) -> None:
    query = Query("s", START, NOON, ANY, ascending=True, limit=1, after=Position(after))
    assert is_ahead(query, START, NOON) is ahead


@pytest.mark.parametrize(("text", "cell"), [("-1+cmd", "'-1+cmd"), ("-1", "-1"), ("=1", "'=1"), ("+1e5", "+1e5")])
def test_a_cell_that_only_begins_with_a_number_is_escaped(text: str, cell: str) -> None:
    assert _escape_cell(text) == cell


def test_a_body_that_is_a_byte_too_long_loses_a_row() -> None:
    """Of two rows, and of many short ones whose part that fits is nearly all."""
    assert count_fitting_rows("x" * MAX_BODY_BYTES, 2) == 2
    assert count_fitting_rows("x" * (MAX_BODY_BYTES + 1), 2) == 1
    assert count_fitting_rows("x" * (MAX_BODY_BYTES * 2), 10) == 5
