"""The keys that a process keeps: how long a revoked key lives, and what a flood of invented keys costs."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.credentials.records import NOW, record
from tidetable.access import Access
from tidetable.credentials import Call, CredentialRecord, CredentialRing, Secret, decide
from tidetable.credentials import ring as module
from tidetable.errors import Outage, StoreUnavailable

TEXT = "tt_0123456789_abcdefghijklmnopqrstuvwxyz012345"
ID = "0123456789"
SECOND = timedelta(seconds=1)


# The slots of ID and of OTHER: the first two digits of the SHA-256 of their texts.
OTHER = "aaaaaaaaaa"
SLOT, OTHER_SLOT = "84", "bf"


class Catalog:
    """Keys by their id, counts of their changes by slots, and what was read of both."""

    def __init__(self) -> None:
        self.keys: dict[str, CredentialRecord] = {ID: record(TEXT)}
        self.changes: dict[str, int] = {}
        self.read: list[str] = []
        self.fails = False

    def count_changes(self) -> dict[str, int]:
        self.read.append("changes")
        if self.fails:
            raise StoreUnavailable(Outage.NO_ANSWER, "test")
        return dict(self.changes)

    def __call__(self, id: str) -> CredentialRecord | None:
        self.read.append(id)
        if self.fails:
            raise StoreUnavailable(Outage.NO_ANSWER, "test")
        return self.keys.get(id)


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


def test_a_key_in_use_is_read_once_per_minute(catalog: Catalog) -> None:
    ring = CredentialRing(catalog)
    for second in range(120):
        assert ring.find(ID, NOW + second * SECOND) is not None
    assert catalog.read == [ID, ID]


def test_a_revoked_key_lives_for_60_seconds_at_the_most(catalog: Catalog) -> None:
    ring = CredentialRing(catalog)
    ring.find(ID, NOW)
    catalog.keys[ID] = record(TEXT, revoked=NOW)
    before, after = ring.find(ID, NOW + 59.999 * SECOND), ring.find(ID, NOW + 60 * SECOND)
    assert before is not None
    assert after is not None
    assert (before.revoked, after.revoked) == (None, NOW)


def test_a_key_that_cannot_be_read_again_is_not_accepted_from_memory(catalog: Catalog) -> None:
    ring = CredentialRing(catalog)
    ring.find(ID, NOW)
    catalog.fails = True
    with pytest.raises(StoreUnavailable):
        ring.find(ID, NOW + 60 * SECOND)


def test_a_clock_that_was_set_back_does_not_lengthen_a_life(catalog: Catalog) -> None:
    ring = CredentialRing(catalog)
    ring.find(ID, NOW)
    ring.find(ID, NOW - 3_600 * SECOND)
    assert len(catalog.read) == 2


def find_revoked(ring: CredentialRing, seconds: float, id: str = ID) -> bool:
    found = ring.find(id, NOW + seconds * SECOND)
    assert found is not None
    return found.revoked is not None


def test_a_key_in_use_is_kept_for_an_hour_and_its_changes_are_counted_once_per_minute(catalog: Catalog) -> None:
    ring = CredentialRing(catalog, catalog.count_changes)
    for second in range(3_661):
        assert not find_revoked(ring, second)
    # The first request of a process reads the key alone, so the key is read again after its minute.
    assert catalog.read == [ID, "changes", ID, *["changes"] * 60, ID]


def test_a_key_is_read_again_after_an_hour_although_nobody_counted_a_change(catalog: Catalog) -> None:
    """Somebody may have changed its record by hand."""
    ring = CredentialRing(catalog, catalog.count_changes)
    for second in (0, 60):
        find_revoked(ring, second)
    catalog.keys[ID] = record(TEXT, revoked=NOW)
    assert not find_revoked(ring, 60 + 3_599.9)
    assert find_revoked(ring, 60 + 3_600)


def test_a_key_that_is_kept_for_long_is_revoked_within_60_seconds(catalog: Catalog) -> None:
    """The changes were counted at 120 s, the key is revoked at 121 s, and a request at 180 s counts them again."""
    ring = CredentialRing(catalog, catalog.count_changes)
    for second in (0, 60, 120):
        assert not find_revoked(ring, second)
    catalog.keys[ID], catalog.changes = record(TEXT, revoked=NOW), {SLOT: 1}
    assert not find_revoked(ring, 179.9)
    assert find_revoked(ring, 180)


@pytest.mark.parametrize("order", ["before the count", "after the count", "after the key"])
def test_a_key_that_changes_while_it_is_read_is_revoked_within_60_seconds(catalog: Catalog, order: str) -> None:
    def revoke() -> None:
        catalog.keys[ID], catalog.changes = record(TEXT, revoked=NOW), {SLOT: 1}

    def count_changes() -> dict[str, int]:
        if order == "before the count":
            revoke()
        counts = catalog.count_changes()
        if order == "after the count":
            revoke()
        return counts

    def read(id: str) -> CredentialRecord | None:
        found = catalog(id)
        if order == "after the key" and len(catalog.read) == 3:
            revoke()
        return found

    ring = CredentialRing(read, count_changes)
    assert not find_revoked(ring, 0)
    assert find_revoked(ring, 60) == (order != "after the key")
    assert find_revoked(ring, 120)


def test_the_change_of_a_key_costs_the_other_keys_of_its_slot_a_read_and_no_others(catalog: Catalog) -> None:
    catalog.keys[OTHER] = record(TEXT)
    ring = CredentialRing(catalog, catalog.count_changes)
    for second in (0, 60, 120):
        for id in (ID, OTHER):
            find_revoked(ring, second, id)
    catalog.changes = {OTHER_SLOT: 1}
    catalog.read.clear()
    for id in (ID, OTHER):
        find_revoked(ring, 180, id)
    assert catalog.read == ["changes", OTHER]


def test_a_key_of_older_versions_is_read_once_per_minute_because_they_count_no_change(catalog: Catalog) -> None:
    catalog.keys[ID] = record(TEXT, uncounted=True)
    ring = CredentialRing(catalog, catalog.count_changes)
    for second in range(0, 200, 20):
        find_revoked(ring, second)
    assert catalog.read == [ID, "changes", ID, "changes", ID, "changes", ID]


def test_a_key_is_not_accepted_from_memory_if_its_changes_cannot_be_counted(catalog: Catalog) -> None:
    ring = CredentialRing(catalog, catalog.count_changes)
    for second in (0, 60, 120):
        find_revoked(ring, second)
    catalog.fails = True
    assert not find_revoked(ring, 179.9)
    with pytest.raises(StoreUnavailable):
        ring.find(ID, NOW + 180 * SECOND)


def test_a_clock_that_was_set_back_does_not_lengthen_the_life_of_a_count(catalog: Catalog) -> None:
    ring = CredentialRing(catalog, catalog.count_changes)
    for second in (0, 60, 3_000):
        find_revoked(ring, second)
    catalog.keys[ID], catalog.changes = record(TEXT, revoked=NOW), {SLOT: 1}
    assert find_revoked(ring, 2_000)


def test_an_unknown_id_is_not_read_again_for_ten_seconds(catalog: Catalog) -> None:
    ring = CredentialRing(catalog)
    for tenth in range(100):
        assert ring.find("invented00", NOW + tenth * SECOND / 10) is None
    assert catalog.read == ["invented00"]
    catalog.keys["invented00"] = record(TEXT)
    assert ring.find("invented00", NOW + 10 * SECOND) is not None


def test_a_flood_of_invented_ids_is_bounded_and_pushes_no_key_out(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 100)
    ring = CredentialRing(catalog)
    ring.find(ID, NOW)
    for number in range(1_000):
        ring.find(f"{number:010}", NOW)
    assert ring.find(ID, NOW + SECOND) is not None
    assert catalog.read.count(ID) == 1
    assert sum(len(kept) for kept in (ring._known, ring._unknown)) <= 101


NEW = "tt_0123456789_ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"


def ask(ring: CredentialRing, text: str, seconds: float) -> str:
    """The refusal of a request with a key; empty if it is let through."""
    events = "/v1/streams/{stream}/events"
    return decide(Call("GET", events, "quakes", {"x-api-key": [text]}), ring, NOW + seconds * SECOND).refusal


def rotate(catalog: Catalog, overlap: float) -> None:
    former = catalog.keys[ID]
    catalog.keys[ID] = former.rotate(Secret.of(NEW, b"1" * 16), NOW, overlap * SECOND)


def test_a_new_secret_works_within_three_seconds_where_the_key_was_in_use(catalog: Catalog) -> None:
    ring = CredentialRing(catalog)
    assert ask(ring, TEXT, 0) == ""
    rotate(catalog, 3600)
    assert ask(ring, NEW, 2.999) == f"wrong secret of key {ID}"
    assert [ask(ring, NEW, 3), ask(ring, TEXT, 3.5), ask(ring, NEW, 50)] == ["", "", ""]
    assert catalog.read == [ID, ID]


def test_a_new_secret_has_the_rights_that_the_key_has_now(catalog: Catalog) -> None:
    ring = CredentialRing(catalog)
    assert ask(ring, TEXT, 0) == ""
    rotate(catalog, 3600)
    catalog.keys[ID] = replace(catalog.keys[ID], access=Access(ID, frozenset({"stations"})))
    assert ask(ring, NEW, 4) == "another stream"


def test_the_first_use_of_a_new_secret_ends_the_former_one_without_overlap(catalog: Catalog) -> None:
    ring = CredentialRing(catalog)
    assert ask(ring, TEXT, 0) == ""
    rotate(catalog, 0)
    # This process does not know yet that the key was rotated.
    assert ask(ring, TEXT, 59) == ""
    assert ask(ring, NEW, 59) == ""
    assert ask(ring, TEXT, 59.5) == "rotated"


def test_a_flood_of_wrong_secrets_reads_a_key_every_three_seconds(catalog: Catalog) -> None:
    ring = CredentialRing(catalog)
    wrong = TEXT[:-1] + "x"
    assert {ask(ring, wrong, number / 100) for number in range(1200)} == {f"wrong secret of key {ID}"}
    assert catalog.read == [ID] * 4


def test_a_wrong_secret_is_refused_with_an_error_if_its_key_cannot_be_read_again(catalog: Catalog) -> None:
    ring = CredentialRing(catalog)
    assert ask(ring, TEXT, 0) == ""
    catalog.fails = True
    with pytest.raises(StoreUnavailable):
        ask(ring, NEW, 4)
    # The secret that is known is still accepted.
    assert ask(ring, TEXT, 5) == ""


def test_a_key_that_was_removed_meanwhile_has_no_secret(catalog: Catalog) -> None:
    ring = CredentialRing(catalog)
    assert ask(ring, TEXT, 0) == ""
    del catalog.keys[ID]
    assert ask(ring, NEW, 4) == f"wrong secret of key {ID}"
    assert ask(ring, TEXT, 5) == f"unknown key {ID}"
