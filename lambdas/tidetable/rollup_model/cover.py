"""Divide a range into segments: the coarsest fitting rollup answers a segment.

If no rollup can, the events answer it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from tidetable.catalog import Entry
from tidetable.ports.rollups import Edge, Mark, RollupState, Span
from tidetable.rollup_model.definition import Definition

_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


class DefinitionVersion(NamedTuple):
    """A present or former definition of a rollup, and the buckets ``[start, end)`` that are sealed under it.

    ``limit`` is the instant where the next version begins; None for the newest version.
    """

    edge: Edge
    definition: Definition
    start: datetime
    end: datetime
    limit: datetime | None


class Usable(NamedTuple):
    """A version of a rollup, and the spans of whole buckets that it answers."""

    definition: Definition
    spans: Sequence[Span]


class CoveredSpan(NamedTuple):
    """A span of a range, and the definition of the rollup that answers it; None if the events answer it."""

    start: datetime
    end: datetime
    definition: Definition | None


def list_versions(definition: Definition, state: RollupState) -> list[DefinitionVersion]:
    """List the versions of a rollup, the newest first.

    Where the ranges of two versions overlap, the newer version counts. A newer version is sealed up to a later time. If
    this time is the same for two versions, the newer version has not sealed a bucket yet, and starts later.
    """
    edges = [edge for edge in state.edges if edge.rollup == definition.name]
    versions: list[DefinitionVersion] = []
    limit: datetime | None = None
    for edge in sorted(edges, key=lambda edge: (edge.sealed, edge.start), reverse=True):
        definition_then = definition.parse_former(edge.definition)
        end = edge.sealed if limit is None else min(edge.sealed, limit)
        versions.append(DefinitionVersion(edge, definition_then, edge.start, max(edge.start, end), limit))
        limit = edge.start if limit is None else min(limit, edge.start)
    return versions


def find_present(definition: Definition, state: RollupState) -> DefinitionVersion | None:
    """Find the newest version of a rollup; None if the rollup has not begun under its present definition."""
    versions = list_versions(definition, state)
    return versions[0] if versions and versions[0].edge.definition == definition.text else None


def find_marked_buckets(version: DefinitionVersion, marks: Iterable[Mark]) -> set[datetime]:
    """Find the buckets of a version that marks cover; they need not be sealed.

    A mark covers a bucket of the finest rollup in its writer's configuration. This bucket may contain several buckets
    of a version that was not in that configuration.
    """
    every = version.definition.every
    buckets = set()
    for mark in marks:
        bucket = version.definition.floor(mark.bucket)
        while bucket < mark.bucket + mark.length:
            buckets.add(bucket)
            bucket += every
    return buckets


def find_unusable_buckets(version: DefinitionVersion, state: RollupState) -> list[Span]:
    """Find the buckets of a version that must be read from the events: they have a mark, or too many groups."""
    every, name = version.definition.every, version.definition.name
    buckets = find_marked_buckets(version, state.marks) | {bucket for rollup, bucket in state.over if rollup == name}
    return join_spans([(bucket, bucket + every) for bucket in sorted(buckets)])


def find_readable_spans(entries: Iterable[Entry]) -> list[Span]:
    """Find the periods whose tables or archives can be read."""
    return [(entry.period.start, entry.period.end) for entry in entries if entry.live or entry.archived is not None]


def find_usable_spans(version: DefinitionVersion, state: RollupState, readable: Sequence[Span]) -> list[Span]:
    """Find the spans in which a version's cells can be read instead of the events."""
    spans = intersect_spans([(version.start, version.end)], join_spans(readable))
    return subtract_spans(spans, find_unusable_buckets(version, state))


def list_usable(versions: Iterable[DefinitionVersion], state: RollupState, entries: Iterable[Entry]) -> list[Usable]:
    """List versions of a rollup with the spans that their cells answer. ``entries`` are of the rollup's own stream."""
    readable = find_readable_spans(entries)
    return [Usable(version.definition, find_usable_spans(version, state, readable)) for version in versions]


def cover_with_rollups(start: datetime, end: datetime, usable: Iterable[Usable]) -> list[CoveredSpan]:
    """Divide a range into segments, in order of time. The coarsest rollup answers whole buckets, events the rest."""
    uncovered: list[Span] = [(start, end)]
    segments: list[CoveredSpan] = []
    for definition, spans in sorted(usable, key=lambda rollup: rollup.definition.every, reverse=True):
        whole = [(definition.ceil(first), definition.floor(last)) for first, last in intersect_spans(uncovered, spans)]
        covered = [(first, last) for first, last in whole if first < last]
        segments += [CoveredSpan(first, last, definition) for first, last in covered]
        uncovered = subtract_spans(uncovered, covered)
    segments += [CoveredSpan(first, last, None) for first, last in uncovered]
    return sorted(segments, key=lambda segment: segment.start)


def join_spans(spans: Iterable[Span]) -> list[Span]:
    """Sort spans, and join spans that touch or overlap."""
    joined: list[Span] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def intersect_spans(spans: Iterable[Span], others: Sequence[Span]) -> list[Span]:
    """Find the spans of time that both lists cover."""
    pairs = ((max(start, first), min(end, last)) for start, end in spans for first, last in others)
    return sorted((start, end) for start, end in pairs if start < end)


def subtract_spans(spans: Iterable[Span], holes: Sequence[Span]) -> list[Span]:
    """Cut the holes out of the spans. The holes must be in order and must not overlap."""
    starts, ends = [_FIRST, *(end for _, end in holes)], [*(start for start, _ in holes), _LAST]
    return intersect_spans(spans, list(zip(starts, ends, strict=True)))
