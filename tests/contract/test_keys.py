"""The contract of callers' keys in the catalog's table, on every engine with HTTP."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from aws.dynamodb import credential_items
from aws.dynamodb.credentials import LeanCredentials
from tests.contract.conftest import CLOCK, LEAN, make_lean_client, share_client
from tests.contract.engines import TAGS, _numbers, real
from tests.credentials.records import NOW, SALT, record
from tidetable.access import Access
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


@pytest.fixture(params=LEAN)
def keys(request: pytest.FixtureRequest) -> LeanCredentials:
    endpoint = request.getfixturevalue(request.param.removeprefix("lean ").replace(" ", "_"))
    client = share_client(endpoint)
    lean, name = make_lean_client(endpoint), f"keys-{next(_numbers)}"
    engine = real(client, CLOCK, lean)
    assert engine.tables.create(TableSpec(name, None, None, TableClass.STANDARD, TAGS))
    engine.settled(name)
    return LeanCredentials(lean, name)


@pytest.mark.parametrize("sent", [FULL, record(TEXT), record(TEXT, set())], ids=["full", "bare", "no stream"])
def test_a_key_is_read_as_it_was_added(keys: LeanCredentials, sent: CredentialRecord) -> None:
    assert keys.add(sent)
    assert keys.find(ID) == sent
    assert keys.all() == [sent]


def test_a_key_that_is_not_there_is_none(keys: LeanCredentials) -> None:
    assert keys.find(ID) is None
    assert keys.all() == []
    assert not keys.revoke(ID, NOW)
    assert not keys.rotate(FULL, FULL)
    assert keys.find(ID) is None


def test_no_key_takes_the_place_of_another(keys: LeanCredentials) -> None:
    assert keys.add(FULL)
    assert not keys.add(record(TEXT))
    assert keys.find(ID) == FULL


def test_a_key_is_revoked_once_and_for_good(keys: LeanCredentials) -> None:
    keys.add(FULL)
    assert keys.revoke(ID, NOW)
    assert keys.revoke(ID, NOW + timedelta(days=1)), "again changes nothing"
    assert keys.find(ID) == replace(FULL, revoked=NOW)
    rotated = FULL.rotate(Secret.of(TEXT, SALT), NOW, timedelta(0))
    assert not keys.rotate(rotated, FULL)
    assert not keys.forget(ID)
    assert keys.find(ID) == replace(FULL, revoked=NOW)


def test_a_key_of_a_newer_version_is_found_without_rights_and_can_be_revoked(
    keys: LeanCredentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as later:
        later.setattr(credential_items, "KEY_FORMAT", 2)
        assert keys.add(FULL)
    known = CredentialRecord(
        ID, "test", Access(ID, frozenset(), frozenset()), NOW, (), gateway_key="gk", plan="p", newer=2
    )
    assert (keys.find(ID), keys.all()) == (known, [known])
    assert keys.revoke(ID, NOW)
    assert keys.find(ID) == replace(known, revoked=NOW)


def test_of_two_rotations_at_once_one_is_refused(keys: LeanCredentials) -> None:
    keys.add(FULL)
    first = FULL.rotate(Secret.of(TEXT, SALT), NOW, timedelta(days=7))
    second = FULL.rotate(Secret.of(TEXT, bytes(16)), NOW + timedelta(seconds=1), timedelta(0))
    assert keys.rotate(first, FULL)
    assert not keys.rotate(second, FULL)
    assert keys.find(ID) == first
    later = first.rotate(Secret.of(TEXT, bytes(16)), NOW + timedelta(days=1), timedelta(0))
    assert keys.rotate(later, first)
    assert keys.find(ID) == later


def test_keys_are_listed_by_their_ids(keys: LeanCredentials) -> None:
    second = record("tt_aaaaaaaaaa_abcdefghijklmnopqrstuvwxyz012345")
    for sent in (second, FULL):
        keys.add(sent)
    assert keys.all() == [FULL, second]
    assert keys.forget(ID)
    assert keys.all() == [second]


def test_a_key_of_older_versions_is_changed_where_it_lies(keys: LeanCredentials) -> None:
    """They wrote all keys into one partition, and read no other."""
    keys._put(credential_items.make_record_item(FULL) | {"pk": "keys"})
    former = replace(FULL, uncounted=True)
    assert (keys.find(ID), keys.all()) == (former, [former])
    assert not keys.add(record(TEXT))
    rotated = former.rotate(Secret.of(TEXT, SALT), NOW, timedelta(days=7))
    assert keys.rotate(rotated, former)
    assert keys.all() == [rotated]
    assert keys.revoke(ID, NOW)
    assert keys.all() == [replace(rotated, revoked=NOW)]
    assert not keys.forget(ID)


def test_a_key_of_older_versions_is_forgotten(keys: LeanCredentials) -> None:
    keys._put(credential_items.make_record_item(FULL) | {"pk": "keys"})
    assert keys.forget(ID)
    assert keys.all() == []


def test_every_change_of_an_existing_key_is_counted(keys: LeanCredentials) -> None:
    """The slots are the first two digits of the SHA-256 of the ids."""
    second = record("tt_aaaaaaaaaa_abcdefghijklmnopqrstuvwxyz012345")
    for sent in (second, FULL):
        keys.add(sent)
    assert keys.count_changes() == {}
    rotated = FULL.rotate(Secret.of(TEXT, SALT), NOW, timedelta(days=7))
    assert keys.rotate(rotated, FULL)
    assert not keys.rotate(rotated, FULL)
    assert keys.count_changes() == {"84": 1}
    assert keys.revoke(ID, NOW)
    assert keys.forget("aaaaaaaaaa")
    assert not keys.forget(ID)
    assert keys.count_changes() == {"84": 2, "bf": 1}


def test_without_the_catalog_nothing_is_read(keys: LeanCredentials) -> None:
    with pytest.raises(TableMissing):
        LeanCredentials(keys._client, "none").find(ID)
