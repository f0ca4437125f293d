"""The manifest of an archived period: what is there, and how to know that it is whole; and the progress on the way to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidetable.keys import Index, Layout, Packing
from tidetable.keys.layout import PartitionBy, ShardBy

# Of the manifest and of the parts' columns alike. What follows from the data is left out since version 3; a part says so itself.
VERSION = 3
_READABLE = (2, 3)


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file, sorted by sort key; ``first`` and ``last`` are its edges, ``sha256`` is over its ``size`` bytes.

    ``digest`` is that of its items (see Facts), ``partitions`` says how many partition keys they have, ``packs`` how many packs
    they were in.
    """

    key: str
    events: int
    size: int
    sha256: str
    digest: str
    partitions: int
    first: str
    last: str
    packs: int = 0


class StoredLayout(msgspec.Struct, frozen=True, kw_only=True):
    """The layout that the period's table had."""

    partition_by: PartitionBy
    shards: int
    shard_by: ShardBy
    bucket: int
    indexes: tuple[Index, ...] = ()
    versioned: bool = False
    parts: bool = False
    pack: Packing | None = None

    @classmethod
    def of(cls, layout: Layout) -> StoredLayout:
        """The layout as it is stored."""
        return cls(
            partition_by=layout.partition_by,
            shards=layout.shards,
            shard_by=layout.shard_by,
            bucket=layout.bucket,
            indexes=layout.indexes,
            versioned=layout.versioned,
            parts=layout.parts,
            pack=layout.pack,
        )

    def layout(self) -> Layout:
        """The layout as the core uses it."""
        return Layout(
            self.partition_by,
            self.shards,
            self.shard_by,
            self.bucket,
            self.indexes,
            self.versioned,
            self.parts,
            self.pack,
        )


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What an archive holds. ``digest`` is the order-independent digest of its items (see Facts).

    Of a table with packs the items are its events, each once, in the form of plain items; ``packs`` says in how many packs
    they were.
    """

    version: int = VERSION
    stream: str
    period: str
    table: str
    layout: StoredLayout
    events: int
    size: int
    digest: str
    columns: Mapping[str, str]
    written_at: str
    parts: tuple[Part, ...]
    packs: int = 0

    def encode(self) -> bytes:
        """The manifest as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def decode(cls, text: bytes) -> Manifest:
        """Read what ``encode`` wrote; ValueError if it is anything else."""
        found = msgspec.json.decode(text, type=cls)
        if found.version not in _READABLE:
            raise ValueError(f"the manifest is of version {found.version}, this reads versions 2 and 3")
        return found


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What an export was begun with; a later run that goes on with it keeps to it.

    ``free`` is the instant at which all that was read is paid for at the export's pace, as far as runs have noted it.
    """

    segments: int
    columns: Mapping[str, str]
    free: str | None = None


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """How far one segment is: its verified parts, and the key after which to go on."""

    parts: tuple[Part, ...] = ()
    after: Mapping[str, Any] | None = None
    done: bool = False


def prefix_of(stream: str, label: str) -> str:
    """Where a period's archive is: Hive's form, which Athena and DuckDB read as columns."""
    return f"stream={stream}/period={label}/"


def manifest_key(stream: str, label: str) -> str:
    """The manifest's key: readers of Hive's form pass over names that begin with an underscore."""
    return f"{prefix_of(stream, label)}_manifest.json"


def part_key(stream: str, label: str, segment: int, number: int) -> str:
    """A part's key."""
    return f"{prefix_of(stream, label)}part-{segment:03d}-{number:05d}.parquet"


def progress_prefix(stream: str, label: str) -> str:
    """What the keys of the progress begin with; only it, so that all of it is cleared together."""
    return f"{prefix_of(stream, label)}_progress-"


def plan_key(stream: str, label: str) -> str:
    """The plan's key."""
    return f"{progress_prefix(stream, label)}plan.json"


def progress_key(stream: str, label: str, segment: int) -> str:
    """The key of a segment's progress."""
    return f"{progress_prefix(stream, label)}segment-{segment:03d}.json"
