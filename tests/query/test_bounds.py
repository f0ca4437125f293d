"""The greatest and smallest that a query may have is taken, and the next is refused; numbers are those of the documentation."""

from datetime import timedelta
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.query.stored_events import NOW, TIMELY
from tests.worlds.days import NOW as TODAY
from tests.worlds.days import STREAM
from tidetable.problems import ProblemError
from tidetable.query import parse_query
from tidetable.query.aggregates import parse_aggregation
from tidetable.query.page import count_fitting_rows
from tidetable.query.periods import parse_periods
from tidetable.times import to_text

COUNTS = [
    ("limit", lambda n: {"limit": [str(n)]}, 10_000, "1 to 10000"),
    ("fields", lambda n: {"fields": [",".join(f"f{k}" for k in range(n))]}, 50, "1 to 50 names"),
    ("bytes of fields", lambda n: {"fields": ["x" * n]}, 1024, "1024 bytes"),
    ("values", lambda n: {"where.a:in": [",".join(map(str, range(n)))]}, 30, "30 values"),
    ("bytes of a value", lambda n: {"where.a": ["x" * n]}, 1024, "1024 bytes"),
    ("conditions", lambda n: {f"where.f{k}": ["1"] for k in range(n)}, 10, "10 conditions"),
    ("series", lambda n: {"series": [f"s{k}" for k in range(n)]}, 100, "at most 100"),
    ("ids", lambda n: {"id": [f"i{k}" for k in range(n)]}, 100, "at most 100"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "most", "refusal"), [case[1:] for case in COUNTS], ids=[case[0] for case in COUNTS])
def test_a_query_may_have_the_most_and_no_more(made: Any, most: int, refusal: str) -> None:
    parse_query(STREAM, made(most), TODAY, SEAL)
    with pytest.raises(ProblemError, match=f"400 bad_parameter: .*{refusal}"):
        parse_query(STREAM, made(most + 1), TODAY, SEAL)


def over(seconds: int) -> dict[str, list[str]]:
    return {"from": [to_text(NOW - timedelta(seconds=seconds))], "to": [to_text(NOW)], "step": ["1s"]}


GROUPS = [
    ("groups", lambda n: {"by": [",".join(f"f{k}" for k in range(n))]}, 4, "4 at the most"),
    ("statistics", lambda n: {"stat": [",".join(f"p{k}" for k in range(1, n + 1))], "field": ["mag"]}, 20, "each once"),
    ("steps", over, 100_000, "more than 100000 such steps"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "most", "refusal"), [case[1:] for case in GROUPS], ids=[case[0] for case in GROUPS])
def test_an_aggregate_may_have_the_most_and_no_more(made: Any, most: int, refusal: str) -> None:
    parse_aggregation(TIMELY, made(most), NOW, SEAL)
    with pytest.raises(ProblemError, match=f"400 bad_parameter: .*{refusal}"):
        parse_aggregation(TIMELY, made(most + 1), NOW, SEAL)


def test_every_state_may_be_named_at_once() -> None:
    states = ("creating", "open", "closed", "archiving", "archived", "restoring", "deleted")
    assert parse_periods(STREAM, {"state": [",".join(states)]}, TODAY, SEAL).states == states
    with pytest.raises(ProblemError, match="state must be one or more of"):
        parse_periods(STREAM, {"state": ["open,gone"]}, TODAY, SEAL)
    with pytest.raises(ProblemError, match="state must be one or more of"):
        parse_periods(STREAM, {"state": [",".join((*states, "gone"))]}, TODAY, SEAL)


@pytest.mark.parametrize(
    ("body", "rows"),
    [
        ("x" * 6_000_000, 10),
        ("x" * 6_000_001, 9),
        ("x" * 12_000_000, 5),
        # A quote and the end of a line take two bytes on their way.
        ("\n" * 3_000_000, 10),
        ("\n" * 3_000_001, 9),
        ('"' * 3_000_001, 9),
    ],
    ids=["6 MB", "a byte more", "12 MB", "3 M lines", "a line more", "quotes"],
)
def test_an_answer_holds_6_mb(body: str, rows: int) -> None:
    """AWS: a function's answer has 6 MB at the most, of which the gateway's own form takes a part."""
    assert count_fitting_rows(body, 10) == rows
