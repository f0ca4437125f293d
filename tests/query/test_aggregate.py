"""Aggregates: refusals, steps and their filling, groups, top groups, and the end of the time."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from decimal import Decimal
from itertools import count
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.query.stored_events import DAYS, NOW, SERIAL, START, TIMELY, StoredEvents
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query import whole as whole_reads
from tidetable.query.aggregates import aggregate_run as module
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.aggregates.find import Aggregate
from tidetable.times import to_text

SPAN = {"from": to_text(START), "to": to_text(START + timedelta(days=DAYS))}


def make_base(events: list[Event]) -> StoredEvents:
    return StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)


def reading(hours: float, mag: Any, series: str = "a", **more: Any) -> Event:
    data = {name: value for name, value in {"mag": mag, **more}.items() if value is not None}
    return Event(series, START + timedelta(hours=hours), f"{series}{hours}", data)


def ask(base: StoredEvents, remaining: Callable[[], float] | None = None, /, **parameters: str) -> Aggregate:
    query_string = {name: [value] for name, value in ({} if "cursor" in parameters else SPAN).items()}
    query_string |= {name: [value] for name, value in parameters.items()}
    remaining = remaining or (lambda: 100.0)
    return find_aggregate(parse_aggregation(TIMELY, query_string, NOW, SEAL), TIMELY, base.reader, NOW, remaining)


REFUSED = [
    ("a statistic that there is not", {"stat": "mean", "field": "mag"}, "p95"),
    ("a percentile beyond all", {"stat": "p101", "field": "mag"}, "p95"),
    ("a statistic twice", {"stat": "max,max", "field": "mag"}, "each once"),
    ("a sum of nothing", {"stat": "sum"}, "add field="),
    ("a field as CSV calls it", {"stat": "max", "field": "data.mag"}, "so write mag"),
    ("a group as CSV calls it", {"by": "series,data.place.state"}, "so write place.state"),
    ("a path with a hole", {"stat": "sum", "field": "a..b"}, "path"),
    ("groups by nothing", {"by": "series,"}, "by is a list"),
    ("groups by too much", {"by": "a,b,c,d,e"}, "4 at the most"),
    ("the first of no groups", {"top": "3"}, "add by="),
    ("an order of steps", {"order": "desc"}, "oldest first"),
    ("a step that is none", {"step": "1y"}, "duration"),
    ("a step of nothing", {"step": "0s"}, "one second"),
    ("too many steps", {"step": "1s", "from": "2026-01-01T00:00:00Z"}, "longer"),
    ("a filling that there is not", {"fill": "linear", "step": "1h"}, "previous"),
    ("a filling of no steps", {"fill": "zero"}, "add step="),
    ("a cursor that is none", {"cursor": "abc"}, "not a cursor"),
]


@pytest.mark.parametrize(("name", "parameters", "detail"), REFUSED)
def test_a_refusal_says_what_to_change(name: str, parameters: dict[str, str], detail: str) -> None:
    with pytest.raises(ProblemError) as caught:
        ask(make_base([]), None, **parameters)
    assert caught.value.problem.status == 400
    assert detail in caught.value.problem.detail


def test_a_stream_by_series_is_aggregated_by_series_or_by_an_index() -> None:
    query = parse_aggregation(SERIAL, {"series": ["a"]}, NOW, SEAL)
    assert query.query.series == "a"
    with pytest.raises(ProblemError, match="needs_series"):
        parse_aggregation(SERIAL.__class__(**{**_fields(SERIAL), "index": ()}), {}, NOW, SEAL)


def _fields(policy: Any) -> dict[str, Any]:
    return {name: getattr(policy, name) for name in policy.__struct_fields__}


def test_steps_are_counted_from_the_epoch_and_cut_by_the_range() -> None:
    base = make_base([reading(5, 1), reading(7, 2), reading(12, 3)])
    rows = ask(base, None, step="6h", stat="sum", field="mag", **{"from": to_text(START + timedelta(hours=4))}).rows
    assert [(row["start"][11:13], row["end"][11:13], row["sum"]) for row in rows] == [
        ("04", "06", 1),
        ("06", "12", 2),
        ("12", "18", 3),
    ]


def test_whole_weeks_begin_on_mondays() -> None:
    # 1 March 2026 is a Sunday.
    rows = ask(make_base([reading(1, 1), reading(25, 1), reading(70, 1)]), step="7d").rows
    assert [(row["start"][:10], row["count"]) for row in rows] == [("2026-03-01", 1), ("2026-03-02", 2)]


@pytest.mark.parametrize(
    ("fill", "wanted"),
    [
        ("none", [(1, 5), (2, 7)]),
        ("null", [(1, 5), (0, None), (0, None), (2, 7), (0, None)]),
        ("zero", [(1, 5), (0, 0), (0, 0), (2, 7), (0, 0)]),
        ("previous", [(1, 5), (0, 5), (0, 5), (2, 7), (0, 7)]),
    ],
)
def test_steps_without_events_are_filled_as_asked(fill: str, wanted: list[Any]) -> None:
    base = make_base([reading(1, 5), reading(75, 7), reading(76, 3)])
    rows = ask(base, step="1d", stat="count,max", field="mag", fill=fill).rows
    assert [(row["count"], row["max"]) for row in rows] == wanted


def test_filled_steps_show_every_group() -> None:
    base = make_base([reading(1, 5, "a"), reading(30, 7, "b")])
    rows = ask(
        base, step="1d", stat="max", field="mag", by="series", fill="null", to=to_text(START + timedelta(days=2))
    ).rows
    assert [(row["start"][8:10], row["group"]["series"], row["max"]) for row in rows] == [
        ("01", "a", 5),
        ("02", "a", None),
        ("02", "b", 7),
    ]


def test_groups_of_values_that_look_alike_are_told_apart() -> None:
    values = ["1", 1, True, Decimal("1.0"), None, [1], {"x": 1}, "true"]
    base = make_base([reading(number, 1, kind=value) for number, value in enumerate(values)])
    rows = ask(base, by="kind", stat="count").rows
    groups = [(type(row["group"]["kind"]), row["group"]["kind"], row["count"]) for row in rows]
    assert groups == [
        (type(None), None, 3),
        (int, 1, 2),
        (str, "1", 1),
        (str, "true", 1),
        (bool, True, 1),
    ]


def test_the_times_of_the_first_and_the_last_event_are_of_all_events_or_of_those_with_the_field() -> None:
    base = make_base([reading(1, None), reading(2, 5), reading(7.5, 6), reading(9, None), reading(3, None, "b")])
    wanted = {
        None: [("a", "01:00", "09:00", 4), ("b", "03:00", "03:00", 1)],
        "mag": [("a", "02:00", "07:30", 2)],
    }
    for field, times in wanted.items():
        named = {} if field is None else {"field": field}
        rows = ask(base, by="series", stat="first_at,last_at,count", **named).rows
        found = [(row["group"]["series"], row["first_at"], row["last_at"], row["count"]) for row in rows]
        assert [(series, first[11:16], last[11:16], count) for series, first, last, count in found] == times


def test_the_groups_that_have_been_silent_for_the_longest_time_come_first() -> None:
    events = [reading(number + 1, 1, series) for number, series in enumerate("cabca")]
    rows = ask(make_base(events), by="series", stat="last_at,count", top="2", order="asc").rows
    assert [(row["group"]["series"], row["last_at"], row["count"]) for row in rows] == [
        ("b", "2026-03-01T03:00:00.000000Z", 1),
        ("c", "2026-03-01T04:00:00.000000Z", 2),
    ]


@pytest.mark.parametrize(("fill", "wanted"), [("zero", [None, 0]), ("null", [None, 0]), ("previous", ["01:00", 0])])
def test_a_step_without_events_has_no_times_of_its_own(fill: str, wanted: list[Any]) -> None:
    span = {"from": to_text(START), "to": to_text(START + timedelta(hours=3))}
    rows = ask(make_base([reading(1, 1)]), step="1h", stat="last_at,count", fill=fill, **span).rows
    assert [row["last_at"] and row["last_at"][11:16] for row in rows][1:] == ["01:00", wanted[0]]
    assert [row["count"] for row in rows] == [0, 1, 0]


@pytest.mark.parametrize(("order", "wanted"), [("desc", ["c", "b"]), ("asc", ["a", "b"])])
def test_the_first_groups_are_those_of_the_whole_range(order: str, wanted: list[str]) -> None:
    events = [reading(0, 9, "a"), reading(1, 5, "b"), reading(2, 6, "b"), reading(30, 20, "c"), reading(31, None, "d")]
    rows = ask(make_base(events), by="series", top="2", order=order, stat="sum,p50", field="mag", step="1d").rows
    assert sorted({row["group"]["series"] for row in rows}) == sorted(wanted)
    by_series = {row["group"]["series"]: row for row in rows}
    assert by_series["b"]["sum"] == 11
    # The totals do not change the sketches of the steps.
    assert by_series["b"]["p50"] == pytest.approx(5, rel=0.01)


def test_sums_are_exact_and_averages_are_not_cut_short() -> None:
    numbers = [Decimal("1E+20"), Decimal("1E-15"), Decimal("-1E+20"), Decimal("0.1"), Decimal("0.2")]
    base = make_base([reading(number, value) for number, value in enumerate(numbers)])
    (row,) = ask(base, stat="sum,avg,min,max,first,last", field="mag").rows
    assert row["sum"] == Decimal("0.300000000000001")
    assert row["avg"] == Decimal("0.0600000000000002")
    assert (row["first"], row["last"]) == (numbers[0], numbers[-1])


def ticking(after: int) -> Callable[[], float]:
    """A clock whose time is up after a number of readings."""
    looks: Iterator[int] = count()
    return lambda: 100.0 if next(looks) < after else 0.0


@pytest.mark.parametrize("looks", range(1, 9))
@pytest.mark.parametrize("fill", ["none", "zero"])
def test_when_the_time_is_up_the_steps_that_are_complete_are_the_answer(
    looks: int, fill: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_reads, "PAGES", 4)
    base = make_base([reading(number / 2, number) for number in range(200)])
    whole = ask(base, step="3h", stat="count,sum", field="mag", fill=fill).rows
    rows: list[Any] = []
    parameters = {"step": "3h", "stat": "count,sum", "field": "mag", "fill": fill}
    for _ in range(60):
        page = ask(base, ticking(looks), **parameters)
        rows += page.rows
        if page.next is None:
            break
        parameters = {"cursor": page.next}
    assert rows == whole


def test_a_step_that_the_time_does_not_suffice_for_is_too_much() -> None:
    """A repeated request fails, too; a smaller step succeeds."""
    base = make_base([reading(number / 50, number) for number in range(400)])
    with pytest.raises(ProblemError, match="smaller step"):
        ask(base, ticking(1), stat="sum", field="mag", step="1d")


def test_without_steps_there_is_nothing_to_go_on_from() -> None:
    base = make_base([reading(number, number) for number in range(100)])
    with pytest.raises(ProblemError, match="too_much"):
        ask(base, ticking(1), stat="sum", field="mag")
    with pytest.raises(ProblemError, match="shorter range"):
        ask(base, ticking(1), stat="sum", field="mag", step="1h", by="series", top="2")


def test_groups_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CELLS", 20)
    base = make_base([reading(number, number, f"s{number}") for number in range(40)])
    assert len(ask(base, by="series", step="6h").rows) == 40
    with pytest.raises(ProblemError, match="too_many_groups"):
        ask(base, by="series")
    with pytest.raises(ProblemError, match="groups times steps"):
        ask(base, by="series", step="6h", top="1")


def test_counting_groups_takes_no_longer_for_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step of a minute has 20,000 steps in two weeks, all of which wait for the end of the range."""
    calls: list[int] = []

    def count_length(of: Any) -> int:
        calls.append(1)
        return len(of)

    monkeypatch.setattr(module, "len", count_length, raising=False)
    base = make_base([reading(number / 10, number) for number in range(200)])
    assert ask(base, step="6m", by="series", top="1").count == 200
    assert len(calls) <= 3 * 200


def test_a_page_never_has_more_rows_than_limit_and_a_refusal_says_how_many_it_takes() -> None:
    """Ten groups in each of three steps."""
    base = make_base([reading(number / 10, number, f"s{number}") for number in range(30)])
    with pytest.raises(ProblemError) as caught:
        ask(base, by="series", step="1h", limit="4")
    assert (caught.value.problem.status, caught.value.problem.code) == (422, "too_much")
    assert "one step has 10 rows, more than limit=4: set limit=10" in caught.value.problem.detail
    page = ask(base, by="series", step="1h", limit="15")
    counts, rows = [len(page.rows)], list(page.rows)
    while page.next is not None:
        page = ask(base, cursor=page.next, limit="15")
        counts.append(len(page.rows))
        rows += page.rows
    assert counts == [10, 10, 10]
    names = [f"s{number}" for number in range(30)]
    assert sorted(row["group"]["series"] for row in rows) == sorted(names)


def test_a_large_step_in_the_middle_of_a_walk_is_refused_there_and_the_cursor_takes_a_higher_limit() -> None:
    events = [reading(0.5, 1, "s0")] + [reading(1 + number / 10, number, f"s{number}") for number in range(9)]
    base = make_base(events)
    page = ask(base, by="series", step="1h", limit="2")
    assert (len(page.rows), page.next is not None) == (1, True)
    with pytest.raises(ProblemError, match="set limit=9"):
        ask(base, cursor=page.next or "", limit="2")
    assert len(ask(base, cursor=page.next or "", limit="9").rows) == 9


def test_a_parameter_beside_a_cursor_may_repeat_what_its_aggregate_says() -> None:
    base = make_base([reading(number, number, place={"state": "CA"}) for number in range(20)])
    parameters = {
        "stat": "max,count",
        "field": "mag",
        "by": "place.state",
        "step": "1h",
        "fill": "none",
        "where.mag:ge": "2",
    }
    following = ask(base, limit="3", **parameters).next or ""
    assert [row["max"] for row in ask(base, cursor=following, limit="2").rows] == [5, 6]
    for name, value in {**parameters, **SPAN}.items():
        assert [row["max"] for row in ask(base, cursor=following, limit="2", **{name: value}).rows] == [5, 6]
    others = {
        "stat": "max",
        "field": "depth",
        "by": "series",
        "step": "2h",
        "fill": "zero",
        "top": "3",
        "order": "desc",
    }
    for name, value in {**others, "series": "a", "where.mag:ge": "3", "from": "2026-01-01T00:00:00Z"}.items():
        with pytest.raises(ProblemError, match=f"another query: repeat its {name}, leave {name} out"):
            ask(base, cursor=following, **{name: value})


def test_edges_within_a_step_may_be_repeated_beside_a_cursor_as_they_were_sent() -> None:
    base = make_base([reading(number, number) for number in range(20)])
    edges = {"from": to_text(START + timedelta(minutes=30)), "to": to_text(START + timedelta(hours=9, minutes=30))}
    following = ask(base, stat="max", field="mag", step="1h", limit="3", **edges).next or ""
    for repeated in (edges, {**edges, "step": "1h"}):
        rows = ask(base, cursor=following, limit="2", **repeated).rows
        assert [row["max"] for row in rows] == [4, 5]


def test_a_cursor_of_another_stream_is_refused() -> None:
    base = make_base([reading(number, number) for number in range(50)])
    page = ask(base, step="1h", limit="3")
    assert page.next
    other = TIMELY.__class__(**{**_fields(TIMELY), "name": "other"})
    with pytest.raises(ProblemError, match="belongs to another stream"):
        parse_aggregation(other, {"cursor": [page.next]}, NOW, SEAL)


@pytest.mark.parametrize(("step", "start"), [("110000w", "01-05"), ("400000w", "01-05"), ("1000000d", "01-01")])
def test_a_step_of_thousands_of_years_begins_with_the_range_or_its_first_monday(step: str, start: str) -> None:
    """Weeks begin on Mondays. The step before the first Monday of 1970 would begin before our era."""
    answer = ask(make_base([reading(1, 2)]), **{"from": "0", "step": step})
    assert [(row["start"], row["count"]) for row in answer.rows] == [(f"1970-{start}T00:00:00.000000Z", 1)]
