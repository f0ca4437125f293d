"""What each operation costs and shows, and that each is refused without units: all figures by hand.

The table has a/1 of 100 bytes, a/2 of 5 KB and b/1 of 3 KB. The index ``i`` by ``g`` holds a/2 and b/1, whole.
"""

from typing import Any

import pytest

from strict.refusals import Refusal
from tests.strict.console import KB, Console, index, item, outcome, until_refused


def key(pk: str = "a", sk: str = "2") -> dict[str, Any]:
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def filled(write: int | None = None, read: int | None = None, index_read: int = 1000, **more: Any) -> Console:
    """A table with its three items, which every read sees."""
    console = Console()
    own: dict[str, Any] = {} if write is None else {"write": 1000, "read": index_read}
    console.table(write=write, read=read, GlobalSecondaryIndexes=[index(**own)], **more)
    console.put(sk="1", size=100)
    console.put(sk="2", size=5 * KB, g={"S": "x"})
    console.put("b", size=3 * KB, g={"S": "x"})
    console.wait(seconds=3)
    return console


def by_index() -> dict[str, Any]:
    return {"IndexName": "i", "KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": "x"}}}


def batch(keys: list[Any], **options: Any) -> dict[str, Any]:
    return {"RequestItems": {"t": {"Keys": keys, **options}}}


def of_a(**more: Any) -> dict[str, Any]:
    return {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": "a"}}, **more}


TWO = [{"Get": {"TableName": "t", "Key": key(sk=sk)}} for sk in "12"]
STRONG = {"ConsistentRead": True}
READS: dict[str, tuple[str, dict[str, Any], float]] = {
    "get": ("GetItem", {"Key": key()}, 1.0),
    "strong get": ("GetItem", {"Key": key(), **STRONG}, 2.0),
    "get of a part": ("GetItem", {"Key": key(), "ProjectionExpression": "sk"}, 1.0),
    "get of nothing": ("GetItem", {"Key": key(sk="9"), **STRONG}, 1.0),
    "batch": ("BatchGetItem", batch([key(sk="1"), key(), key(sk="9")]), 0.5 + 1.0 + 0.5),
    "strong batch": ("BatchGetItem", batch([key(sk="1"), key()], **STRONG), 1.0 + 2.0),
    "strong batch of one": ("BatchGetItem", batch([key()], **STRONG), 2.0),
    "transaction": ("TransactGetItems", {"TransactItems": TWO}, 2 * (1.0 + 2.0)),
    "query": ("Query", of_a(), 1.0),
    "strong query": ("Query", of_a(**STRONG), 2.0),
    "query of the index": ("Query", by_index(), 1.0),
    "scan": ("Scan", {}, 1.5),
    "strong scan": ("Scan", STRONG, 3.0),
    "scan of the index": ("Scan", {"IndexName": "i"}, 1.0),
    "scan of a part": ("Scan", {"ProjectionExpression": "sk"}, 1.5),
}


def read(console: Console, operation: str, request: dict[str, Any]) -> Any:
    named = {} if operation in ("BatchGetItem", "TransactGetItems") else {"TableName": "t"}
    return console(operation, **named, **request, ReturnConsumedCapacity="TOTAL")


@pytest.mark.parametrize(("operation", "request_", "units"), READS.values(), ids=READS)
def test_the_units_of_a_read(operation: str, request_: dict[str, Any], units: float) -> None:
    consumed = read(filled(), operation, request_)["ConsumedCapacity"]
    (own,) = consumed if isinstance(consumed, list) else [consumed]
    assert own == {"TableName": "t", "CapacityUnits": units}


# The table has one unit for reads per second. It saves them for 63 s, and the first second has one, too: 64 units.
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("strong get", 32),
        ("get of nothing", 64),
        ("strong batch of one", 32),
        ("transaction", 11),
        ("strong query", 32),
        ("strong scan", 22),
    ],
)
def test_reads_take_the_units_of_their_table_and_are_refused_without(name: str, count: int) -> None:
    console = filled(write=1000, read=1)
    operation, request, _ = READS[name]
    assert until_refused(lambda: read(console, operation, request), 100) == count
    with pytest.raises(Refusal) as refused:
        read(console, operation, request)
    assert refused.value.code == "ProvisionedThroughputExceededException"
    reason = refused.value.members["ThrottlingReasons"][0]
    assert reason["reason"] == "TableReadProvisionedThroughputExceeded"
    assert reason["resource"] == "arn:aws:dynamodb:us-east-1:000000000000:table/t"
    assert outcome(lambda: read(console, "Query", by_index())) == "done", "an index has units of its own"


@pytest.mark.parametrize("name", ["query of the index", "scan of the index"])
def test_reads_of_an_index_take_its_own_units(name: str) -> None:
    console = filled(write=1000, read=1, index_read=2)
    operation, request, _ = READS[name]
    # Two units per second, for 64 s; each read takes one.
    assert until_refused(lambda: read(console, operation, request), 200) == 128
    with pytest.raises(Refusal) as refused:
        read(console, operation, request)
    assert refused.value.members["ThrottlingReasons"][0] == {
        "reason": "IndexReadProvisionedThroughputExceeded",
        "resource": "arn:aws:dynamodb:us-east-1:000000000000:table/t/index/i",
    }
    assert until_refused(lambda: read(console, "GetItem", {"Key": key(), **STRONG}), 100) == 32


def test_a_batch_leaves_what_one_table_has_no_units_for_with_its_options() -> None:
    console = filled(write=1000, read=1)
    console.table("u")
    console.put(name="u", sk="2")
    until_refused(lambda: read(console, "GetItem", {"Key": key(), **STRONG}))
    options = {"ConsistentRead": True, "ProjectionExpression": "sk"}
    requested = {name: {"Keys": [key(), key(sk="1")], **options} for name in ("t", "u")}
    answer = console("BatchGetItem", RequestItems=requested)
    assert answer["Responses"] == {"t": [], "u": [{"sk": {"S": "2"}}]}
    assert answer["UnprocessedKeys"] == {"t": {"Keys": [key(), key(sk="1")], **options}}


def test_a_read_shows_what_its_projection_names() -> None:
    console = Console()
    console.table()
    inner = {"M": {"a": {"S": "1"}, "b": {"S": "2"}, "c": {"S": "3"}}}
    console("PutItem", TableName="t", Item={**key(), "d": inner, "e": {"S": "x"}})
    console.wait(seconds=3)
    part: dict[str, Any] = {"ProjectionExpression": "sk, #d.a, #d.c, none", "ExpressionAttributeNames": {"#d": "d"}}
    expected = {"sk": {"S": "2"}, "d": {"M": {"a": {"S": "1"}, "c": {"S": "3"}}}}
    assert console("GetItem", TableName="t", Key=key(), **part)["Item"] == expected
    assert console("BatchGetItem", **batch([key()], **part))["Responses"]["t"] == [expected]
    assert console.query(**part)["Items"] == [expected]
    assert console("Scan", TableName="t", **part)["Items"] == [expected]
    assert "Item" not in console("GetItem", TableName="t", Key=key(sk="9"), **part)


WRITES: dict[str, tuple[str, dict[str, Any], float, float]] = {
    "put in the index": ("PutItem", {"Item": item("c", size=2 * KB, g={"S": "y"})}, 2.0, 2.0),
    "put out of the index": ("PutItem", {"Item": item(sk="2", size=100)}, 5.0, 5.0),
    "put with another key of the index": ("PutItem", {"Item": item(sk="2", size=2 * KB, g={"S": "y"})}, 5.0, 7.0),
    "put of the same": ("PutItem", {"Item": item(sk="2", size=5 * KB, g={"S": "x"})}, 5.0, 0.0),
    "delete": ("DeleteItem", {"Key": key()}, 5.0, 5.0),
    "delete of nothing": ("DeleteItem", {"Key": key(sk="9")}, 1.0, 0.0),
    "update": ("UpdateItem", {"Key": key(), "UpdateExpression": "REMOVE f"}, 5.0, 5.0),
    "update outside of the index": ("UpdateItem", {"Key": key(sk="1"), "UpdateExpression": "REMOVE f"}, 1.0, 0.0),
    "update that adds an item": (
        "UpdateItem",
        {
            "Key": key(sk="9"),
            "UpdateExpression": "SET f = :f",
            "ExpressionAttributeValues": {":f": {"S": "x" * 2 * KB}},
        },
        3.0,
        0.0,
    ),
}


@pytest.mark.parametrize(("operation", "request_", "table", "by_g"), WRITES.values(), ids=WRITES)
def test_the_units_of_a_write(operation: str, request_: dict[str, Any], table: float, by_g: float) -> None:
    consumed = filled()(operation, TableName="t", **request_, ReturnConsumedCapacity="INDEXES")["ConsumedCapacity"]
    indexes = {"GlobalSecondaryIndexes": {"i": {"CapacityUnits": by_g}}} if by_g else {}
    assert consumed == {
        "TableName": "t",
        "CapacityUnits": table + by_g,
        "Table": {"CapacityUnits": table},
        **indexes,
    }


def test_the_units_of_a_batch_and_of_a_transaction_are_those_of_each_table() -> None:
    console = filled()
    console.table("u")
    requests = {
        "t": [{"DeleteRequest": {"Key": key()}}, {"PutRequest": {"Item": item("b", size=100)}}],
        "u": [{"PutRequest": {"Item": item(size=2 * KB)}}],
    }
    written = console("BatchWriteItem", RequestItems=requests, ReturnConsumedCapacity="TOTAL")
    # The table t: 5 + 3, and its index as much.
    assert written["ConsumedCapacity"] == [
        {"TableName": "t", "CapacityUnits": 16.0},
        {"TableName": "u", "CapacityUnits": 2.0},
    ]
    grown = {"UpdateExpression": "SET e = :e", "ExpressionAttributeValues": {":e": {"S": "y"}}}
    actions = [
        {"Update": {"TableName": "u", "Key": key(sk="1"), **grown}},
        {"ConditionCheck": {"TableName": "t", "Key": key(sk="1"), "ConditionExpression": "attribute_exists(pk)"}},
        {"Delete": {"TableName": "t", "Key": key("b", "1")}},
        {"Put": {"TableName": "t", "Item": item("c", size=2 * KB)}},
    ]
    done = console("TransactWriteItems", TransactItems=actions, ReturnConsumedCapacity="TOTAL")
    assert done["ConsumedCapacity"] == [
        {"TableName": "u", "CapacityUnits": 4.0},
        {"TableName": "t", "CapacityUnits": 2.0 + 2.0 + 4.0},
    ]


def test_nothing_is_said_of_units_unless_it_is_asked_for() -> None:
    console = filled()
    answers = [
        console("GetItem", TableName="t", Key=key()),
        console("Query", TableName="t", **of_a()),
        console("PutItem", TableName="t", Item=item()),
        console("BatchWriteItem", RequestItems={"t": [{"PutRequest": {"Item": item()}}]}),
        console("TransactGetItems", TransactItems=TWO),
    ]
    assert [answer for answer in answers if "ConsumedCapacity" in answer] == []


def test_a_failed_condition_takes_the_units_of_the_item_that_is_there_and_none_of_its_index() -> None:
    never = {"ConditionExpression": "attribute_not_exists(pk)"}

    console = filled(write=10, read=10)
    put = {"TableName": "t", "Item": item(sk="2"), **never}
    codes = [outcome(lambda: console("PutItem", **put)) for _ in range(130)]
    # Saved for 64 s: 640 units less the 9 of the three puts. Each failure takes the 5 of the item.
    failed, refused = "ConditionalCheckFailedException", "ProvisionedThroughputExceededException"
    assert codes == [failed] * 126 + [refused] * 4


def test_a_transaction_pays_for_what_it_deletes_and_only_looks_at_in_its_indexes_too() -> None:
    """The item that is only looked at has 5 KB, the deleted one 3 KB: twice as many units, and those of the index."""
    console = filled()
    check = {"ConditionCheck": {"TableName": "t", "Key": key(), "ConditionExpression": "attribute_exists(pk)"}}
    actions = [check, {"Delete": {"TableName": "t", "Key": key("b", "1")}}]
    done = console("TransactWriteItems", TransactItems=actions, ReturnConsumedCapacity="INDEXES")
    assert done["ConsumedCapacity"] == [
        {
            "TableName": "t",
            "CapacityUnits": 22.0,
            "Table": {"CapacityUnits": 16.0},
            "GlobalSecondaryIndexes": {"i": {"CapacityUnits": 6.0}},
        }
    ]
    console.wait(hours=6)
    described = console.describe()
    (by_g,) = described["GlobalSecondaryIndexes"]
    # What is left: 100 bytes and 5 KB, of which the index holds the second.
    assert (described["ItemCount"], described["TableSizeBytes"]) == (2, 5220)
    assert (by_g["ItemCount"], by_g["IndexSizeBytes"]) == (1, 5120)


GROWN = {"UpdateExpression": "SET h = :h", "ExpressionAttributeValues": {":h": {"S": "x"}}}


@pytest.mark.parametrize(
    ("operation", "request_", "count"),
    [
        # Each takes the 5 units of the item, or twice of that.
        ("PutItem", {"TableName": "t", "Item": item(sk="2", size=5 * KB)}, 11),
        ("UpdateItem", {"TableName": "t", "Key": key(), "UpdateExpression": "SET f = f"}, 11),
        ("BatchWriteItem", {"RequestItems": {"t": [{"PutRequest": {"Item": item(sk="2", size=5 * KB)}}]}}, 11),
        ("TransactWriteItems", {"TransactItems": [{"Put": {"TableName": "t", "Item": item(sk="2", size=5 * KB)}}]}, 5),
    ],
)
def test_writes_take_the_units_of_their_table_and_are_refused_without(
    operation: str, request_: dict[str, Any], count: int
) -> None:
    console = filled(write=1, read=10)
    # The three puts took nine of 61 units, and three seconds gave three more: 55 are left.
    assert until_refused(lambda: console(operation, **request_), 100) == count
    code = "TransactionCanceledException" if count == 5 else "ProvisionedThroughputExceededException"
    assert outcome(lambda: console(operation, **request_)) == code


def test_a_refused_update_changes_nothing() -> None:
    console = filled(write=1, read=10)
    until_refused(lambda: console("DeleteItem", TableName="t", Key=key(sk="9")), 100)
    assert outcome(lambda: console("UpdateItem", TableName="t", Key=key(), **GROWN)) == (
        "ProvisionedThroughputExceededException"
    )
    assert "h" not in console("GetItem", TableName="t", Key=key(), **STRONG)["Item"]


def test_no_request_puts_an_item_above_400_kilobytes() -> None:
    console = filled()
    large = item(size=400 * KB + 1)
    assert outcome(lambda: console.batch([large])) == "ValidationException"
    assert outcome(lambda: console("PutItem", TableName="t", Item=large)) == "ValidationException"
    assert console("GetItem", TableName="t", Key=key(sk="1"), **STRONG)["Item"] == item(sk="1", size=100)
