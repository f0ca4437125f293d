"""The keys that a process keeps: how long a revoked key lives, and what a flood of invented keys costs."""

from datetime import timedelta

import pytest

from tests.credentials.records import NOW, record
from tidetable.credentials import KeyRecord, KeyRing
from tidetable.credentials import ring as module
from tidetable.errors import Outage, StoreUnavailable

TEXT = "tt_0123456789_abcdefghijklmnopqrstuvwxyz012345"
ID = "0123456789"
SECOND = timedelta(seconds=1)


class Catalog:
    """Keys by their id, and what was read of them."""

    def __init__(self) -> None:
        self.keys: dict[str, KeyRecord] = {ID: record(TEXT)}
        self.read: list[str] = []
        self.fails = False

    def __call__(self, id: str) -> KeyRecord | None:
        self.read.append(id)
        if self.fails:
            raise StoreUnavailable(Outage.NO_ANSWER, "test")
        return self.keys.get(id)


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()


def test_a_key_in_use_is_read_once_per_minute(catalog: Catalog) -> None:
    ring = KeyRing(catalog)
    for second in range(120):
        assert ring.find(ID, NOW + second * SECOND) is not None
    assert catalog.read == [ID, ID]


def test_a_revoked_key_lives_for_60_seconds_at_the_most(catalog: Catalog) -> None:
    ring = KeyRing(catalog)
    ring.find(ID, NOW)
    catalog.keys[ID] = record(TEXT, revoked=NOW)
    before, after = ring.find(ID, NOW + 59.999 * SECOND), ring.find(ID, NOW + 60 * SECOND)
    assert before is not None
    assert after is not None
    assert (before.revoked, after.revoked) == (None, NOW)


def test_a_key_that_cannot_be_read_again_is_not_accepted_from_memory(catalog: Catalog) -> None:
    ring = KeyRing(catalog)
    ring.find(ID, NOW)
    catalog.fails = True
    with pytest.raises(StoreUnavailable):
        ring.find(ID, NOW + 60 * SECOND)


def test_a_clock_that_was_set_back_does_not_lengthen_a_life(catalog: Catalog) -> None:
    ring = KeyRing(catalog)
    ring.find(ID, NOW)
    ring.find(ID, NOW - 3_600 * SECOND)
    assert len(catalog.read) == 2


def test_an_unknown_id_is_not_read_again_for_ten_seconds(catalog: Catalog) -> None:
    ring = KeyRing(catalog)
    for tenth in range(100):
        assert ring.find("invented00", NOW + tenth * SECOND / 10) is None
    assert catalog.read == ["invented00"]
    catalog.keys["invented00"] = record(TEXT)
    assert ring.find("invented00", NOW + 10 * SECOND) is not None


def test_a_flood_of_invented_ids_is_bounded_and_pushes_no_key_out(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 100)
    ring = KeyRing(catalog)
    ring.find(ID, NOW)
    for number in range(1_000):
        ring.find(f"{number:010}", NOW)
    assert ring.find(ID, NOW + SECOND) is not None
    assert catalog.read.count(ID) == 1
    assert sum(len(kept) for kept in (ring._known, ring._unknown)) <= 101
