"""The tables of an account and Region, and their ongoing changes."""

from __future__ import annotations

import random
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from strict.clock import Clock
from strict.engines import Engine
from strict.refusals import Refusal, refuse_missing_table
from strict.rules import Rule
from strict.tables import Index, Table, read_keys
from strict.throughput import Throughput
from strict.timings import Timings

if TYPE_CHECKING:
    from strict.regions import Regions

TABLES = 2500
# 10 GB, in units of 1,024.
COLLECTION_BYTES = 10 * 1024**3


class Account:
    """The tables of an account, by name. A table that only the engine knows is added as the engine describes it."""

    def __init__(
        self, engine: Engine, clock: Clock, timings: Timings, without: AbstractSet[Rule], seed: int = 0
    ) -> None:
        self.engine = engine
        self.clock = clock
        self.timings = timings
        self.without = without
        self.tables: dict[str, Table] = {}
        # The times of recent creations and deletions of tables.
        self.mutations: list[datetime] = []
        # The greatest number of tables that the Region may have.
        self.most_tables = TABLES
        # The greatest number of tables with indexes that may be created at once; the service may lower it for a while.
        self.indexed_at_once = 250
        # The bytes that an item collection of a table with local indexes may hold.
        self.collection_bytes = COLLECTION_BYTES
        # The ARNs of KMS keys that are disabled, deleted or out of reach.
        self.lost_keys: set[str] = set()
        # The name of the Region, and its connection with other Regions; None if there is no other Region.
        self.region = "us-east-1"
        self.regions: Regions | None = None
        # Tables and indexes (``table/index/name``) whose writes have a target and a policy of Application Auto Scaling.
        self.autoscaled: set[str] = set()
        self._changing: set[str] = set()
        self._chance = random.Random(seed)  # noqa: S311 - repeatable on purpose

    def enforces(self, rule: Rule) -> bool:
        """True if a rule is in force."""
        return rule not in self.without

    def is_inaccessible(self, table: Table) -> bool:
        """True if a table is inaccessible because its key is lost."""
        key = (table.encryption or {}).get("KMSMasterKeyId")
        return key in self.lost_keys and self.enforces(Rule.LOST_KEY)

    def find(self, name: str) -> Table:
        """Find a table in any state; Refusal if it does not exist."""
        self.settle()
        table = self.tables.get(name)
        if table is None:
            table = self._adopt_table(name)
        return table

    def hide_table(self, table: Table) -> None:
        """Hide a new table for a short time, and its tags for a little longer."""
        now, seen = self.clock.now(), self._chance.uniform(0, self.timings.seen)
        table.seen_from = now + timedelta(seconds=seen)
        table.tags_from = now + timedelta(seconds=self._chance.uniform(seen, max(seen, self.timings.tagged)))

    def is_hidden(self, until: datetime | None) -> bool:
        """True if a table or its tags are still invisible; ``until`` is the instant from which they are visible."""
        return until is not None and self.clock.now() < until and self.enforces(Rule.NEW_TABLE_UNSEEN)

    def hides_copy(self, listed: datetime) -> bool:
        """True if a table does not list a new copy yet; ``listed`` is the instant from which it lists the copy."""
        return self.clock.now() < listed and self.enforces(Rule.COPY_LISTED_LATER)

    def make_remover(self, table: Table) -> Callable[[], None]:
        """Return a function that ends the deletion of a table."""

        def remove() -> None:
            self.engine.call("DeleteTable", {"TableName": table.name})
            del self.tables[table.name]
            if self.regions is not None:
                self.regions.leave(table.name, self.region)

        return remove

    def find_usable(self, name: str) -> Table:
        """Find a table whose items can be read and written now; Refusal otherwise."""
        table = self.find(name)
        if table.status == "CREATING" and self.enforces(Rule.CREATING_HAS_NO_DATA):
            raise refuse_missing_table(name)
        if table.status == "DELETING":
            begun = table.begun or self.clock.now()
            lingers = self.clock.now() < begun + timedelta(seconds=self.timings.linger)
            if not lingers or not self.enforces(Rule.DELETING_LINGERS):
                raise refuse_missing_table(name)
        return table

    def list_changing_tables(self) -> list[Table]:
        """List the tables that are being created, updated or deleted."""
        self.settle()
        return [self.tables[name] for name in self._changing]

    def begin_change(self, table: Table, status: str, seconds: float, finish: Callable[[], None]) -> None:
        """Begin a change that takes ``seconds`` and ends with ``finish``."""
        table.status, table.finish = status, finish
        table.begun = self.clock.now()
        table.until = table.begun + timedelta(seconds=seconds)
        self._changing.add(table.name)
        if not self.enforces(Rule.CHANGES_LAST):
            self._finish_change(table)

    def settle(self) -> None:
        """Finish the changes whose time has passed."""
        if not self._changing:
            return
        now = self.clock.now()
        for name in sorted(self._changing):
            table = self.tables[name]
            if table.until is not None and now >= table.until:
                self._finish_change(table)

    def _finish_change(self, table: Table) -> None:
        finish = table.finish
        table.status, table.until, table.finish = "ACTIVE", None, None
        self._changing.discard(table.name)
        if finish is not None:
            finish()

    def make_throughput(self, name: str) -> Throughput:
        """Make the throughput of a new table (``name``) or of a new index (``table/index/name``)."""
        return Throughput(name, self.without, self.clock.now())

    def make_index(
        self, table: str, keys: tuple[str, ...], described: Any, units: Any, *, local: bool = False
    ) -> Index:
        """Make an index from its description in a request or an answer; ``keys`` are the table's key attributes."""
        own = read_keys(described["KeySchema"])
        projection = described.get("Projection", {"ProjectionType": "ALL"})
        everything = projection["ProjectionType"] == "ALL"
        name = f"{table}/index/{described['IndexName']}"
        return Index(
            name=name,
            keys=own,
            write=units.get("WriteCapacityUnits", 0),
            read=units.get("ReadCapacityUnits", 0),
            throughput=self.make_throughput(name),
            local=local,
            projection=projection,
            included=None if everything else frozenset({*keys, *own, *projection.get("NonKeyAttributes", ())}),
            maximum=read_sides(described.get("OnDemandThroughput", {})),
            warm=read_sides(described.get("WarmThroughput", {})),
        )

    def _adopt_table(self, name: str) -> Table:
        try:
            described = self.engine.call("DescribeTable", {"TableName": name})["Table"]
        except Refusal as refusal:
            raise (refuse_missing_table(name) if refusal.code == "ResourceNotFoundException" else refusal) from refusal
        try:
            tags = self.engine.call("ListTagsOfResource", {"ResourceArn": described["TableArn"]}).get("Tags", [])
        except Refusal:
            tags = []
        now = self.clock.now()
        units = described.get("ProvisionedThroughput", {})
        keys = read_keys(described["KeySchema"])
        table = Table(
            name=name,
            keys=keys,
            write=units.get("WriteCapacityUnits", 0),
            read=units.get("ReadCapacityUnits", 0),
            throughput=self.make_throughput(name),
            created=datetime.fromtimestamp(described.get("CreationDateTime", now.timestamp()), now.tzinfo),
            definitions=described["AttributeDefinitions"],
            on_demand=described.get("BillingModeSummary", {}).get("BillingMode") == "PAY_PER_REQUEST",
            infrequent=described.get("TableClassSummary", {}).get("TableClass") == "STANDARD_INFREQUENT_ACCESS",
            protected=described.get("DeletionProtectionEnabled", False),
            stream=described.get("StreamSpecification"),
            tags={tag["Key"]: tag["Value"] for tag in tags},
            count=described.get("ItemCount", 0),
            size=described.get("TableSizeBytes", 0),
        )
        for index in described.get("GlobalSecondaryIndexes", ()):
            table.indexes[index["IndexName"]] = self.make_index(
                name, keys, index, index.get("ProvisionedThroughput", {})
            )
        for index in described.get("LocalSecondaryIndexes", ()):
            table.indexes[index["IndexName"]] = self.make_index(name, keys, index, {}, local=True)
        for resource in table.list_resources():
            resource.apply(now, on_demand=table.on_demand)
        self.tables[name] = table
        return table


def read_sides(throughput: Any) -> dict[str, int]:
    """Read the units of an OnDemandThroughput or a WarmThroughput, by side; a side without a limit is omitted."""
    units: dict[str, int] = {}
    for side in ("Write", "Read"):
        for name in (f"Max{side}RequestUnits", f"{side}UnitsPerSecond"):
            if throughput.get(name, -1) > 0:
                units[side] = throughput[name]
    return units
