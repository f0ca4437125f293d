"""Notes of series against scripted replies: how they are spread, what is sent again, and pages."""

from typing import Any

import pytest

from aws.dynamodb.rollups import LeanRollups
from aws.http.client import NoAnswer, RequestRefused
from tests.fakes.script import PAUSES, Script
from tidetable.errors import StoreUnavailable, TableThrottled
from tidetable.layout import compute_suffix

DAY = "2026-03-01"
THROTTLED = RequestRefused("ThrottlingException", "slow down", b"{}")
RESET = NoAnswer("connection reset")


@pytest.fixture(autouse=True)
def pauses() -> list[float]:
    PAUSES.clear()
    return PAUSES


def scripted(*replies: Any) -> tuple[LeanRollups, Script]:
    script = Script(lambda number, _: replies[min(number, len(replies)) - 1])
    return LeanRollups(script.client, "rollups"), script


def put(series: str, suffix: int, at: int = 7) -> dict[str, Any]:
    key = {"pk": {"S": f"s#series#{DAY}#{suffix}"}, "sk": {"S": series}}
    return {"PutRequest": {"Item": {**key, "at": {"N": str(at)}}}}


def test_notes_are_put_25_at_a_time_spread_over_16_partitions() -> None:
    rollups, script = scripted({})
    names = [f"device-{number}" for number in range(60)]
    rollups.put_notes("s", DAY, names, 7)
    batches = [body["RequestItems"]["rollups"] for operation, body in script.sent if operation == "BatchWriteItem"]
    assert [len(batch) for batch in batches] == [25, 25, 10]
    # A suffix is calculated as that of an event: the first four bytes of SHA-256, here modulo 16.
    assert batches[0][0] == put("device-0", 2)
    assert batches[0][:2] == [put(name, compute_suffix(name, 16)) for name in names[:2]]
    assert len({batch["PutRequest"]["Item"]["pk"]["S"] for some in batches for batch in some}) == 16


def test_only_what_is_throttled_is_put_again(pauses: list[float]) -> None:
    left = {"UnprocessedItems": {"rollups": [put("b", compute_suffix("b", 16))]}}
    rollups, script = scripted(left, THROTTLED, {"UnprocessedItems": {}})
    rollups.put_notes("s", DAY, ["a", "b"], 7)
    sent = [
        [put["PutRequest"]["Item"]["sk"]["S"] for put in body["RequestItems"]["rollups"]] for _, body in script.sent
    ]
    assert (sent, len(pauses)) == ([["a", "b"], ["b"], ["b"]], 2)


def test_notes_that_stay_throttled_are_no_notes(pauses: list[float]) -> None:
    rollups, script = scripted(THROTTLED)
    with pytest.raises(TableThrottled):
        rollups.put_notes("s", DAY, ["a"], 7)
    assert len(script.sent) == 4
    assert pauses == [0.05, 0.1, 0.2], "no pause follows the last round"


def test_a_series_that_is_named_twice_is_noted_once() -> None:
    """DynamoDB refuses a batch that repeats a key."""
    rollups, script = scripted({})
    rollups.put_notes("s", DAY, ["a", "b", "a"], 7)
    ((_, body),) = script.sent
    assert [put["PutRequest"]["Item"]["sk"]["S"] for put in body["RequestItems"]["rollups"]] == ["a", "b"]


@pytest.mark.parametrize("reply", [RESET, RequestRefused("AccessDeniedException", "no right", b"{}")])
def test_a_note_without_an_answer_is_not_waited_for_and_is_no_note(reply: Any) -> None:
    rollups, script = scripted(reply)
    with pytest.raises(StoreUnavailable):
        rollups.put_notes("s", DAY, ["a"], 7)
    assert len(script.sent) == 1


@pytest.mark.parametrize("consistent", [True, False])
def test_every_partition_is_read_to_its_end(consistent: bool) -> None:
    last = {"pk": {"S": f"s#series#{DAY}#0"}, "sk": {"S": "a"}}

    def reply(number: int, body: dict[str, Any]) -> Any:
        pk = body["ExpressionAttributeValues"][":pk"]["S"]
        items = {f"s#series#{DAY}#0": ["a"], f"s#series#{DAY}#9": ["c"]}.get(pk, [])
        if "ExclusiveStartKey" in body:
            items = ["b"]
        page: dict[str, Any] = {"Items": [{"sk": {"S": name}} for name in items]}
        more = {"LastEvaluatedKey": last} if items == ["a"] else {}
        return page | more | {"ConsumedCapacity": {"TableName": "rollups", "CapacityUnits": 0.5}}

    script = Script(reply)
    noted = LeanRollups(script.client, "rollups").read_notes("s", DAY, consistent=consistent)
    assert (list(noted.series), noted.units) == (["a", "b", "c"], 8.5)
    assert {body["ConsistentRead"] for _, body in script.sent} == {consistent}
    assert [body["ExclusiveStartKey"] for _, body in script.sent if "ExclusiveStartKey" in body] == [last]


def test_a_note_that_was_put_again_meanwhile_stays() -> None:
    failed = RequestRefused("ConditionalCheckFailedException", "no", b"{}")

    def reply(number: int, body: dict[str, Any]) -> Any:
        if "Key" in body:
            return failed if body["Key"]["sk"]["S"] == "a" else {}
        pk = body["ExpressionAttributeValues"][":pk"]["S"]
        return {"Items": [{"sk": {"S": name}} for name in ("a", "b")] if pk.endswith("#3") else []}

    script = Script(reply)
    assert LeanRollups(script.client, "rollups").clear_notes("s", DAY, 9, 100) == 1
    deletes = [body for operation, body in script.sent if operation == "DeleteItem"]
    assert {body["ConditionExpression"] for body in deletes} == {"attribute_not_exists(pk) OR #at < :at"}
    assert {body["ExpressionAttributeValues"][":at"]["N"] for body in deletes} == {"9"}


def test_no_more_notes_are_removed_than_asked_although_some_of_them_stay() -> None:
    """Whoever removes them has a number of writes to spend, and comes again."""
    failed = RequestRefused("ConditionalCheckFailedException", "no", b"{}")

    def reply(_: int, body: dict[str, Any]) -> Any:
        if "Key" in body:
            return failed if body["Key"]["sk"]["S"] == "b" else {}
        last = {"pk": body["ExpressionAttributeValues"][":pk"], "sk": {"S": "c"}}
        more = {} if "ExclusiveStartKey" in body else {"LastEvaluatedKey": last}
        return {"Items": [{"sk": {"S": name}} for name in ("a", "b", "c")], **more}

    script = Script(reply)
    assert LeanRollups(script.client, "rollups").clear_notes("s", DAY, 9, 5) == 5
    assert [operation for operation, _ in script.sent].count("Query") == 16, "no further pages are read"
    deleted = [body["Key"]["sk"]["S"] for operation, body in script.sent if operation == "DeleteItem"]
    assert deleted == ["a", "b", "c", "a", "b", "c", "a"], "the last partition gives what is left of the number"


def cleared(reply: Any) -> tuple[int, Script]:
    """Clear the notes of a day that has one, of a; ``reply`` is the answer to its deletion."""
    partition = f"s#series#{DAY}#{compute_suffix('a', 16)}"

    def answer(_: int, body: dict[str, Any]) -> Any:
        if "Key" in body:
            return reply
        mine = body["ExpressionAttributeValues"] == {":pk": {"S": partition}}
        return {"Items": [{"sk": {"S": "a"}}] if mine else []}

    script = Script(answer)
    return LeanRollups(script.client, "rollups").clear_notes("s", DAY, 9, 100), script


def test_a_note_that_was_put_again_meanwhile_stays_and_counts_not() -> None:
    count, script = cleared(RequestRefused("ConditionalCheckFailedException", "no", b"{}"))
    assert count == 0
    assert script.sent[-1] == (
        "DeleteItem",
        {
            "TableName": "rollups",
            "Key": {"pk": {"S": f"s#series#{DAY}#{compute_suffix('a', 16)}"}, "sk": {"S": "a"}},
            "ConditionExpression": "attribute_not_exists(pk) OR #at < :at",
            "ExpressionAttributeNames": {"#at": "at"},
            "ExpressionAttributeValues": {":at": {"N": "9"}},
        },
    )


def test_a_deletion_that_is_refused_otherwise_is_no_deletion() -> None:
    assert cleared({})[0] == 1
    with pytest.raises(StoreUnavailable, match="AccessDenied"):
        cleared(RequestRefused("AccessDeniedException", "no right", b"{}"))


def test_the_names_alone_are_read() -> None:
    """A note has a time beside its name, which no reader of names needs."""
    rollups, script = scripted({"Items": []})
    assert rollups.read_notes("s", DAY, consistent=True).series == []
    assert len(script.sent) == 16
    assert script.sent[3] == (
        "Query",
        {
            "TableName": "rollups",
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": f"s#series#{DAY}#3"}},
            "ProjectionExpression": "sk",
            "ConsistentRead": True,
            "ReturnConsumedCapacity": "TOTAL",
        },
    )


def test_a_partition_of_notes_that_has_no_answer_is_read_again() -> None:
    script = Script(lambda number, _: RESET if number == 3 else {"Items": []})
    assert LeanRollups(script.client, "rollups").read_notes("s", DAY, consistent=True).series == []
    assert len(script.sent) == 17
    assert script.sent[2] == script.sent[16]


@pytest.mark.parametrize("failure", [RESET, THROTTLED], ids=["no answer", "throttled"])
def test_a_deletion_that_may_not_be_done_is_made_again(failure: Any) -> None:
    """Of a note, and of what a rollup has that is forgotten."""
    deletions: list[Any] = []

    def reply(_: int, body: dict[str, Any]) -> Any:
        if "Key" in body:
            deletions.append(body["Key"]["sk"]["S"])
            return failure if len(deletions) == 1 else {}
        values = body["ExpressionAttributeValues"]
        if values.get(":low") == {"S": "over#"}:
            return {
                "Items": [{"pk": {"S": "s"}, "sk": {"S": f"over#2026-03-01T12:00:00.000000Z#{name}"}} for name in "hx"]
            }
        mine = values[":pk"]["S"].endswith("#7")
        return {"Items": [{"sk": {"S": "a"}}] if mine else []}

    assert LeanRollups(Script(reply).client, "rollups").clear_notes("s", DAY, 9, 100) == 1
    assert deletions == ["a", "a"]
    deletions.clear()
    LeanRollups(Script(reply).client, "rollups").forget("s", "h")
    assert deletions == ["over#2026-03-01T12:00:00.000000Z#h"] * 2
