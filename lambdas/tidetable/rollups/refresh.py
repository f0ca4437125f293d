"""The refresher seals a bucket as soon as every further event in it must have a mark. It reseals marked buckets.

The rollups of a stream are a work item: a run claims it, and runs that begin every minute work on different streams at
the same time. A run may stop after any request. Each step can be repeated: the next run does an unfinished step again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from operator import attrgetter
from zlib import crc32

from tidetable.errors import StoreUnavailable, TableThrottled, describe_error
from tidetable.ports.rollups import Edge, RollupState
from tidetable.query.model import RESERVE
from tidetable.remaining import limit_time
from tidetable.rollup_model.bounds import DEFINED_AHEAD, can_seal
from tidetable.rollup_model.cells import Bucket
from tidetable.rollup_model.cover import DefinitionVersion, list_versions
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket import RefreshReport, RefreshRun, choose_segments, compute_bucket
from tidetable.rollups.claims import SEAL, hold_sealing, shut_out_former
from tidetable.rollups.collect import MOST_TOGETHER, collect_together, find_end_of_gone
from tidetable.rollups.due import has_begun, has_work, is_due, measure_lag, measure_waiting
from tidetable.rollups.reseal import reseal_buckets, sweep_rested
from tidetable.rollups.series_index_upkeep import begin_noting, find_noted_start, sweep_notes
from tidetable.rollups.services import BucketBlocked, Services, ShareUsed, Superseded, Unfinished
from tidetable.work.claim import rests

# The seconds of a run that a stream may use before the other streams had a turn. A bucket that was begun is finished.
_SHARE = 60.0


def refresh_rollups(
    definitions: Mapping[str, Sequence[Definition]], services: Services, owner: str, length: timedelta
) -> RefreshReport | None:
    """Refresh the rollups of all streams. ``definitions`` has them by the name of their source stream.

    Returns None while a run of a former version works. ``length`` is the longest time for which this run holds a claim
    (``bounds.choose_lease_length``). A stream that fails does not stop the others, a stream without due work costs one
    request, and a stream that another run has claimed is left to it. Each run begins with a stream that its ``owner``
    chooses: a stream with more work than a run has time for must not take the time of the other streams.
    """
    if not shut_out_former(services, length):
        return None
    pauses, report = services.work.list_pauses(), RefreshReport()
    ordered = list(definitions.items())
    first = crc32(owner.encode()) % max(len(ordered), 1)
    waiting = deque(ordered[first:] + ordered[:first])
    while waiting:
        source, rollups = waiting.popleft()
        share = limit_time(_SHARE, services.clock, services.remaining)
        run = RefreshRun(source, sorted(rollups, key=attrgetter("every")), services, report, share)
        state: RollupState | None = None
        try:
            state = services.rollups.read_at_once(source)
            if has_work(run.definitions, state, services.clock.now()) and not rests(SEAL, source, pauses):
                state = None
                with hold_sealing(services, source, owner, length) as free:
                    if free:
                        _refresh_stream(run)
        except ShareUsed:
            waiting.append((source, rollups))
            continue
        except Unfinished:
            report.finished = False
        except (StoreUnavailable, TableThrottled, Superseded) as error:
            report.failed.append(f"{source}: {error}")
        except Exception as error:  # for example a damaged pack of this stream, which each run finds again
            report.failed.append(f"{source}: {describe_error(error)}")
        with suppress(StoreUnavailable, TableThrottled):
            _note_standing(run, state or services.rollups.read_at_once(source))
    return report


def _note_standing(run: RefreshRun, state: RollupState) -> None:
    """Add the marks and the lag that a stream has after its turn to the report."""
    report, now = run.report, run.services.clock.now()
    report.marks += len(state.marks)
    lags = [measure_lag(definition, state, now) for definition in run.definitions]
    report.lag = max([report.lag, *lags, measure_waiting(state, now)])


def _refresh_stream(run: RefreshRun) -> None:
    """Seal and reseal the due buckets of one stream.

    The definitions have the finest rollup first, because coarser rollups are computed from finer rollups.
    """
    services = run.services
    ahead = max(definition.ahead for definition in run.definitions)
    state = begin_noting(run.source, ahead, services.rollups.read_at_once(run.source), services)
    for definition in run.definitions:
        _begin_definition(definition, state, services)
    is_resealed = reseal_buckets(run)
    for definition in run.definitions:
        # Marks and edges have changed since the last reading.
        state = services.rollups.read_at_once(run.source)
        for version in reversed(list_versions(definition, state)):
            state = _seal_buckets(version, run, state)
    if not is_resealed:
        raise ShareUsed("the share is used")
    sweep_rested(run, state)
    sweep_notes(run.source, state, services)


def _begin_definition(definition: Definition, state: RollupState, services: Services) -> None:
    """Write the edge of a new definition. Its first bucket begins when every process has the new configuration."""
    start = services.clock.now() + DEFINED_AHEAD
    versions = list_versions(definition, state)
    if has_begun(definition, versions):
        return
    if versions:
        # If the definition changed twice within minutes, the former edge is still in the future: begin after it.
        start = max(start, versions[0].edge.sealed + timedelta(seconds=1))
    if definition.period is not None:
        if state.noted_since is None:
            return
        start = find_noted_start(start, definition.period, state.noted_since)
    start = definition.ceil(start)
    services.rollups.put_edge(definition.source, Edge(definition.name, start, start, definition.text), None)


def _seal_buckets(version: DefinitionVersion, run: RefreshRun, state: RollupState) -> RollupState:
    """Seal the due buckets of a version, the oldest first; return the state with the moved edge."""
    definition, services = version.definition, run.services
    together: dict[datetime, tuple[datetime, Bucket]] = {}
    is_first = True
    while is_due(version, services.clock.now()):
        edge, bucket = version.edge, version.edge.sealed
        end = bucket + definition.every
        if not is_first and run.share() <= 0:
            raise ShareUsed("the share is used")
        if services.remaining() < RESERVE:
            raise Unfinished("the time is up")
        try:
            if bucket not in together:
                together = _read_together(version, bucket, run, state)
            is_kept = compute_bucket(version, bucket, run, state, together.pop(bucket, None))
        except BucketBlocked as error:
            behind = find_end_of_gone(run.source, bucket, end, services)
            if behind is None:
                run.report.blocked.append(f"{definition.stream}: {error}")
            elif version.limit is None:
                start = definition.ceil(behind)
                services.rollups.put_edge(run.source, Edge(definition.name, start, start, edge.definition), None)
            return state
        advanced = edge._replace(sealed=end)
        if not services.rollups.put_edge(run.source, advanced, edge):
            raise Superseded(f"the edge of {definition.stream} was moved by another run")
        run.report.sealed += is_kept
        state = state._replace(edges=[advanced if other == edge else other for other in state.edges])
        version, is_first = version._replace(edge=advanced), False
    return state


def _read_together(
    version: DefinitionVersion, bucket: datetime, run: RefreshRun, state: RollupState
) -> dict[datetime, tuple[datetime, Bucket]]:
    """If that is cheaper, read several due buckets in one pass, each with the instant when reading began."""
    definition, now = version.definition, run.services.clock.now()
    due = 1
    while due < MOST_TOGETHER and can_seal(bucket + (due + 1) * definition.every, now):
        due += 1
    if version.limit is not None:
        due = min(due, (version.limit - bucket) // definition.every)
    end = bucket + due * definition.every
    # It costs less to compute a bucket from the cells of finer rollups.
    if due < 2 or any(segment.definition for segment in choose_segments(definition, bucket, end, run, state)):
        return {}
    return {at: (now, content) for at, content in collect_together(definition, bucket, due, run.services).items()}
