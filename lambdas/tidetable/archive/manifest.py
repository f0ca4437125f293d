"""The manifest of an archived period: what is there, and how to know that it is whole."""

from __future__ import annotations

import msgspec

from tidetable.keys import Index, Layout
from tidetable.keys.layout import PartitionBy, ShardBy

VERSION = 1


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file, sorted by sort key; ``first`` and ``last`` are its edges, ``sha256`` is over its ``size`` bytes."""

    key: str
    events: int
    size: int
    sha256: str
    first: str
    last: str


class StoredLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The layout that the period's table had."""

    partition_by: PartitionBy
    shards: int
    shard_by: ShardBy
    bucket: int
    indexes: tuple[Index, ...] = ()

    @classmethod
    def of(cls, layout: Layout) -> StoredLayout:
        """The layout as it is stored."""
        return cls(
            partition_by=layout.partition_by,
            shards=layout.shards,
            shard_by=layout.shard_by,
            bucket=layout.bucket,
            indexes=layout.indexes,
        )

    def layout(self) -> Layout:
        """The layout as the core uses it."""
        return Layout(self.partition_by, self.shards, self.shard_by, self.bucket, self.indexes)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive holds. ``digest`` is the order-independent digest of its events (see Digest)."""

    version: int = VERSION
    stream: str
    period: str
    table: str
    layout: StoredLayout
    events: int
    size: int
    digest: str
    written_at: str
    parts: tuple[Part, ...]

    def encode(self) -> bytes:
        """The manifest as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def decode(cls, text: bytes) -> Manifest:
        """Read what ``encode`` wrote; ValueError if it is anything else."""
        return msgspec.json.decode(text, type=cls)


def prefix_of(stream: str, label: str) -> str:
    """Where a period's archive is: Hive's form, which Athena and DuckDB read as columns."""
    return f"stream={stream}/period={label}/"


def manifest_key(stream: str, label: str) -> str:
    """The manifest's key."""
    return f"{prefix_of(stream, label)}manifest.json"


def part_key(stream: str, label: str, number: int) -> str:
    """A part's key."""
    return f"{prefix_of(stream, label)}part-{number:05d}.parquet"
