"""Seal the due buckets of a stream, whose claim this run has: begin new definitions, reseal, seal, and sweep."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from tidetable.ports.rollups import Edge, RollupState
from tidetable.query.model import RESERVE
from tidetable.rollup_model.bounds import DEFINED_AHEAD, can_seal
from tidetable.rollup_model.cells import Bucket
from tidetable.rollup_model.cover import DefinitionVersion, list_versions
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket import choose_segments, compute_bucket
from tidetable.rollups.bucket_parts import find_obsolete, remove_parts
from tidetable.rollups.collect import MOST_TOGETHER, collect_together, find_end_of_gone
from tidetable.rollups.division import choose_division
from tidetable.rollups.due import has_begun, is_due
from tidetable.rollups.last_periods import cover_periods
from tidetable.rollups.new_events import add_new_events
from tidetable.rollups.rebuild import list_spans
from tidetable.rollups.rebuild_turn import advance_rebuilds, is_in_piece
from tidetable.rollups.reseal import reseal_buckets, sweep_rested
from tidetable.rollups.run import RefreshRun
from tidetable.rollups.series_index_upkeep import begin_noting, find_noted_start, sweep_notes
from tidetable.rollups.services import (
    BucketBlocked,
    Divided,
    Services,
    ShareUsed,
    Superseded,
    Unfinished,
)


def seal_stream(run: RefreshRun) -> None:
    """Seal and reseal the due buckets of one stream.

    Raises Divided if a bucket waits for its parts, ShareUsed if other streams shall have a turn.
    The definitions have the finest rollup first, because coarser rollups are computed from finer rollups.
    """
    services = run.services
    ahead = max(definition.ahead for definition in run.definitions)
    state = begin_noting(run.source, ahead, services.rollups.read_at_once(run.source), services)
    for definition in run.definitions:
        _begin_definition(definition, state, services)
    if run.bucket_parts:
        versions = [version for definition in run.definitions for version in list_versions(definition, state)]
        obsolete = find_obsolete(run.bucket_parts, versions, state.marks)
        remove_parts([part for part in obsolete if not is_in_piece(part, run.rebuilds)], services)
    if run.rebuilds:
        state = advance_rebuilds(run, state)
        run = msgspec.structs.replace(run, rebuilding=list_spans(run.rebuilds))
    add_new_events(run, state)
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
    cover_periods(run, state)
    if run.divided:
        raise Divided("marked buckets wait for their parts")


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
            computed = compute_bucket(version, bucket, run, state, together.pop(bucket, None), divides=True)
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
        run.remove_parts(definition.name, bucket)
        run.report.sealed += computed.is_kept
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
    if choose_division(definition, bucket, run.sizes.get(definition.name, 0), run.services).number > 1:
        return {}
    return {at: (now, content) for at, content in collect_together(definition, bucket, due, run.services).items()}
