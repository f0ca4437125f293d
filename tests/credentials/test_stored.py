"""Keys in the catalog's table: their items, and the requests that add, rotate, revoke and delete them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from aws.dynamodb.credential_items import make_record_item, read_record
from aws.dynamodb.credentials import LeanCredentials
from aws.http.client import RequestRefused
from tests.credentials.records import NOW, SALT, record
from tests.fakes.script import Script
from tidetable.access import Access
from tidetable.credentials import CredentialRecord, Secret
from tidetable.errors import StoreUnavailable

TEXT = "tt_0123456789_abcdefghijklmnopqrstuvwxyz012345"
BARE = CredentialRecord("0123456789", "app", Access("0123456789"), NOW, (Secret(b"\x01", b"\xff"),))
FULL = CredentialRecord(
    "0123456789",
    "app",
    Access("0123456789", frozenset({"e", "d", "c", "b", "a"}), frozenset({"read", "write"}), "tenant/"),
    NOW,
    (Secret(b"\x01", b"\xff"), Secret(b"\x02", b"\xfe", datetime(2026, 3, 13, tzinfo=UTC))),
    expires=datetime(2027, 1, 1, tzinfo=UTC),
    revoked=datetime(2026, 5, 1, tzinfo=UTC),
    rotated=datetime(2026, 4, 1, tzinfo=UTC),
    meter="m",
    gateway_key="gk",
    plan="p",
    origin="og",
    rate=0.1,
    burst=3,
)
BARE_ITEM = {
    "pk": "keys#8",
    "sk": "0123456789",
    "format": 1,
    "name": "app",
    "can": ["write", "read", "operate"],
    "created": "2026-03-12T12:00:00.000000Z",
    "secrets": [{"salt": "01", "hash": "ff"}],
}
FULL_ITEM = BARE_ITEM | {
    "can": ["write", "read"],
    "secrets": [{"salt": "01", "hash": "ff"}, {"salt": "02", "hash": "fe", "until": "2026-03-13T00:00:00.000000Z"}],
    "streams": ["a", "b", "c", "d", "e"],
    "series_prefix": "tenant/",
    "meter": "m",
    "gateway_key": "gk",
    "plan": "p",
    "origin": "og",
    "rate": Decimal("0.1"),
    "burst": 3,
    "expires": "2027-01-01T00:00:00.000000Z",
    "revoked": "2026-05-01T00:00:00.000000Z",
    "rotated": "2026-04-01T00:00:00.000000Z",
}
NO_STREAM = replace(BARE, access=Access("0123456789", frozenset()))
KEYS = {"full": (FULL, FULL_ITEM), "bare": (BARE, BARE_ITEM), "no stream": (NO_STREAM, BARE_ITEM | {"streams": []})}


@pytest.mark.parametrize("name", KEYS)
def test_a_key_and_its_item_hold_the_same(name: str) -> None:
    key, item = KEYS[name]
    assert make_record_item(key) == item
    assert read_record(item) == key


def test_an_item_with_an_empty_prefix_gives_no_right_at_all() -> None:
    """Nothing of Tidetable writes it. Another program's mistake must not open all series."""
    key = read_record(FULL_ITEM | {"series_prefix": ""})
    assert key.access == Access("0123456789", frozenset("abcde"), frozenset(), "")
    rotated = read_record(make_record_item(key))
    assert rotated.access.can == frozenset()


def test_a_key_of_an_earlier_version_has_no_format_and_is_read() -> None:
    assert read_record({name: value for name, value in FULL_ITEM.items() if name != "format"}) == FULL


def test_a_key_of_a_newer_version_has_no_right_here_whatever_its_record_has() -> None:
    """It may have a restriction that this code does not know. Its id, name, times of making and revocation stay."""
    later = {"name": "app", "created": "2026-03-12T12:00:00.000000Z", "format": Decimal(2), "only_on": "mondays"}
    key = read_record({"pk": "keys#8", "sk": "0123456789"} | later)
    none = Access("0123456789", frozenset(), frozenset())
    assert key == CredentialRecord("0123456789", "app", none, NOW, (), newer=2)
    assert read_record(FULL_ITEM | {"format": Decimal(2)}) == replace(
        key, revoked=datetime(2026, 5, 1, tzinfo=UTC), gateway_key="gk", plan="p"
    )
    assert (key.find_state(NOW), replace(key, revoked=NOW).find_state(NOW)) == ("newer", "revoked")


# The SHA-256 of the id begins with 84.
KEY = {"pk": {"S": "keys#8"}, "sk": {"S": "0123456789"}}
FORMER = {"pk": {"S": "keys"}, "sk": {"S": "0123456789"}}
STORED = {
    **KEY,
    "format": {"N": "1"},
    "name": {"S": "app"},
    "can": {"L": [{"S": "write"}, {"S": "read"}, {"S": "operate"}]},
    "created": {"S": "2026-03-12T12:00:00.000000Z"},
    "secrets": {"L": [{"M": {"salt": {"S": "01"}, "hash": {"S": "ff"}}}]},
}


def test_keys_are_read_consistently_and_to_the_last_page() -> None:
    """A key that was revoked a moment ago must be seen as revoked."""
    partitions = [f"keys#{digit}" for digit in "0123456789abcdef"] + ["keys"]
    second = STORED | {"pk": {"S": "keys#b"}, "sk": {"S": "aaaaaaaaaa"}}
    former = STORED | {"pk": {"S": "keys"}, "sk": {"S": "9999999999"}}

    def reply(_: int, body: dict[str, Any]) -> dict[str, Any]:
        pages = {"keys#8": [STORED], "keys#b": [second], "keys": [former]}
        items = pages.get(body["ExpressionAttributeValues"][":pk"]["S"], [])
        more = {"LastEvaluatedKey": KEY} if items == [STORED] and "ExclusiveStartKey" not in body else {}
        return {"Items": [] if "ExclusiveStartKey" in body else items} | more

    script = Script(reply)
    keys = LeanCredentials(script.client, "catalog").all()
    assert [(key.id, key.uncounted) for key in keys] == [
        ("0123456789", False), ("9999999999", True), ("aaaaaaaaaa", False)
    ]  # fmt: skip
    queries = [
        {
            "TableName": "catalog",
            "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
            "ExpressionAttributeValues": {":pk": {"S": partition}, ":low": {"S": "0"}, ":high": {"S": "~"}},
            "ConsistentRead": True,
        }
        for partition in partitions
    ]
    queries.insert(9, queries[8] | {"ExclusiveStartKey": KEY})
    assert script.sent == [("Query", query) for query in queries]


def test_a_key_is_looked_up_in_its_partition_and_then_where_older_versions_wrote_it() -> None:
    answers = [{"Item": STORED}, {}, {"Item": STORED | FORMER}, {}, {}]
    script = Script(lambda number, _: answers[number - 1])
    keys = LeanCredentials(script.client, "catalog")
    assert keys.find("0123456789") == BARE
    assert keys.find("0123456789") == replace(BARE, uncounted=True)
    assert keys.find("0123456789") is None
    places = [KEY, KEY, FORMER, KEY, FORMER]
    assert script.sent == [
        ("GetItem", {"TableName": "catalog", "Key": place, "ConsistentRead": True}) for place in places
    ]


def test_changes_are_counted_by_slots_and_read_consistently() -> None:
    item = {"pk": {"S": "keys#changes"}, "sk": {"S": "changes"}}
    script = Script(lambda number, _: {"Item": item | {"84": {"N": "2"}, "a0": {"N": "1"}}} if number == 1 else {})
    keys = LeanCredentials(script.client, "catalog")
    assert keys.count_changes() == {"84": 2, "a0": 1}
    assert keys.count_changes() == {}
    assert script.sent == [("GetItem", {"TableName": "catalog", "Key": item, "ConsistentRead": True})] * 2


def test_a_key_is_added_unless_older_versions_added_it() -> None:
    script = Script(lambda *_: {})
    assert LeanCredentials(script.client, "catalog").add(BARE)
    put = {"TableName": "catalog", "ConditionExpression": "attribute_not_exists(pk)", "Item": STORED}
    look = {"TableName": "catalog", "Key": FORMER, "ConsistentRead": True}
    assert script.sent == [("GetItem", look), ("PutItem", put)]
    taken = Script(lambda *_: {"Item": STORED | FORMER})
    assert not LeanCredentials(taken.client, "catalog").add(BARE)
    assert taken.sent == [("GetItem", look)]


ROTATED = replace(BARE, rotated=datetime(2026, 4, 1, tzinfo=UTC))
ALIVE = "attribute_exists(pk) AND attribute_not_exists(revoked)"
# Each change of an existing key, its action, and the action's members beside the table.
CHANGES: dict[str, tuple[Any, str, dict[str, Any]]] = {
    "rotate first": (
        lambda keys: keys.rotate(BARE, BARE),
        "Put",
        {"ConditionExpression": ALIVE + " AND attribute_not_exists(rotated)", "Item": STORED},
    ),
    "rotate again": (
        lambda keys: keys.rotate(BARE, ROTATED),
        "Put",
        {
            "ConditionExpression": ALIVE + " AND rotated = :before",
            "ExpressionAttributeValues": {":before": {"S": "2026-04-01T00:00:00.000000Z"}},
            "Item": STORED,
        },
    ),
    "revoke": (
        lambda keys: keys.revoke("0123456789", NOW),
        "Update",
        {
            "ConditionExpression": "attribute_exists(pk)",
            "Key": KEY,
            "UpdateExpression": "SET revoked = if_not_exists(revoked, :now)",
            "ExpressionAttributeValues": {":now": {"S": "2026-03-12T12:00:00.000000Z"}},
        },
    ),
    "forget": (lambda keys: keys.forget("0123456789"), "Delete", {"ConditionExpression": ALIVE, "Key": KEY}),
}
COUNTED = {
    "Update": {
        "TableName": "catalog",
        "Key": {"pk": {"S": "keys#changes"}, "sk": {"S": "changes"}},
        "UpdateExpression": "ADD #slot :one",
        "ExpressionAttributeNames": {"#slot": "84"},
        "ExpressionAttributeValues": {":one": {"N": "1"}},
    }
}
FAILED, CONFLICT = ("ConditionalCheckFailed", "None"), ("None", "TransactionConflict")


def make_cancelled(*codes: str) -> RequestRefused:
    reasons = {"CancellationReasons": [{"Code": code} for code in codes]}
    return RequestRefused("TransactionCanceledException", "no", msgspec.json.encode(reasons))


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_and_its_count_are_one_write_which_says_whether_it_was_made(name: str) -> None:
    change, action, members = CHANGES[name]
    sent = [
        ("TransactWriteItems", {"TransactItems": [{action: {"TableName": "catalog", **members, **place}}, COUNTED]})
        for place in ({}, {"Item": STORED | FORMER} if action == "Put" else {"Key": FORMER})
    ]
    script = Script(lambda *_: {})
    assert change(LeanCredentials(script.client, "catalog")) is True
    assert script.sent == sent[:1]
    script = Script(lambda number, _: make_cancelled(*FAILED) if number == 1 else {})
    assert change(LeanCredentials(script.client, "catalog")) is True, "older versions wrote the key"
    assert script.sent == sent
    refused = Script(lambda *_: make_cancelled(*FAILED))
    assert change(LeanCredentials(refused.client, "catalog")) is False
    denied = Script(lambda *_: RequestRefused("AccessDeniedException", "no", b"{}"))
    with pytest.raises(StoreUnavailable, match="AccessDeniedException: no"):
        change(LeanCredentials(denied.client, "catalog"))


def test_a_change_that_meets_another_change_is_sent_again() -> None:
    script = Script(lambda number, _: make_cancelled(*CONFLICT) if number < 5 else {})
    assert LeanCredentials(script.client, "catalog").revoke("0123456789", NOW)
    assert len(script.sent) == 5
    both = Script(lambda *_: make_cancelled("ConditionalCheckFailed", "TransactionConflict"))
    assert not LeanCredentials(both.client, "catalog").revoke("0123456789", NOW)
    assert len(both.sent) == 2, "one attempt per place"


def test_a_rotated_key_keeps_its_other_facts() -> None:
    """Only the secrets and the time of the rotation change."""
    later = NOW + timedelta(hours=1)
    kept = record(
        TEXT, {"a"}, ("read",), "p/", expires=later, gateway_key="gk", plan="p", origin="og", rate=1.0, burst=2
    )
    secret = Secret.of("other", SALT)
    assert kept.rotate(secret, NOW, timedelta(0)) == replace(
        kept, secrets=(secret, replace_until(kept.secrets[0], NOW)), rotated=NOW
    )


def replace_until(secret: Secret, until: datetime) -> Secret:
    return Secret(secret.salt, secret.hash, until)
