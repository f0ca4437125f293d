"""A strict service in memory with a clock that stands still, and short ways to use it."""

from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from strict import ManualClock, Rule, StrictDynamo, Timings
from strict.memory import MemoryEngine
from strict.refusals import Refusal
from strict.regions import Regions

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
KB = 1024


class Console:
    """One account. Names are short on purpose: the tests read like a session at a console."""

    def __init__(self, without: Iterable[Rule] = (), now: datetime = NOON, clock: ManualClock | None = None) -> None:
        self.clock = clock or ManualClock(now)
        # The seed decides both delays; most tests need to see a table as soon as it exists.
        timings = Timings(seen=0, tagged=0)
        self._without = frozenset(without)
        self.dynamo = StrictDynamo(MemoryEngine(), self.clock, timings=timings, without=without, stale_seconds=2)

    def connect(self, *names: str) -> list["Console"]:
        """Consoles of the account's other Regions, which may hold copies of the tables of this one, us-east-1."""
        others = [Console(self._without, clock=self.clock) for _ in names]
        services = {name: other.dynamo for name, other in zip(names, others, strict=True)}
        Regions({"us-east-1": self.dynamo, **services})
        return others

    def __call__(self, operation: str, **payload: Any) -> Any:
        return self.dynamo.call(operation, payload)

    def wait(self, **length: float) -> None:
        """Let time pass."""
        self.clock.time += timedelta(**length)

    def table(self, name: str = "t", write: int | None = None, read: int | None = None, **more: Any) -> None:
        """Create a table, on demand unless units are given, and wait for it."""
        self.create(name, write, read, **more)
        self.wait(seconds=60)

    def create(self, name: str = "t", write: int | None = None, read: int | None = None, **more: Any) -> None:
        """CreateTable."""
        keys = INDEXED_KEYS if {"GlobalSecondaryIndexes", "LocalSecondaryIndexes"} & more.keys() else KEYS
        self("CreateTable", TableName=name, **{**keys, **make_billing(write, read), **more})

    def update(self, name: str = "t", **changes: Any) -> Any:
        """UpdateTable."""
        return self("UpdateTable", TableName=name, **changes)

    def units(self, write: int, read: int = 1, name: str = "t") -> Any:
        """Change provisioned units and wait until that is done."""
        answer = self.update(name, ProvisionedThroughput=provisioned(write, read))
        self.wait(seconds=3)
        return answer

    def describe(self, name: str = "t") -> Any:
        """The table's description."""
        return self("DescribeTable", TableName=name)["Table"]

    def put(self, pk: str = "a", sk: str = "1", size: int = 100, name: str = "t", **attributes: Any) -> Any:
        """PutItem of an item of a size in bytes."""
        return self("PutItem", TableName=name, Item=item(pk, sk, size, **attributes), ReturnConsumedCapacity="INDEXES")

    def batch(self, items: Iterable[Any], name: str = "t") -> Any:
        """BatchWriteItem of puts."""
        requests = [{"PutRequest": {"Item": item}} for item in items]
        return self("BatchWriteItem", RequestItems={name: requests}, ReturnConsumedCapacity="TOTAL")

    def get_batch(self, sks: Iterable[str], name: str = "t") -> Any:
        """BatchGetItem of the partition "a"."""
        keys = [{"pk": {"S": "a"}, "sk": {"S": sk}} for sk in sks]
        return self("BatchGetItem", RequestItems={name: {"Keys": keys}})

    def query(self, pk: str = "a", name: str = "t", **more: Any) -> Any:
        """Query of a partition."""
        request = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": {":pk": {"S": pk}}}
        return self("Query", TableName=name, ReturnConsumedCapacity="TOTAL", **{**request, **more})


KEYS: dict[str, Any] = {
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    "AttributeDefinitions": [
        {"AttributeName": "pk", "AttributeType": "S"},
        {"AttributeName": "sk", "AttributeType": "S"},
    ],
}


# With the key of an index over the attribute ``g``.
INDEXED_KEYS: dict[str, Any] = {
    "KeySchema": KEYS["KeySchema"],
    "AttributeDefinitions": [*KEYS["AttributeDefinitions"], {"AttributeName": "g", "AttributeType": "S"}],
}


def provisioned(write: int, read: int) -> dict[str, int]:
    return {"WriteCapacityUnits": write, "ReadCapacityUnits": read}


def make_billing(write: int | None, read: int | None) -> dict[str, Any]:
    if write is None or read is None:
        return {"BillingMode": "PAY_PER_REQUEST"}
    return {"BillingMode": "PROVISIONED", "ProvisionedThroughput": provisioned(write, read)}


def index(name: str = "i", write: int | None = None, read: int | None = None, **projection: Any) -> dict[str, Any]:
    """An index over the attribute ``g``."""
    described = {
        "IndexName": name,
        "KeySchema": [{"AttributeName": "g", "KeyType": "HASH"}],
        "Projection": projection or {"ProjectionType": "ALL"},
    }
    return described | ({} if write is None or read is None else {"ProvisionedThroughput": provisioned(write, read)})


def item(pk: str = "a", sk: str = "1", size: int = 100, **attributes: Any) -> dict[str, Any]:
    """An item of an exact size in bytes: 2 + 2 for the names of its keys, 1 for the name of its filling."""
    filling = size - 4 - len(pk) - len(sk) - 1 - sum(len(name) + len(value["S"]) for name, value in attributes.items())
    return {"pk": {"S": pk}, "sk": {"S": sk}, "f": {"S": "x" * filling}, **attributes}


def outcome(act: Callable[[], Any]) -> str:
    """The code of a refusal, or "done"."""
    try:
        act()
    except Refusal as refusal:
        return refusal.code
    return "done"


def until_refused(act: Callable[[], Any], most: int = 100_000) -> int:
    """How often an act succeeds before it is refused."""
    for number in range(most):
        if outcome(act) != "done":
            return number
    return most
