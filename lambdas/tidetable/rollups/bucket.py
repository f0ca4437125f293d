"""Compute one bucket of a rollup from the cells of finer rollups, from events, or from its parts, and write its cells."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from tidetable.ports.rollups import RollupState
from tidetable.rollup_model.bounds import REBUILT
from tidetable.rollup_model.cells import Bucket
from tidetable.rollup_model.cover import (
    CoveredSpan,
    DefinitionVersion,
    Usable,
    cover_with_rollups,
    list_usable,
    list_versions,
)
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket_parts import divide_bucket, merge_parts
from tidetable.rollups.collect import collect_bucket
from tidetable.rollups.division import MOST_WHOLE, choose_division
from tidetable.rollups.new_events import mark_new_events
from tidetable.rollups.run import RefreshRun
from tidetable.rollups.services import BucketOver, Divided, TooManyEvents
from tidetable.rollups.writing import find_table, read_present, write_cells
from tidetable.times import to_text

# At most so many buckets of a stream have parts at the same time, apart from the next bucket of each rollup.
_MOST_DIVIDED = 16


class Computed(NamedTuple):
    """A bucket was computed: its cells have all events that were written before ``read_at``.

    If not ``is_kept``, it has too many or too long groups, or a cell that DynamoDB refuses.
    """

    read_at: datetime
    is_kept: bool


def compute_bucket(
    version: DefinitionVersion,
    bucket: datetime,
    run: RefreshRun,
    state: RollupState,
    collected: tuple[datetime, Bucket] | None = None,
    *,
    divides: bool = False,
) -> Computed:
    """Compute a bucket and write its cells, or record that it is not kept.

    If the bucket was read before, ``collected`` is the instant of that reading, and the content. Otherwise the bucket is
    read here. With ``divides``, a long bucket is divided into parts: raises Divided until they are finished.
    """
    definition, services = version.definition, run.services
    entry = find_table(definition, bucket, services)
    present = read_present(entry, bucket, services)
    read_at, content = collected or _collect_content(version, bucket, run, state, divides=divides)
    services.require_time()
    try:
        if content.is_over:
            raise BucketOver(content.describe_over())
        write_cells(definition, entry, content.make_events(bucket), present, read_at, services)
    except BucketOver as error:
        services.rollups.put_over(run.source, definition.name, bucket, max(len(content.groups), content.over))
        run.report.over.append(f"{definition.stream} {to_text(bucket)}: {error}")
        return Computed(read_at, is_kept=False)
    if (definition.name, bucket) in state.over:
        services.require_time()
        services.rollups.clear_over(run.source, definition.name, bucket)
    mark_new_events(run.source, bucket, bucket + definition.every, services)
    return Computed(read_at, is_kept=True)


def _collect_content(
    version: DefinitionVersion, bucket: datetime, run: RefreshRun, state: RollupState, *, divides: bool
) -> tuple[datetime, Bucket]:
    """Merge the parts of a bucket, or read it as a whole; return the instant when reading began, and the content."""
    definition, services, events = version.definition, run.services, run.sizes.get(version.definition.name, 0)
    if (definition.name, bucket) in run.divided:
        merged = merge_parts(version, bucket, services)
        if merged is not None:
            run.sizes[definition.name] = merged[1].count_events()
            return merged
    read_at = services.clock.now()
    segments = choose_segments(definition, bucket, bucket + definition.every, run, state)
    is_raw = not any(segment.definition for segment in segments)
    try:
        if divides and is_raw and choose_division(definition, bucket, events, services).number > 1:
            raise TooManyEvents(events)
        content = collect_bucket(definition, segments, services, MOST_WHOLE if divides else None)
    except TooManyEvents as error:
        # Further marked buckets would only wait behind those that have parts.
        if not version.start <= bucket < version.end or len(run.divided) < _MOST_DIVIDED:
            divide_bucket(version, bucket, error.events, services)
            run.divided.add((definition.name, bucket))
        raise Divided(f"{definition.stream} has {error}") from error
    if is_raw:
        run.sizes[definition.name] = content.count_events()
    return read_at, content


def choose_segments(
    definition: Definition, start: datetime, end: datetime, run: RefreshRun, state: RollupState
) -> list[CoveredSpan]:
    """Choose the segments from which a bucket is computed: cells of finer rollups if they fit, otherwise events.

    Cells of a marked bucket may lack late events. They are used all the same: its mark is also a mark of the bucket that
    is computed, which is computed again before the mark rests. The marks of a rebuild are different: they are removed
    when the finer bucket is computed.
    """
    usable = list[Usable]()
    state = state._replace(marks=[mark for mark in state.marks if mark.length == REBUILT and mark.meets(start, end)])
    for other in run.definitions:
        fitting = [version for version in list_versions(other, state) if version.definition.can_feed(definition)]
        if fitting and other.name != definition.name:
            entries = run.services.catalog.entries(other.stream, start, end, consistent=True)
            usable += list_usable(fitting, state, entries)
    return cover_with_rollups(start, end, usable)
