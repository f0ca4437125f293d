"""The engines on which the contract runs. Each engine has an empty catalog and can make tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from botocore.errorfactory import ClientExceptionsFactory

from aws.dynamodb.catalog import LeanCatalog
from aws.dynamodb.store import LeanStore
from aws.dynamodb.tables import DynamoTables
from aws.http.client import LeanClient
from tests.contract.oracle import DynamoStore
from tests.fakes import FakeCatalog, FakeClock, FakeStore, FakeTables
from tests.lifecycle.world import NOON
from tidetable.config import TableClass
from tidetable.errors import TableMissing, TableRefused
from tidetable.events import Item
from tidetable.large.chunks import ChunkStore
from tidetable.ports import Catalog, Clock, KeyRange, Page, RangeRead, Table, Tables, TableSpec
from tidetable.query.ranges import follow_page

_numbers = count()
TAGS = {"project": "tidetable", "tidetable:stage": "t"}


class Racing:
    """A client whose exception classes are new at each access, as if threads raced at its first failure."""

    def __init__(self, client: Any) -> None:
        self._client = client

    @property
    def exceptions(self) -> Any:
        return ClientExceptionsFactory().create_client_exceptions(self._client.meta.service_model)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)


@dataclass(frozen=True)
class Engine:
    """A catalog, a store and the control plane of one engine."""

    catalog: Catalog
    store: ChunkStore
    tables: Tables
    clock: Clock
    stream: str = field(default_factory=lambda: f"s{next(_numbers)}")

    def name(self) -> str:
        """A name for a new table."""
        return f"tidetable-t.{self.stream}.table{next(_numbers)}"

    def spec(self, write: int | None = None, read: int | None = None) -> TableSpec:
        """The settings of a new table."""
        return TableSpec(self.name(), write, read, TableClass.STANDARD, TAGS)

    def create_table(self) -> str:
        """Create a table and wait until it is usable."""
        spec = self.spec()
        assert self.tables.create(spec)
        self.settled(spec.name)
        return spec.name

    def settled(self, name: str) -> Table:
        """Wait until the table is visible and active; a new table may be invisible for some seconds."""
        for _ in range(1000):
            table = self.tables.describe(name)
            if table is not None and table.status == "ACTIVE":
                return table
            self.clock.sleep(1.0)
        raise AssertionError(f"{name} does not settle")

    def gone(self, name: str) -> bool:
        """Wait until the table is deleted; False if it still exists after the last try."""
        for _ in range(1000):
            if self.tables.describe(name) is None:
                return True
            self.clock.sleep(1.0)
        return False

    def tagged(self, name: str) -> Mapping[str, str]:
        """Wait for the table's tags, which are visible some seconds after its creation."""
        for _ in range(1000):
            try:
                if tags := self.tables.tags(name):
                    return tags
            except TableMissing:
                pass
            self.clock.sleep(1.0)
        raise AssertionError(f"{name} shows no tags")

    def recoverable(self, name: str) -> None:
        """Turn on point-in-time recovery, as soon as the engine accepts that for a new table."""
        for _ in range(1000):
            try:
                self.tables.enable_recovery(name)
            except TableRefused:
                self.clock.sleep(0.01)
            else:
                return
        raise AssertionError(f"{name} gets no backups")

    def no_table(self) -> str:
        """The name of a table that does not exist."""
        return f"tidetable-t.{self.stream}.2020-01-01"


def fake() -> Engine:
    """The in-memory fakes with which the use cases are tested."""
    clock, catalog = FakeClock(NOON), FakeCatalog()
    store = FakeStore(catalog)
    return Engine(catalog, store, FakeTables(clock, store), clock)


def real(client: Any, clock: Clock, lean: LeanClient, *, oracle: bool = False) -> Engine:
    """The real adapters on the clients of an engine, with a new catalog. As an oracle, the store uses boto3's client."""
    tables = DynamoTables(client)
    name = f"catalog-{next(_numbers)}"
    store: ChunkStore = DynamoStore(client, name) if oracle else LeanStore(lean, name)
    engine = Engine(LeanCatalog(lean, name), store, tables, clock)
    assert tables.create(TableSpec(name, None, None, TableClass.STANDARD, TAGS))
    engine.settled(name)
    return engine


def pages(engine: Engine, keys: KeyRange, *, ascending: bool = True, limit: int = 1000, **options: Any) -> list[Item]:
    """Read all items of a range, page by page."""
    items: list[Item] = []
    while True:
        (page,) = engine.store.query_many([RangeRead(keys, limit)], ascending=ascending, **options)
        assert isinstance(page, Page)
        assert len(page.items) <= page.read <= limit
        items += page.items
        if not page.more:
            return items
        keys = follow_page(keys, page)
