"""The definition of a rollup: its buckets, groups, fields and statistics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from tidetable.forms.field_columns import KINDS
from tidetable.periods import Kind
from tidetable.ports.rollups import Rollups
from tidetable.statistics import PERCENTILES
from tidetable.times import EPOCH

if TYPE_CHECKING:
    from tidetable.config import RollupPolicy, Stream

SERIES = "series"
_KEY_DIGITS = 8


class _Text(msgspec.Struct, frozen=True):
    """The settings of a definition that decide the content of its cells. ``every`` is in seconds."""

    every: int
    by: tuple[str, ...]
    fields: tuple[str, ...]
    stats: tuple[str, ...]


class Definition(msgspec.Struct, frozen=True, dict=True):
    """A rollup of the stream ``source``. The rollup's cells are the events of the stream ``stream``.

    A bucket is ``every`` long. It has one cell per group. Each combination of the values of ``by`` (``series`` and
    paths of data) is a group. A cell has the ``stats`` of the numbers of ``fields``. A bucket with more than
    ``max_groups`` groups is not kept: it is read from the events.

    ``period`` is the length of the source's periods if the source is partitioned by series, otherwise None. The source
    accepts events up to ``ahead`` after the present.
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
        """The settings that decide the content of cells, as JSON. Equal definitions have equal texts."""
        parts = _Text(
            self.every // timedelta(seconds=1), self.by, tuple(sorted(self.fields)), tuple(sorted(self.stats))
        )
        return msgspec.json.encode(parts, order="sorted").decode()

    @cached_property
    def key(self) -> str:
        """A hash of ``text``. The ids of cells begin with it, so that cells of two definitions are never confused."""
        return sha256(self.text.encode()).hexdigest()[:_KEY_DIGITS]

    @cached_property
    def kept_statistics(self) -> frozenset[str]:
        """The statistics that cells keep: always the count.

        For percentiles, cells also keep min and max, which limit the estimates.
        """
        extremes = {"min", "max"} if PERCENTILES in self.stats else set()
        return frozenset({"count", *self.stats, *extremes})

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns of events from which cells are computed: the fields, and their kinds."""
        return (*dict.fromkeys(path for path in (*self.by, *self.fields) if path != SERIES), KINDS)

    def floor(self, time: datetime) -> datetime:
        """Return the start of the bucket that holds an instant."""
        return EPOCH + (time - EPOCH) // self.every * self.every

    def ceil(self, time: datetime) -> datetime:
        """Return the earliest start of a bucket at or after an instant."""
        return EPOCH - (EPOCH - time) // self.every * self.every

    def parse_former(self, text: str) -> Definition:
        """Return the definition that this rollup had when an edge was written.

        ``text`` is the edge's ``definition``.
        """
        parts = msgspec.json.decode(text, type=_Text)
        every = timedelta(seconds=parts.every)
        return replace(self, every=every, by=parts.by, fields=parts.fields, stats=parts.stats)

    def can_feed(self, coarser: Definition) -> bool:
        """True if the cells of a coarser rollup can be computed from this rollup's cells."""
        return (
            self.every < coarser.every
            and not coarser.every % self.every
            and set(coarser.by) <= set(self.by)
            and set(coarser.fields) <= set(self.fields)
            and coarser.kept_statistics <= self.kept_statistics
        )


def make_definition(source: Stream, policy: RollupPolicy) -> Definition:
    """Make the definition of a rollup of a stream."""
    # Plain timedeltas, not durations of the configuration.
    every, ahead = timedelta(0) + policy.every, timedelta(0) + source.ahead
    period = source.period if source.layout.partition_by == "series" else None
    settings = every, policy.by, policy.fields, policy.stats, policy.most_groups
    return Definition(policy.name, *settings, source.name, f"{source.name}-{policy.name}", period, ahead)


def list_definitions(streams: Iterable[Stream]) -> dict[str, list[Definition]]:
    """List the rollups of each stream that has rollups."""
    return {
        stream.name: [make_definition(stream, rollup) for rollup in stream.rollup]
        for stream in streams
        if stream.rollup
    }


@dataclass(frozen=True, slots=True)
class QueryRollups:
    """The rollups that queries may use: access to their state, and the definitions by the name of the source stream.

    ``listed`` are the streams without rollups whose series have last periods in the same table.
    """

    rollups: Rollups
    definitions: Mapping[str, Sequence[Definition]]
    listed: frozenset[str] = frozenset()
