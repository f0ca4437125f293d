"""Keys in the catalog's table: their items, and the requests that add, rotate, revoke and delete them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

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
    "pk": "keys",
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
    key = read_record({"pk": "keys", "sk": "0123456789"} | later)
    none = Access("0123456789", frozenset(), frozenset())
    assert key == CredentialRecord("0123456789", "app", none, NOW, (), newer=2)
    assert read_record(FULL_ITEM | {"format": Decimal(2)}) == replace(
        key, revoked=datetime(2026, 5, 1, tzinfo=UTC), gateway_key="gk", plan="p"
    )
    assert (key.find_state(NOW), replace(key, revoked=NOW).find_state(NOW)) == ("newer", "revoked")


KEY = {"pk": {"S": "keys"}, "sk": {"S": "0123456789"}}
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
    second = STORED | {"sk": {"S": "aaaaaaaaaa"}}
    pages = [{"Items": [STORED], "LastEvaluatedKey": KEY}, {"Items": [second]}, {"Item": STORED}, {}]
    script = Script(lambda number, _: pages[number - 1])
    keys = LeanCredentials(script.client, "catalog")
    assert [key.id for key in keys.all()] == ["0123456789", "aaaaaaaaaa"]
    assert keys.find("0123456789") == BARE
    assert keys.find("0123456789") is None
    query = {
        "TableName": "catalog",
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
        "ExpressionAttributeValues": {":pk": {"S": "keys"}, ":low": {"S": "0"}, ":high": {"S": "~"}},
        "ConsistentRead": True,
    }
    get = {"TableName": "catalog", "Key": KEY, "ConsistentRead": True}
    assert script.sent == [
        ("Query", query), ("Query", query | {"ExclusiveStartKey": KEY}), ("GetItem", get), ("GetItem", get),
    ]  # fmt: skip


ROTATED = replace(BARE, rotated=datetime(2026, 4, 1, tzinfo=UTC))
ALIVE = "attribute_exists(pk) AND attribute_not_exists(revoked) AND "
# Each change, its operation, its condition, and its other members.
CHANGES: dict[str, tuple[Any, str, str, dict[str, Any]]] = {
    "add": (lambda keys: keys.add(BARE), "PutItem", "attribute_not_exists(pk)", {"Item": STORED}),
    "rotate first": (
        lambda keys: keys.rotate(BARE, BARE),
        "PutItem",
        ALIVE + "attribute_not_exists(rotated)",
        {"Item": STORED},
    ),
    "rotate again": (
        lambda keys: keys.rotate(BARE, ROTATED),
        "PutItem",
        ALIVE + "rotated = :before",
        {"Item": STORED, "ExpressionAttributeValues": {":before": {"S": "2026-04-01T00:00:00.000000Z"}}},
    ),
    "revoke": (
        lambda keys: keys.revoke("0123456789", NOW),
        "UpdateItem",
        "attribute_exists(pk)",
        {
            "Key": KEY,
            "UpdateExpression": "SET revoked = if_not_exists(revoked, :now)",
            "ExpressionAttributeValues": {":now": {"S": "2026-03-12T12:00:00.000000Z"}},
        },
    ),
    "forget": (lambda keys: keys.forget("0123456789"), "DeleteItem", "attribute_not_exists(revoked)", {"Key": KEY}),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_made_on_its_condition_and_says_whether_it_was_made(name: str) -> None:
    change, operation, condition, members = CHANGES[name]
    script = Script(lambda *_: {})
    assert change(LeanCredentials(script.client, "catalog")) is True
    assert script.sent == [(operation, {"TableName": "catalog", "ConditionExpression": condition, **members})]
    refused = Script(lambda *_: RequestRefused("ConditionalCheckFailedException", "no", b"{}"))
    assert change(LeanCredentials(refused.client, "catalog")) is False
    denied = Script(lambda *_: RequestRefused("AccessDeniedException", "no", b"{}"))
    with pytest.raises(StoreUnavailable, match="AccessDeniedException: no"):
        change(LeanCredentials(denied.client, "catalog"))


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
