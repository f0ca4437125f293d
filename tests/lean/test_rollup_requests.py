"""The rollups' table: each request whole, and the state that is made of its items."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws.dynamodb.rollups import LeanRollups
from tests.fakes.script import Script
from tidetable.ports import Edge, Mark, Noting, RollupState

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
EDGE = Edge("hours", NOON, NOON + HOUR, "{}")
EARLIER = Edge("hours", NOON - HOUR, NOON + HOUR, "{}")
NOTING, LATER = Noting(NOON, NOON), Noting(NOON, NOON + HOUR, stopped=True)
ABSENT = {"ConditionExpression": "attribute_not_exists(pk)"}


def key(sk: str) -> dict[str, Any]:
    return {"pk": {"S": "s"}, "sk": {"S": sk}}


def time(hour: int) -> dict[str, str]:
    return {"S": f"2026-03-01T{hour}:00:00.000000Z"}


SEALED = {"sealed": time(13), "definition": {"S": "{}"}}
SAME_EDGE = {
    "ConditionExpression": "#sealed = :sealed AND #definition = :definition",
    "ExpressionAttributeNames": {"#sealed": "sealed", "#definition": "definition"},
    "ExpressionAttributeValues": {":sealed": time(13), ":definition": {"S": "{}"}},
}
AT_NOON, AT_ELEVEN = key("edge#hours#2026-03-01T12:00:00.000000Z"), key("edge#hours#2026-03-01T11:00:00.000000Z")
OVER = key("over#2026-03-01T12:00:00.000000Z#hours")
TABLE = {"TableName": "rollups"}
# Each change, and its request.
CHANGES: dict[str, tuple[Callable[[LeanRollups], Any], str, dict[str, Any]]] = {
    "the first edge": (
        lambda rollups: rollups.put_edge("s", EDGE, None),
        "PutItem",
        {**TABLE, "Item": {**AT_NOON, **SEALED}, **ABSENT},
    ),
    "an edge that moves": (
        lambda rollups: rollups.put_edge("s", EDGE, EDGE),
        "PutItem",
        {**TABLE, "Item": {**AT_NOON, **SEALED}, **SAME_EDGE},
    ),
    "an edge whose start moves": (
        lambda rollups: rollups.put_edge("s", EARLIER, EDGE),
        "TransactWriteItems",
        {
            "TransactItems": [
                {"Delete": {**TABLE, "Key": AT_NOON, **SAME_EDGE}},
                {"Put": {**TABLE, "Item": {**AT_ELEVEN, **SEALED}, **ABSENT}},
            ]
        },
    ),
    "an overfull bucket": (
        lambda rollups: rollups.put_over("s", "hours", NOON, 9),
        "PutItem",
        {**TABLE, "Item": {**OVER, "groups": {"N": "9"}}},
    ),
    "a bucket that is not overfull": (
        lambda rollups: rollups.clear_over("s", "hours", NOON),
        "DeleteItem",
        {**TABLE, "Key": OVER},
    ),
    "the first noting": (
        lambda rollups: rollups.put_noting("s", NOTING, None),
        "PutItem",
        {
            **TABLE,
            "Item": {**key("edge~noting"), "since": time(12), "swept": time(12), "stopped": {"S": "no"}},
            **ABSENT,
        },
    ),
    "noting that goes on": (
        lambda rollups: rollups.put_noting("s", LATER, NOTING),
        "PutItem",
        {
            **TABLE,
            "Item": {**key("edge~noting"), "since": time(12), "swept": time(13), "stopped": {"S": "yes"}},
            "ConditionExpression": "#since = :since AND #swept = :swept AND #stopped = :stopped",
            "ExpressionAttributeNames": {"#since": "since", "#swept": "swept", "#stopped": "stopped"},
            "ExpressionAttributeValues": {":since": time(12), ":swept": time(12), ":stopped": {"S": "no"}},
        },
    ),
    "noting that stops": (
        lambda rollups: rollups.stop_noting("s", NOON),
        "PutItem",
        {**TABLE, "Item": {**key("edge~noting"), "since": time(12), "swept": time(12), "stopped": {"S": "yes"}}},
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_one_request(name: str) -> None:
    change, operation, body = CHANGES[name]
    script = Script(lambda *_: {})
    change(LeanRollups(script.client, "rollups"))
    assert script.sent == [(operation, body)]


def answer_of(items: list[dict[str, Any]]) -> Script:
    """A table with these items. It answers the items between the two sort keys of a Query, in any order."""

    def reply(_: int, body: dict[str, Any]) -> dict[str, Any]:
        if "Key" in body:
            return {}
        values = body["ExpressionAttributeValues"]
        return {"Items": [item for item in items if values[":low"]["S"] <= item["sk"]["S"] <= values[":high"]["S"]]}

    return Script(reply)


def test_a_state_without_a_range_is_everything() -> None:
    items = [
        key("mark#2026-03-01T16:00:00.000000Z#3600") | {"lost": {"S": "yes"}},
        key("mark#2026-03-01T15:00:00.000000Z#3600") | {"resealed": {"N": "9"}, "pauses": {"N": "2"}},
        key("mark#2026-03-01T14:00:00.000000Z#3600") | {"at": {"N": "8"}, "since": {"N": "6"}},
        # A mark of an earlier deployment.
        key("mark#2026-03-01T13:00:00.000000Z#3600") | {"at": {"N": "7"}},
        AT_NOON | SEALED,
        key("edge~noting") | {"since": time(12), "swept": time(13), "stopped": {"S": "yes"}},
        key("over#2026-03-01T12:00:00.000000Z#minutes") | {"groups": {"N": "9"}},
        OVER | {"groups": {"N": "9"}},
    ]
    script = answer_of(items)
    state = LeanRollups(script.client, "rollups").read_state("s")
    assert state == RollupState(
        [EDGE],
        [Mark(NOON, 7, HOUR, since=7), Mark(NOON + HOUR, 8, HOUR, since=6)],
        [("hours", NOON), ("minutes", NOON)],
        LATER,
        [Mark(NOON + 2 * HOUR, 0, HOUR, 0, 9, 2)],
        [Mark(NOON + 3 * HOUR, 0, HOUR, lost=True)],
    )
    assert [body for _, body in script.sent] == [
        {
            **TABLE,
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
            "ExpressionAttributeValues": {":pk": {"S": "s"}, ":low": {"S": low}, ":high": {"S": high}},
            "ConsistentRead": True,
        }
        for low, high in (("mark#", "mark#~"), ("edge#", "edge~noting"), ("over#", "over#~"))
    ]


def test_a_mark_behind_the_range_is_none_of_its_marks() -> None:
    """Its bucket ends within a day of the range, and begins at the end of the range, or later."""
    items = [
        key("mark#2026-03-01T12:00:00.000000Z#3600") | {"at": {"N": "6"}},
        key("mark#2026-03-01T13:00:00.000000Z#3600") | {"at": {"N": "7"}},
        key("mark#2026-03-01T14:00:00.000000Z#3600") | {"at": {"N": "8"}},
        key("mark#2026-03-02T00:00:00.000000Z#86400") | {"at": {"N": "9"}},
    ]
    state = LeanRollups(answer_of(items).client, "rollups").read_state("s", (NOON, NOON + HOUR))
    midnight = datetime(2026, 3, 1, tzinfo=UTC)
    assert state.marks == [Mark(midnight, 9, timedelta(days=1), 9), Mark(NOON, 7, HOUR, 7)]
    assert (state.edges, state.over, state.noting) == ([], [], None)


def test_a_rollup_is_forgotten_and_no_other() -> None:
    items = [
        AT_NOON | SEALED,
        key("edge#other#2026-03-01T12:00:00.000000Z") | SEALED,
        OVER | {"groups": {"N": "9"}},
        key("over#2026-03-01T12:00:00.000000Z#other") | {"groups": {"N": "9"}},
    ]
    script = answer_of(items)
    LeanRollups(script.client, "rollups").forget("s", "hours")
    assert script.sent[3:] == [("DeleteItem", {**TABLE, "Key": AT_NOON}), ("DeleteItem", {**TABLE, "Key": OVER})]
