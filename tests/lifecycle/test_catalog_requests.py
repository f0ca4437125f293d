"""The catalog's requests, member by member, and what it reads of what it has written."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from aws.dynamodb.catalog_changes import DynamoCatalog
from tests.fakes.boto import Client
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opening, RecordedPolicy, SeenTable, State
from tidetable.config import TableClass
from tidetable.errors import StaleEntry
from tidetable.layout import Index, Layout, Packing
from tidetable.periods import parse_label

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = "2026-03-15"
KEY = {"pk": {"S": "stream#s"}, "sk": {"S": f"{DAY}T00:00:00.000000Z#{DAY}"}}
ENTRY = Entry("s", parse_label(DAY), "t", Layout("series", 1, "id"), State.OPEN, NOON)


def catalog(client: Client) -> DynamoCatalog:
    made: Any = client
    return DynamoCatalog(made, "catalog")


@pytest.mark.parametrize("consistent", [False, True])
def test_the_entries_of_a_range_are_read_with_the_last_before_it(*, consistent: bool) -> None:
    client = Client()
    assert catalog(client).entries("s", NOON, NOON + HOUR, consistent=consistent) == []
    shared = {"TableName": "catalog", "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high"}
    stream, noon = {"S": "stream#s"}, {"S": "2026-03-15T12:00:00.000000Z"}
    first, last = {"S": "1969-12-25T00:00:00.000000Z"}, {"S": "2026-03-15T13:00:00.000000Z~"}
    assert client.sent == [
        ("query", {**shared, "ExpressionAttributeValues": {":pk": stream, ":low": first, ":high": noon},
                   "ConsistentRead": consistent, "ScanIndexForward": False, "Limit": 1}),
        ("query", {**shared, "ExpressionAttributeValues": {":pk": stream, ":low": noon, ":high": last},
                   "ConsistentRead": consistent}),
    ]  # fmt: skip


def test_what_holds_from_the_next_event_on_is_read_consistently() -> None:
    client = Client()
    held = catalog(client)
    held.backfills("s")
    held.list_policies()
    held.read_horizon("s")
    held.is_deployed()
    assert [members["ConsistentRead"] for _, members in client.sent] == [True] * 4


def test_a_period_is_recorded_once_and_changed_on_conditions_alone() -> None:
    client = Client()
    held = catalog(client)
    assert held.add(ENTRY)
    held.move(ENTRY, State.CLOSED, expected=(State.OPEN, State.CLOSED), opened=Opening(NOON, 1, None))
    held.mark_scaled(ENTRY, scaled=True, policy="p")
    (_, added), (_, moved), (_, scaled) = client.sent
    assert (added["ConditionExpression"], added["Item"]["state"]) == ("attribute_not_exists(pk)", {"S": "open"})
    opened = {"until": {"S": "2026-03-15T12:00:00.000000Z"}, "write": {"N": "1"}, "read": {"NULL": True}}
    assert moved == {
        "ConditionExpression": "#state IN (:s0, :s1)",
        "TableName": "catalog",
        "Key": KEY,
        "UpdateExpression": "SET #state = :state, #format = :format, #opened = :opened",
        "ExpressionAttributeNames": {"#state": "state", "#format": "format", "#opened": "opened"},
        "ExpressionAttributeValues": {
            ":state": {"S": "closed"}, ":format": {"N": "1"}, ":opened": {"M": opened},
            ":s0": {"S": "closed"}, ":s1": {"S": "open"},
        },
    }  # fmt: skip
    assert scaled["ConditionExpression"] == "attribute_exists(pk)"
    assert scaled["ExpressionAttributeValues"] == {":scaled": {"BOOL": True}, ":scaling": {"S": "p"}}
    refused = catalog(Client({"update_item": "ConditionalCheckFailedException"}))
    for change in (lambda: refused.move(ENTRY, State.CLOSED, expected=State), lambda: refused.mark_copies(ENTRY, ())):
        with pytest.raises(StaleEntry):
            change()
    assert not catalog(Client({"put_item": "ConditionalCheckFailedException"})).add(ENTRY)


def test_a_lease_is_taken_from_nobody_from_itself_or_when_it_has_run_out() -> None:
    client = Client()
    assert catalog(client).acquire("l", "me", NOON, HOUR)
    catalog(client).release("l", "me")
    taken, released = (members for _, members in client.sent)
    assert taken["ConditionExpression"] == "attribute_not_exists(pk) OR #until <= :now OR #owner = :owner"
    assert taken["Item"] == {
        "pk": {"S": "lease#l"}, "sk": {"S": "lease"}, "owner": {"S": "me"},
        "until": {"S": "2026-03-15T13:00:00.000000Z"},
    }  # fmt: skip
    assert taken["ExpressionAttributeValues"] == {":now": {"S": "2026-03-15T12:00:00.000000Z"}, ":owner": {"S": "me"}}
    assert (released["ConditionExpression"], released["Key"]["pk"]) == ("#owner = :owner", {"S": "lease#l"})
    busy = catalog(
        Client({"put_item": "ConditionalCheckFailedException", "delete_item": "ConditionalCheckFailedException"})
    )
    assert not busy.acquire("l", "me", NOON, HOUR)
    busy.release("l", "me")


def test_the_secret_has_256_bits_and_is_written_only_where_there_is_none() -> None:
    client = Client()
    catalog(client).ensure_secret()
    read, written = client.sent
    assert (read[0], read[1]["ConsistentRead"], written[0]) == ("get_item", True, "put_item")
    assert written[1]["ConditionExpression"] == "attribute_not_exists(pk)"
    assert len(bytes.fromhex(written[1]["Item"]["secret"]["S"])) == 32
    there = Client(get_item={"Item": written[1]["Item"]})
    catalog(there).ensure_secret()
    assert [operation for operation, _ in there.sent] == ["get_item"]


FULL = replace(
    ENTRY,
    layout=Layout("time", 4, "series", 21_600, (Index("l", local=True, levels=("kind",)), Index("g", "a", project=("b",))),
                  versioned=True, parts=True, pack=Packing(60, 1_000)),
    archive=ArchiveFacts("m", 12, 345, NOON, NOON + HOUR), deleted_at=NOON + 2 * HOUR, keep_until=NOON + 3 * HOUR,
    opened=Opening(NOON + 4 * HOUR, 1, 2), copies=("eu-west-1",), replicas=("eu-west-1", "us-west-2"),
    copying=("us-west-2", NOON + 5 * HOUR),
)  # fmt: skip


def test_the_catalog_reads_what_it_has_written() -> None:
    client = Client()
    held = catalog(client)
    seen = SeenTable(5, 6, TableClass.INFREQUENT, (("g", (7, 8)),))
    backfill = Backfill("s", NOON, NOON + HOUR, Opening(NOON + 2 * HOUR, 3, 4))
    policy = RecordedPolicy("s", "{}", NOON)
    held.add(FULL)
    held.note(FULL, seen)
    held.put_backfill(backfill)
    held.put_policy(policy)
    (_, added), (_, noted), (_, asked), (_, recorded) = client.sent
    item = added["Item"] | {"seen": noted["ExpressionAttributeValues"][":seen"], "scaled": {"BOOL": True}}
    read = catalog(Client(query=[{"Items": []}, {"Items": [item | {"scaling": {"S": "p"}}]}]))
    assert list(read.entries("s")) == [replace(FULL, seen=seen, scaled=True, scaling="p")]
    assert list(catalog(Client(query=[{"Items": [asked["Item"]]}])).backfills("s")) == [backfill]
    assert list(catalog(Client(query=[{"Items": [recorded["Item"]]}])).list_policies()) == [policy]
