"""Each operation that names a key, a value or an expression is checked, not only those of the rules' scenarios."""

from functools import partial
from typing import Any

import pytest

from tests.strict.console import Console, index, item, outcome
from tests.strict.local import local

REFUSED = "ValidationException"


def put(value: Any) -> Any:
    return {"PutRequest": {"Item": value}}


def of_batch(keys: Any) -> dict[str, Any]:
    return {"RequestItems": {"t": keys}}


def make_requests(key: Any) -> dict[str, tuple[str, dict[str, Any]]]:
    """Every request that names an item, by a key."""
    one, found = {"TableName": "t", "Key": key}, {"ConditionExpression": "attribute_not_exists(none)"}
    update = {"UpdateExpression": "REMOVE f"}
    return {
        "put": ("PutItem", {"TableName": "t", "Item": key}),
        "update": ("UpdateItem", {**one, **update}),
        "delete": ("DeleteItem", one),
        "get": ("GetItem", one),
        "batch put": ("BatchWriteItem", of_batch([put(key)])),
        "batch delete": ("BatchWriteItem", of_batch([{"DeleteRequest": {"Key": key}}])),
        "batch get": ("BatchGetItem", of_batch({"Keys": [key]})),
        "transact put": ("TransactWriteItems", {"TransactItems": [{"Put": {"TableName": "t", "Item": key}}]}),
        "transact update": ("TransactWriteItems", {"TransactItems": [{"Update": {**one, **update}}]}),
        "transact delete": ("TransactWriteItems", {"TransactItems": [{"Delete": one}]}),
        "transact check": ("TransactWriteItems", {"TransactItems": [{"ConditionCheck": {**one, **found}}]}),
        "transact get": ("TransactGetItems", {"TransactItems": [{"Get": one}]}),
    }


RIGHT = {"pk": {"S": "a"}, "sk": {"S": "1"}}


@pytest.mark.parametrize("name", make_requests(RIGHT))
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (RIGHT, "done"),
        ({"pk": {"S": "a"}, "sk": {"N": "1"}}, REFUSED),
        ({"pk": {"B": b"a"}, "sk": {"S": "1"}}, REFUSED),
        ({"pk": {"S": "a"}}, REFUSED),
        ({"pk": {"S": ""}, "sk": {"S": "1"}}, REFUSED),
        ({"pk": {"S": "a"}, "sk": {"S": "x" * 1025}}, REFUSED),
    ],
    ids=["right", "number", "bytes", "half", "empty", "long"],
)
def test_a_key_is_checked_in_every_request(name: str, key: Any, expected: str) -> None:
    console = Console()
    console.table()
    operation, request = make_requests(key)[name]
    assert outcome(lambda: console(operation, **request)) == expected


@pytest.mark.parametrize("name", [name for name in make_requests(RIGHT) if "put" not in name])
def test_a_key_has_nothing_besides_it(name: str) -> None:
    console = Console()
    console.table()
    operation, request = make_requests({**RIGHT, "f": {"S": "x"}})[name]
    assert outcome(lambda: console(operation, **request)) == REFUSED


@pytest.mark.parametrize("name", make_requests(RIGHT))
def test_a_table_that_is_missing_is_refused_in_every_request(name: str) -> None:
    operation, request = make_requests(RIGHT)[name]
    assert outcome(lambda: Console()(operation, **request)) == "ResourceNotFoundException"


def deep(levels: int) -> Any:
    value: Any = {"S": "x"}
    for _ in range(levels):
        value = {"L": [value]}
    return value


LONG = "1" * 39


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"N": "1" * 38}, "done"),
        ({"N": LONG}, REFUSED),
        ({"NS": ["1", LONG]}, REFUSED),
        ({"M": {"a": {"N": LONG}}}, REFUSED),
        ({"L": [{"M": {"a": {"NS": [LONG]}}}]}, REFUSED),
        ({"N": "-0." + "0" * 130 + "1"}, REFUSED),
        ({"N": "0e999"}, "done"),
        (deep(32), "done"),
        (deep(33), REFUSED),
    ],
)
def test_a_value_is_checked_in_every_write(value: Any, expected: str) -> None:
    console = Console()
    console.table()
    full = {**RIGHT, "v": value}
    requests = [make_requests(full)[name] for name in ("put", "batch put", "transact put")]
    update = {"UpdateExpression": "SET v = :v", "ExpressionAttributeValues": {":v": value}}
    requests.append(("UpdateItem", {"TableName": "t", "Key": RIGHT, **update}))
    seen = [outcome(partial(console, operation, **request)) for operation, request in requests]
    assert seen == [expected] * 4


UNUSED: dict[str, Any] = {"ExpressionAttributeNames": {"#unused": "f"}}


@pytest.mark.parametrize("name", [name for name in make_requests(RIGHT) if name not in ("batch put", "batch delete")])
def test_a_name_that_no_expression_uses_is_refused_in_every_request(name: str) -> None:
    console = Console()
    console.table()
    operation, request = make_requests(RIGHT)[name]
    if operation == "BatchGetItem":
        request["RequestItems"]["t"] |= UNUSED
    elif "TransactItems" in request:
        ((_, inner),) = request["TransactItems"][0].items()
        inner |= UNUSED
    else:
        request |= UNUSED
    assert outcome(lambda: console(operation, **request)) == REFUSED


def test_a_name_that_no_expression_uses_is_refused_in_pages() -> None:
    console = Console()
    console.table()
    assert outcome(lambda: console.query(**UNUSED)) == REFUSED
    assert outcome(lambda: console("Scan", TableName="t", **UNUSED)) == REFUSED


def test_the_keys_of_an_index_are_checked_where_an_item_has_them() -> None:
    console = Console()
    console.table(GlobalSecondaryIndexes=[index()])
    keys: list[Any] = [{"S": "x" * 2048}, {"S": "x" * 2049}, {"S": ""}, {"N": "1"}]
    seen = [outcome(lambda key=key: console.batch([item() | {"g": key}])) for key in keys]  # type: ignore[misc]
    assert seen == ["done", REFUSED, REFUSED, REFUSED]


def test_items_of_two_tables_are_two_items_of_a_transaction() -> None:
    console = Console()
    console.table()
    console.table("u")
    puts = [{"Put": {"TableName": name, "Item": item()}} for name in "tu"]
    assert outcome(lambda: console("TransactWriteItems", TransactItems=puts)) == "done"
    check = {"ConditionCheck": {"TableName": "t", "Key": RIGHT, "ConditionExpression": "attribute_exists(pk)"}}
    assert outcome(lambda: console("TransactWriteItems", TransactItems=[puts[0], check])) == REFUSED


def test_a_transaction_has_four_megabytes_and_each_item_400_kilobytes() -> None:
    console = Console()
    console.table(WarmThroughput={"WriteUnitsPerSecond": 40_000, "ReadUnitsPerSecond": 12_000})

    def write(*sizes: int) -> str:
        items = [item(pk=f"{number:02}", size=size) for number, size in enumerate(sizes)]
        puts = [{"Put": {"TableName": "t", "Item": own}} for own in items]
        console.wait(minutes=5)
        return outcome(lambda: console("TransactWriteItems", TransactItems=puts))

    # 16 of 256 KB are 4 MB to the byte.
    fits, over = [256 * 1024] * 16, [256 * 1024] * 15 + [256 * 1024 + 1]
    assert [write(*fits), write(*over), write(400 * 1024)] == ["done", REFUSED, "done"]
    assert write(400 * 1024 + 1) == "TransactionCanceledException"


@pytest.mark.parametrize("name", make_requests(RIGHT))
def test_a_table_being_created_is_refused_in_every_request(name: str) -> None:
    console = Console()
    console.create()
    operation, request = make_requests(RIGHT)[name]
    assert outcome(lambda: console(operation, **request)) == "ResourceNotFoundException"


@pytest.mark.parametrize("name", ["batch get", "batch delete"])
def test_a_repeated_key_is_known_whichever_way_it_is_written(name: str) -> None:
    console = Console()
    console.table()
    keys = [RIGHT, dict(reversed(RIGHT.items()))]
    requested = {"Keys": keys} if name == "batch get" else [{"DeleteRequest": {"Key": key}} for key in keys]
    assert outcome(lambda: console(make_requests(RIGHT)[name][0], **of_batch(requested))) == REFUSED


@pytest.mark.parametrize("size", [1024, 1025])
def test_the_key_of_a_query_has_2048_bytes(size: int) -> None:
    console = Console()
    console.table()
    # "ä" has two bytes.
    assert outcome(lambda: console.query("ä" * size)) == ("done" if size == 1024 else REFUSED)


@pytest.mark.parametrize(("size", "expected"), [(256, "done"), (257, REFUSED)])
def test_a_sort_key_has_1024_bytes_however_many_its_characters_have(size: int, expected: str) -> None:
    """A wave has four bytes."""
    console = Console()
    console.table()
    assert outcome(lambda: console.put(sk="\U0001f30a" * size)) == expected


def test_what_holds_for_queries_of_a_table_holds_for_those_of_an_index() -> None:
    console = Console()
    console.table(GlobalSecondaryIndexes=[index(ProjectionType="KEYS_ONLY")], LocalSecondaryIndexes=[local()])
    empty: dict[str, Any] = {"KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": ""}}}
    assert outcome(lambda: console.query(IndexName="i", **empty)) == REFUSED
    values = {":pk": {"S": "a"}, ":low": {"S": "2"}, ":high": {"S": "1"}}
    backwards: dict[str, Any] = {
        "KeyConditionExpression": "pk = :pk AND g BETWEEN :low AND :high",
        "ExpressionAttributeValues": values,
    }
    assert outcome(lambda: console.query(IndexName="l", **backwards)) == REFUSED
    unprojected = {"ProjectionExpression": "#f", "ExpressionAttributeNames": {"#f": "f"}}
    assert outcome(lambda: console("Scan", TableName="t", IndexName="i", **unprojected)) == REFUSED


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"ProjectionExpression": "pk, g"}, "done"),
        ({"ProjectionExpression": "pk, f"}, REFUSED),
        ({"ProjectionExpression": "pk, f.g"}, REFUSED),
        ({"FilterExpression": "attribute_exists(sk) AND NOT begins_with(pk, :f)"}, "done"),
        ({"FilterExpression": "attribute_exists(sk) AND begins_with(f, :f)"}, REFUSED),
    ],
)
def test_an_index_neither_shows_nor_filters_what_it_does_not_hold(more: dict[str, Any], expected: str) -> None:
    console = Console()
    console.table(GlobalSecondaryIndexes=[index(ProjectionType="KEYS_ONLY")])
    values = {"ExpressionAttributeValues": {":f": {"S": "x"}}} if "FilterExpression" in more else {}
    assert outcome(lambda: console("Scan", TableName="t", IndexName="i", **more, **values)) == expected


@pytest.mark.parametrize(
    "filter_", ["pk = :v", "#p = :v", "f = :v OR sk < :v", "attribute_exists(sk)", "NOT begins_with(pk, :v)"]
)
def test_a_filter_on_a_key_is_refused_in_a_query_and_not_in_a_scan(filter_: str) -> None:
    console = Console()
    console.table()
    names: dict[str, Any] = {"ExpressionAttributeNames": {"#p": "pk"}} if "#p" in filter_ else {}
    value = {":v": {"S": "a"}} if ":v" in filter_ else {}
    query = {"FilterExpression": filter_, **names, "ExpressionAttributeValues": value | {":pk": {"S": "a"}}}
    assert outcome(lambda: console.query(**query)) == REFUSED
    values = {"ExpressionAttributeValues": value} if value else {}
    assert outcome(lambda: console("Scan", TableName="t", FilterExpression=filter_, **names, **values)) == "done"


def test_tags_are_limited_in_a_request_that_adds_them_too() -> None:
    console = Console()
    console.table()
    arn = {"ResourceArn": console.describe()["TableArn"]}
    seen = [
        outcome(lambda n=n: console("TagResource", **arn, Tags=[{"Key": str(k), "Value": ""} for k in range(n)]))  # type: ignore[misc]
        for n in (50, 51)
    ]
    assert seen == ["done", REFUSED]
