"""The contract of callers' keys in the catalog's table, on every engine: boto3 writes them, both clients read them."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest

from aws.dynamodb.credential_changes import DynamoCredentials
from aws.dynamodb.credentials import find_credential
from aws.http.client import LeanClient
from aws.http.credentials import Provider
from local.emulator import REGION
from local.stack import make_aws_client
from strict import SystemClock
from tests.contract.conftest import CLOCK, KEYS, LEAN
from tests.contract.engines import TAGS, _numbers, real
from tests.credentials.records import NOW, SALT, record
from tidetable.config import TableClass
from tidetable.credentials import CredentialRecord, Secret
from tidetable.errors import TableMissing
from tidetable.ports import TableSpec

TEXT = "tt_0123456789_abcdefghijklmnopqrstuvwxyz012345"
ID = "0123456789"
FULL = record(
    TEXT,
    {"b", "a"},
    ("read",),
    "tenant é/",
    expires=datetime(2027, 1, 1, tzinfo=UTC),
    gateway_key="gk",
    plan="p",
    origin="og",
    rate=0.5,
    burst=3,
)


class Kept(NamedTuple):
    """The two adapters of one table."""

    keys: DynamoCredentials
    lean: LeanClient
    table: str

    def find(self, id: str) -> CredentialRecord | None:
        """Find a key as the authorizer does."""
        return find_credential(self.lean, self.table, id)


@pytest.fixture(params=LEAN)
def kept(request: pytest.FixtureRequest) -> Kept:
    endpoint = request.getfixturevalue(request.param.removeprefix("lean ").replace(" ", "_"))
    client: Any = make_aws_client(endpoint, "dynamodb")
    lean = LeanClient(endpoint, REGION, Provider(KEYS, SystemClock().now, lambda *_: b""))
    engine, name = real(client, CLOCK, lean=lean), f"keys-{next(_numbers)}"
    assert engine.tables.create(TableSpec(name, None, None, TableClass.STANDARD, TAGS))
    engine.settled(name)
    return Kept(DynamoCredentials(client, name), lean, name)


@pytest.mark.parametrize("sent", [FULL, record(TEXT), record(TEXT, set())], ids=["full", "bare", "no stream"])
def test_a_key_is_read_as_it_was_added(kept: Kept, sent: CredentialRecord) -> None:
    assert kept.keys.add(sent)
    assert kept.keys.find(ID) == kept.find(ID) == sent
    assert kept.keys.all() == [sent]


def test_a_key_that_is_not_there_is_none(kept: Kept) -> None:
    assert kept.keys.find(ID) is kept.find(ID) is None
    assert kept.keys.all() == []
    assert not kept.keys.revoke(ID, NOW)
    assert not kept.keys.rotate(FULL, FULL)
    assert kept.keys.find(ID) is None


def test_no_key_takes_the_place_of_another(kept: Kept) -> None:
    assert kept.keys.add(FULL)
    assert not kept.keys.add(record(TEXT))
    assert kept.find(ID) == FULL


def test_a_key_is_revoked_once_and_for_good(kept: Kept) -> None:
    kept.keys.add(FULL)
    assert kept.keys.revoke(ID, NOW)
    assert kept.keys.revoke(ID, NOW + timedelta(days=1)), "again changes nothing"
    assert kept.find(ID) == replace(FULL, revoked=NOW)
    rotated = FULL.rotate(Secret.of(TEXT, SALT), NOW, timedelta(0))
    assert not kept.keys.rotate(rotated, FULL)
    assert not kept.keys.forget(ID)
    assert kept.find(ID) == replace(FULL, revoked=NOW)


def test_of_two_rotations_at_once_one_is_refused(kept: Kept) -> None:
    kept.keys.add(FULL)
    first = FULL.rotate(Secret.of(TEXT, SALT), NOW, timedelta(days=7))
    second = FULL.rotate(Secret.of(TEXT, bytes(16)), NOW + timedelta(seconds=1), timedelta(0))
    assert kept.keys.rotate(first, FULL)
    assert not kept.keys.rotate(second, FULL)
    assert kept.find(ID) == first
    later = first.rotate(Secret.of(TEXT, bytes(16)), NOW + timedelta(days=1), timedelta(0))
    assert kept.keys.rotate(later, first)
    assert kept.find(ID) == later


def test_keys_are_listed_by_their_ids(kept: Kept) -> None:
    second = record("tt_aaaaaaaaaa_abcdefghijklmnopqrstuvwxyz012345")
    for sent in (second, FULL):
        kept.keys.add(sent)
    assert kept.keys.all() == [FULL, second]
    assert kept.keys.forget(ID)
    assert kept.keys.all() == [second]


def test_without_the_catalog_nothing_is_read(kept: Kept) -> None:
    with pytest.raises(TableMissing):
        find_credential(kept.lean, "none", ID)
