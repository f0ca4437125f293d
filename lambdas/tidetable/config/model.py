"""The types of a stream and of the whole tidetable.toml."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from tidetable.config.capacity import Capacity
from tidetable.config.groups import Group
from tidetable.config.stage import (
    ApiPolicy,
    DoorsPolicy,
    LakePolicy,
    LifecyclePolicy,
    Observability,
    Removal,
    StoragePolicy,
    WorkPolicy,
)
from tidetable.config.stream import (
    ArchiveAt,
    ArchivePolicy,
    ChangeStream,
    CloudEventsPolicy,
    FeedPolicy,
    FirehosePolicy,
    IndexPolicy,
    InfluxPolicy,
    Keeping,
    KeyPolicy,
    LargePolicy,
    OnExpiry,
    OtlpPolicy,
    PackPolicy,
    RollupPolicy,
    TablePolicy,
)
from tidetable.durations import Duration
from tidetable.layout import Layout
from tidetable.layout.latest import finds_latest
from tidetable.periods import Kind

Versions = Literal["overwrite", "keep"]
# ``latest`` searches so many tables of one shard for 100 series in one answer (``tidetable.query.latest``).
LATEST_TABLES = 20


class Stream(Group, frozen=True, kw_only=True):
    """``[streams.NAME]``: one stream's policy. ``retention`` and ``premake`` count whole periods.

    ``replicas`` are the other Regions that have a copy of each table.

    ``source`` is the stream whose rollup this stream is; a file cannot have this key (``KEYLESS``).
    """

    name: str = ""
    source: str = ""
    period: Kind
    late: Duration
    ahead: Duration = Duration(minutes=5)
    retention: int
    on_expiry: OnExpiry = "archive"
    archive_at: ArchiveAt = "expiry"
    removal: Removal = "keep"
    premake: int = 2
    replicas: tuple[str, ...] = ()
    key: KeyPolicy
    index: tuple[IndexPolicy, ...] = ()
    versions: Versions = "overwrite"
    cold: tuple[str, ...] = ()
    large: LargePolicy = LargePolicy()
    pack: PackPolicy | None = None
    capacity: Capacity = Capacity()
    table: TablePolicy = TablePolicy()
    archive: ArchivePolicy = ArchivePolicy()
    feed: FeedPolicy | None = None
    rollup: tuple[RollupPolicy, ...] = ()
    influx: InfluxPolicy = InfluxPolicy()
    otlp: OtlpPolicy = OtlpPolicy()
    cloudevents: CloudEventsPolicy = CloudEventsPolicy()
    firehose: FirehosePolicy = FirehosePolicy()

    def show_policy(self) -> dict[str, Any]:
        """Return for how long the stream keeps which events, in the form of the API."""
        return {
            "period": self.period.value,
            "late": str(self.late),
            "ahead": str(self.ahead),
            "retention": self.retention,
            "on_expiry": self.on_expiry,
            "versions": self.versions,
        }

    @property
    def shown(self) -> ChangeStream:
        """The images in the change streams of new tables: copies need new and old images, a feed needs new images."""
        if self.copied and self.table.stream == "none":
            return "new-and-old-images"
        return "new-image" if self.feed is not None and self.table.stream == "none" else self.table.stream

    @property
    def copied(self) -> bool:
        """True if new tables get copies in other Regions."""
        return bool(self.replicas)

    @property
    def shrinks(self) -> bool:
        """True if the stream has a remedy for an event that is larger than an item."""
        return self.large.beyond != "refuse" or self.large.compress_above is not None or bool(self.cold)

    @property
    def shrinks_small(self) -> bool:
        """True if even an event that fits an item may be stored in another form."""
        return self.large.compress_above is not None or bool(self.cold)

    @property
    def writes_further_items(self) -> bool:
        """True if an event may be written as more than its own item: with its earlier versions, or its cold fields."""
        return self.versions == "keep" or bool(self.cold)

    @property
    def global_indexes(self) -> list[IndexPolicy]:
        """The indexes with units of their own."""
        return [index for index in self.index if not index.local]

    @property
    def local_indexes(self) -> list[IndexPolicy]:
        """The indexes that take their units from the table."""
        return [index for index in self.index if index.local]

    @property
    def lists_series(self) -> bool:
        """True if each table is read once for its series after it took its last event, so that ``latest`` leaves it out.

        So many tables can be searched in one answer for the most series. They do not need it.
        """
        is_kept = self.on_expiry == "keep" or self.retention > LATEST_TABLES
        return is_kept and finds_latest(self.layout) and not self.source

    @property
    def layout(self) -> Layout:
        """The layout of period tables that are not created yet."""
        bucket = int(self.key.bucket.total_seconds()) if self.key.bucket is not None else 0
        indexes = tuple(policy.index for policy in self.index)
        return Layout(
            self.key.partition_by,
            self.key.shards,
            self.key.shard_by,
            bucket,
            indexes,
            versioned=self.versions == "keep",
            parts=self.large.beyond == "chunks" or bool(self.cold),
            pack=self.pack.packing if self.pack is not None else None,
            shard_until=self.key.shard_until,
        )


# Fields of a stream that are not keys of the file.
KEYLESS = frozenset({"name", "source"})


class Config(Group, frozen=True, kw_only=True):
    """The whole of ``tidetable.toml``."""

    api: ApiPolicy = ApiPolicy()
    observability: Observability = Observability()
    lifecycle: LifecyclePolicy = LifecyclePolicy()
    work: WorkPolicy = WorkPolicy()
    storage: StoragePolicy = StoragePolicy()
    archive: Keeping = Keeping()
    lake: LakePolicy = LakePolicy()
    doors: DoorsPolicy = DoorsPolicy()
    streams: Mapping[str, Stream]

    @property
    def table_keys(self) -> list[str]:
        """The KMS keys with which period tables may be encrypted, sorted: keys of streams now, and former keys."""
        present = {stream.table.encryption for stream in self.streams.values()} - {"aws-owned", "aws-managed"}
        return sorted(present | set(self.storage.former_keys))

    @property
    def storage_keys(self) -> list[str]:
        """The KMS keys with which objects and messages may be encrypted, sorted: the present and the former keys."""
        return sorted({self.storage.encryption, *self.storage.former_keys} - {"service-managed"})

    @property
    def rolled_up(self) -> list[Stream]:
        """The streams that have rollups."""
        return [stream for stream in self.streams.values() if stream.rollup]

    @property
    def listed(self) -> list[Stream]:
        """The streams without rollups whose tables are read for their series."""
        return [stream for stream in self.streams.values() if stream.lists_series and not stream.rollup]

    @property
    def is_refreshed(self) -> bool:
        """True if the stage has a refresher: for rollups, or for the last periods of series."""
        return bool(self.rolled_up or self.listed)

    @property
    def keeps_tables(self) -> bool:
        """True if any stream's tables stay when the stack is destroyed."""
        return any(stream.removal == "keep" for stream in self.streams.values())

    @property
    def keeps_catalog(self) -> bool:
        """True if the catalog stays when the stack is destroyed: without it nobody finds the tables and archives."""
        return self.keeps_tables or self.storage.removal == "keep"

    @property
    def replicas(self) -> tuple[str, ...]:
        """The other Regions that have copies of any stream's tables."""
        return tuple(sorted({region for stream in self.streams.values() for region in stream.replicas}))

    @property
    def has_had_copies(self) -> bool:
        """True if any table may have copies in other Regions, now or from a former configuration."""
        return bool(self.replicas or self.storage.former_regions)

    def find_keeping(self, stream: str) -> Keeping:
        """Return the rules for a stream's archives: its own rules.

        For rules that it does not set, return the rules of ``[archive]``.
        """
        policy = self.streams.get(stream)
        own = policy.archive if policy is not None else ArchivePolicy()
        rules = {name: getattr(own, name) for name in Keeping.__struct_fields__}
        return msgspec.structs.replace(self.archive, **{name: rule for name, rule in rules.items() if rule is not None})
