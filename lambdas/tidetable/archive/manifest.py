"""The manifest of an archived period, with its files and the checks that prove that it is complete."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TypedDict, Unpack

import msgspec

from tidetable.archive.digest import join_digests
from tidetable.archive.series_filter import may_hold
from tidetable.layout import Layout
from tidetable.times import from_text, to_micros, to_text

# One version for the manifest and for the parts' columns. A part omits attributes that readers can calculate from its
# data. Its metadata names them.
VERSION = 4
# The parts of the version 3 are sorted by time, hold every id, and have no bounds of series.
VERSIONS = (3, VERSION)
# A sort key begins with so many characters of time, after its version.
_TIME = 27
ALWAYS = (-(2**62), 2**62)
# A first and a last time, in microseconds.
Span = tuple[int, int]


class IdRule(msgspec.Struct, frozen=True, kw_only=True):
    """How to compute the ids that a part does not keep: as ingest made them of events that were sent without an id.

    An id is the first 32 hexadecimal digits of the SHA-256 of the JSON array of series, time and data, without white
    space and with sorted names; the time is null if ``timed`` is False. ``digits`` are the least digits after the point
    with which the numbers of a field were sent: 20 is 20.0 if its field has 1. A field that is not named has 0.
    """

    timed: bool
    digits: Mapping[str, int] = {}


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What the events of a part have in common: the first and the last time, the least and the greatest series, and the
    filter of the series (see ``series_filter``). ``ids`` says how to compute the ids that are not kept. ``columns`` are the
    fields that are columns without being declared, with their types; None if nobody noted them. ``footer`` is the number
    of bytes at the end of the part that describe the others.
    """

    oldest: str
    newest: str
    least: str
    greatest: str
    names: bytes
    ids: IdRule | None = None
    columns: Mapping[str, str] | None = None
    footer: int = 0


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One Parquet file with sort keys from ``first`` to ``last``; ``sha256`` is over its ``size`` bytes.

    ``digest`` is the digest of its items (see Facts), ``partitions`` the number of their partition keys, ``packs`` the
    number of packs that held them. ``untyped`` counts by declared column the values that the column does not hold.
    ``bounds`` are missing in the version 3.
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
    bounds: Bounds | None = None

    def find_span(self, layout: Layout) -> Span:
        """Find the first and the last time of the events, in microseconds; a part without bounds may have any time."""
        if self.bounds is not None:
            return to_micros(from_text(self.bounds.oldest)), to_micros(from_text(self.bounds.newest))
        first, last = layout.find_place(self.first)[:_TIME], layout.find_place(self.last)[:_TIME]
        # A sort key of an earlier version sorts after those of all newest versions, whatever its time is.
        if not layout.is_newest(self.last) or len(first) < _TIME or len(last) < _TIME:
            return ALWAYS
        return to_micros(from_text(first)), to_micros(from_text(last))

    def may_hold(self, series: Sequence[str], prefix: str) -> bool:
        """True if the part may have events of one of these series, or of a series that begins with the prefix.

        Without series and without a prefix, every part may.
        """
        bounds = self.bounds
        if bounds is None:
            return True
        if prefix and (bounds.greatest < prefix or (bounds.least > prefix and not bounds.least.startswith(prefix))):
            return False
        return not series or any(
            bounds.least <= name <= bounds.greatest and may_hold(bounds.names, name) for name in series
        )


class _Facts(TypedDict):
    stream: str
    period: str
    table: str
    layout: Layout
    columns: Mapping[str, str]


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

    @classmethod
    def of_parts(cls, parts: Sequence[Part], written_at: datetime, **facts: Unpack[_Facts]) -> Manifest:
        """Make the manifest of parts: their numbers are added."""
        return cls(
            events=sum(part.events for part in parts),
            size=sum(part.size for part in parts),
            digest=join_digests(part.digest for part in parts),
            written_at=to_text(written_at),
            parts=tuple(parts),
            packs=sum(part.packs for part in parts),
            untyped=dict(sum((Counter(part.untyped) for part in parts), Counter[str]())),
            **facts,
        )

    def is_stored(self, sizes: Mapping[str, int]) -> bool:
        """True if the bucket, whose objects have these sizes by their keys, has all parts."""
        return all(sizes.get(part.key) == part.size for part in self.parts)

    def encode(self) -> bytes:
        """Encode the manifest as JSON."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def decode(cls, text: bytes) -> Manifest:
        """Decode a text that ``encode`` wrote; ValueError for any other text."""
        manifest = msgspec.json.decode(text, type=cls)
        if manifest.version not in VERSIONS:
            raise ValueError(f"the manifest has version {manifest.version}; this release reads version {VERSION}")
        return manifest

    def list_undeclared(self) -> list[tuple[str, str]] | None:
        """List the columns of fields that were not declared, with their types; None if a part does not say which it has."""
        columns = [None if part.bounds is None else part.bounds.columns for part in self.parts]
        if None in columns:
            return None
        return sorted({pair for part in columns for pair in (part or {}).items()})

    def find_parts(self, start: int, end: int, series: Sequence[str], prefix: str) -> list[tuple[Part, Span]]:
        """Find the parts that may have events with ``start <= time < end``, and their spans; see ``Part.may_hold``."""
        spans = [(part, part.find_span(self.layout)) for part in self.parts]
        found = [(part, span) for part, span in spans if span[0] < end and start <= span[1]]
        return [(part, span) for part, span in found if part.may_hold(series, prefix)]


def make_prefix(stream: str, label: str) -> str:
    """Make the prefix of a period's archive, in Hive's form: Athena and DuckDB read its parts as columns."""
    return f"stream={stream}/period={label}/"


def make_manifest_key(stream: str, label: str) -> str:
    """Make the manifest's key. Its name begins with an underscore, because readers of Hive's form ignore such names."""
    return f"{make_prefix(stream, label)}_manifest.json"


def make_import_key(stream: str, label: str, token: str) -> str:
    """Make the key of the manifest of an import. Its parts have the token in their names, too."""
    return f"{make_prefix(stream, label)}_manifest-{token}.json"


def make_progress_prefix(stream: str, label: str) -> str:
    """Make the prefix that only the notes of an export that is under way have."""
    return f"{make_prefix(stream, label)}_progress-"
