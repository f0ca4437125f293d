"""Compute one bucket of a rollup from the cells of finer rollups and from events, and write its cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from tidetable.ports.rollups import RollupState
from tidetable.remaining import Remaining
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
from tidetable.rollups.bucket_parts import BucketPart
from tidetable.rollups.collect import collect_bucket
from tidetable.rollups.services import BucketOver, Services
from tidetable.rollups.writing import find_table, read_present, write_cells
from tidetable.times import to_text


@dataclass(slots=True)
class RefreshReport:
    """The report of a run: the numbers of sealed and resealed buckets, and the reasons why it did not handle others.

    ``over`` are the buckets that are not kept: they have too many or too long groups. ``marks`` counts the
    marks that remain, ``gone`` the marks that were cleared because their events are deleted for ever. ``lag`` is the
    longest time for which a bucket could have been sealed already. ``finished`` is False if the time was up too early.
    """

    sealed: int = 0
    resealed: int = 0
    gone: int = 0
    blocked: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    marks: int = 0
    lag: timedelta = timedelta(0)
    finished: bool = True


class RefreshRun(msgspec.Struct, frozen=True):
    """The work of one run on the rollups of the stream ``source``.

    ``share`` returns the seconds that are left until other streams have a turn. ``bucket_parts`` are the parts of the
    stream's buckets, and ``sizes`` the events of each rollup's last bucket that was read from events.
    """

    source: str
    definitions: Sequence[Definition]
    services: Services
    report: RefreshReport
    share: Remaining
    bucket_parts: Sequence[BucketPart] = ()
    sizes: dict[str, int] = msgspec.field(default_factory=dict)


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
