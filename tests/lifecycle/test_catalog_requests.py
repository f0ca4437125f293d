"""The catalog's requests, member by member, and what it reads of what it has written."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws.dynamodb.catalog import LeanCatalog
from aws.http.client import NoAnswer, RequestRefused
from tests.fakes.script import Script
from tests.worlds.entries import change_entry
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opening, RecordedPolicy, SeenTable, State
from tidetable.config import TableClass
from tidetable.errors import StaleEntry, StoreUnavailable, TableMissing
from tidetable.layout import Index, Layout, Packing
from tidetable.periods import parse_label
from tidetable.version import CATALOG_FORMAT

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = "2026-03-15"
KEY = {"pk": {"S": "stream#s"}, "sk": {"S": f"{DAY}T00:00:00.000000Z#{DAY}"}}
ENTRY = Entry("s", parse_label(DAY), "t", Layout("series", 1, "id"), State.OPEN, NOON)


# The answers of a table that is empty.
EMPTY: dict[str, Any] = {"Items": []}
REFUSED = RequestRefused("ConditionalCheckFailedException", "no", b"{}")


def answer(*replies: Any) -> tuple[LeanCatalog, list[tuple[str, dict[str, Any]]]]:
    """A catalog whose requests get these replies, and then the last of them; and the requests that it sends."""
    script = Script(lambda number, _: replies[min(number, len(replies)) - 1])
    return LeanCatalog(script.client, "catalog"), script.sent


def test_what_holds_from_the_next_event_on_is_read_consistently() -> None:
    held, sent = answer(EMPTY, EMPTY, EMPTY, {})
    held.backfills("s")
    held.list_policies()
    held.read_horizon("s")
    held.is_deployed()
    assert [(operation, members["ConsistentRead"]) for operation, members in sent] == [
        ("Query", True), ("Query", True), ("Query", True), ("GetItem", True),
    ]  # fmt: skip


def test_an_entry_that_newer_code_wrote_is_not_moved() -> None:
    """It would get the format of this code, and code that is as old would misread it afterwards."""
    newer = {"Items": [{**KEY, "stream": {"S": "s"}, "label": {"S": DAY}, "format": {"N": "99"}}]}
    held, sent = answer(REFUSED, newer)
    with pytest.raises(StoreUnavailable, match=f"the catalog's entry of s {DAY} has format 99"):
        held.move(ENTRY, State.CLOSED, expected=(State.OPEN,))
    (_, moved), (operation, read) = sent
    assert moved["ExpressionAttributeValues"][":format"] == {"N": str(CATALOG_FORMAT)}
    assert (operation, read["ConsistentRead"]) == ("Query", True)
    # An entry of this code's format, or none, is in another state.
    for item in ([{**newer["Items"][0], "format": {"N": str(CATALOG_FORMAT)}}], []):
        held, _ = answer(REFUSED, {"Items": item})
        with pytest.raises(StaleEntry):
            held.move(ENTRY, State.CLOSED, expected=(State.OPEN,))


def test_a_period_is_recorded_once_and_changed_on_conditions_alone() -> None:
    held, sent = answer({})
    assert held.add(ENTRY)
    held.move(ENTRY, State.CLOSED, expected=(State.OPEN, State.CLOSED), opened=Opening(NOON, 1, None))
    held.mark_scaled(ENTRY, scaled=True, policy="p")
    (_, added), (_, moved), (_, scaled) = sent
    assert (added["ConditionExpression"], added["Item"]["state"]) == ("attribute_not_exists(pk)", {"S": "open"})
    opened = {"until": {"S": "2026-03-15T12:00:00.000000Z"}, "write": {"N": "1"}, "read": {"NULL": True}}
    assert moved == {
        "ConditionExpression": "#state IN (:s0, :s1) AND (attribute_not_exists(#format) OR #format <= :format)",
        "TableName": "catalog",
        "Key": KEY,
        "UpdateExpression": "SET #state = :state, #format = :format, #opened = :opened",
        "ExpressionAttributeNames": {"#state": "state", "#format": "format", "#opened": "opened"},
        "ExpressionAttributeValues": {
            ":state": {"S": "closed"}, ":format": {"N": "2"}, ":opened": {"M": opened},
            ":s0": {"S": "closed"}, ":s1": {"S": "open"},
        },
    }  # fmt: skip
    assert scaled["ConditionExpression"] == "attribute_exists(pk)"
    assert scaled["ExpressionAttributeValues"] == {":scaled": {"BOOL": True}, ":scaling": {"S": "p"}}
    refused, _ = answer(REFUSED, EMPTY, REFUSED)
    for change in (lambda: refused.move(ENTRY, State.CLOSED, expected=State), lambda: refused.mark_copies(ENTRY, ())):
        with pytest.raises(StaleEntry):
            change()
    assert not refused.add(ENTRY)


def test_a_lease_is_taken_from_nobody_from_itself_or_when_it_has_run_out() -> None:
    held, sent = answer({})
    assert held.acquire("l", "me", NOON, HOUR)
    held.release("l", "me")
    taken, released = (members for _, members in sent)
    assert taken["ConditionExpression"] == "attribute_not_exists(pk) OR #until <= :now OR #owner = :owner"
    assert taken["Item"] == {
        "pk": {"S": "lease#l"}, "sk": {"S": "lease"}, "owner": {"S": "me"},
        "until": {"S": "2026-03-15T13:00:00.000000Z"},
    }  # fmt: skip
    assert taken["ExpressionAttributeValues"] == {":now": {"S": "2026-03-15T12:00:00.000000Z"}, ":owner": {"S": "me"}}
    assert (released["ConditionExpression"], released["Key"]["pk"]) == ("#owner = :owner", {"S": "lease#l"})
    busy, _ = answer(REFUSED)
    assert not busy.acquire("l", "me", NOON, HOUR)
    busy.release("l", "me")


def test_the_secret_has_256_bits_and_is_written_only_where_there_is_none() -> None:
    held, sent = answer({})
    held.ensure_secret()
    (read, _), (written, members) = sent
    assert (read, written) == ("GetItem", "PutItem")
    assert members["ConditionExpression"] == "attribute_not_exists(pk)"
    assert len(bytes.fromhex(members["Item"]["secret"]["S"])) == 32
    there, reads = answer({"Item": members["Item"]})
    there.ensure_secret()
    assert [operation for operation, _ in reads] == ["GetItem"]


@pytest.mark.parametrize("change", [
    lambda held: held.add(ENTRY),
    lambda held: held.move(ENTRY, State.CLOSED, expected=State),
    lambda held: held.forget(ENTRY),
    lambda held: held.mark_deployed(),
])  # fmt: skip
def test_a_change_is_sent_again_after_a_failure_that_may_pass(change: Any) -> None:
    """Three times without an answer or after an error of the service, eight times while the table is throttled."""
    throttled = RequestRefused("ThrottlingException", "slow", b"{}")
    for reply, times in ((NoAnswer("reset"), 3), (RequestRefused("InternalServerError", "", b""), 3), (throttled, 8)):
        held, sent = answer(reply, {})
        change(held)
        assert len(sent) == 2
        assert sent[0] == sent[1]
        lost, sent = answer(reply)
        with pytest.raises(StoreUnavailable):
            change(lost)
        assert len(sent) == times
    denied, sent = answer(RequestRefused("AccessDeniedException", "no", b""))
    with pytest.raises(StoreUnavailable, match="AccessDeniedException: no"):
        change(denied)
    assert len(sent) == 1
    unknown, sent = answer(RequestRefused("ResourceNotFoundException", "", b""))
    with pytest.raises(TableMissing, match="table catalog does not exist"):
        change(unknown)


FULL = change_entry(
    ENTRY,
    layout=Layout("time", 4, "series", 21_600, (Index("l", local=True, levels=("kind",)), Index("g", "a", project=("b",))),
                  versioned=True, parts=True, pack=Packing(60, 1_000)),
    archive=ArchiveFacts("m", 12, 345, NOON, NOON + HOUR), deleted_at=NOON + 2 * HOUR, keep_until=NOON + 3 * HOUR,
    opened=Opening(NOON + 4 * HOUR, 1, 2), active=("eu-west-1",), replicas=("eu-west-1", "us-west-2"),
    begun=("us-west-2", NOON + 5 * HOUR),
)  # fmt: skip


def test_the_catalog_reads_what_it_has_written() -> None:
    held, sent = answer({})
    seen = SeenTable(5, 6, TableClass.INFREQUENT, (("g", (7, 8)),))
    backfill = Backfill("s", NOON, NOON + HOUR, Opening(NOON + 2 * HOUR, 3, 4))
    policy = RecordedPolicy("s", "{}", NOON)
    held.add(FULL)
    held.note(FULL, seen)
    held.put_backfill(backfill)
    held.put_policy(policy)
    (_, added), (_, noted), (_, asked), (_, recorded) = sent
    item = added["Item"] | {"seen": noted["ExpressionAttributeValues"][":seen"], "scaled": {"BOOL": True}}
    read, _ = answer({"Items": [item | {"scaling": {"S": "p"}}]})
    assert list(read.entries("s")) == [change_entry(FULL, seen=seen, scaled=True, policy="p")]
    assert list(answer({"Items": [asked["Item"]]})[0].backfills("s")) == [backfill]
    assert list(answer({"Items": [recorded["Item"]]})[0].list_policies()) == [policy]
