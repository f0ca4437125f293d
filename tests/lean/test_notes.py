"""Notes of series against scripted replies: how they are spread, what is sent again, and pages."""

from typing import Any

import pytest

from aws.dynamodb.rollups import LeanRollups
from aws.http.client import NoAnswer, RequestRefused
from tests.fakes.script import PAUSES, Script
from tidetable.errors import Outage, StoreUnavailable
from tidetable.ports import NotePage

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


def page(chain: int, number: int, *series: str, at: int = 7) -> dict[str, Any]:
    """A page of notes as an item."""
    key = {"pk": {"S": f"s#series#{DAY}#{chain % 16}"}, "sk": {"S": f"{chain:02}#{number:06}"}}
    return {**key, "series": {"SS": list(series)}, "at": {"N": str(at)}}


def list_keys(script: Script) -> list[tuple[str, str]]:
    """The keys of the items that were sent."""
    return [(body["Key"]["pk"]["S"], body["Key"]["sk"]["S"]) for _, body in script.sent]


def test_notes_are_added_to_their_pages_which_are_spread_over_16_partitions() -> None:
    rollups, script = scripted({})
    rollups.put_notes("s", DAY, [NotePage(35, 12, ["b", "a"]), NotePage(35, None, ["é#1"]), NotePage(2, 0, ["c"])], 7)
    assert script.sent[0] == (
        "UpdateItem",
        {
            "TableName": "rollups",
            "Key": {"pk": {"S": f"s#series#{DAY}#3"}, "sk": {"S": "35#000012"}},
            "UpdateExpression": "SET #at = :at ADD #series :series",
            "ExpressionAttributeNames": {"#at": "at", "#series": "series"},
            "ExpressionAttributeValues": {":at": {"N": "7"}, ":series": {"SS": ["b", "a"]}},
        },
    )
    assert list_keys(script) == [
        (f"s#series#{DAY}#3", "35#000012"),
        (f"s#series#{DAY}#3", "!é#1"),
        (f"s#series#{DAY}#2", "02#000000"),
    ]


PAGES = [NotePage(1, 0, ["a"]), NotePage(2, 0, ["b"])]


def test_only_what_is_throttled_is_put_again(pauses: list[float]) -> None:
    rollups, script = scripted({}, THROTTLED, THROTTLED, {})
    rollups.put_notes("s", DAY, PAGES, 7)
    assert [sk for _, sk in list_keys(script)] == ["01#000000", "02#000000", "02#000000", "02#000000"]
    assert pauses == [0.05, 0.1]


def test_nothing_is_sent_again_if_something_has_no_answer(pauses: list[float]) -> None:
    rollups, script = scripted(THROTTLED, RESET)
    with pytest.raises(StoreUnavailable):
        rollups.put_notes("s", DAY, PAGES, 7)
    assert (len(script.sent), pauses) == (2, [])


def test_notes_that_stay_throttled_are_no_notes(pauses: list[float]) -> None:
    rollups, script = scripted(THROTTLED)
    with pytest.raises(StoreUnavailable) as error:
        rollups.put_notes("s", DAY, PAGES[:1], 7)
    assert (error.value.cause, len(script.sent)) == (Outage.THROTTLED, 4)
    assert pauses == [0.05, 0.1, 0.2], "no pause follows the last round"


@pytest.mark.parametrize("reply", [RESET, RequestRefused("AccessDeniedException", "no right", b"{}")])
def test_a_note_without_an_answer_is_not_waited_for_and_is_no_note(reply: Any) -> None:
    rollups, script = scripted(reply)
    with pytest.raises(StoreUnavailable):
        rollups.put_notes("s", DAY, PAGES[:1], 7)
    assert len(script.sent) == 1


def test_chains_are_read_at_the_same_time_each_from_a_page_to_its_end(pauses: list[float]) -> None:
    last = {"pk": {"S": "p"}, "sk": {"S": "17#000004"}}

    def reply(number: int, body: dict[str, Any]) -> Any:
        low = body["ExpressionAttributeValues"][":low"]["S"]
        if low == "03#000000":
            return THROTTLED if number == 2 else {"Items": []}
        if "ExclusiveStartKey" in body:
            return {"Items": [page(17, 5, "c", at=9)]}
        return {"Items": [page(17, 4, "a", "b")], "LastEvaluatedKey": last}

    script = Script(reply)
    read = list(LeanRollups(script.client, "rollups").read_chains("s", DAY, {17: 4, 3: 0}))
    assert read == [NotePage(17, 4, ["a", "b"], 7), NotePage(17, 5, ["c"], 9)]
    assert script.sent[0] == (
        "Query",
        {
            "TableName": "rollups",
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
            "ExpressionAttributeValues": {
                ":pk": {"S": f"s#series#{DAY}#1"},
                ":low": {"S": "17#000004"},
                ":high": {"S": "17#~"},
            },
            "ConsistentRead": True,
        },
    )
    assert [body.get("ExclusiveStartKey") for _, body in script.sent] == [None, None, None, last]
    assert pauses == [0.05]


def test_notes_of_a_former_version_are_listed_and_are_in_no_chain() -> None:
    """It put an item per series. A series could have a name such as that of a page."""
    items = [{"pk": {"S": "p"}, "sk": {"S": name}, "at": {"N": "7"}} for name in ("01#a", "ü")]
    script = Script(lambda number, _: {"Items": [*items, page(1, 0, "b")] if number == 1 else []})
    assert list(LeanRollups(script.client, "rollups").read_chains("s", DAY, {1: 0})) == [NotePage(1, 0, ["b"], 7)]
    script = Script(lambda number, _: {"Items": [*items, page(1, 0, "b")] if number == 2 else []})
    assert LeanRollups(script.client, "rollups").read_notes("s", DAY, consistent=True).series == ["01#a", "b", "ü"]


def test_further_chains_are_read_when_they_are_wanted() -> None:
    """A process whose memory is full reads no more."""
    rollups, script = scripted({"Items": [page(1, 0, "a")]})
    pages = rollups.read_chains("s", DAY, dict.fromkeys(range(20), 0))
    sent = []
    for _ in range(20):
        next(iter(pages))
        sent.append(len(script.sent))
    assert sent == [8] * 8 + [16] * 8 + [20] * 4


@pytest.mark.parametrize("reply", [RESET, THROTTLED])
def test_a_chain_that_cannot_be_read_ends_the_reading(reply: Any) -> None:
    rollups, script = scripted(reply)
    with pytest.raises(StoreUnavailable):
        list(rollups.read_chains("s", DAY, {1: 0}))
    assert len(script.sent) == (1 if reply is RESET else 4)


@pytest.mark.parametrize("consistent", [True, False])
def test_every_partition_is_read_to_its_end(consistent: bool) -> None:
    last = {"pk": {"S": f"s#series#{DAY}#0"}, "sk": {"S": "a"}}

    def reply(number: int, body: dict[str, Any]) -> Any:
        pk = body["ExpressionAttributeValues"][":pk"]["S"]
        items = {f"s#series#{DAY}#0": [page(0, 0, "d", "a")], f"s#series#{DAY}#9": [page(9, 0, "c")]}.get(pk, [])
        more = {"LastEvaluatedKey": last} if pk.endswith("#0") else {}
        if "ExclusiveStartKey" in body:
            # Two processes noted one series at the same time.
            items, more = [page(0, 1, "b"), page(0, 2, "a")], {}
        return {"Items": items, **more, "ConsumedCapacity": {"TableName": "rollups", "CapacityUnits": 0.5}}

    script = Script(reply)
    noted = LeanRollups(script.client, "rollups").read_notes("s", DAY, consistent=consistent)
    assert (list(noted.series), noted.units) == (["a", "b", "c", "d"], 8.5)
    assert {body["ConsistentRead"] for _, body in script.sent} == {consistent}
    assert [body["ExclusiveStartKey"] for _, body in script.sent if "ExclusiveStartKey" in body] == [last]


def test_a_note_that_was_put_again_meanwhile_stays() -> None:
    failed = RequestRefused("ConditionalCheckFailedException", "no", b"{}")

    def reply(number: int, body: dict[str, Any]) -> Any:
        if "Key" in body:
            return failed if body["Key"]["sk"]["S"] == "03#000000" else {}
        pk = body["ExpressionAttributeValues"][":pk"]["S"]
        return {"Items": [page(3, 0, "a"), page(3, 1, "b")] if pk.endswith("#3") else []}

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
            return failed if body["Key"]["sk"]["S"] == "05#000001" else {}
        last = {"pk": body["ExpressionAttributeValues"][":pk"], "sk": {"S": "c"}}
        more = {} if "ExclusiveStartKey" in body else {"LastEvaluatedKey": last}
        return {"Items": [page(5, number, "a") for number in range(3)], **more}

    script = Script(reply)
    assert LeanRollups(script.client, "rollups").clear_notes("s", DAY, 9, 5) == 5
    assert [operation for operation, _ in script.sent].count("Query") == 16, "no further pages are read"
    deleted = [body["Key"]["sk"]["S"][-1] for operation, body in script.sent if operation == "DeleteItem"]
    assert deleted == ["0", "1", "2", "0", "1", "2", "0"], "the last partition gives what is left of the number"


def cleared(reply: Any) -> tuple[int, Script]:
    """Clear the notes of a day that has one page; ``reply`` is the answer to its deletion."""

    def answer(_: int, body: dict[str, Any]) -> Any:
        if "Key" in body:
            return reply
        mine = body["ExpressionAttributeValues"][":pk"] == {"S": f"s#series#{DAY}#12"}
        return {"Items": [page(60, 3, "a")] if mine else []}

    script = Script(answer)
    return LeanRollups(script.client, "rollups").clear_notes("s", DAY, 9, 100), script


def test_a_page_that_was_put_again_meanwhile_stays_and_counts_not() -> None:
    count, script = cleared(RequestRefused("ConditionalCheckFailedException", "no", b"{}"))
    assert count == 0
    assert script.sent[-1] == (
        "DeleteItem",
        {
            "TableName": "rollups",
            "Key": {"pk": {"S": f"s#series#{DAY}#12"}, "sk": {"S": "60#000003"}},
            "ConditionExpression": "attribute_not_exists(pk) OR #at < :at",
            "ExpressionAttributeNames": {"#at": "at"},
            "ExpressionAttributeValues": {":at": {"N": "9"}},
        },
    )


def test_a_deletion_that_is_refused_otherwise_is_no_deletion() -> None:
    assert cleared({})[0] == 1
    with pytest.raises(StoreUnavailable, match="AccessDenied"):
        cleared(RequestRefused("AccessDeniedException", "no right", b"{}"))


def test_a_period_is_read_by_its_partitions() -> None:
    rollups, script = scripted({"Items": []})
    assert rollups.read_notes("s", DAY, consistent=False).series == []
    assert len(script.sent) == 16
    assert script.sent[3] == (
        "Query",
        {
            "TableName": "rollups",
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": {"S": f"s#series#{DAY}#3"}},
            "ConsistentRead": False,
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
        return {"Items": [page(7, 0, "a")] if mine else []}

    assert LeanRollups(Script(reply).client, "rollups").clear_notes("s", DAY, 9, 100) == 1
    assert deletions == ["07#000000", "07#000000"]
    deletions.clear()
    LeanRollups(Script(reply).client, "rollups").forget("s", "h")
    assert deletions == ["over#2026-03-01T12:00:00.000000Z#h"] * 2
