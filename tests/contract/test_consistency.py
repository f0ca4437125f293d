"""Reads that must be strongly consistent, on an engine whose other reads lag. Every member of an entry comes back."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws.dynamodb import catalog_items
from aws.dynamodb.catalog import LeanCatalog
from aws.dynamodb.credentials import LeanCredentials
from aws.dynamodb.tables import DynamoTables
from strict import ManualClock, StrictDynamo, Timings
from strict.client import StrictClient
from strict.memory import MemoryEngine
from tests.credentials.records import record
from tests.fakes.transport import StrictTransport
from tests.lifecycle.world import NOON
from tests.worlds.entries import make_entry
from tidetable.catalog import Backfill, Entry, Horizon, Opening, RecordedPolicy, State
from tidetable.config import TableClass
from tidetable.errors import StoreUnavailable
from tidetable.layout import Index, Layout, Packing
from tidetable.periods import Kind, find_containing
from tidetable.ports import TableSpec

HOUR = timedelta(hours=1)
DAY = find_containing(NOON, Kind.DAY)
INDEXES = (
    Index("all", "status", 4),
    Index("keys", "status", 2, project=()),
    Index("some", "*", sort_by="mag", project=("a", "b")),
    Index("kinds", kind="kind", kinds=(("click", "page"), ("sale", "shop"))),
    Index("tree", "site", levels=("floor", "room")),
    Index("copy", "site", replica=True),
    Index("order", local=True, sort_by="mag"),
)
LAYOUT = Layout("time", 4, "series", 3600, INDEXES, versioned=True, parts=True, pack=Packing(60, 200_000))


@pytest.fixture
def client() -> StrictTransport:
    """A client with an empty catalog. Only strongly consistent reads show what was written in the last second."""
    clock = ManualClock(NOON)
    service = StrictDynamo(MemoryEngine(), clock, timings=Timings(seen=0, tagged=0), stale_seconds=2)
    DynamoTables(StrictClient(service)).create(TableSpec("catalog", None, None, TableClass.STANDARD, {}))  # type: ignore[arg-type]
    clock.sleep(60)
    return StrictTransport(service)


@pytest.fixture
def catalog(client: StrictTransport) -> LeanCatalog:
    return LeanCatalog(client, "catalog")  # type: ignore[arg-type]


def entry(**more: Any) -> Entry:
    return make_entry("s", DAY, "table", LAYOUT, State.OPEN, NOON, **more)


def test_entries_are_current_where_that_is_demanded(catalog: LeanCatalog) -> None:
    catalog.add(entry())
    starts = (None, DAY.start - HOUR, DAY.start, DAY.start + HOUR)
    assert [list(catalog.entries("s", start, consistent=True)) for start in starts] == [[entry()]] * 4
    assert [list(catalog.entries("s", start)) for start in starts] == [[]] * 4, "the engine lags"


def test_policies_backfills_horizon_and_standing_are_current(catalog: LeanCatalog) -> None:
    backfill, policy = Backfill("s", NOON, NOON + HOUR, Opening(NOON, 1, 2)), RecordedPolicy("s", "text")
    assert not catalog.is_deployed()
    catalog.put_backfill(backfill)
    catalog.put_policy(policy)
    catalog.set_horizon("s", NOON)
    catalog.mark_deployed()
    assert list(catalog.backfills("s")) == [backfill]
    assert list(catalog.list_policies()) == [policy]
    assert catalog.read_horizon("s") == Horizon(NOON)
    assert catalog.is_deployed()


def test_a_callers_key_is_current(client: StrictTransport) -> None:
    keys = LeanCredentials(client, "catalog")  # type: ignore[arg-type]
    sent = record("tt_0123456789_abcdefghijklmnopqrstuvwxyz012345")
    keys.add(sent)
    assert keys.find("0123456789") == sent
    assert keys.all() == [sent]


def test_the_secret_of_cursors_is_made_once_of_32_bytes(catalog: LeanCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(StoreUnavailable):
        catalog.secret()
    catalog.ensure_secret()
    first = catalog.secret()
    assert len(first) == 32
    catalog.ensure_secret()
    # Another function made the secret after this function had looked for it: so ``_get`` finds nothing.
    with monkeypatch.context() as patch:
        patch.setattr(catalog, "_get", lambda _: None)
        catalog.ensure_secret()
    assert catalog.secret() == first


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"opened": Opening(NOON, None, None)},
        {"active": ("eu-west-1",), "replicas": ("us-west-2",), "begun": ("us-west-2", NOON)},
        {"deleted_at": NOON, "keep_until": NOON + HOUR},
    ],
)
def test_every_member_of_an_entry_comes_back(catalog: LeanCatalog, more: dict[str, Any]) -> None:
    catalog.add(entry(**more))
    assert list(catalog.entries("s", consistent=True)) == [entry(**more)]


@pytest.mark.parametrize(("stored", "regions"), [(["a", 1, "b"], ("a", "b")), ("a", ()), (None, ()), ({"a": 1}, ())])
def test_what_is_no_list_of_regions_names_none(stored: Any, regions: tuple[str, ...]) -> None:
    item = catalog_items.make_period_key("s", DAY) | catalog_items.make_attributes(entry()) | {"copies": stored}
    assert catalog_items.read_entry(item).copies.active == regions


def test_a_range_before_1970_is_empty_and_no_error(catalog: LeanCatalog) -> None:
    """DynamoDB refuses a range of keys that ends before it begins."""
    early, later = datetime(1960, 1, 1, tzinfo=UTC), datetime(1961, 1, 1, tzinfo=UTC)
    catalog.add(entry())
    assert list(catalog.entries("s", early, later)) == []
    assert list(catalog.entries("s", None, later)) == []
    assert list(catalog.entries("s", early, NOON, consistent=True)) == [entry()]
    assert list(catalog.walk("s", None, early)) == []
