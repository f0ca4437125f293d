"""A query's parameters: every refusal says what to change."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.query.test_walk import NOW, STREAM
from tidetable.config import parse
from tidetable.problems import ProblemError
from tidetable.query import parse_query
from tidetable.query.cursor import Position, encode_cursor

BY_SERIES = parse('[streams.d]\nperiod = "day"\nlate = "1d"\nretention = 3\nkey = { partition_by = "series" }').streams[
    "d"
]
CURSOR = encode_cursor("s", "a", NOW - timedelta(days=1), NOW, Position(NOW), ascending=True)
OTHER = encode_cursor("other", None, NOW - timedelta(days=1), NOW, Position(NOW), ascending=True)

REFUSED = [
    ("an unknown parameter", {"form": ["-1h"]}, "unknown_parameter", "known are from, to"),
    ("a parameter given twice", {"limit": ["1", "2"]}, "bad_parameter", "once"),
    ("a consistency of neither kind", {"consistent": ["yes"]}, "bad_parameter", "true or false"),
    ("fields that are none", {"fields": ["a,,b"]}, "bad_parameter", "mag,place"),
    ("versions of neither kind", {"versions": ["2"]}, "bad_parameter", "newest or all"),
    ("versions that are not kept", {"versions": ["all"]}, "bad_parameter", "keeps no earlier"),
    ("a limit that is no number", {"limit": ["many"]}, "bad_parameter", "1 to 10000"),
    ("a limit of nothing", {"limit": ["0"]}, "bad_parameter", "1 to 10000"),
    ("a limit too large", {"limit": ["10001"]}, "bad_parameter", "1 to 10000"),
    ("an order that is none", {"order": ["newest"]}, "bad_parameter", "asc"),
    ("a time that is none", {"from": ["yesterday"]}, "bad_parameter", "-15m"),
    ("edges the wrong way round", {"from": ["-1h"], "to": ["-2h"]}, "bad_parameter", "before to"),
    ("an empty series", {"series": [""]}, "bad_parameter", "series"),
    ("a cursor that is none", {"cursor": ["abc"]}, "invalid_cursor", "no cursor"),
    ("a cursor of another stream", {"cursor": [OTHER]}, "invalid_cursor", "another query"),
    ("a cursor with another series", {"cursor": [CURSOR], "series": ["b"]}, "invalid_cursor", "another query"),
    ("a cursor with another order", {"cursor": [CURSOR], "order": ["desc"]}, "invalid_cursor", "another query"),
    ("a cursor with a new edge", {"cursor": [CURSOR], "from": ["-1h"]}, "invalid_cursor", "leave them out"),
]


@pytest.mark.parametrize(("name", "parameters", "code", "detail"), REFUSED)
def test_a_refusal_says_what_to_change(name: str, parameters: dict[str, list[str]], code: str, detail: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_query(STREAM, parameters, NOW)
    assert (caught.value.problem.status, caught.value.problem.code) == (400, code)
    assert detail in caught.value.problem.detail


def test_a_query_that_would_scan_is_refused_with_what_would_not() -> None:
    with pytest.raises(ProblemError, match="add series="):
        parse_query(BY_SERIES, {}, NOW)


def test_without_edges_it_is_the_last_hour_up_to_the_newest_that_is_taken() -> None:
    query = parse_query(STREAM, {}, NOW)
    assert (query.start, query.end) == (NOW - timedelta(hours=1), NOW + STREAM.ahead)
    assert (query.ascending, query.limit, query.series) == (False, 100, None)


@pytest.mark.parametrize("text", ["1772755200000", "2026-03-06T00:00:00Z", "2026-03-06T01:00:00 01:00", "-0s", "now"])
def test_an_edge_may_be_written_in_every_form(text: str) -> None:
    query = parse_query(STREAM, {"from": ["2026-03-01T00:00:00Z"], "to": [text]}, NOW)
    assert query.end == datetime(2026, 3, 6, tzinfo=UTC)


def test_a_cursor_goes_on_as_consistently_as_its_query_began() -> None:
    for consistent in (False, True):
        text = encode_cursor("s", None, NOW, NOW, Position(NOW), ascending=False, consistent=consistent)
        assert parse_query(STREAM, {"cursor": [text]}, NOW).consistent is consistent
        with pytest.raises(ProblemError, match="invalid_cursor"):
            parse_query(STREAM, {"cursor": [text], "consistent": [str(not consistent).lower()]}, NOW)
