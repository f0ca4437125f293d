"""Exact numbers: no sum loses a digit, and equal content has one text."""

from decimal import Decimal

import pytest

from tidetable.exact_json import EXACT, canonical_json, decode_json, encode_json


def test_a_sum_of_the_greatest_and_the_smallest_number_keeps_all_digits() -> None:
    """AWS: numbers have 38 digits, from 1E-130 to 9.9...E+125."""
    greatest, smallest = Decimal("9" * 38 + "E+88"), Decimal("1E-130")
    total = EXACT.add(greatest, smallest)
    assert str(total) == "9" * 38 + "0" * 88 + "." + "0" * 129 + "1"
    # Also a sum of a thousand million of them.
    assert EXACT.multiply(total, Decimal(10**9)) == Decimal("9" * 38 + "0" * 97 + "." + "0" * 120 + "1")


def test_numbers_are_whole_or_decimals_and_never_rounded() -> None:
    data = decode_json('{"n": 12345678901234567890, "x": 0.1234567890123456789, "e": 1E2, "ok": true}')
    assert data == {"n": 12345678901234567890, "x": Decimal("0.1234567890123456789"), "e": Decimal(100), "ok": True}
    assert [type(value) for value in data.values()] == [int, Decimal, Decimal, bool]
    assert encode_json({"x": Decimal("0.1234567890123456789")}) == b'{"x":0.1234567890123456789}'


def test_the_same_content_has_the_same_canonical_text() -> None:
    first = {"b": {"y": 1, "x": [{"q": 1, "p": 2}]}, "a": Decimal("1.50")}
    second = {"a": Decimal("1.50"), "b": {"x": [{"p": 2, "q": 1}], "y": 1}}
    assert canonical_json(first) == canonical_json(second) == b'{"a":1.50,"b":{"x":[{"p":2,"q":1}],"y":1}}'


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "nan", b"\xff"], ids=["deep", "open", "nan", "bytes"])
def test_what_is_no_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        decode_json(text)
