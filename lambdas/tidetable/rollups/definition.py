"""What a rollup keeps: its buckets, groups, fields and statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import Protocol

import msgspec
from msgspec.structs import replace

from tidetable.keys import Layout
from tidetable.periods import Kind
from tidetable.ports.rollups import Rollups
from tidetable.times import EPOCH

SERIES = "series"
PERCENTILES = "percentiles"
STATS = ("count", "sum", "min", "max", "first", "last", PERCENTILES)
_KEY_DIGITS = 8


class Policy(Protocol):
    """A rollup as the configuration has it."""

    @property
    def name(self) -> str: ...
    @property
    def every(self) -> timedelta: ...
    @property
    def by(self) -> Sequence[str]: ...
    @property
    def fields(self) -> Sequence[str]: ...
    @property
    def stats(self) -> Sequence[str]: ...
    @property
    def max_groups(self) -> int: ...


class Source(Protocol):
    """A stream as the configuration has it."""

    @property
    def name(self) -> str: ...
    @property
    def period(self) -> Kind: ...
    @property
    def ahead(self) -> timedelta: ...
    @property
    def layout(self) -> Layout: ...


class _Text(msgspec.Struct, frozen=True):
    """What of a definition decides the content of cells. ``every`` is in seconds."""

    every: int
    by: tuple[str, ...]
    fields: tuple[str, ...]
    stats: tuple[str, ...]


class Definition(msgspec.Struct, frozen=True, dict=True):
    """A rollup of the stream ``source``, which is itself the stream ``stream``.

    Each bucket of ``every`` has a cell for each group of ``by`` (``series`` and paths of data), with ``stats`` of the numbers of
    ``fields``. A bucket with more than ``max_groups`` groups is not sealed.

    ``period`` is the length of the source's periods if it is partitioned by series. Its events may be ``ahead`` of the clock.
    """

    name: str
    every: timedelta
    by: tuple[str, ...]
    fields: tuple[str, ...]
    stats: tuple[str, ...]
    max_groups: int
    source: str
    stream: str
    period: Kind | None = None
    ahead: timedelta = timedelta(0)

    @cached_property
    def text(self) -> str:
        """What of the definition decides the content of cells, as JSON; equal definitions have equal texts."""
        parts = _Text(
            self.every // timedelta(seconds=1), self.by, tuple(sorted(self.fields)), tuple(sorted(self.stats))
        )
        return msgspec.json.encode(parts, order="sorted").decode()

    @cached_property
    def key(self) -> str:
        """What tells the cells of this definition from those of another of the same rollup."""
        return sha256(self.text.encode()).hexdigest()[:_KEY_DIGITS]

    @cached_property
    def kept_statistics(self) -> frozenset[str]:
        """The statistics that cells keep: counts always, and the extremes that percentiles are limited by."""
        extremes = {"min", "max"} if PERCENTILES in self.stats else set()
        return frozenset({"count", *self.stats, *extremes})

    def floor(self, time: datetime) -> datetime:
        """The start of the bucket that holds an instant."""
        return EPOCH + (time - EPOCH) // self.every * self.every

    def ceil(self, time: datetime) -> datetime:
        """The first start of a bucket that is not before an instant."""
        return EPOCH - (EPOCH - time) // self.every * self.every

    def as_of(self, text: str) -> Definition:
        """The definition that this rollup had when an edge was put, from the edge's text."""
        parts = msgspec.json.decode(text, type=_Text)
        every = timedelta(seconds=parts.every)
        return replace(self, every=every, by=parts.by, fields=parts.fields, stats=parts.stats)

    def feeds(self, coarser: Definition) -> bool:
        """True if cells of a coarser rollup can be made of this rollup's cells."""
        return (
            self.every < coarser.every
            and not coarser.every % self.every
            and set(coarser.by) <= set(self.by)
            and set(coarser.fields) <= set(self.fields)
            and coarser.kept_statistics <= self.kept_statistics
        )


def make_definition(source: Source, policy: Policy) -> Definition:
    """The definition of a rollup of a stream."""
    by, fields, stats = tuple(policy.by), tuple(policy.fields), tuple(policy.stats)
    every = timedelta(0) + policy.every
    stream, ahead = f"{source.name}-{policy.name}", timedelta(0) + source.ahead
    period = source.period if source.layout.partition_by == "series" else None
    return Definition(policy.name, every, by, fields, stats, policy.max_groups, source.name, stream, period, ahead)


@dataclass(frozen=True, slots=True)
class Rolled:
    """The rollups that queries may use: their state, and the definitions of each stream that has any."""

    rollups: Rollups
    definitions: Mapping[str, Sequence[Definition]]
