"""The members of Query: pages of an index, and filters by the types of values."""

from decimal import Decimal
from typing import Any

import pytest

from aws.dynamodb.queries import make_query
from aws.dynamodb.query_answers import find_last_key
from tidetable.conditions import Condition
from tidetable.layout import Index
from tidetable.ports import KeyRange, RangeRead
from tidetable.query.merge import Demand, _Range

BY_KIND = Index("by_kind", partition_by="kind")
NEAR = Index("near", local=True, sort_by="mag")
REPLICA = Index("copy", replica=True)


def request(limit: int = 10, *, ascending: bool = True, **range: Any) -> dict[str, Any]:
    keys = KeyRange("t", "p#0", range.pop("low", None), range.pop("high", None), **range)
    return make_query(RangeRead(keys, limit), ascending=ascending, consistent=False)


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
    demand, limits = Demand(101, filtered=True), list[int]()
    reading = _Range(KeyRange("t", "p", "a", "z"), 101)
    for _ in range(40):
        limits.append(request(reading.limit, low="a", high="z", **more)["Limit"])
        demand.choose_due([reading])
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


@pytest.mark.parametrize(
    ("index", "members"),
    [
        (None, {"ConsistentRead": True}),
        (NEAR, {"ConsistentRead": True, "IndexName": "near"}),
        # AWS: a consistent read of a global index is refused.
        (BY_KIND, {"IndexName": "by_kind"}),
        (REPLICA, {"IndexName": "copy"}),
    ],
    ids=["table", "local", "global", "replica"],
)
def test_the_table_and_its_local_indexes_alone_are_read_consistently(
    index: Index | None, members: dict[str, Any]
) -> None:
    keys = KeyRange("t", "p#0", None, None, index=index)
    body = make_query(RangeRead(keys, 10), ascending=True, consistent=True)
    assert {name: body[name] for name in ("ConsistentRead", "IndexName") if name in body} == members


# Packed or compressed data cannot be projected by its fields, nor data that is kept elsewhere: they are fetched whole.
EVENT = ["version", "at", "z", "out"]


@pytest.mark.parametrize(
    ("index", "paths"),
    [
        (None, ["pk", "sk", *EVENT, "data.a", "data.b"]),
        (REPLICA, ["pk", "sk", *EVENT, "data.a", "data.b"]),
        (NEAR, ["pk", "sk", "sk_near", *EVENT, "data.a", "data.b"]),
        (BY_KIND, ["pk", "sk", "pk_by_kind", "sk_by_kind", *EVENT, "data.a", "data.b"]),
        (Index("keys", "kind", project=()), ["pk", "sk", "pk_keys", "sk_keys"]),
        (Index("some", "kind", project=("a", "b")), ["pk", "sk", "pk_some", "sk_some", "in_some.a", "in_some.b"]),
    ],
    ids=["table", "replica", "local", "global", "keys only", "some fields"],
)
def test_with_fields_everything_is_fetched_that_an_event_needs_besides(index: Index | None, paths: list[str]) -> None:
    """DynamoDB refuses a projection whose paths overlap, such as two fields of one object."""
    keys = KeyRange("t", "p#0", None, None, index=index)
    fields = ["a", "b.c", "b.d", "a"]
    body = make_query(RangeRead(keys, 10), ascending=True, consistent=False, fields=fields)
    names = body["ExpressionAttributeNames"]
    projected = [
        ".".join(names[short] for short in path.split(".")) for path in body["ProjectionExpression"].split(", ")
    ]
    assert projected == paths


def test_an_event_whose_data_no_filter_can_see_is_answered_whatever_the_conditions_are() -> None:
    both = (Condition("a", "ge", ("5",)), Condition("b.c", "prefix", ("x",)))
    body = request(conditions=both, times=("2026-03-01", "2026-03-02"))
    assert body["FilterExpression"] == (
        "#n1 BETWEEN :v1 AND :v2 AND ((#n2.#n3 >= :v3 OR #n2.#n3 >= :v4) AND begins_with(#n2.#n4.#n5, :v5)"
        " OR attribute_exists(#n6) OR attribute_exists(#n7))"
    )
    names = ["pk", "sk", "data", "a", "b", "c", "z", "out"]
    assert body["ExpressionAttributeNames"] == {f"#n{number}": name for number, name in enumerate(names)}
    values = [{"S": "p#0"}, {"S": "2026-03-01"}, {"S": "2026-03-02"}, {"S": "5"}, {"N": "5"}, {"S": "x"}]
    assert list(body["ExpressionAttributeValues"].values()) == values


def test_a_pack_is_left_out_by_the_time_of_its_oldest_event() -> None:
    body = request(skip_oldest=("2026-03-01", "2026-03-02"))
    assert body["FilterExpression"] == "attribute_not_exists(#n1) OR #n1 < :v1 OR #n1 > :v2"
    assert body["ExpressionAttributeNames"]["#n1"] == "oldest"
    assert [body["ExpressionAttributeValues"][name] for name in (":v1", ":v2")] == [
        {"S": "2026-03-01"},
        {"S": "2026-03-02"},
    ]


BEST = Index("best", partition_by="*", sort_by="mag")
PLACES = Index("places", "*", levels=("state",))


@pytest.mark.parametrize(
    ("range", "condition", "values"),
    [
        ({}, "", []),
        ({"low": "a"}, " AND #n1 >= :v1", [{"S": "a"}]),
        ({"high": "z"}, " AND #n1 <= :v1", [{"S": "z"}]),
        ({"low": "a", "high": "z"}, " AND #n1 BETWEEN :v1 AND :v2", [{"S": "a"}, {"S": "z"}]),
        ({"low": Decimal(2), "index": BEST}, " AND #n1 >= :v1", [{"N": "2"}]),
        (
            {"low": Decimal("-1.5"), "high": Decimal(7), "index": BEST},
            " AND #n1 BETWEEN :v1 AND :v2",
            [{"N": "-1.5"}, {"N": "7"}],
        ),
        ({"prefix": "CA\x01", "index": PLACES}, " AND begins_with(#n1, :v1)", [{"S": "CA\x01"}]),
    ],
)
def test_a_range_is_a_condition_on_the_sort_key(range: dict[str, Any], condition: str, values: list[Any]) -> None:
    """Both ends belong to the range; a ranking is in the order of numbers."""
    body = request(**range)
    index = range.get("index")
    assert body["KeyConditionExpression"] == f"#n0 = :v0{condition}"
    assert list(body["ExpressionAttributeValues"].values()) == [{"S": "p#0"}, *values]
    names = ["pk", "sk"] if index is None else [f"pk_{index.name}", f"sk_{index.name}"]
    assert list(body["ExpressionAttributeNames"].values()) == names[: 1 + bool(condition)]


@pytest.mark.parametrize("ascending", [True, False])
def test_a_request_has_its_table_its_direction_and_its_limit_and_asks_for_its_price(ascending: bool) -> None:
    body = request(7, ascending=ascending)
    assert {name: body[name] for name in ("TableName", "ScanIndexForward", "Limit", "ReturnConsumedCapacity")} == {
        "TableName": "t",
        "ScanIndexForward": ascending,
        "Limit": 7,
        "ReturnConsumedCapacity": "TOTAL",
    }


def test_a_page_begins_behind_a_whole_key_where_there_is_one() -> None:
    """Sort keys of a ranking are not unique. The replica of a table has the table's own keys."""
    start = {"pk": "p#0", "sk": "s", "pk_best": "*#0", "sk_best": Decimal("4.5")}
    body = request(5, index=BEST, start=start)
    assert body["ExclusiveStartKey"] == {
        "pk": {"S": "p#0"},
        "sk": {"S": "s"},
        "pk_best": {"S": "*#0"},
        "sk_best": {"N": "4.5"},
    }
    assert body["Limit"] == 5
    replica = request(5, low="a", high="z", after="m", index=REPLICA)
    assert (replica["Limit"], replica["ExclusiveStartKey"]) == (5, {"pk": {"S": "p#0"}, "sk": {"S": "m"}})
    assert find_last_key({"pk": {"S": "p#0"}, "sk_best": {"N": "4.5"}}) == {"pk": "p#0", "sk_best": Decimal("4.5")}
    assert find_last_key(None) is None


@pytest.mark.parametrize(
    ("condition", "expression", "values"),
    [
        (("v", "lt", ("5",)), "#n1.#n2 < :v1 OR #n1.#n2 < :v2", [{"S": "5"}, {"N": "5"}]),
        (("v", "le", ("x",)), "#n1.#n2 <= :v1", [{"S": "x"}]),
        (("v", "gt", ("x",)), "#n1.#n2 > :v1", [{"S": "x"}]),
        (("v", "ge", ("x",)), "#n1.#n2 >= :v1", [{"S": "x"}]),
        (("v", "eq", ("5",)), "#n1.#n2 IN (:v1, :v2)", [{"S": "5"}, {"N": "5"}]),
        (
            ("v", "in", ("x", "true", "false")),
            "#n1.#n2 IN (:v1, :v2, :v3, :v4, :v5)",
            [{"S": "x"}, {"S": "true"}, {"BOOL": True}, {"S": "false"}, {"BOOL": False}],
        ),
        (
            ("v", "ne", ("x",)),
            (
                "(attribute_type(#n1.#n2, :v2) OR attribute_type(#n1.#n2, :v3) OR attribute_type(#n1.#n2, :v4))"
                " AND NOT #n1.#n2 IN (:v1)"
            ),
            [{"S": "x"}, {"S": "S"}, {"S": "N"}, {"S": "BOOL"}],
        ),
        (("v", "prefix", ("x",)), "begins_with(#n1.#n2, :v1)", [{"S": "x"}]),
    ],
    ids=str,
)
def test_each_operator_has_its_expression(condition: Any, expression: str, values: list[Any]) -> None:
    """An item whose data is compressed or elsewhere is answered, too."""
    body = request(conditions=(Condition(*condition),))
    assert body["FilterExpression"] == f"{expression} OR attribute_exists(#n3) OR attribute_exists(#n4)"
    assert list(body["ExpressionAttributeValues"].values()) == [{"S": "p#0"}, *values]
    # An index with some fields has them in an attribute of its own, and has no other data.
    own = request(conditions=(Condition(*condition),), index=Index("some", "kind", project=("v",)))
    assert own["FilterExpression"] == expression
    assert list(own["ExpressionAttributeNames"].values())[1:3] == ["in_some", "v"]
