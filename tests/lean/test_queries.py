"""The members of Query: pages of an index, and filters by the types of values."""

from typing import Any

import pytest

from aws.queries import query_request
from tidetable.conditions import Condition
from tidetable.keys import Index
from tidetable.ports import KeyRange, RangeRead
from tidetable.query.merge import Demand, _choose_next_limit

BY_KIND = Index("by_kind", partition_by="kind")


def request(limit: int = 10, *, ascending: bool = True, **range: Any) -> dict[str, Any]:
    keys = KeyRange("t", "p#0", range.pop("low", None), range.pop("high", None), **range)
    return query_request(RangeRead(keys, limit), ascending=ascending, consistent=False)


def test_a_page_of_an_index_begins_at_the_last_item_which_the_caller_skips() -> None:
    """So it has one item more: with a page of one item, a walk would not go on otherwise."""
    body = request(1, low="a", high="z", after="m", index=BY_KIND)
    assert (body["IndexName"], body["Limit"]) == ("by_kind", 2)
    assert body["KeyConditionExpression"] == "#n0 = :v0 AND #n1 BETWEEN :v1 AND :v2"
    assert body["ExpressionAttributeValues"] == {":v0": {"S": "p#0"}, ":v1": {"S": "m"}, ":v2": {"S": "z"}}
    down = request(1, ascending=False, low="a", high="z", after="m", index=BY_KIND)
    assert down["ExpressionAttributeValues"] == {":v0": {"S": "p#0"}, ":v1": {"S": "a"}, ":v2": {"S": "m"}}
    table = request(1, low="a", high="z", after="m")
    assert (table["Limit"], table["ExclusiveStartKey"]) == (1, {"pk": {"S": "p#0"}, "sk": {"S": "m"}})


@pytest.mark.parametrize("more", [{}, {"after": "m", "index": BY_KIND}])
def test_no_page_is_asked_for_more_items_than_a_page_can_have(more: dict[str, Any]) -> None:
    """A filter that lets little through doubles the limit with each page. AWS: a Limit beyond 32 bits is refused."""
    demand, limit, limits = Demand(101, filtered=True), 101, list[int]()
    for _ in range(40):
        limits.append(request(limit, low="a", high="z", **more)["Limit"])
        limit = _choose_next_limit(limit, demand, 0, 1)
    assert limits[:3] == [101 + len(more) // 2, 202 + len(more) // 2, 404 + len(more) // 2]
    # 1 MB of items that have a byte each.
    assert 1_000_000 <= max(limits) <= 2**20
    assert limits == sorted(limits)


def test_booleans_have_no_order() -> None:
    values = request(conditions=(Condition("v", "ge", ("true",)),))["ExpressionAttributeValues"]
    assert list(values.values()) == [{"S": "p#0"}, {"S": "true"}]


@pytest.mark.parametrize("type_name", ["S", "N", "BOOL"])
def test_a_value_that_is_not_plain_differs_from_none(type_name: str) -> None:
    """A list, an object and null meet no condition, as they have no text to compare."""
    body = request(conditions=(Condition("v", "ne", ("x",)),))
    placeholder = next(name for name, value in body["ExpressionAttributeValues"].items() if value == {"S": type_name})
    assert f"attribute_type(#n1.#n2, {placeholder})" in body["FilterExpression"]
