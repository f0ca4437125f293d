"""Queries of rollups: which parts of a range they answer, why a plan does not use them, and how pages go on across them."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.rolled import HOURS, MINUTES, QUERIES, START, World, begin_rollups, reading
from tidetable.errors import Outage, StoreUnavailable, TableMissing, TableThrottled
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query import whole as whole_reads
from tidetable.times import to_text


def test_rollups_answer_alone_when_the_events_are_gone() -> None:
    world = begin_rollups()
    world.write(reading(62, 1, kind="x"), reading(170, 2, "b", kind="y"))
    world.sleep(26 * 3_600)
    world.refresh()
    span = {"from": to_text(START + timedelta(hours=1)), "to": to_text(START + timedelta(hours=8))}
    asked = {**QUERIES[0], **span}
    before = world.ask(**asked)
    world.forget("s", START)
    after = world.ask(**asked)
    assert after.rows == before.rows
    assert after.gaps == []
    assert [(gap.reason) for gap in world.ask(**asked, rollups="false").gaps] == ["deleted"]
    # Where no rollup is sealed there is a gap, as without rollups.
    assert [(to_text(gap.start)[11:16], to_text(gap.end)[11:16]) for gap in world.ask(**QUERIES[0]).gaps] == [
        ("00:00", "00:10")
    ]


def test_where_a_rollups_own_tables_are_gone_a_finer_one_or_the_events_answer() -> None:
    world = begin_rollups()
    world.write(reading(62, 1, kind="x"), reading(170, 2, "b", kind="y"))
    world.sleep(10_000)
    world.refresh()
    hours = {"step": "1h", "from": to_text(START + timedelta(hours=1)), "to": to_text(START + timedelta(hours=3))}
    assert {scan.entry.stream for scan in world.ask(**hours).sources} == {"s-h"}
    world.forget("s-h", START)
    assert {scan.entry.stream for scan in world.ask(**hours).sources} == {"s-m"}
    world.forget("s-m", START)
    assert {scan.entry.stream for scan in world.ask(**hours).sources} == {"s"}
    assert world.check(QUERIES) == 0


REASONS = [
    ("step is no multiple", {"step": "15m"}, "s-m", "step is not a multiple of its every"),
    ("a group that it lacks", {"by": "place.state,series"}, "s-m", "its by lacks place.state"),
    ("a condition on what it lacks", {"where.place": "x"}, "s-m", "its by lacks place"),
    ("a series", {"series": "a"}, "s-h", "its by lacks series"),
    ("a series' beginning", {"series:prefix": "a"}, "s-h", "its by lacks series"),
    ("an id", {"id": "a"}, "s-m", "it does not hold ids"),
    ("ids' beginning", {"id:prefix": "a"}, "s-m", "it does not hold ids"),
    ("a field of data called series", {"where.series": "a"}, "s-m", "it does not hold the field series of data"),
    ("a field", {"stat": "sum", "field": "depth"}, "s-m", "its fields lack depth"),
    ("the events", {"rollups": "false"}, "s-m", "rollups=false reads the events"),
]


@pytest.mark.parametrize(("name", "query", "rollup", "reason"), REASONS, ids=[case[0] for case in REASONS])
def test_a_plan_says_why_a_rollup_is_not_used(name: str, query: dict[str, str], rollup: str, reason: str) -> None:
    world = begin_rollups()
    world.refresh()
    found = {rollup["rollup"]: rollup for rollup in world.explain(**query)["rollups"]}
    assert found[rollup] == {"rollup": rollup, "used": False, "reason": reason}
    assert rollup not in {scan.entry.stream for scan in world.ask(**query).sources}


def test_a_condition_on_a_field_called_series_does_not_compare_the_events_series() -> None:
    world = begin_rollups()
    world.write(
        Event("a", START + timedelta(minutes=70), "1", {"series": "b", "mag": 1}),
        Event("b", START + timedelta(minutes=71), "2", {"series": "a", "mag": 1}),
        Event("b", START + timedelta(minutes=72), "3", {"mag": 1}),
    )
    world.sleep(10_000)
    world.refresh()
    rows = world.ask(by="series", **{"where.series": "b"}).rows
    assert [(row["group"], row["count"]) for row in rows] == [({"series": "a"}, 1)]


def test_a_statistic_that_a_rollup_lacks_is_named() -> None:
    world = begin_rollups((replace(MINUTES, stats=("count", "min")),))
    world.refresh()
    (found,) = world.explain(stat="p95,avg,min", field="mag")["rollups"]
    assert found["reason"] == "its stats lack percentiles, sum"
    (found,) = world.explain(stat="min", field="mag")["rollups"]
    assert found == {"rollup": "s-m", "used": True, "reason": None}


def test_times_of_first_and_last_events_come_only_from_rollups_that_keep_them() -> None:
    """The hours keep times, the minutes do not; the edges of the range are read from the events."""
    without = tuple(stat for stat in MINUTES.stats if not stat.endswith("_at"))
    world = begin_rollups((replace(MINUTES, stats=without), HOURS))
    world.write(reading(61.5, 1, kind="x"), reading(62, None, kind="x"), reading(170, 2, "b", kind="x"))
    world.write(reading(62.5, None, kind="y"), reading(185.25, 4, "b", kind="y"))
    world.sleep(12_000)
    world.refresh()
    span = {"from": "2026-03-02T01:01:40Z", "to": "2026-03-02T03:30:00Z", "by": "kind", "stat": "first_at,last_at"}
    found = world.ask(**span)
    assert [(row["group"]["kind"], row["first_at"], row["last_at"]) for row in found.rows] == [
        ("x", "2026-03-02T01:02:00.000000Z", "2026-03-02T02:50:00.000000Z"),
        ("y", "2026-03-02T01:02:30.000000Z", "2026-03-02T03:05:15.000000Z"),
    ]
    assert {scan.entry.stream for scan in found.sources} == {"s", "s-h"}
    numbers = world.ask(**span, field="mag").rows
    assert [(row["first_at"][11:19], row["last_at"][11:19]) for row in numbers] == [
        ("02:50:00", "02:50:00"),
        ("03:05:15", "03:05:15"),
    ]
    reasons = {rollup["rollup"]: rollup["reason"] for rollup in world.explain(**span)["rollups"]}
    assert reasons == {"s-h": None, "s-m": "its stats lack first_at, last_at"}


def test_sources_name_rollups() -> None:
    world = begin_rollups()
    world.refresh()
    assert world.ask().document()["sources"] == [
        {"period": "2026-03-02", "from": "table"},
        {"period": "2026-03-02", "from": "table", "rollup": "s-m"},
    ]


def test_a_state_that_cannot_be_read_costs_read_units_only() -> None:
    world = begin_rollups()
    world.write(reading(45, 1))
    world.refresh()
    world.rollups.refuses = True
    assert [row["count"] for row in world.ask().rows] == [1]
    assert "cannot be read" in world.explain()["rollups"][0]["reason"]


@pytest.mark.parametrize("value", ["no", "", "False"])
def test_rollups_is_true_or_false(value: str) -> None:
    with pytest.raises(ProblemError, match="bad_parameter"):
        begin_rollups().ask(rollups=value)


def test_pages_of_an_aggregate_go_on_across_rollups_and_events() -> None:
    world = begin_rollups()
    world.write(*[reading(5 * n, n, kind="xy"[n % 2]) for n in range(30)])
    world.sleep(5_000)
    world.refresh()
    whole = world.ask(**QUERIES[0]).rows
    found: list[Any] = []
    parameters = {**QUERIES[0], "limit": "3"}
    for _ in range(100):
        page = world.ask(**parameters)
        found += page.rows
        if page.next is None:
            break
        parameters = {"cursor": page.next, "limit": "3"}
    assert found == whole
    assert len(found) == 30


def test_a_page_ends_where_the_time_is_up_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_reads, "PAGES", 1)
    world = begin_rollups()
    world.write(*[reading(5 * n, n, kind="xy"[n % 2]) for n in range(30)])
    world.sleep(5_000)
    world.refresh()
    whole = world.ask(**QUERIES[0]).rows
    found: list[Any] = []
    parameters, pages = dict(QUERIES[0]), 0
    while True:
        page = world.ask(_running_out(), **parameters)
        found, pages = found + page.rows, pages + 1
        if page.next is None:
            break
        parameters = {"cursor": page.next}
    assert found == whole
    assert pages > 1


def _running_out() -> Callable[[], float]:
    """The time is up at the seventh look."""
    looks: Iterator[int] = count()
    return lambda: 100.0 if next(looks) < 7 else 0.0


def test_the_periods_of_a_rollup_are_looked_up_once_however_many_marks_there_are() -> None:
    world = begin_rollups((MINUTES,))
    world.refresh()
    for minutes in (20, 40):
        world.rollups.marks["s", START + timedelta(minutes=minutes), MINUTES.every] = 0
    world.catalog.reads.clear()
    answer = world.ask(step="10m")
    assert len({scan.start for scan in answer.sources if scan.entry.stream == "s-m"}) >= 3
    assert len(world.catalog.reads) == 2


def test_a_series_may_be_called_as_the_cells_of_all_series_are() -> None:
    world = begin_rollups((MINUTES,))
    world.write(
        reading(45, 1, "*", kind="x"), Event("a#b%", START + timedelta(minutes=45), "c#%", {"kind": "y#", "mag": 2})
    )
    world.refresh()
    assert world.check(QUERIES) > 0
    assert [row["group"] for row in world.ask(by="series,kind").rows] == [
        {"series": "*", "kind": "x"},
        {"series": "a#b%", "kind": "y#"},
    ]


def seal_marked(world: World) -> None:
    """Seal the buckets of late events anew: until then these are read from the events."""
    world.sleep(400)
    world.refresh()
    assert not world.rollups.marks


def test_the_catalog_of_a_rollup_that_has_sealed_nothing_of_the_range_is_not_read() -> None:
    world = begin_rollups((MINUTES,))
    world.refresh()
    world.catalog.reads.clear()
    # It is sealed from 00:10 to 01:10.
    for start, end in ((0, 10), (70, 80)):
        span = {"from": to_text(START + timedelta(minutes=start)), "to": to_text(START + timedelta(minutes=end))}
        assert {scan.entry.stream for scan in world.ask(step="10m", **span).sources} == {"s"}
    assert len(world.catalog.reads) == 2


def test_a_page_that_goes_on_reads_nothing_before_its_cursor() -> None:
    world = begin_rollups((MINUTES,))
    world.write(*[reading(5 * n, n, kind="x") for n in range(2, 14)])
    seal_marked(world)
    page = world.ask(step="10m", limit="3")
    assert page.next is not None
    following = world.ask(cursor=page.next, limit="3")
    assert [row["start"][11:16] for row in following.rows] == ["00:40", "00:50", "01:00"]
    # The events before 00:10 are read no more.
    assert [scan.entry.stream for scan in page.sources][:2] == ["s", "s-m"]
    assert following.sources[0].entry.stream == "s-m"


def test_a_state_that_does_not_answer_costs_read_units_only() -> None:
    """Throttled, without an answer, or deleted by hand: the events say the same."""
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1))
    world.refresh()
    for failure in (StoreUnavailable(Outage.NO_ANSWER, "time-out"), TableThrottled("rollups"), TableMissing("rollups")):

        def fail(*_: Any, failure: Exception = failure) -> None:
            raise failure

        world.rollups.read_state = fail  # type: ignore[method-assign, assignment]
        assert [row["count"] for row in world.ask().rows] == [1]


def test_an_average_needs_the_sum_and_the_count() -> None:
    world = begin_rollups((replace(MINUTES, stats=("count", "min")),))
    world.refresh()
    (plan,) = world.explain(stat="avg", field="mag")["rollups"]
    assert plan["reason"] == "its stats lack sum"


def test_a_series_prefix_is_looked_for_in_the_cells_themselves() -> None:
    """Cells of other series are filtered where the events would be: none of them is an answer."""
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1, "ab"), reading(46, 2, "ac"), reading(47, 4, "b"))
    seal_marked(world)
    page = world.ask(step="10m", stat="sum", field="mag", **{"series:prefix": "a"})
    assert [row["sum"] for row in page.rows] == [3]
    assert page.sources[1].entry.stream == "s-m"
    page = world.ask(step="10m", stat="sum", field="mag", series="b")
    assert [row["sum"] for row in page.rows] == [4]


def test_a_rollup_whose_table_is_gone_is_read_as_its_entry_is_now_though_the_catalog_is_read_late() -> None:
    """An eventually consistent read of the catalog still says that the table is open."""
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1, kind="x"))
    world.refresh()
    before = dict(world.catalog.items)
    world.move_to_archive("s-m", START)
    world.catalog.stale = before
    answer = world.ask(step="10m", stat="sum", field="mag")
    assert ([row["sum"] for row in answer.rows], list(answer.gaps)) == ([1], [])
    assert "archive" in {scan.source[0] for scan in answer.sources if scan.entry.stream == "s-m"}
