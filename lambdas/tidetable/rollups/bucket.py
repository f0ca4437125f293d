"""Compute one bucket of a rollup from the cells of finer rollups and from events, and write its cells."""

from __future__ import annotations

from datetime import datetime

from tidetable.ports.rollups import RollupState
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
from tidetable.rollups.collect import collect_bucket
from tidetable.rollups.new_events import mark_new_events
from tidetable.rollups.run import RefreshRun
from tidetable.rollups.services import BucketOver
from tidetable.rollups.writing import find_table, read_present, write_cells
from tidetable.times import to_text


def compute_bucket(
    version: DefinitionVersion,
    bucket: datetime,
    run: RefreshRun,
    state: RollupState,
    collected: tuple[datetime, Bucket] | None = None,
    most: int | None = None,
) -> bool:
    """Compute a bucket and write its cells.

    If it has too many or too long groups, or a cell that DynamoDB refuses, record that instead and return False. If the
    bucket was read before, ``collected`` is the instant of that reading, and the content. Otherwise the bucket is read
    here; raises TooManyEvents if it has more than ``most`` events.
    """
    definition, services = version.definition, run.services
    read_at, content = collected or (services.clock.now(), None)
    entry = find_table(definition, bucket, services)
    present = read_present(entry, bucket, services)
    if content is None:
        segments = choose_segments(definition, bucket, bucket + definition.every, run, state)
        content = collect_bucket(definition, segments, services, most)
        if not any(segment.definition for segment in segments):
            run.sizes[definition.name] = content.count_events()
    services.require_time()
    try:
        if content.is_over:
            raise BucketOver(content.describe_over())
        write_cells(definition, entry, content.make_events(bucket), present, read_at, services)
    except BucketOver as error:
        services.rollups.put_over(run.source, definition.name, bucket, max(len(content.groups), content.over))
        run.report.over.append(f"{definition.stream} {to_text(bucket)}: {error}")
        return False
    if (definition.name, bucket) in state.over:
        services.require_time()
        services.rollups.clear_over(run.source, definition.name, bucket)
    mark_new_events(run.source, bucket, bucket + definition.every, services)
    return True


def choose_segments(
    definition: Definition, start: datetime, end: datetime, run: RefreshRun, state: RollupState
) -> list[CoveredSpan]:
    """Choose the segments from which a bucket is computed: cells of finer rollups if they fit, otherwise events."""
    usable = list[Usable]()
    state = state._replace(marks=[mark for mark in state.marks if mark.meets(start, end)])
    for other in run.definitions:
        fitting = [version for version in list_versions(other, state) if version.definition.can_feed(definition)]
        if fitting and other.name != definition.name:
            entries = run.services.catalog.entries(other.stream, start, end, consistent=True)
            usable += list_usable(fitting, state, entries)
    return cover_with_rollups(start, end, usable)
