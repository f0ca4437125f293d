"""The manifest of an archived period, with its files and the checks that prove that it is complete.

Also an export's plan and progress.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tidetable.layout import Layout
from tidetable.times import EPOCH

# One version for the manifest and for the parts' columns. A part omits attributes that readers can calculate from its
# data. Its metadata names them.
VERSION = 3


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file, sorted by sort key from ``first`` to ``last``; ``sha256`` is over its ``size`` bytes.

    ``digest`` is the digest of its items (see Facts), ``partitions`` the number of their partition keys, ``packs`` the
    number of packs that held them. ``untyped`` counts by declared column the values that the column does not hold.
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
    untyped: Mapping[str, int] = {}


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an archive. ``digest`` is the order-independent digest of its items (see Facts).

    If the table has packs, the items are its events, each once, in the form of plain items; ``packs`` is the number of
    packs that held them. ``untyped`` counts by declared column the values that the column does not hold.
    """

    version: int = VERSION
    stream: str
    period: str
    table: str
    layout: Layout
    events: int
    size: int
    digest: str
    columns: Mapping[str, str]
    written_at: str
    parts: tuple[Part, ...]
    packs: int = 0
    untyped: Mapping[str, int] = {}

    def encode(self) -> bytes:
        """Encode the manifest as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def decode(cls, text: bytes) -> Manifest:
        """Decode a text that ``encode`` wrote; ValueError for any other text."""
        manifest = msgspec.json.decode(text, type=cls)
        if manifest.version != VERSION:
            raise ValueError(f"the manifest has version {manifest.version}; this release reads version {VERSION}")
        return manifest

    def find_parts(self, low: str, high: str) -> list[Part]:
        """Find the parts that may have events between two sort keys. Times are compared; a part without bounds may."""
        size = len(self.layout.make_edge(EPOCH))
        first, last = low[:size], high[:size]
        return [
            part for part in self.parts if not part.last or (part.first[:size] <= last and first <= part.last[:size])
        ]


class ExportPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The settings with which an export began; later runs of the same export follow them.

    ``free`` is the last noted instant at which the export's pace has granted all units that were read (see Pacer).
    """

    segments: int
    columns: Mapping[str, str]
    free: str | None = None


class SegmentProgress(msgspec.Struct, frozen=True, kw_only=True):
    """A record of the progress of one segment: some of its verified parts, and the key after which to go on."""

    parts: tuple[Part, ...] = ()
    after: Mapping[str, Any] | None = None
    done: bool = False


def make_prefix(stream: str, label: str) -> str:
    """Make the prefix of a period's archive, in Hive's form: Athena and DuckDB read its parts as columns."""
    return f"stream={stream}/period={label}/"


def make_manifest_key(stream: str, label: str) -> str:
    """Make the manifest's key. Its name begins with an underscore, because readers of Hive's form ignore such names."""
    return f"{make_prefix(stream, label)}_manifest.json"


def make_part_key(stream: str, label: str, segment: int, number: int) -> str:
    """Make the key of a part in the bucket."""
    return f"{make_prefix(stream, label)}part-{segment:03d}-{number:05d}.parquet"


def make_progress_prefix(stream: str, label: str) -> str:
    """Make the prefix that only the plan and the progress have, so that both are cleared together."""
    return f"{make_prefix(stream, label)}_progress-"


def make_plan_key(stream: str, label: str) -> str:
    """Make the key of an export's plan."""
    return f"{make_progress_prefix(stream, label)}plan.json"


def make_progress_key(stream: str, label: str, segment: int, number: int) -> str:
    """Make the key of a record of a segment's progress; the first record is number 0."""
    name = f"segment-{segment:03d}-{number:05d}" if number else f"segment-{segment:03d}"
    return f"{make_progress_prefix(stream, label)}{name}.json"
