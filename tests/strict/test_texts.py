"""Expressions by their text: bytes, operands and paths, at the last that is accepted and the first that is refused."""

from typing import Any

import pytest

from strict.placeholders import Expression, check_projection
from strict.refusals import Refusal
from tests.strict.console import outcome


def within(count: int, word: str = "IN") -> str:
    return f"f {word} ({', '.join(f':v{number}' for number in range(count))})"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # "ä" has two bytes.
        ("ä" * 2048, "done"),
        ("ä" * 2049, "ValidationException"),
        (within(100, "in"), "done"),
        (within(101, "in"), "ValidationException"),
        # Each list of operands has its own limit.
        (f"{within(60)} OR {within(60)}", "done"),
        (f"{within(1)} OR {within(101)}", "ValidationException"),
    ],
)
def test_an_expression_has_4096_bytes_and_a_hundred_operands(text: str, expected: str) -> None:
    assert outcome(lambda: Expression.of(text).check(lambda _: True)) == expected


@pytest.mark.parametrize(
    ("paths", "fine"),
    [
        ("d[0], d[1]", True),
        ("d[0].a, d[0].b", True),
        ("d, d[0]", False),
        ("d[0], d[0].a", False),
        ("d[0].a, #d[0]", False),
        ("d.a, da", True),
    ],
)
def test_elements_of_lists_are_paths_of_their_own(paths: str, fine: bool) -> None:
    request: dict[str, Any] = {"ProjectionExpression": paths, "ExpressionAttributeNames": {"#d": "d"}}
    if fine:
        check_projection(request)
        return
    with pytest.raises(Refusal, match="Two document paths overlap"):
        check_projection(request)
