"""The edges of what a query's parameters mean: equal ones, the first and the last that count, and ends of the calendar."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.worlds.days import NOW, STREAM
from tidetable.config import parse
from tidetable.problems import ProblemError
from tidetable.query import parse_query
from tidetable.query.aggregates import parse_aggregation
from tidetable.query.cursor import refuse_long
from tidetable.query.latest import _parse_series
from tidetable.query.model import Position, Projection
from tidetable.times import to_text

BY_SERIES = parse(
    """
    [streams.d]
    period = "day"
    late = "1d"
    retention = 3
    key = { partition_by = "series" }
    [[streams.d.index]]
    name = "by_kind"
    partition_by = "kind"
    """
).streams["d"]
NOON = to_text(NOW)


@pytest.mark.parametrize(
    ("to", "start"),
    [
        (to_text(NOW - timedelta(hours=2)), NOW - timedelta(hours=3)),
        ("1970-01-01T00:30:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
    ids=["before now", "at the beginning of time"],
)
def test_without_from_the_range_is_the_hour_before_its_end(to: str, start: datetime) -> None:
    assert parse_query(STREAM, {"to": [to]}, NOW, SEAL).start == start


BYTES = [
    ("conditions", {"where.a": ["x" * 1023], "where.b": ["x" * 1023]}, {"where.c": [""]}, "at most 2048 bytes"),
    ("a series", {"series": ["é" * 240]}, {"series": ["é" * 241]}, "series must have 1 to 480 bytes"),
    ("a prefix", {"id:prefix": ["é" * 240]}, {"id:prefix": ["é" * 241]}, "id:prefix must have 1 to 480 bytes"),
]


@pytest.mark.parametrize(("most", "more", "refusal"), [row[1:] for row in BYTES], ids=[row[0] for row in BYTES])
def test_lengths_are_counted_in_bytes(most: dict[str, list[str]], more: dict[str, list[str]], refusal: str) -> None:
    parse_query(STREAM, most, NOW, SEAL)
    with pytest.raises(ProblemError, match=f"400 bad_parameter: .*{refusal}"):
        parse_query(STREAM, most | more, NOW, SEAL)


REFUSED = [
    ("a range of nothing", STREAM, {"from": [NOON], "to": [NOON]}, "bad_parameter: from must lie before to"),
    ("an explanation that is refused", STREAM, {"explain": ["false"]}, "bad_parameter: explain must be true"),
    (
        "a limit in digits of another script",
        STREAM,
        {"limit": ["\u0663"]},
        "bad_parameter: limit must be a whole number",
    ),
    ("a limit in digits that are raised", STREAM, {"limit": ["\u00b2"]}, "bad_parameter: limit must be a whole number"),
    ("a path with an empty name", STREAM, {"where.a..b": ["1"]}, "unknown_parameter: unknown parameter 'where.a..b'"),
    ("a path that ends with a dot", STREAM, {"where.a.:gt": ["1"]}, "bad_parameter: .*write where.FIELD:gt=VALUE"),
    ("a field that is too long", STREAM, {f"where.{'x' * 1025}": ["1"]}, "bad_parameter: .*at most 1024 bytes"),
    ("an inequality of SQL", STREAM, {"where.mag!": ["4"]}, "bad_parameter: .*write where.mag:OPERATOR=VALUE"),
    (
        "a comparison that is only a filter",
        BY_SERIES,
        {"where.mag:gt": ["4"]},
        r"needs_series: .*without a scan \(where.mag:gt is applied after reading\); where.kind is served now",
    ),
    ("an equality without an index", BY_SERIES, {"where.other": ["a"]}, "needs_index: "),
    ("an order without an index", BY_SERIES, {"where.other:gt": ["1"]}, "needs_series: "),
    (
        "an index read consistently",
        BY_SERIES,
        {"where.kind": ["a"], "consistent": ["true"]},
        "bad_parameter: only an index answers this, and DynamoDB reads indexes eventually",
    ),
]


@pytest.mark.parametrize(
    ("stream", "parameters", "refusal"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_a_query_at_an_edge_is_refused(stream: Any, parameters: dict[str, list[str]], refusal: str) -> None:
    with pytest.raises(ProblemError, match=f"400 {refusal}"):
        parse_query(stream, parameters, NOW, SEAL)


def test_a_value_that_is_named_twice_is_one_value() -> None:
    """30 values are the most, however often they are written."""
    (condition,) = parse_query(STREAM, {"where.a:in": [",".join(["1", "2", "1"] * 30)]}, NOW, SEAL).conditions
    assert condition.values == ("1", "2")


def test_a_cursor_may_have_5000_bytes() -> None:
    """A text of more than 255 bytes has three bytes before it in MessagePack."""
    text: Any = "x" * 4997
    refuse_long(text)
    with pytest.raises(ProblemError, match="are 1 bytes too long"):
        refuse_long(text + "x")


def test_the_latest_of_a_hundred_series_are_found_at_once_and_of_no_more() -> None:
    names = [f"s{number}" for number in range(100)]
    assert _parse_series({"series": [*names, "s0"]}) == names
    with pytest.raises(ProblemError, match=r"400 bad_parameter: .*1 to 100 series"):
        _parse_series({"series": [*names, "more"]})


@pytest.mark.parametrize(("repeated", "fits"), [("false", True), ("true", False)])
def test_a_cursor_of_an_aggregate_goes_on_with_or_without_rollups_as_it_began(repeated: str, fits: bool) -> None:
    begun = parse_aggregation(STREAM, {"step": ["5m"], "rollups": ["false"]}, NOW, SEAL)
    parameters = {"cursor": [SEAL.seal(begun.make_cursor(NOW))], "rollups": [repeated]}
    if fits:
        assert parse_aggregation(STREAM, parameters, NOW, SEAL).rollups is False
        return
    with pytest.raises(ProblemError, match=r"400 invalid_cursor: .*repeat its rollups"):
        parse_aggregation(STREAM, parameters, NOW, SEAL)


@pytest.mark.parametrize(
    ("fill", "by", "filled"),
    [("previous", None, True), ("null", None, False), ("null", "series", True), ("none", "series", False)],
)
def test_rows_that_depend_on_earlier_steps_are_answered_in_one_page(fill: str, by: str | None, filled: bool) -> None:
    parameters = {"step": ["5m"], "fill": [fill]} | ({} if by is None else {"by": [by]})
    assert parse_aggregation(STREAM, parameters, NOW, SEAL).filled is filled


@pytest.mark.parametrize(
    ("parameters", "tops"),
    [({}, ()), ({"stat": ["max"], "field": ["place.depth"], "by": ["series,place.state,kind"]}, ("place", "kind"))],
    ids=["a count needs no data", "paths are read by their first names"],
)
def test_an_aggregate_reads_only_the_data_that_it_needs(
    parameters: dict[str, list[str]], tops: tuple[str, ...]
) -> None:
    """A projection without fields would otherwise show all data, so an index without all data would not suffice."""
    assert parse_aggregation(STREAM, parameters, NOW, SEAL).query.projection == Projection(tops, only_fields=True)


def test_a_name_of_an_event_is_not_taken_for_a_field_of_its_data() -> None:
    with pytest.raises(ProblemError) as refused:
        parse_query(STREAM, {"time": ["now"]}, NOW, SEAL)
    assert "unknown parameter 'time'; known are from, to" in refused.value.problem.detail


def test_a_ranking_is_not_said_to_serve_events() -> None:
    """It is in the order of numbers, so that a query of events cannot use it."""
    ranked = parse(
        """
        [streams.d]
        period = "day"
        late = "1d"
        retention = 3
        key = { partition_by = "series" }
        [[streams.d.index]]
        name = "best"
        partition_by = "kind"
        sort_by = "n"
        """
    ).streams["d"]
    with pytest.raises(ProblemError) as refused:
        parse_query(ranked, {}, NOW, SEAL)
    assert refused.value.problem.detail.endswith("sorted by time, would serve it without a scan")


@pytest.mark.parametrize(
    "parameter", [{"explain": "true"}, {"format": "csv"}, {"flat": "true"}, {"escape": "true"}, {"priority": "low"}]
)
def test_the_form_of_a_page_may_change_beside_a_cursor_and_what_it_repeats_may_stand(parameter: dict[str, str]) -> None:
    begun = parse_query(STREAM, {"priority": ["low"], "limit": ["7"]}, NOW, SEAL)
    parameters = {"cursor": SEAL.seal(begun.make_cursor(Position(NOW)))} | parameter
    following = parse_query(STREAM, {name: [value] for name, value in parameters.items()}, NOW, SEAL)
    assert (following.low_priority, following.limit, following.after) == (True, 100, Position(NOW))


@pytest.mark.parametrize(
    ("field", "operator", "value", "most"),
    [(".".join("a" * 31), "ge", "1", 9), ("f", "in", ",".join(map(str, range(30))), 6)],
    ids=["31 names", "30 values"],
)
def test_each_path_and_each_value_takes_room_in_an_expression(field: str, operator: str, value: str, most: int) -> None:
    """AWS: an expression has 4 KB. A comparison names its path once as a number and once as text."""
    parameters = {f"where.{field}{number}:{operator}": [value] for number in range(most + 1)}
    with pytest.raises(ProblemError, match="too long for one request to DynamoDB"):
        parse_query(STREAM, parameters, NOW, SEAL)
    fewer = dict(list(parameters.items())[:most])
    assert len(parse_query(STREAM, fewer, NOW, SEAL).conditions) == most


def test_conditions_are_in_the_order_of_their_fields_however_they_are_sent() -> None:
    """Two cursors of one query are the same."""
    parameters = {"where.b": ["1"], "where.a:ge": ["2"]}
    fields = [condition.field for condition in parse_query(STREAM, parameters, NOW, SEAL).conditions]
    assert fields == ["a", "b"]
