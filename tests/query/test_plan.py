"""The planner: where a page goes on, and what a scan may leave out. Sort keys are written out."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.conditions import ANY, Condition, NameConditions
from tidetable.layout import Index, Layout
from tidetable.layout.period_layout import Packing
from tidetable.periods import parse_label
from tidetable.query.index_scans import GatherScan, IndexScan
from tidetable.query.model import Position, Projection, Query
from tidetable.query.packs.scan import PackScan
from tidetable.query.plain.plain_scans import needs_table_data, push_down
from tidetable.query.plan import plan_query
from tidetable.query.scans import Scan, TableScan

DAY = datetime(2026, 3, 5, tzinfo=UTC)
NEXT = datetime(2026, 3, 6, tzinfo=UTC)
NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
COPIED = (Index("copy", replica=True),)


def scans_of(layout: Layout, after: Position | None, *, ascending: bool, names: NameConditions = ANY) -> list[Scan]:
    """The scans of a day that is read from a place on."""
    entry = Entry("s", parse_label("2026-03-05"), "t", layout, State.OPEN, DAY)
    query = Query("s", DAY, NEXT, names, ascending=ascending, limit=10, after=after)
    return list(plan_query(query, [entry]).scans)


@pytest.mark.parametrize("ascending", [True, False])
def test_of_several_series_each_goes_on_where_the_order_of_all_is(ascending: bool) -> None:
    """The place is an event of b at noon. Of that time, a comes before it and c after it, whichever way the page reads."""
    after, names = Position(NOON, "b", "5"), NameConditions(series=("a", "b", "c"))
    (scan,) = scans_of(Layout("series", 1, "id"), after, ascending=ascending, names=names)
    assert isinstance(scan, TableScan)
    assert {keys.pk: keys.after for keys in scan.ranges} == {
        "a#0": "2026-03-05T12:00:00.000001Z",
        "b#0": "2026-03-05T12:00:00.000000Z#5",
        "c#0": "2026-03-05T12:00:00.000000Z",
    }


@pytest.mark.parametrize(("low", "source"), [(False, ("table", None)), (True, ("replica", "copy"))])
def test_a_query_of_low_priority_without_conditions_reads_the_replica(
    low: bool, source: tuple[str, str | None]
) -> None:
    entry = Entry("s", parse_label("2026-03-05"), "t", Layout("time", 1, "id", 86_400, COPIED), State.OPEN, DAY)
    (scan,) = plan_query(Query("s", DAY, NEXT, ANY, ascending=True, limit=10, low_priority=low), [entry]).scans
    assert scan.source == source


def test_packs_of_the_very_time_of_the_place_are_read_again_when_the_newest_come_first() -> None:
    """They may hold events of that time which come before the place: a pack's key is the time of its newest event."""
    layout = Layout("time", 1, "id", 86_400, pack=Packing(60, 65_536))
    (scan,) = scans_of(layout, Position(NOON, "b", "5"), ascending=False)
    assert isinstance(scan, PackScan)
    # A pack spans 60 seconds at the most.
    assert (scan.keys.low, scan.keys.high) == ("2026-03-05T00:00:00.000000Z", "2026-03-05T12:01:00.000001Z")
    assert (scan.low, scan.high) == ("2026-03-05T00:00:00.000000Z", "2026-03-05T12:00:00.000000Z#b#5")


@pytest.mark.parametrize(
    ("after", "low"),
    [
        (Position(NOON), "2026-03-05T12:00:00.000000Z"),
        (Position(NOON, "b", "5"), "2026-03-05T12:00:00.000000Z#b#5\0"),
    ],
)
def test_packs_before_the_place_are_not_read_again_when_the_oldest_come_first(after: Position, low: str) -> None:
    """A pack of events before the place alone has an earlier key. The last packs may reach 60 seconds beyond the range."""
    layout = Layout("time", 1, "id", 86_400, pack=Packing(60, 65_536))
    (scan,) = scans_of(layout, after, ascending=True)
    assert isinstance(scan, PackScan)
    assert (scan.keys.low, scan.keys.high) == ("2026-03-05T12:00:00.000000Z", "2026-03-06T00:01:00.000000Z")
    assert (scan.low, scan.high) == (low, "2026-03-06T00:00:00.000000Z")


@pytest.mark.parametrize(
    ("names", "suffixes"),
    [
        # FIPS 180: SHA-256 of "abc" begins with ba7816bf, of "#" with 334359b9.
        (NameConditions(series=("abc",)), [15]),
        (NameConditions(series=("#", "abc")), [9, 15]),
        (NameConditions(ids=("abc",)), list(range(16))),
        (NameConditions(series_prefix="ab"), list(range(16))),
        (ANY, list(range(16))),
    ],
)
def test_only_the_suffixes_of_the_series_are_read_if_packs_have_them(
    names: NameConditions, suffixes: list[int]
) -> None:
    layout = Layout("time", 16, "series", 86_400, pack=Packing(60, 65_536))
    (scan,) = scans_of(layout, None, ascending=True, names=names)
    assert isinstance(scan, PackScan)
    assert [keys.pk for keys in scan.ranges] == [f"2026-03-05T00:00:00.000000Z#{suffix}" for suffix in suffixes]
    # Other series may have the same suffix: they are filtered.
    assert scan.find_names_left(Query("s", DAY, NEXT, names, ascending=True, limit=10)) == names
    by_head = scans_of(replace(layout, shard_until="b"), None, ascending=True, names=NameConditions(series_prefix="ab"))
    # SHA-256 of "a" begins with ca978112.
    assert [keys.pk[-2:] for keys in by_head[0].ranges] == ["#2"]  # type: ignore[union-attr]
    (scan,) = scans_of(replace(layout, shard_by="id"), None, ascending=True, names=names)
    assert scan.count == 16


def test_a_prefix_that_holds_a_head_reads_one_suffix_of_plain_items_and_of_local_indexes() -> None:
    """SHA-256 of "a" begins with ca978112."""
    local = Index("own", sort_by="n", local=True)
    layout = Layout("time", 16, "series", 86_400, (local,), shard_until="b")
    names = NameConditions(series_prefix="ab")
    (scan,) = scans_of(layout, None, ascending=True, names=names)
    assert [keys.pk for keys in scan.ranges] == ["2026-03-05T00:00:00.000000Z#2"]  # type: ignore[union-attr]
    by_level = replace(layout, indexes=(Index("own", levels=("kind",), local=True),))
    entry = Entry("s", parse_label("2026-03-05"), "t", by_level, State.OPEN, DAY)
    condition = Condition("kind", "eq", ("x",))
    query = Query("s", DAY, NEXT, names, ascending=True, limit=10, conditions=(condition,))
    (scan,) = plan_query(query, [entry]).scans
    assert isinstance(scan, IndexScan)
    assert {keys.pk for keys in scan.ranges} == {"2026-03-05T00:00:00.000000Z#2"}


def test_what_cannot_be_read_of_a_range_is_a_gap_with_its_reason() -> None:
    """A period without the index, one that was deleted without an archive, and one whose archive has expired."""
    whole, bare = Layout("series", 1, "id", indexes=(Index("all", "*"),)), Layout("series", 1, "id")
    expired = ArchiveFacts("m", 1, 1, DAY, expired_at=DAY)
    kinds: list[dict[str, Any]] = [
        {"layout": bare, "state": State.OPEN},
        {"layout": whole, "state": State.DELETED},
        {"layout": whole, "state": State.DELETED, "archive": expired},
        {"layout": whole, "state": State.OPEN},
    ]
    days = [DAY + timedelta(days=number) for number in range(5)]
    entries = [
        Entry("s", parse_label(f"{day:%Y-%m-%d}"), "t", created_at=DAY, **kind)
        for day, kind in zip(days, kinds, strict=False)
    ]
    plan = plan_query(Query("s", DAY, days[4], ANY, ascending=True, limit=10), entries)
    assert [(gap.start, gap.end, gap.reason) for gap in plan.gaps] == [
        (days[0], days[1], "no index"),
        (days[1], days[2], "deleted"),
        (days[2], days[3], "archive expired"),
    ]
    assert [scan.start for scan in plan.scans] == [days[3]]


@pytest.mark.parametrize(("after", "first"), [(Position(NOON), 11), (Position(NOON, "b", "5"), 12)])
def test_a_bucket_is_read_only_if_it_may_hold_events_before_the_place(after: Position, first: int) -> None:
    """A bare instant is before every event of its time, so the bucket that begins with it has nothing left."""
    scans = scans_of(Layout("time", 1, "id", 3_600), after, ascending=False)
    assert [scan.start.hour for scan in scans] == list(range(first, -1, -1))


def test_what_an_index_lacks_is_fetched() -> None:
    index = Index("by_status", "status", project=("status",))
    status = Projection(fields=("status",))
    assert needs_table_data(index, status, ()) is False
    assert needs_table_data(index, Projection(fields=("status",), versions=True), ()) is True, (
        "an index has no versions"
    )
    assert needs_table_data(index, Projection(fields=("mag",)), ()) is True
    assert needs_table_data(index, status, [Condition("mag", "ge", ("5",))]) is True
    assert needs_table_data(Index("all", "*"), Projection(), ()) is False


def test_dynamodb_filters_only_by_fields_that_the_index_holds() -> None:
    """AWS: a condition on an attribute that is not there is not met, so every event would be left out."""
    index = Index("by_status", "status", project=("status",))
    held, lacking = Condition("status", "eq", ("new",)), Condition("mag", "ge", ("5",))
    assert push_down(index, (held,)) == (held,)
    assert push_down(index, (held, lacking)) == ()
    assert push_down(Index("all", "*"), (held, lacking)) == (held, lacking)


def test_each_of_several_series_is_read_in_its_own_suffix() -> None:
    """All events of a series are in one suffix where the suffixes follow from the series."""
    names = NameConditions(series=("a", "b", "c", "d"))
    (scan,) = scans_of(Layout("series", 64, "series"), None, ascending=True, names=names)
    assert isinstance(scan, TableScan)
    assert [keys.pk.partition("#")[0] for keys in scan.ranges] == ["a", "b", "c", "d"]


REGION = (Condition("region", "eq", ("CA",)),)
NEAR = Index("near", local=True, levels=("region", "kind"))


@pytest.mark.parametrize(
    ("layout", "names", "hours", "gathered"),
    [
        # Half an hour is a twelfth of a bucket of six hours, and an hour is a sixth.
        (Layout("time", 1, "id", 21_600, (NEAR,)), ANY, 0.5, False),
        (Layout("time", 1, "id", 21_600, (NEAR,)), ANY, 1, True),
        # Two hours are a twelfth of a day, and three are an eighth.
        (Layout("series", 1, "id", indexes=(NEAR,)), NameConditions(series=("a",)), 2, False),
        (Layout("series", 1, "id", indexes=(NEAR,)), NameConditions(series=("a",)), 3, True),
    ],
)
def test_an_index_is_gathered_for_a_tenth_of_a_bucket_or_of_a_period_without_buckets(
    layout: Layout, names: NameConditions, hours: float, gathered: bool
) -> None:
    entry = Entry("s", parse_label("2026-03-05"), "t", layout, State.OPEN, DAY)
    end = DAY + timedelta(hours=hours)
    query = Query("s", DAY, end, names, ascending=True, limit=10, conditions=REGION)
    (scan,) = plan_query(query, [entry]).scans
    assert isinstance(scan, GatherScan) is gathered


def test_a_gathered_range_is_filtered_by_the_times_of_the_query() -> None:
    """It spares the way of what lies outside of the range, and the plan names the filter."""
    layout = Layout("time", 1, "id", 21_600, (NEAR,))
    entry = Entry("s", parse_label("2026-03-05"), "t", layout, State.OPEN, DAY)
    end = DAY + timedelta(hours=3)
    query = Query("s", DAY, end, ANY, ascending=True, limit=10, conditions=REGION)
    (scan,) = plan_query(query, [entry]).scans
    assert isinstance(scan, GatherScan)
    assert scan.keys.times == ("2026-03-05T00:00:00.000000Z", "2026-03-05T03:00:00.000000Z")
    assert scan.list_filters(query) == ["time"]
