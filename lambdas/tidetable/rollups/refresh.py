"""The refresher: seals buckets that no writer can reach without a mark any more, and reseals marked buckets.

Each step can be repeated, and a run may end after any request: what it began the next run does again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

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
from tidetable.rollups.services import BucketBlocked, Services, Superseded, Unfinished
from tidetable.rollups.writing import find_table, read_present, write_cells
from tidetable.times import to_text


@dataclass(slots=True)
class Report:
    """What a run did: buckets sealed and resealed, and why others were not.

    ``over`` are buckets that were found to have too many groups, by rollup; ``marks`` are marks that are left, ``gone``
    marks that were cleared because their events are gone for ever. ``lag`` is for
    how long a bucket could have been sealed already. ``finished`` says that nothing was left for want of time.
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
    """Refresh the rollups of streams, by the names of the streams that they are made of; None while another run does it.

    ``length`` is how long the lease is held at the most (``bounds.choose_lease_length``). A stream that fails does not stop
    the others.
    """
    with hold_lease(services.catalog, LEASE, owner, services.clock.now(), length) as free:
        if not free:
            return None
        report = Report()
        for source, some in definitions.items():
            try:
                refresh_stream(source, some, services, report)
            except Unfinished:
                report.finished = False
            except (StoreUnavailable, TableThrottled, Superseded) as error:
                report.failed.append(f"{source}: {error}")
            except Exception as error:  # such as a damaged pack of this stream, which every run meets
                report.failed.append(f"{source}: {type(error).__name__}: {error}")
            with suppress(StoreUnavailable, TableThrottled):
                _measure(services.rollups.read_state(source), some, services.clock.now(), report)
        return report


def _measure(state: RollupState, definitions: Sequence[Definition], now: datetime, report: Report) -> None:
    """Note what is left to do of one stream, also of one that failed."""
    report.marks += len(state.marks)
    report.lag = max([report.lag, *(measure_lag(definition, state, now) for definition in definitions)])


def refresh_stream(source: str, definitions: Sequence[Definition], services: Services, report: Report) -> None:
    """Seal and reseal what is due of one stream. Finer rollups come first, because coarser ones are made of them."""
    ordered = sorted(definitions, key=lambda definition: definition.every)
    state = begin_noting(
        source, max(definition.ahead for definition in ordered), services.rollups.read_state(source), services
    )
    for definition in ordered:
        _begin(definition, state, services)
    _reseal(source, ordered, services, report)
    for definition in ordered:
        # Marks and edges have moved meanwhile.
        state = services.rollups.read_state(source)
        for version in reversed(list_versions(definition, state)):
            state = _seal(version, ordered, state, services, report)
    sweep_notes(source, state, services)


def measure_lag(definition: Definition, state: RollupState, now: datetime) -> timedelta:
    """How long the next bucket of a rollup could have been sealed already; nothing if it cannot be sealed yet."""
    versions = list_versions(definition, state)
    if not versions:
        return timedelta(0)
    due = versions[0].edge.sealed + versions[0].definition.every + MARKED_AFTER + WRITER_LIFE
    return max(now - due, timedelta(0))


def _begin(definition: Definition, state: RollupState, services: Services) -> None:
    """Put the edge of a definition that is new; its first bucket begins when every process has the configuration."""
    start = services.clock.now() + DEFINED_AHEAD
    versions = list_versions(definition, state)
    if versions:
        newest = versions[0].edge
        if newest.definition == definition.text:
            return
        # A definition that changes twice within minutes begins behind an edge that is still to come.
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
    """Seal the buckets of a version that are due, in order; returns the state with the edge where it is then."""
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
            compute_bucket(version, bucket, definitions, state, services, report, together.pop(bucket, None))
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
        report.sealed += 1
        state = state._replace(edges=[advanced if other == edge else other for other in state.edges])
        edge = advanced


def _read_together(
    version: Version, bucket: datetime, definitions: Sequence[Definition], state: RollupState, services: Services
) -> dict[datetime, tuple[datetime, Bucket]]:
    """Several buckets that are due, with the instant at which reading them began, if reading them together is cheaper."""
    definition, now = version.definition, services.clock.now()
    due = 1
    while due < MOST_TOGETHER and can_seal(bucket + (due + 1) * definition.every, now):
        due += 1
    if version.limit is not None:
        due = min(due, (version.limit - bucket) // definition.every)
    end = bucket + due * definition.every
    # What finer rollups answer costs less.
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
) -> None:
    """Read a bucket whole, unless it was ``collected`` at an instant, and write its cells, or note its too many groups."""
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
    if content.is_over:
        services.rollups.put_over(definition.source, definition.name, bucket, len(content.groups))
        report.over.append(f"{definition.stream} {to_text(bucket)}: more than {definition.max_groups} groups")
        return
    write_cells(definition, entry, content.events(bucket), present, read_at, services)
    if was_over:
        services.rollups.clear_over(definition.source, definition.name, bucket)


def _choose_segments(
    definition: Definition,
    start: datetime,
    end: datetime,
    definitions: Sequence[Definition],
    state: RollupState,
    services: Services,
) -> list[Segment]:
    """What a bucket is computed from: finer rollups where they fit, and else the events."""
    usable = []
    for other in definitions:
        fitting = [version for version in list_versions(other, state) if version.definition.feeds(definition)]
        if fitting and other.name != definition.name:
            entries = services.catalog.entries(other.stream, start, end, consistent=True)
            readable = find_readable_spans(entries)
            usable += [Usable(version.definition, find_usable_spans(version, state, readable)) for version in fitting]
    return cover(start, end, usable)


def _reseal(source: str, definitions: Sequence[Definition], services: Services, report: Report) -> None:
    """Compute the sealed buckets of marks anew whose writers are dead, and then clear the marks.

    The marks of one bucket of the coarsest rollup are done together, the newest bucket first.
    """
    state, now = services.rollups.read_state(source), services.clock.now()
    coarsest = definitions[-1]
    groups: dict[datetime, list[Mark]] = {}
    for mark in state.marks:
        # A young mark is of a writer that may still write.
        if can_reseal(mark.at, now):
            groups.setdefault(coarsest.floor(mark.bucket), []).append(mark)
    for _, group in sorted(groups.items(), reverse=True):
        other_marks = [mark for mark in state.marks if mark not in group]
        due = _drop_gone(source, group, services, report)
        blocked = _reseal_group(due, other_marks, definitions, state, services, report)
        for mark in due:
            if mark not in blocked:
                services.rollups.clear_mark(source, mark)
        state = state._replace(marks=other_marks + blocked)


def _drop_gone(source: str, marks: Sequence[Mark], services: Services, report: Report) -> list[Mark]:
    """Clear the marks whose events are gone for ever, and leave their cells as they are; returns the other marks.

    The cells are all that is known of such events. A mark of which any event may be left stays: it covers a period that has a
    table or an archive, or none yet.
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
    """Compute the buckets of some marks anew, the finest first; returns the marks of which a bucket could not be computed."""
    blocked: list[Mark] = []
    for definition in definitions:
        # Of what is finer only buckets count that were computed anew, or that have no mark.
        current = state._replace(marks=[*other_marks, *blocked])
        for version in list_versions(definition, state):
            marks_of: dict[datetime, list[Mark]] = {}
            for mark in due:
                for bucket in _find_sealed_buckets(version, find_marked_buckets(version, [mark])):
                    marks_of.setdefault(bucket, []).append(mark)
            for bucket, marks in marks_of.items():
                if services.remaining() < RESERVE:
                    raise Unfinished("the time is up")
                try:
                    compute_bucket(version, bucket, definitions, current, services, report)
                    report.resealed += 1
                except BucketBlocked as error:
                    report.blocked.append(f"{definition.stream} {to_text(bucket)}: {error}")
                    blocked += [mark for mark in marks if mark not in blocked]
    return blocked


def _find_sealed_buckets(version: Version, buckets: Iterable[datetime]) -> list[datetime]:
    """Those of some buckets that are sealed under a version."""
    return sorted(bucket for bucket in buckets if version.start <= bucket < version.end)
