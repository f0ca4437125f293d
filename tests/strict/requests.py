"""Scenarios of requests that the service refuses by their text or keys, and of changes that it shows with a delay."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from strict import Fault, Kind, Rule, Timings
from strict.faults import NoAnswer
from strict.refusals import Refusal
from tests.strict.console import INDEXED_KEYS, KB, KEYS, Console, index, item, outcome
from tests.strict.scenarios import shows

REFUSED = "ValidationException"


def each(act: Callable[[Any], Any], values: Iterable[Any]) -> list[str]:
    """The outcomes of an act with one value after another."""
    return [outcome(lambda value=value: act(value)) for value in values]  # type: ignore[misc]


def indexed(console: Console) -> None:
    """A table with an index over the attribute ``g``."""
    console.table(GlobalSecondaryIndexes=[index()])


def transaction(console: Console, *puts: Any) -> None:
    """TransactWriteItems of puts."""
    console("TransactWriteItems", TransactItems=[{"Put": {"TableName": "t", "Item": put}} for put in puts])


@shows(Rule.STALE_READS, [0, 0, 0, 0, 1, 1, 1, 1])
def stale_reads(console: Console) -> list[int]:
    indexed(console)
    console.put(g={"S": "x"})
    key = {"pk": {"S": "a"}, "sk": {"S": "1"}}

    def read() -> list[int]:
        by_index = {"KeyConditionExpression": "g = :g", "ExpressionAttributeValues": {":g": {"S": "x"}}}
        return [
            int("Item" in console("GetItem", TableName="t", Key=key)),
            console.query()["Count"],
            len(console("BatchGetItem", RequestItems={"t": {"Keys": [key]}})["Responses"]["t"]),
            console("Query", TableName="t", IndexName="i", **by_index)["Count"],
        ]

    assert console.query(ConsistentRead=True)["Count"] == 1
    assert console("GetItem", TableName="t", Key=key, ConsistentRead=True)["Item"]["f"]
    early = read()
    console.wait(seconds=2)
    return early + read()


@shows(
    Rule.NEW_TABLE_UNSEEN,
    (["ResourceNotFoundException"] * 2, "ResourceInUseException", ["CREATING", {}], ["ACTIVE", {"a": "b"}]),
)
def new_table_unseen(console: Console) -> tuple[Any, ...]:
    console.dynamo.account.timings = Timings(seen=5, tagged=60)
    console.create("t", Tags=[{"Key": "a", "Value": "b"}])

    def tags() -> dict[str, str]:
        arn = "arn:aws:dynamodb:us-east-1:000000000000:table/t"
        return {tag["Key"]: tag["Value"] for tag in console("ListTagsOfResource", ResourceArn=arn)["Tags"]}

    early = [outcome(console.describe), outcome(tags)]
    again = outcome(lambda: console.create("t"))
    console.wait(seconds=5)
    middle = [console.describe()["TableStatus"], tags()]
    console.wait(seconds=60)
    return early, again, middle, [console.describe()["TableStatus"], tags()]


@shows(
    Rule.CONFLICTS,
    (
        ["TransactionConflictException"] * 3,
        [["TransactionConflict", "None"], ["None", "TransactionConflict"]],
        ["done", "done"],
    ),
)
def conflicts(console: Console) -> tuple[Any, ...]:
    console.table()
    console.dynamo.faults.add(Fault(Kind.TIMEOUT_AFTER, operation="TransactWriteItems", times=1))
    with pytest.raises(NoAnswer):
        transaction(console, item(pk="a"))
    key = {"pk": {"S": "a"}, "sk": {"S": "1"}}
    update = {"UpdateExpression": "SET f = :f", "ExpressionAttributeValues": {":f": {"S": "y"}}}
    single = [
        outcome(console.put),
        outcome(lambda: console("UpdateItem", TableName="t", Key=key, **update)),
        outcome(lambda: console("DeleteItem", TableName="t", Key=key)),
    ]
    codes = []
    for pks in ("ab", "ba"):
        try:
            transaction(console, *(item(pk=pk) for pk in pks))
        except Refusal as refused:
            codes.append([reason["Code"] for reason in refused.members["CancellationReasons"]])
    console.put("other")
    console.wait(seconds=1)
    return single, codes, [outcome(console.put), outcome(lambda: transaction(console, item(pk="a")))]


@shows(Rule.ONE_ACTION_PER_ITEM, ["done", REFUSED])
def one_action_per_item(console: Console) -> list[str]:
    console.table()
    return each(lambda sks: transaction(console, *(item(sk=sk) for sk in sks)), ("12", "11"))


@shows(Rule.KEY_TYPES, ["done"] + [REFUSED] * 5)
def key_types(console: Console) -> list[str]:
    indexed(console)
    full = item() | {"g": {"S": "x"}}
    puts: tuple[Any, ...] = (
        full,
        full | {"pk": {"S": "b"}, "sk": {"N": "1"}},
        full | {"pk": {"S": "c"}, "sk": {"B": b"1"}},
    )
    puts += (full | {"pk": {"S": "d"}, "g": {"N": "1"}},)
    keys = ({"pk": {"S": "a"}, "sk": {"N": "1"}}, {"pk": {"S": "a"}})
    return each(lambda put: console("PutItem", TableName="t", Item=put), puts) + each(
        lambda key: console("GetItem", TableName="t", Key=key), keys
    )


@shows(Rule.EMPTY_KEYS, ["done"] + [REFUSED] * 4)
def empty_keys(console: Console) -> list[str]:
    indexed(console)
    full = item() | {"g": {"S": "x"}, "f": {"S": ""}}
    puts = (full, full | {"pk": {"S": ""}}, full | {"sk": {"S": ""}}, full | {"g": {"S": ""}})
    return [*each(lambda put: console.batch([put]), puts), outcome(lambda: console.query(""))]


@shows(Rule.KEY_BYTES, (["done", REFUSED], ["done", REFUSED] * 3))
def key_bytes(console: Console) -> tuple[list[str], list[str]]:
    indexed(console)
    queries = each(lambda size: console.query("x" * size), (2048, 2049))
    full = item() | {"g": {"S": "x"}}
    # "ä" has two bytes.
    most = (("pk", "ä" * 1024), ("pk", "x" * 2049), ("sk", "x" * 1024), ("sk", "ä" * 513), ("g", "x" * 2048))
    puts = [full | {name: {"S": text}} for name, text in (*most, ("g", "x" * 2049))]
    return queries, each(lambda put: console("PutItem", TableName="t", Item=put), puts)


@shows(Rule.NUMBERS, ["done"] * 5 + [REFUSED] * 4)
def numbers(console: Console) -> list[str]:
    console.table()
    right = ("1" * 38, "0." + "0" * 40 + "1" * 38, "1" + "0" * 60, "9.9e125", "-1E-130")
    wrong = ("1" * 39, "1e126", "1E-131", "1" + "0" * 38 + "1")
    return each(
        lambda text: console("PutItem", TableName="t", Item=item() | {"n": {"L": [{"N": text}]}}), right + wrong
    )


@shows(Rule.LEVELS, ["done", REFUSED])
def levels(console: Console) -> list[str]:
    console.table()

    def nested(depth: int) -> Any:
        value: Any = {"S": "x"}
        for _ in range(depth):
            value = {"M": {"a": value}}
        return console("PutItem", TableName="t", Item=item() | {"d": value})

    return each(nested, (32, 33))


def condition(console: Console, text: str, values: dict[str, Any], **more: Any) -> Any:
    """PutItem with a condition."""
    members = {"ConditionExpression": text, "ExpressionAttributeValues": values, **more}
    return console("PutItem", TableName="t", Item=item(), **{name: one for name, one in members.items() if one != {}})


@shows(Rule.EXPRESSION_BYTES, ["done", REFUSED])
def expression_bytes(console: Console) -> list[str]:
    console.table()
    spaces = 4 * KB - len("NOT f = :f")
    return each(lambda count: condition(console, "NOT f = :f" + " " * count, {":f": {"S": "y"}}), (spaces, spaces + 1))


@shows(Rule.OPERANDS, ["done", REFUSED])
def operands(console: Console) -> list[str]:
    console.table()

    def within(count: int) -> Any:
        values = {f":v{number}": {"S": "y"} for number in range(count)}
        return condition(console, f"NOT f IN ({', '.join(values)})", values)

    return each(within, (100, 101))


@shows(Rule.PLACEHOLDERS, ["done"] + [REFUSED] * 6)
def placeholders(console: Console) -> list[str]:
    console.table()
    names, values = {"ExpressionAttributeNames": {"#f": "f"}}, {":f": {"S": "y"}}
    cases: list[tuple[str, Any, Any]] = [
        ("NOT #f = :f", values, names),
        ("NOT f = :f", values, names),
        ("NOT #f = :f", values | {":g": {"S": "z"}}, names),
        ("attribute_not_exists(none)", None, {"ExpressionAttributeValues": {}}),
        ("attribute_not_exists(none)", None, {"ExpressionAttributeNames": {}}),
    ]

    def put(case: tuple[str, Any, Any]) -> Any:
        text, given, more = case
        members = {"ConditionExpression": text, **more} | ({"ExpressionAttributeValues": given} if given else {})
        return console("PutItem", TableName="t", Item=item(), **members)

    # Without the rule, the double's own parser fails at an undefined placeholder.
    missing = [("NOT #f = :f", values, {}), ("NOT #f = :f", {}, names)]
    enforced = console.dynamo.account.enforces(Rule.PLACEHOLDERS)
    return each(put, cases) + (each(put, missing) if enforced else ["unreadable"] * 2)


@shows(Rule.FILTERED_KEYS, ["done", REFUSED, "done", REFUSED])
def filtered_keys(console: Console) -> list[str]:
    indexed(console)
    console.put(g={"S": "x"})
    by = {"IndexName": "i", "KeyConditionExpression": "g = :pk"}
    values = {":pk": {"S": "a"}, ":v": {"S": "1"}}
    cases: list[dict[str, Any]] = [
        {"FilterExpression": "f = :v OR attribute_exists(m.sk)"},
        {"FilterExpression": "NOT (f = :v) AND #k = :v", "ExpressionAttributeNames": {"#k": "sk"}},
        {"FilterExpression": "sk = :v", **by},
        {"FilterExpression": "begins_with(g, :v)", **by},
    ]
    return each(lambda case: console.query(**case, ExpressionAttributeValues=values), cases)


@shows(Rule.OVERLAPPING_PATHS, ["done", REFUSED, REFUSED])
def overlapping_paths(console: Console) -> list[str]:
    console.table()
    names: dict[str, Any] = {"ExpressionAttributeNames": {"#d": "d"}}
    texts = ("d.a, #d.b, da", "d.a, #d", "#d, d")
    return each(lambda text: console.query(ProjectionExpression=text, **names), texts)


@shows(Rule.INDEX_READS, ["done", REFUSED])
def index_reads(console: Console) -> list[str]:
    indexed(console)
    by = {"IndexName": "i", "KeyConditionExpression": "g = :pk"}
    return each(lambda consistent: console.query(**by, ConsistentRead=consistent), (False, True))


@shows(Rule.DEFINITIONS, ["done", REFUSED, REFUSED])
def definitions(console: Console) -> list[str]:
    console.wait(seconds=60)
    plain = [outcome(lambda: console.create("right"))]
    more = {"KeySchema": KEYS["KeySchema"], "BillingMode": "PAY_PER_REQUEST"}
    cases: list[dict[str, Any]] = [
        {"AttributeDefinitions": INDEXED_KEYS["AttributeDefinitions"]},
        {"AttributeDefinitions": KEYS["AttributeDefinitions"], "GlobalSecondaryIndexes": [index()]},
    ]
    tables = zip(("more", "fewer"), cases, strict=True)
    return plain + each(lambda pair: console("CreateTable", TableName=pair[0], **more, **pair[1]), tables)


@shows(Rule.INDEX_QUOTA, ["done", REFUSED])
def index_quota(console: Console) -> list[str]:
    def create(count: int) -> Any:
        indexes = [index(f"index-{number}") for number in range(count)]
        return console.create(f"t-{count}", GlobalSecondaryIndexes=indexes)

    return each(create, (20, 21))


@shows(Rule.TAG_QUOTA, ["done", REFUSED])
def tag_quota(console: Console) -> list[str]:
    return each(
        lambda count: console.create(f"t-{count}", Tags=[{"Key": str(n), "Value": ""} for n in range(count)]), (50, 51)
    )
