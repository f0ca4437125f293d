"""An emulator over HTTP: what is sent to it, how its refusals are read, and the pages that it answers."""

import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from strict import ManualClock, StrictDynamo
from strict.engines import LOCAL_UNKNOWN, HttpEngine
from strict.memory import MemoryEngine
from strict.refusals import Refusal
from tests.strict.console import KEYS, NOON, Console, index, item, provisioned
from tests.strict.copies import IRELAND, STREAM, create
from tests.strict.settings import KEY, MAXIMA, UNITS, WARM


class Wire:
    """The HTTP connection of an engine: it answers what is written down, and keeps what was sent."""

    def __init__(self, status: int = 200, body: bytes = b"{}") -> None:
        self.status, self.body = status, body
        self.sent: list[Any] = []
        self.headers: Any = {}

    def request(self, method: str, url: str, *, body: bytes, headers: Any) -> Any:
        assert (method, url) == ("POST", "http://engine")
        self.sent.append(json.loads(body))
        self.headers = headers
        return SimpleNamespace(status=self.status, data=self.body)


def connect(wire: Wire) -> HttpEngine:
    engine = HttpEngine("http://engine", unknown=LOCAL_UNKNOWN)
    engine._pool = wire  # type: ignore[assignment]
    return engine


def index_change(**settings: Any) -> dict[str, Any]:
    return {"GlobalSecondaryIndexUpdates": [{"Update": {"IndexName": "i", **settings}}]}


OWN = {"ProvisionedThroughput": provisioned(6, 6)}
DELETED = {"Delete": {"IndexName": "j"}}
INFREQUENT = {"TableClass": "STANDARD_INFREQUENT_ACCESS"}


@pytest.mark.parametrize(
    ("change", "sent"),
    [
        (UNITS, UNITS),
        (index_change(**OWN), index_change(**OWN)),
        (index_change(**OWN, **MAXIMA), index_change(**OWN)),
        ({**UNITS, **index_change(**MAXIMA)}, UNITS),
        (
            {"GlobalSecondaryIndexUpdates": [DELETED, *index_change(**MAXIMA)["GlobalSecondaryIndexUpdates"]]},
            {"GlobalSecondaryIndexUpdates": [DELETED]},
        ),
        # Of these the engine knows nothing, so it is not called.
        *((own, None) for own in (INFREQUENT, {"DeletionProtectionEnabled": True}, WARM, MAXIMA, KEY)),
        (index_change(**MAXIMA), None),
    ],
)
def test_a_change_is_sent_without_what_the_engine_does_not_know(change: Any, sent: Any) -> None:
    wire = Wire()
    assert connect(wire).call("UpdateTable", {"TableName": "t", **change}) == {}
    assert wire.sent == ([] if sent is None else [{"TableName": "t", **sent}])


def test_an_operation_is_sent_by_its_name_and_its_answer_is_read() -> None:
    wire = Wire(body=b'{"Item": {"pk": {"S": "a"}}}')
    assert connect(wire).call("GetItem", {"TableName": "t", "Tags": []}) == {"Item": {"pk": {"S": "a"}}}
    assert (wire.sent, wire.headers["X-Amz-Target"]) == ([{"TableName": "t"}], "DynamoDB_20120810.GetItem")
    assert "/us-east-1/dynamodb/" in wire.headers["Authorization"]
    assert connect(Wire(body=b"")).call("TagResource", {}) == {}


REASONS = {"CancellationReasons": [{"Code": "None"}]}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, {"__type": "com.amazonaws#A", "message": "m", **REASONS}, ("A", "m", 400, REASONS)),
        (413, {"__type": "B", "Message": "n"}, ("B", "n", 413, {})),
        (500, {}, ("InternalServerError", "", 500, {})),
    ],
)
def test_a_refusal_of_the_engine_keeps_all_that_it_says(status: int, body: Any, expected: Any) -> None:
    with pytest.raises(Refusal) as refused:
        connect(Wire(status, json.dumps(body).encode())).call("PutItem", {"TableName": "t"})
    caught = refused.value
    assert (caught.code, caught.message, caught.status, caught.members) == expected


class Paging:
    """An engine that ends a page after four items, or after one match of a filter: the service's pages may be longer."""

    def __init__(self, engine: Any = None) -> None:
        self._engine = engine or MemoryEngine()

    def call(self, operation: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        if operation in ("Query", "Scan") and "Limit" not in payload:
            payload = {**payload, "Limit": 1 if "FilterExpression" in payload else 4}
        answer: dict[str, Any] = self._engine.call(operation, payload)
        return answer


def test_a_filtered_page_has_every_match_of_what_was_read_however_the_engine_pages() -> None:
    clock = ManualClock(NOON)
    service = StrictDynamo(Paging(), clock)
    service.call("CreateTable", {"TableName": "t", **KEYS, "BillingMode": "PAY_PER_REQUEST"})
    clock.sleep(60)
    for sk in "123456":
        service.call("PutItem", {"TableName": "t", "Item": item(sk=sk)})
    by = {"FilterExpression": "attribute_exists(f)"}
    page = service.call("Scan", {"TableName": "t", "ConsistentRead": True, **by})
    assert ([found["sk"]["S"] for found in page["Items"]], page["ScannedCount"]) == (["1", "2", "3", "4"], 4)
    assert page["LastEvaluatedKey"] == {"pk": {"S": "a"}, "sk": {"S": "4"}}


def test_a_copy_gets_the_items_of_every_page() -> None:
    console = Console()
    console.dynamo.account.engine = Paging(console.dynamo.account.engine)
    (ireland,) = console.connect(IRELAND)
    console.table(**STREAM, GlobalSecondaryIndexes=[index()])
    for sk in "123456":
        console.put(sk=sk)
    console.update(ReplicaUpdates=create())
    # A copy of a table with items takes 690 seconds.
    console.wait(seconds=689)
    assert ireland.describe()["TableStatus"] == "CREATING"
    console.wait(seconds=1)
    assert ireland.describe()["TableStatus"] == "ACTIVE"
    ireland.wait(seconds=3)
    found = [ireland.query(ConsistentRead=True, Limit=9)["Items"]]
    assert [one["sk"]["S"] for one in found[0]] == ["1", "2", "3", "4", "5", "6"]
