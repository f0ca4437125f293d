"""The refresher seals a bucket as soon as every new event in it must come with a mark. It reseals marked buckets.

A run may stop after any request. Each step can be repeated: the next run does an unfinished step again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from zlib import crc32

from tidetable.errors import StoreUnavailable, TableThrottled
from tidetable.leases import hold_lease
from tidetable.ports.rollups import Edge, Mark, RollupState
from tidetable.query.model import RESERVE
from tidetable.rollups.bounds import DEFINED_AHEAD, LEASE, MARKED_AFTER, WRITER_LIFE, can_reseal, can_seal
from tidetable.rollups.cells import Bucket
from tidetable.rollups.collect import MOST_TOGETHER, collect, collect_together, find_end_of_gone, list_gone
from tidetable.rollups.cover import (
    Segment,
    Usable,
    Version,
    cover,
    find_marked_buckets,
    find_readable_spans,
    find_usable_spans,
    join,
    list_versions,
    subtract,
)
from tidetable.rollups.definition import Definition
from tidetable.rollups.noting import begin_noting, find_noted_start, sweep_notes
from tidetable.rollups.services import BucketBlocked, BucketOver, Services, Superseded, Unfinished
from tidetable.rollups.writing import find_table, read_present, write_cells
from tidetable.times import to_text


@dataclass(slots=True)
class Report:
    """What a run did: how many buckets it sealed and resealed, and why it did not do others.

    ``over`` are the buckets that are not kept: they have too many groups, or too large a cell. ``marks`` counts the
    marks that remain, ``gone`` the marks that were cleared because their events are gone for ever. ``lag`` is the
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


def refresh(
    definitions: Mapping[str, Sequence[Definition]], services: Services, owner: str, length: timedelta
) -> Report | None:
    """Refresh the rollups of all streams. ``definitions`` has them by the name of their source stream.

    Returns None while another run holds the lease. ``length`` is the longest time for which this run holds the lease
    (``bounds.choose_lease_length``). A stream that fails does not stop the others. Each run begins with a stream that its
    ``owner`` chooses: a stream with more work than a run has time for must not keep the others from theirs.
    """
    with hold_lease(services.catalog, LEASE, owner, services.clock.now(), length) as free:
        if not free:
            return None
        report = Report()
        ordered = list(definitions.items())
        first = crc32(owner.encode()) % max(len(ordered), 1)
        for source, some in ordered[first:] + ordered[:first]:
            try:
                refresh_stream(source, some, services, report)
            except Unfinished:
                report.finished = False
            except (StoreUnavailable, TableThrottled, Superseded) as error:
                report.failed.append(f"{source}: {error}")
            except Exception as error:  # such as a damaged pack of this stream: each run finds it
                report.failed.append(f"{source}: {type(error).__name__}: {error}")
            with suppress(StoreUnavailable, TableThrottled):
                _measure(services.rollups.read_state(source), some, services.clock.now(), report)
        return report


def _measure(state: RollupState, definitions: Sequence[Definition], now: datetime, report: Report) -> None:
    """Add the remaining marks and the lag of one stream to the report, also if the refresh of this stream failed."""
    report.marks += len(state.marks)
    report.lag = max([report.lag, *(measure_lag(definition, state, now) for definition in definitions)])


def refresh_stream(source: str, definitions: Sequence[Definition], services: Services, report: Report) -> None:
    """Seal and reseal the due buckets of one stream. Finer rollups come first: coarser ones are computed from them."""
    ordered = sorted(definitions, key=lambda definition: definition.every)
    state = begin_noting(
        source, max(definition.ahead for definition in ordered), services.rollups.read_state(source), services
    )
    for definition in ordered:
        _begin(definition, state, services)
    _reseal(source, ordered, services, report)
    for definition in ordered:
        # Marks and edges have changed since the last reading.
        state = services.rollups.read_state(source)
        for version in reversed(list_versions(definition, state)):
            state = _seal(version, ordered, state, services, report)
    sweep_notes(source, state, services)


def measure_lag(definition: Definition, state: RollupState, now: datetime) -> timedelta:
    """For how long the next bucket of a rollup could have been sealed already; zero if it cannot be sealed yet."""
    versions = list_versions(definition, state)
    if not versions:
        return timedelta(0)
    due = versions[0].edge.sealed + versions[0].definition.every + MARKED_AFTER + WRITER_LIFE
    return max(now - due, timedelta(0))


def _begin(definition: Definition, state: RollupState, services: Services) -> None:
    """Write the edge of a new definition. Its first bucket begins when every process has the new configuration."""
    start = services.clock.now() + DEFINED_AHEAD
    versions = list_versions(definition, state)
    if versions:
        newest = versions[0].edge
        if newest.definition == definition.text:
            return
        # If the definition changed twice within minutes, the former edge is still in the future: begin after it.
        start = max(start, newest.sealed + timedelta(seconds=1))
    if definition.period is not None:
        if state.noted_since is None:
            return
        start = find_noted_start(start, definition.period, state.noted_since)
    start = definition.ceil(start)
    services.rollups.put_edge(definition.source, Edge(definition.name, start, start, definition.text), None)


def _seal(
    version: Version, definitions: Sequence[Definition], state: RollupState, services: Services, report: Report
) -> RollupState:
    """Seal the due buckets of a version, the oldest first; returns the state with the moved edge."""
    definition, edge = version.definition, version.edge
    together: dict[datetime, tuple[datetime, Bucket]] = {}
    while True:
        bucket = edge.sealed
        end = bucket + definition.every
        if not can_seal(end, services.clock.now()) or (version.limit is not None and end > version.limit):
            return state
        if services.remaining() < RESERVE:
            raise Unfinished("the time is up")
        try:
            if bucket not in together:
                together = _read_together(version, bucket, definitions, state, services)
            content = together.pop(bucket, None)
            kept = compute_bucket(version, bucket, definitions, state, services, report, content)
        except BucketBlocked as error:
            behind = find_end_of_gone(definition.source, bucket, end, services)
            if behind is None:
                report.blocked.append(f"{definition.stream}: {error}")
            elif version.limit is None:
                start = definition.ceil(behind)
                services.rollups.put_edge(definition.source, Edge(definition.name, start, start, edge.definition), None)
            return state
        advanced = edge._replace(sealed=end)
        if not services.rollups.put_edge(definition.source, advanced, edge):
            raise Superseded(f"the edge of {definition.stream} was moved by another run")
        report.sealed += kept
        state = state._replace(edges=[advanced if other == edge else other for other in state.edges])
        edge = advanced


def _read_together(
    version: Version, bucket: datetime, definitions: Sequence[Definition], state: RollupState, services: Services
) -> dict[datetime, tuple[datetime, Bucket]]:
    """Read several due buckets in one pass if that is cheaper (else none), each with the instant when reading began."""
    definition, now = version.definition, services.clock.now()
    due = 1
    while due < MOST_TOGETHER and can_seal(bucket + (due + 1) * definition.every, now):
        due += 1
    if version.limit is not None:
        due = min(due, (version.limit - bucket) // definition.every)
    end = bucket + due * definition.every
    # It costs less to compute a bucket from the cells of finer rollups.
    if due < 2 or any(
        segment.definition for segment in _choose_segments(definition, bucket, end, definitions, state, services)
    ):
        return {}
    return {at: (now, collected) for at, collected in collect_together(definition, bucket, due, services).items()}


def compute_bucket(
    version: Version,
    bucket: datetime,
    definitions: Sequence[Definition],
    state: RollupState,
    services: Services,
    report: Report,
    collected: tuple[datetime, Bucket] | None = None,
) -> bool:
    """Compute a bucket and write its cells. If it has too many groups, or a cell that is too large for an item, write a
    note about that instead; returns False.

    ``collected`` is the instant of reading and the content, if the bucket was read before. Without it, read the bucket.
    """
    definition = version.definition
    end = bucket + definition.every
    read_at = services.clock.now() if collected is None else collected[0]
    entry = find_table(definition, bucket, services)
    present = read_present(entry, bucket, services)
    if collected is None:
        content = collect(definition, _choose_segments(definition, bucket, end, definitions, state, services), services)
    else:
        content = collected[1]
    was_over = (definition.name, bucket) in {(name, at) for name, at in state.over}
    try:
        if content.is_over:
            raise BucketOver(f"more than {definition.max_groups} groups")
        write_cells(definition, entry, content.events(bucket), present, read_at, services)
    except BucketOver as error:
        services.rollups.put_over(definition.source, definition.name, bucket, len(content.groups))
        report.over.append(f"{definition.stream} {to_text(bucket)}: {error}")
        return False
    if was_over:
        services.rollups.clear_over(definition.source, definition.name, bucket)
    return True


def _choose_segments(
    definition: Definition,
    start: datetime,
    end: datetime,
    definitions: Sequence[Definition],
    state: RollupState,
    services: Services,
) -> list[Segment]:
    """The segments from which a bucket is computed: cells of finer rollups where they fit, and events elsewhere."""
    usable = []
    state = state._replace(marks=[mark for mark in state.marks if mark.meets(start, end)])
    for other in definitions:
        fitting = [version for version in list_versions(other, state) if version.definition.feeds(definition)]
        if fitting and other.name != definition.name:
            entries = services.catalog.entries(other.stream, start, end, consistent=True)
            readable = find_readable_spans(entries)
            usable += [Usable(version.definition, find_usable_spans(version, state, readable)) for version in fitting]
    return cover(start, end, usable)


def _reseal(source: str, definitions: Sequence[Definition], services: Services, report: Report) -> None:
    """Compute marked sealed buckets anew, and then clear their marks. A mark waits until its writer has ended.

    All marks within one bucket of the coarsest rollup are handled together, the newest bucket first.
    """
    state, now = services.rollups.read_state(source), services.clock.now()
    coarsest = definitions[-1]
    groups: dict[datetime, list[Mark]] = {}
    for mark in state.marks:
        # The writer of a young mark may still be writing.
        if can_reseal(mark.at, now):
            groups.setdefault(coarsest.floor(mark.bucket), []).append(mark)
    for _, group in sorted(groups.items(), reverse=True):
        # A set, because an import may put hundreds of thousands of marks.
        chosen = set(group)
        other_marks = [mark for mark in state.marks if mark not in chosen]
        due = _drop_gone(source, group, services, report)
        staying = _reseal_group(due, other_marks, definitions, state, services, report)
        for mark in due:
            if mark not in staying:
                services.rollups.clear_mark(source, mark)
        state = state._replace(marks=other_marks + staying)


def _drop_gone(source: str, marks: Sequence[Mark], services: Services, report: Report) -> list[Mark]:
    """Clear the marks whose events are gone for ever, and return the other marks. The cells are not changed.

    Such cells are the only trace of their events. A mark stays if some of its events may still exist: if it covers a
    period that has a table or an archive, or that has no table yet.
    """
    start, end = min(mark.bucket for mark in marks), max(mark.bucket + mark.length for mark in marks)
    spans = join(list_gone(source, start, end, services))
    remaining_marks: list[Mark] = []
    for mark in marks:
        if subtract([(mark.bucket, mark.bucket + mark.length)], spans):
            remaining_marks.append(mark)
        elif services.rollups.clear_mark(source, mark):
            report.gone += 1
    return remaining_marks


def _reseal_group(
    due: Sequence[Mark],
    other_marks: Sequence[Mark],
    definitions: Sequence[Definition],
    state: RollupState,
    services: Services,
    report: Report,
) -> list[Mark]:
    """Compute the buckets of the marks ``due`` anew, the finest rollup first; returns the marks that stay.

    These are the marks of blocked buckets and, if the finest buckets would take more than half of the time, the marks of
    the rest of them. A mark is cleared only after its coarsest bucket, and a run may have too little time for all marks.
    """
    staying: list[Mark] = []
    over, half = list(state.over), services.remaining() / 2
    for definition in definitions:
        # A finer bucket may be used only if it has no mark, or its cells have just been computed anew.
        current = state._replace(marks=[*other_marks, *staying], over=list(over))
        for version in list_versions(definition, state):
            marks_of = _group_marks(version, due)
            for number, (bucket, marks) in enumerate(marks_of.items()):
                if services.remaining() < RESERVE:
                    raise Unfinished("the time is up")
                if definition is definitions[0] and services.remaining() < half:
                    rest = {mark for some in list(marks_of.values())[number:] for mark in some}
                    if any(mark not in rest for mark in due):
                        due = [mark for mark in due if mark not in rest]
                        staying += [mark for mark in sorted(rest) if mark not in staying]
                        report.finished = False
                        break
                try:
                    if compute_bucket(version, bucket, definitions, current, services, report):
                        report.resealed += 1
                    else:
                        over.append((definition.name, bucket))
                except BucketBlocked as error:
                    report.blocked.append(f"{definition.stream} {to_text(bucket)}: {error}")
                    staying += [mark for mark in marks if mark not in staying]
    return staying


def _group_marks(version: Version, marks: Iterable[Mark]) -> dict[datetime, list[Mark]]:
    """The marked buckets that are sealed under a version, each with its marks."""
    marks_of: dict[datetime, list[Mark]] = {}
    for mark in marks:
        for bucket in sorted(find_marked_buckets(version, [mark])):
            if version.start <= bucket < version.end:
                marks_of.setdefault(bucket, []).append(mark)
    return marks_of
