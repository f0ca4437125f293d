"""Rebuild a rollup: extend its present definition to earlier buckets, and mark sealed buckets, so that they are
computed anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidetable.errors import StoreUnavailable, TableThrottled
from tidetable.ports.rollups import RollupState
from tidetable.query.model import RESERVE
from tidetable.rollup_model.bounds import REBUILT, SEALED_AFTER, can_seal, to_millis
from tidetable.rollup_model.cover import DefinitionVersion, find_present, list_versions
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket import compute_bucket
from tidetable.rollups.claims import hold_sealing, shut_out_former
from tidetable.rollups.run import RefreshReport, RefreshRun
from tidetable.rollups.services import BucketBlocked, Services, Unfinished
from tidetable.times import to_text

# The number of marks that are written in one call.
_MARKS = 100
NOT_BEGUN = "the rollup has not begun: wait for the refresher's next run"


@dataclass(frozen=True, slots=True)
class RebuildProgress:
    """The progress of a rebuild: the buckets from ``reached`` on need no more work.

    This run computed ``buckets`` buckets. ``left`` buckets must still be computed or marked. The refresher computes
    ``marked`` sealed buckets anew in its next runs. ``problem`` says why the rebuild cannot go on. If there is no
    problem and buckets are left, call ``rebuild_rollup`` again, with ``reached`` as its end.
    """

    reached: datetime
    buckets: int
    left: int
    marked: int = 0
    problem: str | None = None


def rebuild_rollup(
    definition: Definition,
    start: datetime,
    end: datetime,
    definitions: Sequence[Definition],
    services: Services,
    owner: str,
    length: timedelta,
) -> RebuildProgress | None:
    """Seal the buckets of ``[start, end)`` under a rollup's present definition.

    Returns None while another run works on the stream's rollups.

    Buckets before the rollup's beginning are computed here, the newest first. The beginning moves to a bucket after the
    bucket is computed, so a rebuild can stop anywhere and be called again. All buckets from ``start`` to the beginning
    are computed, also if ``end`` is earlier, because a rollup must not have holes. Buckets that are sealed already are
    marked, the newest first: they are read from the events until the refresher has computed them anew. ``definitions``
    are the stream's rollups.
    """
    if not shut_out_former(services, length):
        return None
    with hold_sealing(services, definition.source, owner, length) as free:
        if not free:
            return None
        state = services.rollups.read_at_once(definition.source)
        newest = find_present(definition, state)
        problem = find_obstacle(definition, state, services.clock.now())
        if newest is None or problem is not None:
            return RebuildProgress(end if newest is None else newest.start, 0, 1, problem=problem)
        first = definition.floor(start)
        sealed = _list_sealed(newest, first, end)
        marked, failure = _mark_buckets(definition.source, sealed, services)
        if marked < len(sealed):
            reached = sealed[marked - 1] if marked else min(end, newest.end)
            left = len(sealed) - marked + max((newest.start - first) // definition.every, 0)
            return RebuildProgress(reached, 0, left, marked, failure)
        run = RefreshRun(definition.source, definitions, services, RefreshReport(), services.remaining)
        return _extend_back(newest, first, run, state, marked)


def find_obstacle(definition: Definition, state: RollupState, now: datetime) -> str | None:
    """Find the reason why the past buckets of a rollup cannot be computed yet, with the time from which they can."""
    newest = find_present(definition, state)
    if newest is None:
        return NOT_BEGUN
    begin = f"the rollup begins at {to_text(newest.start)}: rebuild it"
    if not can_seal(newest.start, now):
        return f"{begin} after {to_text(newest.start + SEALED_AFTER)}"
    if any(version.edge.sealed >= newest.edge.sealed for version in list_versions(definition, state)[1:]):
        return f"{begin} when its first bucket is sealed"
    return None


def _list_sealed(version: DefinitionVersion, first: datetime, end: datetime) -> list[datetime]:
    """List the sealed buckets of a range, the newest first."""
    begin, last, every = max(first, version.start), min(end, version.end), version.definition.every
    count = -((begin - last) // every)
    return [begin + number * every for number in reversed(range(count))]


def _mark_buckets(stream: str, buckets: Sequence[datetime], services: Services) -> tuple[int, str | None]:
    """Mark buckets until the time is up; return the number of marked buckets, and the problem of a failure."""
    now = to_millis(services.clock.now())
    for number in range(0, len(buckets), _MARKS):
        if services.remaining() <= RESERVE:
            return number, None
        try:
            services.rollups.put_marks(stream, buckets[number : number + _MARKS], now, REBUILT)
        except (StoreUnavailable, TableThrottled) as error:
            return number, str(error)
    return len(buckets), None


def _extend_back(
    version: DefinitionVersion, start: datetime, run: RefreshRun, state: RollupState, marked: int
) -> RebuildProgress:
    """Compute buckets back to ``start``, and move the beginning of the version back with each computed bucket."""
    definition, edge = version.definition, version.edge
    count, problem = 0, None
    while edge.start > start and run.services.remaining() > RESERVE:
        bucket = edge.start - definition.every
        try:
            compute_bucket(version, bucket, run, state)
        except Unfinished:
            break
        except (BucketBlocked, StoreUnavailable, TableThrottled) as error:
            problem = str(error)
            break
        moved = edge._replace(start=bucket)
        if not run.services.rollups.put_edge(run.source, moved, edge):
            problem = f"the edge of {definition.stream} was moved by another run"
            break
        edge, count = moved, count + 1
    return RebuildProgress(edge.start, count, max((edge.start - start) // definition.every, 0), marked, problem)
