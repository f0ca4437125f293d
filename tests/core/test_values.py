"""The values that DynamoDB can hold, their bounds, and the forms of a number."""

from decimal import Decimal
from typing import Any

import pytest

from tidetable.exact_json import decode_json
from tidetable.values import count_item_bytes, is_plain


def nested(levels: int, *, lists: bool = False) -> Any:
    """A number of objects or lists within each other."""
    value: Any = [] if lists else {}
    for _ in range(levels - 1):
        value = [value] if lists else {"a": value}
    return value


@pytest.mark.parametrize("lists", [False, True])
def test_data_is_nested_31_levels_deep_and_no_deeper(lists: bool) -> None:
    """AWS: 32 levels; an item's attribute is the first of them."""
    inner = nested(30, lists=lists)
    assert count_item_bytes({"data": {"a": inner}}) > 0
    with pytest.raises(ValueError, match=r"^data\.a(\.a|\[0\])*.* is nested more than 31 levels deep$"):
        count_item_bytes({"data": {"a": [inner] if lists else {"a": inner}}})


TAKEN = [
    *("9.9E+125", "-9.9E+125", "1E-130", "0", "0E+500", "1" * 38, "1." + "1" * 37, "1" * 38 + "0" * 80),
    *(10**125, -(10**125), 10**38 - 1, 10**38, int("9" * 38 + "0" * 50), 0),
]
REFUSED = [
    *("1E+126", "1E-131", "1" * 39, "1." + "1" * 38, "NaN", "Infinity"),
    *(10**126, 10**38 + 1, -(10**38) - 1, 10**200, 10**5_000),
]


@pytest.mark.parametrize("number", TAKEN, ids=str)
def test_a_number_of_38_digits_within_the_range_is_taken(number: Any) -> None:
    """AWS: 38 digits of precision, 1E-130 to 9.9...E+125; zeros at the end do not count."""
    assert count_item_bytes({"data": {"n": Decimal(number) if isinstance(number, str) else number}}) > 0


@pytest.mark.parametrize("number", REFUSED, ids=lambda number: str(number)[:45] if isinstance(number, str) else "whole")
def test_a_number_beyond_that_is_refused_by_its_place(number: Any) -> None:
    with pytest.raises(ValueError, match=r"^data\.list\[1\]\.n "):
        count_item_bytes({"data": {"list": [0, {"n": Decimal(number) if isinstance(number, str) else number}]}})


def test_a_number_that_no_decimal_can_be_is_refused_and_is_not_another_number() -> None:
    data = decode_json('{"n": 1e99999999999999999999}')
    with pytest.raises(ValueError, match=r"^data\.n lies outside 1E-130 to 9.9E\+125; send it as text"):
        count_item_bytes({"data": data})


@pytest.mark.parametrize(
    ("data", "plain"),
    [
        ({"text": "é", "n": 1, "d": Decimal("1.5"), "ok": True, "none": None}, True),
        ({"n": 10**18 - 1}, True),
        ({"n": 10**18}, False),
        ({"n": -(10**18)}, False),
        ({"": "a field without a name"}, False),
        ({"list": []}, False),
        ({"map": {}}, False),
    ],
)
def test_what_needs_a_closer_look_is_not_plain(data: dict[str, Any], plain: bool) -> None:
    assert is_plain(data) is plain


def test_a_field_without_a_name_is_refused_wherever_it_is() -> None:
    for data in ({"": 1}, {"a": [{"": 1}]}):
        with pytest.raises(ValueError, match="has a field without a name"):
            count_item_bytes({"data": data})


# AWS, item sizes: names and text in UTF-8, 1 byte for null and truth, 3 for a list or map and 1 for each member.
SIZES = [
    ({"pk": "a", "sk": "é"}, 2 + 1 + 2 + 2),
    ({"ok": True, "no": None}, 2 + 1 + 2 + 1),
    ({"b": b"12345"}, 1 + 5),
    ({"data": {}}, 4 + 3),
    ({"data": {"a": "bc"}}, 4 + 3 + 1 + 1 + 2),
    ({"data": {"l": ["x", None]}}, 4 + 3 + 1 + 1 + 3 + 1 + 1 + 1 + 1),
    # A number takes a byte for every two digits, one for its exponent and one for its sign, rounded up.
    ({"n": 7}, 1 + 3),
    ({"n": Decimal("-1.25")}, 1 + 4),
    ({"n": 10**37 + 1}, 1 + 22),
    ({"n": Decimal("5E+120")}, 1 + 3),
]


@pytest.mark.parametrize(("item", "size"), SIZES)
def test_an_items_size_is_counted_by_the_published_rules(item: dict[str, Any], size: int) -> None:
    assert count_item_bytes(item) == size
