"""What is due in the rollups of all streams, and the run that works on all of it.

A bucket is sealed as soon as every further event in it must have a mark, and marked buckets are computed anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from zlib import crc32

from tidetable.config import Config
from tidetable.errors import StoreUnavailable, TableThrottled
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket_parts import PART
from tidetable.rollups.claims import SEAL, shut_out_former
from tidetable.rollups.due import has_work, measure_lag, measure_waiting
from tidetable.rollups.rebuild import REBUILD, Rebuild, leave_out, list_rebuilds, list_spans
from tidetable.rollups.rebuild_turn import needs_turn
from tidetable.rollups.run import RefreshReport
from tidetable.rollups.services import Services
from tidetable.rollups.worker import RollupWorker, describe_failure, list_due_parts
from tidetable.work.claim import Pause, WorkItem, rests
from tidetable.work.schedule import DueItem, WorkQueue, WorkReport, wake_workers


@dataclass(slots=True)
class RollupStanding:
    """The rollups of all streams: the items that are due, the number of marks, and the longest lag.

    The lag is the longest time for which a bucket could have been sealed already, or should have been computed anew.
    ``failed`` are the streams whose state could not be read, with the reasons.
    """

    due: list[DueItem] = field(default_factory=list)
    marks: int = 0
    lag: timedelta = timedelta(0)
    failed: list[str] = field(default_factory=list)


def find_due(
    definitions: Mapping[str, Sequence[Definition]], services: Services, pauses: frozenset[Pause]
) -> RollupStanding:
    """Find the items of rollups that are due and do not rest.

    A stream costs one request, and all streams together three.
    """
    standing, records = RollupStanding(), {item.name: item for item in services.work.list_items(SEAL)}
    standing.due += list_due_parts(services, pauses)
    rebuilds: dict[str, list[Rebuild]] = {}
    for rebuild in list_rebuilds(services):
        rebuilds.setdefault(rebuild.source, []).append(rebuild)
        if not rests(SEAL, rebuild.source, pauses):
            is_known = any(rollup.name == rebuild.rollup for rollup in definitions.get(rebuild.source, ()))
            ready = [piece.item for piece in rebuild.list_ready(services.clock.now())]
            # A worker removes what the configuration does not know any more.
            items = [*ready, *rebuild.unread] if is_known else rebuild.list_items()
            standing.due += [DueItem(item, rebuild.source, added=True) for item in items]
    for source, rollups in list_refreshed(definitions, services.config).items():
        try:
            is_due = _look_at(source, rollups, rebuilds.get(source, []), services, standing)
        except Exception as error:  # for example an edge that nobody can read
            standing.failed.append(f"{source}: {describe_failure(error)}")
            continue
        if is_due and not rests(SEAL, source, pauses):
            standing.due.append(DueItem(records.get(source, WorkItem(SEAL, source)), source))
    return standing


def list_refreshed(
    definitions: Mapping[str, Sequence[Definition]], config: Config
) -> Mapping[str, Sequence[Definition]]:
    """List the streams that the refresher works on: those with rollups, and those whose tables it reads for their series."""
    return {stream.name: () for stream in config.listed} | dict(definitions)


def _look_at(
    source: str, rollups: Sequence[Definition], own: Sequence[Rebuild], services: Services, standing: RollupStanding
) -> bool:
    """Note the marks and the lag of a stream; return True if a run would change something."""
    state, now = services.rollups.read_at_once(source), services.clock.now()
    state = leave_out(state, list_spans(own))
    if rollups:
        lags = [measure_lag(definition, state, now) for definition in rollups]
        standing.marks += len(state.marks)
        standing.lag = max([standing.lag, *lags, measure_waiting(state, now)])
    policy = services.config.streams.get(source)
    return has_work(rollups, policy, state, now) or any(needs_turn(rebuild, rollups, own, now) for rebuild in own)


def schedule_rollups(
    definitions: Mapping[str, Sequence[Definition]],
    services: Services,
    queue: WorkQueue,
    workers: int,
    length: timedelta,
) -> tuple[WorkReport, RollupStanding] | None:
    """Wake workers for all that is due in the rollups of all streams; None while a run of a former version works.

    ``length`` is the longest time for which this version is to have the rollups, until the next call.
    """
    if (held := shut_out_former(services, length)) is None:
        return None
    standing = find_due(definitions, held, held.work.list_pauses())
    return wake_workers(standing.due, workers, held.work, queue, held.clock.now()), standing


def refresh_rollups(
    definitions: Mapping[str, Sequence[Definition]], services: Services, owner: str, length: timedelta
) -> RefreshReport | None:
    """Work on all that is due in the rollups of all streams. ``definitions`` has them by the name of their source stream.

    Returns None while a run of a former version works. ``length`` is the longest time of this run
    (``bounds.choose_lease_length``). A stream that fails does not stop the others, a stream without due work costs one
    request, and a stream that another run has claimed is left to it. Each run begins with a stream that its ``owner``
    chooses: a stream with more work than a run has time for must not take the time of the other streams.
    """
    if (held := shut_out_former(services, length)) is None:
        return None
    pauses = held.work.list_pauses()
    standing = find_due(definitions, held, pauses)
    worker = RollupWorker(definitions, held, owner, pauses)
    report = worker.report
    ordered = [one.name for one in standing.due]
    first = crc32(owner.encode()) % max(len(ordered), 1)
    waiting = deque(ordered[first:] + ordered[:first])
    while waiting:
        following = worker.work_on(waiting.popleft())
        if following is not None:
            waiting.append(following)
    report.failed += standing.failed
    if ordered:
        with suppress(StoreUnavailable, TableThrottled):
            standing = find_due(definitions, held, pauses)
            report.finished &= not any(one.item.kind in (PART, REBUILD) for one in standing.due)
    report.marks, report.lag = standing.marks, standing.lag
    return report
