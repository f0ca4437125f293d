"""The rollups' table against scripted replies: what is sent again, and what a refusal means."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws.dynamodb.rollups import LeanRollups
from aws.http.client import NoAnswer, RequestRefused
from tests.fakes.script import PAUSES, Script
from tidetable.errors import StoreUnavailable
from tidetable.ports import Edge, Mark, Noting

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
THROTTLED = RequestRefused("ThrottlingException", "slow down", b"{}")
FAILED = RequestRefused("ConditionalCheckFailedException", "no", b"{}")
RESET = NoAnswer("connection reset")
FIRST, MOVED = Edge("hours", NOON, NOON, "{}"), Edge("hours", NOON, NOON + HOUR, "{}")


@pytest.fixture(autouse=True)
def pauses() -> list[float]:
    PAUSES.clear()
    return PAUSES


def scripted(*replies: Any) -> tuple[LeanRollups, Script]:
    script = Script(lambda number, _: replies[min(number, len(replies)) - 1])
    return LeanRollups(script.client, "rollups"), script


def test_only_throttled_marks_are_put_again(pauses: list[float]) -> None:
    rollups, script = scripted({}, THROTTLED, FAILED, THROTTLED, {})
    rollups.put_marks("s", [NOON, NOON + HOUR, NOON + 2 * HOUR], 7, HOUR)
    keys = [body["Key"]["sk"]["S"][5:18] for _, body in script.sent]
    assert keys == ["2026-03-01T13", "2026-03-01T14", "2026-03-01T15", "2026-03-01T14", "2026-03-01T14"]
    assert len(pauses) == 2
    assert script.sent[0][1] == {
        "TableName": "rollups",
        "Key": {"pk": {"S": "s"}, "sk": {"S": "mark#2026-03-01T13:00:00.000000Z#3600"}},
        "UpdateExpression": "SET #at = :at, #since = if_not_exists(#since, :at)",
        "ConditionExpression": "attribute_not_exists(#at) OR #at < :at",
        "ExpressionAttributeNames": {"#at": "at", "#since": "since"},
        "ExpressionAttributeValues": {":at": {"N": "7"}},
    }


def test_marks_that_stay_throttled_are_no_marks() -> None:
    rollups, script = scripted(THROTTLED)
    with pytest.raises(StoreUnavailable, match="ThrottlingException"):
        rollups.put_marks("s", [NOON], 7, HOUR)
    assert len(script.sent) == 3


@pytest.mark.parametrize("reply", [RESET, RequestRefused("AccessDeniedException", "no right", b"{}")])
def test_a_mark_without_an_answer_is_not_waited_for_and_is_no_mark(reply: Any) -> None:
    rollups, script = scripted(reply)
    with pytest.raises(StoreUnavailable):
        rollups.put_marks("s", [NOON], 7, HOUR)
    assert len(script.sent) == 1


CONDITIONAL: list[Callable[[LeanRollups], bool]] = [
    lambda rollups: rollups.put_edge("s", FIRST, None),
    lambda rollups: rollups.put_edge("s", MOVED, FIRST),
    lambda rollups: rollups.put_edge("s", FIRST._replace(start=NOON - HOUR), FIRST),
    lambda rollups: rollups.clear_mark("s", Mark(NOON, 7, HOUR)),
    lambda rollups: rollups.note_resealed("s", Mark(NOON, 7, HOUR), 9, rests=True),
    lambda rollups: rollups.note_resealed("s", Mark(NOON, 7, HOUR), 9, rests=False),
    lambda rollups: rollups.note_lost("s", Mark(NOON, 7, HOUR)),
    lambda rollups: rollups.put_noting("s", Noting(NOON, NOON), None),
    lambda rollups: rollups.put_noting("s", Noting(NOON, NOON + HOUR), Noting(NOON, NOON)),
]
REPEATABLE: dict[str, Callable[[LeanRollups], None]] = {
    "put over": lambda rollups: rollups.put_over("s", "hours", NOON, 9),
    "clear over": lambda rollups: rollups.clear_over("s", "hours", NOON),
    "stop noting": lambda rollups: rollups.stop_noting("s", NOON),
}


@pytest.mark.parametrize("change", CONDITIONAL)
def test_a_conditional_change_without_an_answer_is_not_sent_again(change: Callable[[LeanRollups], bool]) -> None:
    """It may be done: sent again it would be refused by its own effect, and nobody would know that it was made."""
    rollups, script = scripted(RESET)
    with pytest.raises(StoreUnavailable):
        change(rollups)
    assert len(script.sent) == 1


@pytest.mark.parametrize("name", REPEATABLE)
@pytest.mark.parametrize("failure", [RESET, THROTTLED], ids=["no answer", "throttled"])
def test_a_change_that_may_be_repeated_is_sent_again(name: str, failure: Any) -> None:
    rollups, script = scripted(failure, {})
    REPEATABLE[name](rollups)
    first, second = script.sent
    assert first == second
    rollups, script = scripted(failure)
    with pytest.raises(StoreUnavailable):
        REPEATABLE[name](rollups)
    assert len(script.sent) == 3


def test_the_marks_of_a_range_up_to_the_end_of_time_are_read_to_that_end() -> None:
    """A mark lasts a day at the most, and no time is a day behind the last."""
    rollups, script = scripted({"Items": []})
    rollups.read_state("s", (NOON, datetime.max.replace(tzinfo=UTC)))
    assert script.sent[0][1]["ExpressionAttributeValues"][":high"] == {"S": "mark#9999-12-31T23:59:59.999999Z~"}


def test_a_state_is_sorted_by_time_whatever_the_order_of_its_keys() -> None:
    """The keys of edges begin with the rollup's name."""

    def edge(name: str, hour: int) -> dict[str, Any]:
        key = {"pk": {"S": "s"}, "sk": {"S": f"edge#{name}#2026-03-01T{hour}:00:00.000000Z"}}
        return key | {"sealed": {"S": "2026-03-01T20:00:00.000000Z"}, "definition": {"S": "{}"}}

    sealed = NOON + 8 * HOUR
    rollups, _ = scripted({"Items": []}, {"Items": [edge("a", 13), edge("b", 12), edge("c", 13)]}, {"Items": []})
    assert list(rollups.read_state("s").edges) == [
        Edge("b", NOON, sealed, "{}"),
        Edge("a", NOON + HOUR, sealed, "{}"),
        Edge("c", NOON + HOUR, sealed, "{}"),
    ]


def test_a_transaction_that_meets_another_one_raises_and_one_whose_condition_fails_does_not() -> None:
    def canceled(*codes: str) -> RequestRefused:
        reasons = ",".join(f'{{"Code":"{code}"}}' for code in codes)
        body = f'{{"CancellationReasons":[{reasons}]}}'.encode()
        return RequestRefused("TransactionCanceledException", "canceled", body)

    earlier = FIRST._replace(start=NOON - HOUR)
    assert not scripted(canceled("ConditionalCheckFailed", "None"))[0].put_edge("s", earlier, FIRST)
    with pytest.raises(StoreUnavailable, match="TransactionCanceled"):
        scripted(canceled("None", "TransactionConflict"))[0].put_edge("s", earlier, FIRST)


def test_a_state_is_read_strongly_to_its_end_marks_before_edges_and_edges_before_notes() -> None:
    def mark(hour: int) -> dict[str, Any]:
        text = f"mark#2026-03-01T{hour}:00:00.000000Z#3600"
        return {"pk": {"S": "s"}, "sk": {"S": text}, "at": {"N": str(hour)}}

    last = {"pk": {"S": "s"}, "sk": {"S": "mark#2026-03-01T13:00:00.000000Z#3600"}}
    rollups, script = scripted(
        {"Items": [mark(13)], "LastEvaluatedKey": last}, RESET, {"Items": [mark(14)]}, {"Items": []}
    )
    state = rollups.read_state("s", (NOON, NOON + 2 * HOUR))
    assert list(state.marks) == [Mark(NOON, 13, HOUR, since=13), Mark(NOON + HOUR, 14, HOUR, since=14)]
    assert [body["ConsistentRead"] for _, body in script.sent] == [True] * 5
    assert [body.get("ExclusiveStartKey") for _, body in script.sent] == [None, last, last, None, None]
    bounds = [body["ExpressionAttributeValues"] for _, body in script.sent]
    assert [(bound[":low"]["S"], bound[":high"]["S"]) for bound in (bounds[0], bounds[3], bounds[4])] == [
        ("mark#2026-03-01T12:00:00.000000Z", "mark#2026-03-02T14:00:00.000000Z~"),
        ("edge#", "edge~noting"),
        ("over#2026-03-01T12:00:00.000000Z", "over#2026-03-01T14:00:00.000000Z"),
    ]


def test_pauses_grow_between_the_rounds(pauses: list[float]) -> None:
    rollups, _ = scripted(THROTTLED, THROTTLED, {})
    rollups.put_marks("s", [NOON], 7, HOUR)
    assert pauses == [0.05, 0.1]


def test_a_bucket_that_is_named_twice_is_marked_once() -> None:
    rollups, script = scripted({})
    rollups.put_marks("s", [NOON, NOON + HOUR, NOON], 7, HOUR)
    assert len(script.sent) == 2


def test_a_mark_is_cleared_only_as_it_was_read() -> None:
    """A writer may have put it again since: its events may be on the way."""
    rollups, script = scripted(FAILED)
    assert not rollups.clear_mark("s", Mark(NOON, 7, HOUR))
    assert script.sent == [
        (
            "DeleteItem",
            {
                "TableName": "rollups",
                "Key": {"pk": {"S": "s"}, "sk": {"S": "mark#2026-03-01T13:00:00.000000Z#3600"}},
                "ConditionExpression": "#at = :at",
                "ExpressionAttributeNames": {"#at": "at"},
                "ExpressionAttributeValues": {":at": {"N": "7"}},
            },
        )
    ]


def test_an_edge_is_put_with_the_definition_that_it_was_computed_by() -> None:
    rollups, script = scripted({})
    assert rollups.put_edge("s", FIRST, None)
    assert rollups.put_edge("s", MOVED._replace(definition='{"by":[]}'), FIRST)
    key = {"pk": {"S": "s"}, "sk": {"S": "edge#hours#2026-03-01T12:00:00.000000Z"}}
    first, moved = (body for _, body in script.sent)
    assert first["Item"] == {**key, "sealed": {"S": "2026-03-01T12:00:00.000000Z"}, "definition": {"S": "{}"}}
    assert first["ConditionExpression"] == "attribute_not_exists(pk)"
    assert moved["Item"] == {**key, "sealed": {"S": "2026-03-01T13:00:00.000000Z"}, "definition": {"S": '{"by":[]}'}}
    assert moved["ExpressionAttributeValues"] == {
        ":sealed": {"S": "2026-03-01T12:00:00.000000Z"},
        ":definition": {"S": "{}"},
    }


def test_the_state_of_a_range_is_read_by_its_marks_then_its_edges_then_its_overfull_buckets() -> None:
    """A mark is found by its end, and lasts a day at the most: so marks are read up to a day behind the range."""
    rollups, script = scripted({"Items": []})
    rollups.read_state("s", (NOON, NOON + HOUR))
    asked = [body["ExpressionAttributeValues"] for _, body in script.sent]
    assert [(values[":low"]["S"], values[":high"]["S"]) for values in asked] == [
        ("mark#2026-03-01T12:00:00.000000Z", "mark#2026-03-02T13:00:00.000000Z~"),
        ("edge#", "edge~noting"),
        ("over#2026-03-01T12:00:00.000000Z", "over#2026-03-01T13:00:00.000000Z"),
    ]
    assert [(body["ConsistentRead"], body["TableName"]) for _, body in script.sent] == [(True, "rollups")] * 3
    assert [values[":pk"] for values in asked] == [{"S": "s"}] * 3
