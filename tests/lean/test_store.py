"""The lean store against scripted replies: repeated reads, repeated writes, and refusals."""

import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from aws.dynamodb.store import LeanStore
from aws.http.client import LeanClient, NoAnswer, Reply, RequestRefused
from tests.fakes.script import PAUSES, Script
from tests.ingest.streams import QUAKES
from tidetable.catalog import Entry, State
from tidetable.errors import Outage, StoreUnavailable, TableMissing
from tidetable.layout import Key
from tidetable.periods import Kind, find_containing
from tidetable.ports import Guarded, KeyRange, Put, RangeRead, Transacted, Written

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
THROTTLED = RequestRefused("ProvisionedThroughputExceededException", "slow down", b"{}")
RESET = NoAnswer("connection reset")


@pytest.fixture(autouse=True)
def pauses() -> list[float]:
    """The longest duration of each pause; no test waits."""
    PAUSES.clear()
    return PAUSES


def item(key: str) -> dict[str, Any]:
    return {"pk": {"S": key}, "sk": {"S": "s"}}


def answer_keys(body: dict[str, Any]) -> dict[str, Any]:
    """Every item that a BatchGetItem names."""
    (table,) = body["RequestItems"]
    return {"Responses": {table: [{**key, "b": {"B": "eA=="}} for key in body["RequestItems"][table]["Keys"]]}}


PASSING = [
    RESET,
    RequestRefused("InternalServerError", "", b""),
    RequestRefused("InternalFailure", "", b""),
    RequestRefused("ServiceUnavailable", "", b""),
    RequestRefused("ServiceUnavailableException", "", b""),
    RequestRefused("HTTP 500", "", b""),
    RequestRefused("HTTP 502", "", b""),
    RequestRefused("HTTP 503", "", b""),
    RequestRefused("HTTP 504", "", b""),
    RequestRefused("ThrottlingException", "", b""),
    RequestRefused("RequestLimitExceeded", "", b""),
    THROTTLED,
]
ONE = [RangeRead(KeyRange("t", "a", None, None), 1)]
READS: dict[str, tuple[Callable[[LeanStore], Any], Callable[[dict[str, Any]], Any], Any]] = {
    "GetItem": (lambda store: store.get("t", Key("a", "s")), lambda _: {"Item": item("a")}, {"pk": "a", "sk": "s"}),
    "Query": (
        lambda store: [page.items for page in store.query_many(ONE, ascending=True) if page is not None],
        lambda _: {"Items": [item("a")]},
        [[{"pk": "a", "sk": "s"}]],
    ),
    "BatchGetItem": (
        lambda store: list(store.get_many("t", [Key("a", "s")])),
        answer_keys,
        [Key("a", "s")],
    ),
    "BatchGetItem of parts": (lambda store: store.get_chunks("t", ["a"]), answer_keys, {"a": b"x"}),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("failure", PASSING, ids=lambda case: case[0])
def test_every_read_that_fails_for_a_moment_is_read_again(name: str, failure: Reply) -> None:
    call, reply, expected = READS[name]
    script = Script(lambda number, body: failure if number == 1 else reply(body))
    assert call(script.store) == expected
    assert len(script.sent) == 2


@pytest.mark.parametrize(
    "failure", [RESET, RequestRefused("InternalServerError", "connection reset", b"")], ids=["none", "500"]
)
@pytest.mark.parametrize("name", READS)
def test_a_read_without_an_answer_is_given_up_after_three_tries(name: str, failure: Reply, pauses: list[float]) -> None:
    script = Script(lambda *_: failure)
    with pytest.raises(StoreUnavailable, match="connection reset"):
        READS[name][0](script.store)
    assert len(script.sent) == 3
    assert pauses == [0.05, 0.1]


@pytest.mark.parametrize("name", READS)
def test_a_read_that_is_wrong_or_of_no_table_is_tried_once(name: str) -> None:
    for code, error in (("ValidationException", StoreUnavailable), ("ResourceNotFoundException", TableMissing)):
        script = Script(lambda *_, code=code: RequestRefused(code, "", b""))
        if name == "Query" and error is TableMissing:
            (page,) = script.store.query_many([RangeRead(KeyRange("t", "a", None, None), 1)], ascending=True)
            assert page is None
        else:
            with pytest.raises(error):
                READS[name][0](script.store)
        assert len(script.sent) == 1


def test_functions_from_one_snapshot_do_not_pause_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """SnapStart restores the state of `random` into every copy: so each copy must draw from the system's randomness."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    for _ in range(2):
        random.seed(7)
        LeanClient.of_process().pause(1.0)
    assert slept[0] != slept[1]
    assert all(0 <= pause <= 1 for pause in slept)


def test_the_replies_beside_one_that_was_throttled_are_kept() -> None:
    """150 keys are two requests; the second is throttled once, so three requests are made, not four."""
    keys = [Key(f"k{number}", "s") for number in range(150)]
    script = Script(lambda number, body: THROTTLED if number == 2 else answer_keys(body))
    assert set(script.store.get_many("t", keys)) == set(keys)
    assert [len(body["RequestItems"]["t"]["Keys"]) for _, body in script.sent] == [100, 50, 50]


def test_keys_that_were_left_unprocessed_are_read_again_alone() -> None:
    def reply(number: int, body: dict[str, Any]) -> dict[str, Any]:
        if number > 1:
            return answer_keys(body)
        keys = body["RequestItems"]["t"]["Keys"]
        return {
            "Responses": {"t": keys[:2]},
            "UnprocessedKeys": {"t": {"Keys": keys[2:], "ConsistentRead": True}},
        }

    script = Script(reply)
    keys = [Key(f"k{number}", "s") for number in range(5)]
    assert set(script.store.get_many("t", keys)) == set(keys)
    assert [key["pk"]["S"] for key in script.sent[1][1]["RequestItems"]["t"]["Keys"]] == ["k2", "k3", "k4"]
    assert script.sent[1][1]["RequestItems"]["t"]["ConsistentRead"] is True


def test_reading_the_rest_of_a_batch_is_no_failure() -> None:
    """Two answers are incomplete and two are missing: fewer than three failures, so everything is read."""

    def reply(number: int, body: dict[str, Any]) -> Any:
        if number in (3, 4):
            return RESET
        keys = body["RequestItems"]["t"]["Keys"]
        return {"Responses": {"t": keys[:1]}, "UnprocessedKeys": {"t": {"Keys": keys[1:]}} if keys[1:] else {}}

    script = Script(reply)
    keys = [Key(f"k{number}", "s") for number in range(3)]
    assert set(script.store.get_many("t", keys)) == set(keys)
    assert len(script.sent) == 5


@pytest.mark.parametrize("stays", ["throttled", "unprocessed"])
def test_a_batch_that_is_never_read_whole_is_no_answer(stays: str, pauses: list[float]) -> None:
    def reply(_: int, body: dict[str, Any]) -> Any:
        return THROTTLED if stays == "throttled" else {"UnprocessedKeys": body["RequestItems"]}

    script = Script(reply)
    with pytest.raises(StoreUnavailable):
        script.store.get_many("t", [Key("a", "s")])
    assert len(script.sent) == 8
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2]


def test_a_batch_whose_last_round_is_throttled_is_no_answer() -> None:
    """Seven answers lack some keys, and are no failures. What is still unread after eight rounds must not be lost."""

    def reply(number: int, body: dict[str, Any]) -> Any:
        keys = body["RequestItems"]["t"]["Keys"]
        return (
            THROTTLED if number == 8 else {"Responses": {"t": keys[:1]}, "UnprocessedKeys": {"t": {"Keys": keys[1:]}}}
        )

    script = Script(reply)
    with pytest.raises(StoreUnavailable) as refused:
        script.store.get_many("t", [Key(f"k{number}", "s") for number in range(9)])
    assert (refused.value.code, str(refused.value)) == (
        "ProvisionedThroughputExceededException",
        "ProvisionedThroughputExceededException: slow down",
    )
    assert len(script.sent) == 8


def test_a_key_that_is_named_twice_is_read_once() -> None:
    """DynamoDB refuses a BatchGetItem that repeats a key."""
    script = Script(lambda _, body: answer_keys(body))
    assert list(script.store.get_many("t", [Key("a", "s"), Key("a", "s")])) == [Key("a", "s")]
    assert script.store.get_chunks("t", ["a", "b", "a"]) == {"a": b"x", "b": b"x"}
    assert [len(body["RequestItems"]["t"]["Keys"]) for _, body in script.sent] == [1, 2]


def puts(count: int, table: str = "t") -> list[Put]:
    return [Put(table, {"pk": f"p{number}", "sk": "s", "at": 1, "data": {}}) for number in range(count)]


def test_items_that_were_left_unprocessed_are_not_written_and_the_others_are() -> None:
    """DynamoDB answers a batch with two throttled items with HTTP 200 and the two requests."""

    def reply(_: int, body: dict[str, Any]) -> dict[str, Any]:
        requests = body["RequestItems"]["t"]
        return {"UnprocessedItems": {"t": requests[3:]}, "ConsumedCapacity": [{"TableName": "t", "CapacityUnits": 3.0}]}

    written = Script(reply).store.write(puts(5))
    assert [put.item["pk"] for put in written.unwritten] == ["p3", "p4"]
    assert (written.throttled, written.units) == (2, 3.0)


def test_every_put_of_a_batch_that_was_refused_whole_counts_as_throttled() -> None:
    written = Script(lambda *_: THROTTLED).store.write(puts(5))
    assert [put.item["pk"] for put in written.unwritten] == ["p0", "p1", "p2", "p3", "p4"]
    assert (written.throttled, written.units) == (5, 0.0)
    assert dict(written.reasons) == {"ProvisionedThroughputExceededException": 1}


@pytest.mark.parametrize("name", ["ThrottlingReasons", "throttlingReasons"])
def test_the_reasons_of_throttling_are_counted_in_either_spelling(name: str) -> None:
    reason = "TableWriteProvisionedThroughputExceeded"
    body = json.dumps({name: [{"reason": reason, "resource": "arn"}]}).encode()
    written = Script(lambda *_: THROTTLED._replace(body=body)).store.write(puts(2))
    assert dict(written.reasons) == {reason: 1}


CONDITION = {"Code": "ConditionalCheckFailed"}
NONE = {"Code": "None"}
CANCELLED = [
    ("the put's condition failed while the fence held", [CONDITION, NONE], Transacted.CONFLICT),
    ("the fence is down", [NONE, CONDITION], Transacted.FENCED),
    ("both", [CONDITION, CONDITION], Transacted.FENCED),
]


@pytest.mark.parametrize(("name", "reasons", "outcome"), CANCELLED, ids=[name for name, *_ in CANCELLED])
def test_a_cancelled_transaction_says_which_condition_failed(
    name: str, reasons: list[dict[str, str]], outcome: Transacted
) -> None:
    body = json.dumps({"CancellationReasons": reasons}).encode()
    script = Script(lambda *_: RequestRefused("TransactionCanceledException", "cancelled", body))
    entry = Entry("quakes", find_containing(NOON, Kind.DAY), "t", QUAKES.layout, State.CLOSED, NOON)
    assert script.store.transact([Guarded(puts(1)[0], "newer")], entry) is outcome


def test_a_transaction_adds_the_units_that_all_of_its_tables_report() -> None:
    consumed = [{"TableName": "t", "CapacityUnits": 6.0}, {"TableName": "rollups", "CapacityUnits": 2.0}]
    script, total = Script(lambda *_: {"ConsumedCapacity": consumed}), Written(units=1.0)
    assert script.store.transact([Guarded(put) for put in puts(2)], total=total) is Transacted.DONE
    assert total.units == 9.0
    ((_, body),) = script.sent
    assert body["ReturnConsumedCapacity"] == "TOTAL"


def test_a_transaction_that_was_cancelled_for_another_reason_is_no_answer() -> None:
    body = json.dumps({"CancellationReasons": [{"Code": "TransactionConflict"}, NONE]}).encode()
    script = Script(lambda *_: RequestRefused("TransactionCanceledException", "cancelled", body))
    with pytest.raises(StoreUnavailable):
        script.store.transact([Guarded(puts(1)[0])])


@pytest.mark.parametrize("code", ["ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_transaction_for_which_units_are_missing_is_throttled(code: str) -> None:
    body = json.dumps({"CancellationReasons": [NONE, {"Code": code}]}).encode()
    script = Script(lambda *_: RequestRefused("TransactionCanceledException", "cancelled", body))
    with pytest.raises(StoreUnavailable) as refused:
        script.store.transact([Guarded(put) for put in puts(2)])
    assert (refused.value.cause, refused.value.code) == (Outage.THROTTLED, "TransactionCanceledException")


def test_a_transaction_with_an_entry_is_fenced_by_the_entrys_state() -> None:
    """What the archive changes first: no put may land after that."""
    script = Script(lambda *_: {})
    entry = Entry("quakes", find_containing(NOON, Kind.DAY), "t", QUAKES.layout, State.CLOSED, NOON)
    guarded = [Guarded(puts(1)[0], "newer")]
    assert script.store.transact(guarded, entry) is Transacted.DONE
    assert script.store.transact(guarded) is Transacted.DONE
    (_, fenced), (_, bare) = script.sent
    assert [list(action) for action in fenced["TransactItems"]] == [["Put"], ["ConditionCheck"]]
    assert [list(action) for action in bare["TransactItems"]] == [["Put"]]
    check = fenced["TransactItems"][1]["ConditionCheck"]
    assert (check["TableName"], check["ExpressionAttributeNames"]) == ("catalog", {"#state": "state"})
    assert check["ConditionExpression"] == "#state IN (:s0, :s1, :s2)"
    assert {value["S"] for value in check["ExpressionAttributeValues"].values()} == {"creating", "open", "closed"}


def test_a_batch_has_twenty_five_puts_and_a_refused_put_shows_what_is_there() -> None:
    script = Script(lambda *_: {})
    script.store.write(puts(51))
    assert [len(body["RequestItems"]["t"]) for _, body in script.sent] == [25, 25, 1]
    script = Script(lambda *_: {})
    script.store.write_each(puts(1), "newer")
    ((operation, body),) = script.sent
    assert (operation, body["ReturnValuesOnConditionCheckFailure"]) == ("PutItem", "ALL_OLD")
