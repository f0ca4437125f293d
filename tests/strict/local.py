"""Scenarios of local secondary indexes: how they are made, what they cost, and how much a partition key may hold."""

from typing import Any

from strict import Rule
from strict.refusals import Refusal
from tests.strict.console import KB, Console, index, item, outcome
from tests.strict.scenarios import shows

REFUSED = "ValidationException"
FULL = "ItemCollectionSizeLimitExceededException"


def local(name: str = "l", **projection: Any) -> dict[str, Any]:
    """A local index in the order of the attribute ``g``."""
    return {
        "IndexName": name,
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "g", "KeyType": "RANGE"}],
        "Projection": projection or {"ProjectionType": "ALL"},
    }


def by_index(console: Console, name: str = "l", **more: Any) -> Any:
    """Query of the local index, of the partition "a"."""
    return console.query(IndexName=name, **more)


@shows(Rule.LOCAL_QUOTA, ["done", REFUSED])
def local_quota(console: Console) -> list[str]:
    def create(count: int) -> None:
        console.table(f"t{count}", LocalSecondaryIndexes=[local(f"l{number}") for number in range(count)])

    return [outcome(lambda count=count: create(count)) for count in (5, 6)]  # type: ignore[misc]


@shows(Rule.LOCAL_SCHEMA, ["done", REFUSED, REFUSED])
def local_schema(console: Console) -> list[str]:
    """The same partition key as the table's, and a sort key."""
    own, alone = local(), local()
    own["KeySchema"] = [{"AttributeName": "g", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}]
    definitions = [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")]
    alone["KeySchema"] = alone["KeySchema"][:1]
    return [
        outcome(lambda: console.table("t0", LocalSecondaryIndexes=[local()])),
        outcome(lambda: console.table("t1", LocalSecondaryIndexes=[own])),
        outcome(lambda: console.table("t2", LocalSecondaryIndexes=[alone], AttributeDefinitions=definitions)),
    ]


@shows(Rule.LOCAL_STAYS, [REFUSED, True])
def local_stays(console: Console) -> list[Any]:
    console.table(LocalSecondaryIndexes=[local()])
    refused = outcome(lambda: console.update(GlobalSecondaryIndexUpdates=[{"Delete": {"IndexName": "l"}}]))
    console.wait(minutes=30)
    return [refused, "LocalSecondaryIndexes" in console.describe()]


@shows(Rule.PROJECTED_ATTRIBUTES, ["done", REFUSED])
def projected_attributes(console: Console) -> list[str]:
    """A hundred in all indexes together, local and global."""

    def create(count: int) -> None:
        many = [f"a{number}" for number in range(count)]
        halves = (many[:60], many[60:])
        first, second = [dict[str, Any](ProjectionType="INCLUDE", NonKeyAttributes=names) for names in halves]
        console.table(f"t{count}", GlobalSecondaryIndexes=[index(**first)], LocalSecondaryIndexes=[local(**second)])

    return [outcome(lambda count=count: create(count)) for count in (100, 101)]  # type: ignore[misc]


@shows(Rule.LOCAL_UNITS, ({"t": 3.0}, {"t": 1.0}))
def local_units(console: Console) -> tuple[Any, ...]:
    """A write of 1 KB takes a unit for the table, and one for each local index that has the item: all of them the table's."""
    both = [local(), local("k", ProjectionType="KEYS_ONLY")]
    console.table(LocalSecondaryIndexes=both)

    def taken(**attributes: Any) -> dict[str, float]:
        consumed = console.put(size=900, **attributes)["ConsumedCapacity"]
        indexes = {name: units["CapacityUnits"] for name, units in consumed.get("GlobalSecondaryIndexes", {}).items()}
        return {"t": consumed["Table"]["CapacityUnits"], **indexes}

    first = taken(g={"S": "x"})
    console.put(pk="b", size=900)
    consumed = console.put(pk="b", size=900)["ConsumedCapacity"]
    return first, {"t": consumed["Table"]["CapacityUnits"]}


@shows(Rule.LOCAL_FETCHES, [0.5, 5.5, 11.0])
def local_fetches(console: Console) -> list[float]:
    """Ten items of 2 KB: their keys are half a unit together; each read from the table takes half a unit, or a whole unit."""
    console.table(LocalSecondaryIndexes=[local(ProjectionType="KEYS_ONLY")])
    for number in range(10):
        console.put(sk=str(number), size=2 * KB, g={"S": str(number)})
    console.wait(seconds=3)
    bare = by_index(console)
    assert bare["Count"] == 10
    assert set(bare["Items"][0]) == {"pk", "sk", "g"}
    everything = {"Select": "ALL_ATTRIBUTES"}
    whole, strong = by_index(console, **everything), by_index(console, ConsistentRead=True, **everything)
    assert set(whole["Items"][0]) == {"pk", "sk", "g", "f"}
    return [answer["ConsumedCapacity"]["CapacityUnits"] for answer in (bare, whole, strong)]


@shows(
    Rule.COLLECTION_BYTES,
    (["done", FULL, "done", FULL, "done"], ["ItemCollectionSizeLimitExceeded", "None"], [1, 0, 1]),
)
def collection_bytes(console: Console) -> tuple[Any, ...]:
    """A table's item and its copies in local indexes count; 10 KB stand for the service's 10 GB."""
    console.dynamo.account.collection_bytes = 10 * KB
    console.table(LocalSecondaryIndexes=[local()])
    console.table("without")
    outcomes = [
        outcome(lambda: console.put(sk="1", size=4 * KB, g={"S": "x"})),
        outcome(lambda: console.put(sk="2", size=4 * KB)),
        # Another key, another table, and what makes the collection smaller.
        outcome(lambda: console.put(pk="b", size=4 * KB)),
        outcome(lambda: console.batch([item(pk="c"), item(sk="3", size=4 * KB)])),
        outcome(lambda: [console.put(sk=str(n), size=4 * KB, name="without") for n in range(4)]),
    ]
    try:
        puts = [item(sk="4", size=4 * KB), item(pk="d")]
        console("TransactWriteItems", TransactItems=[{"Put": {"TableName": "t", "Item": put}} for put in puts])
        reasons = ["None", "None"]
    except Refusal as refused:
        reasons = [reason["Code"] for reason in refused.members["CancellationReasons"]]
    # Nothing of the batch or the transaction was written.
    counts = [console.query(pk, ConsistentRead=True)["Count"] for pk in "acb"]
    return outcomes, reasons, counts


@shows(
    Rule.LOCAL_ENTRIES,
    (
        ["done", REFUSED, "done", REFUSED, "done", REFUSED],
        [REFUSED, REFUSED],
        ["None", "ValidationError"],
        ["done", REFUSED, "done"],
    ),
)
def local_entries(console: Console) -> tuple[Any, ...]:
    """400 KB are 409,600 bytes. An entry has its keys (``pk``, ``sk`` and ``g`` with one character each: 8 bytes) and the
    attributes of its projection.
    """
    keys: dict[str, Any] = {"ProjectionType": "KEYS_ONLY"}
    some: dict[str, Any] = {"ProjectionType": "INCLUDE", "NonKeyAttributes": ["h"]}
    console.table("all", LocalSecondaryIndexes=[local()])
    console.table("three", LocalSecondaryIndexes=[local(), local("k"), local("m", **keys)])
    console.table("some", LocalSecondaryIndexes=[local(**some)])
    g, half = {"S": "x"}, 204_800

    def put(name: str, size: int, **attributes: Any) -> str:
        console.wait(seconds=3)
        return outcome(lambda: console.put(name=name, size=size, **attributes))

    alone = [
        put("all", half, g=g),
        put("all", half + 1, g=g),
        # Three times the item, and 8 bytes of keys: 3 * 136,530 + 8 = 409,598.
        put("three", 136_530, g=g),
        put("three", 136_531, g=g),
        # The entry has 8 bytes of keys and 1,001 bytes of ``h``.
        put("some", 409_600 - 1_009, g=g, h={"S": "y" * 1_000}),
        put("some", 409_600 - 1_008, g=g, h={"S": "y" * 1_000}),
    ]
    large = item(sk="2", size=half + 1, g=g)
    console.wait(seconds=3)
    batch = outcome(lambda: console.batch([item(sk="3"), large], "all"))
    console.wait(seconds=3)
    console.put(name="all", sk="4", size=half, g=g)
    console.wait(seconds=3)
    update = outcome(
        lambda: console(
            "UpdateItem",
            TableName="all",
            Key={"pk": {"S": "a"}, "sk": {"S": "4"}},
            UpdateExpression="SET f = :f",
            ExpressionAttributeValues={":f": {"S": "x" * half}},
        )
    )
    console.wait(seconds=3)
    try:
        puts = [item(sk="5"), large]
        console("TransactWriteItems", TransactItems=[{"Put": {"TableName": "all", "Item": put}} for put in puts])
        reasons = ["None", "None"]
    except Refusal as refused:
        reasons = [reason["Code"] for reason in refused.members["CancellationReasons"]]
    # An item that is in no local index counts alone, and so does an item of a table with a global index.
    console.table("global", GlobalSecondaryIndexes=[index()])
    outside = [put("all", 409_600), put("all", 409_601), put("global", 409_600, g=g)]
    return alone, [batch, update], reasons, outside
