"""A table in the service: its settings, its state, and the past changes that its limits count."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from strict.rules import Rule
from strict.throughput import ON_DEMAND_UNITS, Setting, Throughput
from strict.units import Wire

SIZES_EVERY = timedelta(hours=6)


@dataclass(slots=True)
class Resource:
    """A table or an index, with its own throughput."""

    name: str
    keys: tuple[str, ...]
    write: int
    read: int
    throughput: Throughput
    decreases: list[datetime] = field(default_factory=list)
    warm: dict[str, int] = field(default_factory=dict)
    maximum: dict[str, int] = field(default_factory=dict)

    def list_decreases(self, now: datetime) -> list[datetime]:
        """List the times of the decreases of the present UTC day."""
        return [decrease for decrease in self.decreases if decrease.date() == now.date()]

    def apply(self, now: datetime, *, on_demand: bool) -> None:
        """Apply the settings to the throughput."""
        sides = (("Write", self.write), ("Read", self.read))
        write, read = (
            Setting(
                provisioned=None if on_demand else units,
                warm=self.warm.get(side, ON_DEMAND_UNITS[side] if on_demand else 0),  # type: ignore[index]
                maximum=self.maximum.get(side),
            )
            for side, units in sides
        )
        self.throughput.set(write, read, now)

    def show_maxima(self) -> dict[str, int]:
        """Return the OnDemandThroughput in an answer of DescribeTable."""
        return {f"Max{side}RequestUnits": self.maximum.get(side, -1) for side in ("Write", "Read")}

    def show_throughput(self, now: datetime, *, on_demand: bool) -> dict[str, Any]:
        """Return the ProvisionedThroughput in an answer of DescribeTable."""
        figures: dict[str, Any] = {
            "NumberOfDecreasesToday": len(self.list_decreases(now)),
            "ReadCapacityUnits": 0 if on_demand else self.read,
            "WriteCapacityUnits": 0 if on_demand else self.write,
        }
        if self.decreases:
            figures["LastDecreaseDateTime"] = self.decreases[-1].timestamp()
        return figures


@dataclass(slots=True)
class Index(Resource):
    """A secondary index; ``included`` is None if it projects everything.

    A ``local`` index has the table's partitions and units.
    """

    local: bool = False
    status: str = "ACTIVE"
    projection: Mapping[str, Any] = field(default_factory=dict)
    included: frozenset[str] | None = None
    size: int = 0
    count: int = 0
    shown: tuple[int, int] = (0, 0)

    def project(self, item: Wire | None) -> dict[str, Wire] | None:
        """Return the attributes of an item that the index holds; None if the item lacks a key attribute of the index."""
        if item is None or any(key not in item for key in self.keys):
            return None
        return {name: value for name, value in item.items() if self.included is None or name in self.included}


@dataclass(slots=True)
class Table(Resource):
    """A table. Its last change began at the instant ``begun``; if it is ongoing, it ends at ``until``, with a call of
    ``finish``.
    """

    created: datetime = field(kw_only=True)
    region: str = "us-east-1"
    definitions: list[Any] = field(default_factory=list)
    on_demand: bool = False
    status: str = "ACTIVE"
    begun: datetime | None = None
    until: datetime | None = None
    finish: Callable[[], None] | None = None
    indexes: dict[str, Index] = field(default_factory=dict)
    infrequent: bool = False
    protected: bool = False
    recoverable: bool = False
    backups_from: datetime | None = None
    seen_from: datetime | None = None
    tags_from: datetime | None = None
    encryption: dict[str, Any] | None = None
    protection_changed: datetime | None = None
    stream: dict[str, Any] | None = None
    stream_since: datetime | None = None
    tags: dict[str, str] = field(default_factory=dict)
    class_changes: list[datetime] = field(default_factory=list)
    switches: list[datetime] = field(default_factory=list)
    size: int = 0
    count: int = 0
    shown: tuple[int, int] = (0, 0)
    sized: datetime | None = None
    # The bytes of each item collection, by its partition key as text. They include the items' copies in local indexes.
    collections: dict[str, int] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        return f"arn:aws:dynamodb:{self.region}:000000000000:table/{self.name}"

    def list_resources(self) -> list[Resource]:
        """Return the table and its global indexes: the resources with their own throughput."""
        return [self, *self.global_indexes.values()]

    @property
    def global_indexes(self) -> dict[str, Index]:
        """The global indexes by name. They have their own partitions."""
        return {name: index for name, index in self.indexes.items() if not index.local}

    def find_sizes(self, now: datetime, without: AbstractSet[Rule]) -> tuple[int, int]:
        """Return the table's bytes and number of items, at the time of the last count."""
        if Rule.STALE_SIZE in without:
            return self.size, self.count
        since = self.sized or self.created
        if now >= since + SIZES_EVERY:
            self.shown, self.sized = (self.size, self.count), now
            for index in self.indexes.values():
                index.shown = index.size, index.count
        return self.shown

    def describe(self, now: datetime, without: AbstractSet[Rule]) -> dict[str, Any]:
        """Return the table's description."""
        size, count = self.find_sizes(now, without)
        described: dict[str, Any] = {
            "TableName": self.name,
            "TableArn": self.arn,
            "TableStatus": self.status,
            "KeySchema": make_key_schema(self.keys),
            "AttributeDefinitions": self.definitions,
            "CreationDateTime": self.created.timestamp(),
            "ProvisionedThroughput": self.show_throughput(now, on_demand=self.on_demand),
            "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST" if self.on_demand else "PROVISIONED"},
            "TableClassSummary": {"TableClass": "STANDARD_INFREQUENT_ACCESS" if self.infrequent else "STANDARD"},
            "DeletionProtectionEnabled": self.protected,
            "TableSizeBytes": size,
            "ItemCount": count,
            "WarmThroughput": _name_sides(self.warm, "UnitsPerSecond") | {"Status": "ACTIVE"},
        }
        if self.maximum:
            described["OnDemandThroughput"] = self.show_maxima()
        if self.encryption is not None:
            described["SSEDescription"] = {"Status": "ENABLED", "SSEType": "KMS"}
        if self.stream is not None:
            described["StreamSpecification"] = self.stream
            label = f"{self.stream_since or self.created:%Y-%m-%dT%H:%M:%S.%f}"[:-3]
            described["LatestStreamLabel"] = label
            described["LatestStreamArn"] = f"{self.arn}/stream/{label}"
        for name, index in self.indexes.items():
            shown: dict[str, Any] = {
                "IndexName": name,
                "IndexArn": f"{self.arn}/index/{name}",
                "KeySchema": make_key_schema(index.keys),
                "Projection": index.projection,
                "IndexSizeBytes": index.size if Rule.STALE_SIZE in without else index.shown[0],
                "ItemCount": index.count if Rule.STALE_SIZE in without else index.shown[1],
            }
            if index.local:
                described.setdefault("LocalSecondaryIndexes", []).append(shown)
                continue
            shown |= {
                "IndexStatus": index.status,
                "ProvisionedThroughput": index.show_throughput(now, on_demand=self.on_demand),
                **({"OnDemandThroughput": index.show_maxima()} if index.maximum else {}),
            }
            described.setdefault("GlobalSecondaryIndexes", []).append(shown)
        return described


def make_key_schema(keys: tuple[str, ...]) -> list[dict[str, str]]:
    """Write key attributes as a KeySchema."""
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(keys, ("HASH", "RANGE"), strict=False)]


def read_keys(described: Any) -> tuple[str, ...]:
    """Read a KeySchema's key attributes, the partition key first."""
    ordered = sorted(described, key=lambda key: key["KeyType"] != "HASH")
    return tuple(key["AttributeName"] for key in ordered)


def _name_sides(values: Mapping[str, int], suffix: str) -> dict[str, int]:
    return {f"{side}{suffix}": values.get(side, 0) for side in ("Write", "Read")}
