"""What the console makes of questions and answers, without a page: numbers, times, lines of a chart, a changed question."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from local.processes import ROOT
from tests.console.modules import evaluate

QUESTION = {
    "stream": "access", "ask": "aggregate", "series": "a", "where": ["path:eq:x"], "hide": ["x"], "sort": "time", "y": "ms",
    "fields": "ms",
}  # fmt: skip


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("0", "0"),
        ("-1234567", "-1,234,567"),
        # Microseconds since 1970.
        ("1774952400123456", "1,774,952,400,123,456"),
        ("-9007199254740991", "-9,007,199,254,740,991"),
        ("9007199254740993n", "9,007,199,254,740,993"),
        ("1.5e15", "1,500,000,000,000,000"),
        ("1e300", "1.000e+300"),
        ("0.00001", "1.000e-5"),
    ],
)
def test_a_whole_number_is_shown_with_all_digits(number: str, text: str) -> None:
    assert evaluate("format.js", f"m.showNumber({number})") == text


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        ("2026-03-30T09:05:00Z", "Mar 30, 09:05"),
        ("2025-12-31T23:59:00Z", "Dec 31, 2025, 23:59"),
        ("2027-01-01T00:00:00Z", "Jan 1, 2027, 00:00"),
    ],
)
def test_the_minute_of_another_year_is_shown_with_its_year(instant: str, text: str) -> None:
    assert evaluate("times.js", f"m.showMinute('{instant}', new Date('2026-03-31T12:00:00Z'))") == text


def change(question: dict[str, Any], **changes: str) -> dict[str, Any]:
    asked = json.dumps(QUESTION | question)
    changed: dict[str, Any] = evaluate("question.js", f"m.changeQuestion({asked}, {json.dumps(changes)})")
    return changed


def test_another_stream_is_asked_without_the_fields_of_the_former() -> None:
    changed = change({"stat": "avg,p99", "field": "ms", "by": "path", "top": "10"}, stream="orders")
    # The API refuses avg without a field, and top without by.
    assert {name: changed[name] for name in ("stream", "stat", "field", "by", "top")} == {
        "stream": "orders", "stat": "count", "field": "", "by": "", "top": "",
    }  # fmt: skip
    assert (changed["series"], changed["where"], changed["hide"], changed["fields"]) == ("", [], [], "")


def test_a_statistic_follows_whether_there_is_a_field() -> None:
    assert change({"stat": "count", "field": ""}, field="ms")["stat"] == "avg"
    assert change({"stat": "p99", "field": "ms"}, field="size")["stat"] == "p99"
    assert change({"stat": "avg,max", "field": "ms"}, field="")["stat"] == "count"


def test_groups_of_different_kinds_have_lines_of_their_own() -> None:
    groups = [1, "1", None, "(none)"]
    start = "2026-03-31T00:00:00Z"
    rows = [{"start": start, "group": {"code": group}, "count": at + 1} for at, group in enumerate(groups)]
    points = evaluate("parts/points.js", f"m.linesOf({json.dumps(rows)}, ['count'], 60)")
    assert points["lines"] == [
        {"name": "1", "values": [1]},
        {"name": "“1”", "values": [2]},
        {"name": "(none)", "values": [3]},
        {"name": "“(none)”", "values": [4]},
    ]


def test_events_of_the_same_time_are_all_drawn() -> None:
    """Sensors measure at the same second; the eleventh and all later series share a line."""
    times = ["2026-03-31T00:00:00.000000Z", "2026-03-31T00:01:00.000000Z"]
    rows = [
        {"row": {"time": time, "series": f"s{series:02}"}, "flat": {"x": series}} for time in times for series in range(13)
    ]  # fmt: skip
    points = evaluate("parts/points.js", f"m.pointsOf({json.dumps(rows)}, 'x')")
    assert points["times"] == sorted(points["times"])
    others = next(line for line in points["lines"] if line["name"] == "other series")
    drawn = [(time, value) for time, value in zip(points["times"], others["values"], strict=True) if value is not None]
    assert drawn == [
        (1774915200, 10), (1774915200, 11), (1774915200, 12),
        (1774915260, 10), (1774915260, 11), (1774915260, 12),
    ]  # fmt: skip
    first = next(line for line in points["lines"] if line["name"] == "s00")
    assert [value for value in first["values"] if value is not None] == [0, 0]


def test_a_heat_map_of_negative_numbers_has_their_scale() -> None:
    lines = json.dumps([{"name": "a", "values": [-20, -5, None]}, {"name": "b", "values": [-10, -5, -20]}])
    assert evaluate("parts/heatmap.js", f"m.scaleOf({lines})") == [-20, 0]
    assert evaluate("parts/heatmap.js", "m.scaleOf([{name: 'a', values: [3, null, 8]}])") == [0, 8]
    assert evaluate("parts/heatmap.js", "m.scaleOf([{name: 'a', values: [0, 0]}])") == [0, 0]


@pytest.mark.parametrize(
    ("first", "last", "change"),
    [
        ("1980-01-01T00:00:00Z", "1990-01-01T00:00:00Z", {"times": 4}),
        ("1970-01-03T00:00:00Z", "1970-01-09T00:00:00Z", {"by": -0.5}),
    ],
)
def test_a_range_does_not_begin_before_1970(first: str, last: str, change: dict[str, float]) -> None:
    """The API refuses such times."""
    question = json.dumps({"from": first, "to": last})
    moved = evaluate("question.js", f"m.moveRange({question}, {json.dumps(change)})")
    assert moved["from"] == "1970-01-01T00:00:00.000Z"


def test_a_condition_on_a_name_with_a_colon_names_its_operator() -> None:
    """The API takes the last part of where.xml:lang for an operator; where.xml:lang:eq has one."""
    conditions = [
        {"field": "xml:lang", "operator": "eq", "value": "de"},
        {"field": "xml:size", "operator": "ge", "value": "5"},
        {"field": "status", "operator": "eq", "value": "500"},
    ]
    assert evaluate("parts/conditions.js", f"m.conditionParameters({json.dumps(conditions)})") == {
        "where.xml:lang:eq": ["de"],
        "where.xml:size:ge": ["5"],
        "where.status": ["500"],
    }


@pytest.mark.parametrize(
    ("layout", "finds"),
    [
        ({"partition_by": "series", "shard_by": "id", "pack": None}, True),
        ({"partition_by": "time", "shard_by": "series", "pack": {"span_seconds": 60}}, True),
        ({"partition_by": "time", "shard_by": "id", "pack": {"span_seconds": 60}}, False),
        ({"partition_by": "time", "shard_by": "series", "pack": None}, False),
    ],
)
def test_the_latest_event_of_a_series_is_found_where_no_scan_is_needed(layout: dict[str, object], finds: bool) -> None:
    assert evaluate("parts/series.js", f"m.findsLatest({json.dumps(layout)})") is finds


def test_large_numbers_are_sorted_by_all_their_digits() -> None:
    rows = "[9007199254740995n, 9007199254740993n, 9007199254740994n, 12, 9007199254740992n]"
    first = f"m.sortRows({rows}, (row) => row, false).map(String)"
    ascending = ["12", "9007199254740992", "9007199254740993", "9007199254740994", "9007199254740995"]
    assert evaluate("parts/table.js", first) == ascending
    assert evaluate("parts/table.js", first.replace("false", "true")) == ascending[::-1]


@pytest.mark.parametrize(("span", "step", "align"), [("-1h", "1m", "true"), ("-1h", "1h", "true"), ("-1h", "1d", "")])
def test_a_chart_has_whole_steps_if_its_range_has(span: str, step: str, align: str) -> None:
    asked = json.dumps(QUESTION | {"from": span, "to": "", "step": step, "stat": "count", "field": "", "where": []})
    assert evaluate("question.js", f"m.requestOf({asked}).parameters.align") == align


BERLIN = "Europe/Berlin"
# The console counts steps in seconds: a month is a twelfth of the calendar's mean year.
MONTH = 2_629_746


@pytest.mark.parametrize(
    ("zone", "question", "tz"),
    [
        (BERLIN, {"step": "1d"}, "Europe/Berlin"),
        (BERLIN, {"step": "1w"}, "Europe/Berlin"),
        # An hour is as long everywhere.
        (BERLIN, {"step": "1h"}, ""),
        (BERLIN, {"step": "1h", "from": "today"}, "Europe/Berlin"),
        (BERLIN, {"ask": "events", "from": "yesterday", "to": "today"}, "Europe/Berlin"),
        (BERLIN, {"ask": "events", "step": "1d"}, ""),
        ("", {"step": "1d"}, ""),
    ],
)
def test_the_zone_is_named_where_days_depend_on_it(zone: str, question: dict[str, str], tz: str) -> None:
    asked = json.dumps(QUESTION | {"from": "-30d", "to": "", "stat": "count", "field": "", "where": []} | question)
    assert evaluate("question.js", f"m.requestOf({asked}).parameters.tz", zone) == tz


def test_today_is_that_of_the_zone() -> None:
    """At half past midnight in Berlin it is still yesterday in UTC; the day before has 23 hours."""
    days = "['today', 'yesterday'].map((day) => m.instantOf(day, new Date('2026-03-29T22:30:00Z')).toISOString())"
    assert evaluate("times.js", days, BERLIN) == ["2026-03-29T22:00:00.000Z", "2026-03-28T23:00:00.000Z"]
    assert evaluate("times.js", days) == ["2026-03-29T00:00:00.000Z", "2026-03-28T00:00:00.000Z"]


def test_days_of_23_hours_have_a_place_each() -> None:
    starts = ["2026-03-28T00:00:00+01:00", "2026-03-29T00:00:00+01:00", "2026-03-31T00:00:00+02:00"]
    rows = json.dumps([{"start": start, "count": number + 1} for number, start in enumerate(starts)])
    points = evaluate("parts/points.js", f"m.linesOf({rows}, ['count'], 86400)", BERLIN)
    # 28 March 23:00Z begins the short day, which ends at 29 March 22:00Z. The 30th has no events.
    assert points["times"] == [1774652400, 1774738800, 1774821600, 1774908000]
    assert points["lines"] == [{"name": "count", "values": [1, 2, 0, 3]}]


def test_a_week_before_the_clocks_change_lies_under_the_week_after() -> None:
    now = "{ times: [1774821600, 1774908000], lines: [{ name: 'a', values: [1, 2] }] }"
    earlier = "{ times: [1774220400, 1774306800], lines: [{ name: 'a', values: [3, 4] }] }"
    over = evaluate("parts/points.js", f"m.overlay({now}, {earlier}, 604800, 86400)", BERLIN)
    assert over["times"] == [1774821600, 1774908000]
    assert [line["values"] for line in over["lines"]] == [[1, 2], [3, 4]]


NOW = 1774952400000


@pytest.mark.parametrize(
    ("ages", "more", "rate", "seconds"),
    [
        # A hundred events in four seconds.
        ([number / 25 for number in range(1, 101)], True, 25.0, 4.0),
        # More than five minutes: the last five count.
        ([10.0 * number for number in range(1, 101)], True, 0.1, 300.0),
        # Too few in five minutes: the hour counts.
        ([60.0, 200.0, 1800.0], False, 3 / 3600, 3600.0),
        ([], False, 0.0, 3600.0),
    ],
)
def test_a_rate_is_that_of_the_newest_events(ages: list[float], more: bool, rate: float, seconds: float) -> None:
    times = json.dumps([NOW - age * 1000 for age in ages])
    found = evaluate("parts/rate.js", f"m.rateOf({times}, {json.dumps(more)}, {NOW})")
    assert (found["rate"], found["seconds"]) == (pytest.approx(rate), pytest.approx(seconds))


def test_rates_and_ages_are_words() -> None:
    rates = evaluate("parts/rate.js", "[1234.5, 12.34, 0.5, 0.001, 0].map(m.rateWords)")
    assert rates == [
        ["1,235", "per second"], ["12", "per second"], ["30", "per minute"], ["3.6", "per hour"], ["0", "per second"],
    ]  # fmt: skip
    ages = evaluate("parts/rate.js", "[200, 59_000, 119_400, 120_000, 7_300_000, 200_000_000, -90_000].map(m.ageWords)")
    assert ages == ["just now", "59 s ago", "119 s ago", "2 min ago", "2 h ago", "2 d ago", "90 s ahead"]


@pytest.mark.parametrize(
    ("zone", "hours"),
    [
        ("", ["2025-12-01T00:00Z", "2026-01-01T00:00Z", "2026-02-01T00:00Z", "2026-03-01T00:00Z", "2026-04-01T00:00Z"]),
        # Summer time begins on 29 March.
        (
            BERLIN,
            ["2025-11-30T23:00Z", "2025-12-31T23:00Z", "2026-01-31T23:00Z", "2026-02-28T23:00Z", "2026-03-31T22:00Z"],
        ),
    ],
)
def test_a_chart_of_months_has_each_month_also_one_without_events(zone: str, hours: list[str]) -> None:
    rows = [{"start": start, "count": count} for start, count in zip(hours[::4] + hours[1:2], (1, 5, 2), strict=True)]
    made = f"m.linesOf({json.dumps(rows)}, ['count'], {MONTH})"
    points = evaluate("parts/points.js", f"(({{ times, lines }}) => [times, lines[0].values])({made})", zone)
    assert points == [[datetime.fromisoformat(hour).timestamp() for hour in hours], [1, 2, 0, 0, 5]]


def test_a_step_of_months_is_asked_for_and_compared_with_the_months_before() -> None:
    asked = json.dumps(
        QUESTION
        | {"where": [], "from": "2026-03-31T10:00:00Z", "to": "2026-05-01T00:00:00Z", "step": "1mo", "beside": "4w"}
    )
    assert evaluate("question.js", f"m.requestOf({asked}).parameters.step") == "1mo"
    assert evaluate("question.js", f"m.requestOf({asked.replace('1mo', '3mo')}).parameters.step") == "3mo"
    distance = evaluate("question.js", f"m.distanceOf({asked})")
    assert distance == MONTH
    earlier = evaluate("question.js", f"m.earlierOf({asked}, {distance})")
    # February has no day 31.
    assert (earlier["from"], earlier["to"]) == ("2026-02-28T10:00:00.000Z", "2026-04-01T00:00:00.000Z")
    assert earlier["step"] == "1mo"


def test_steps_of_three_months_begin_in_january() -> None:
    may, april = (int(datetime.fromisoformat(day).timestamp()) for day in ("2026-05-17T00:00Z", "2026-04-01T00:00Z"))
    assert evaluate("times.js", f"m.alignTime({may}, {3 * MONTH})") == april


def test_the_form_offers_months() -> None:
    assert '"1w", "1mo"]' in (ROOT / "console/js/parts/questionform.js").read_text()
