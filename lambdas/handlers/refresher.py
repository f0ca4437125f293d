"""The refresher of rollups: its scheduled run wakes workers, a worker has a message, and {} does all due work at once.

{"status": "quakes"} answers the time up to which each rollup of a stream is sealed, {"status": "*"} what is due now and
within the hour, and the definitions of all rollups. {"pause": "quakes"} lets the
rollups of a stream rest until {"resume": "quakes"}, and "*" those of all streams. {"rebuild": {"stream": "quakes",
"rollup": "hours", "from": "2026-01-01", "to": "2026-02-01"}} orders that workers compute past buckets, and joins the
rebuild of this rollup that is under way; with "dry_run": true it only answers how many. A status has its progress.
{"cancel": {"stream": "quakes", "rollup": "hours"}} ends it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._messages import answer_queue, read_woken
from handlers._observe import count, count_any, logger, make_countdown, measure, observe, pause_collector
from tidetable.errors import BadInvocation, InvalidTime, TidetableError
from tidetable.rollup_model.bounds import choose_lease_length
from tidetable.rollup_model.cover import find_present
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.claims import SEAL
from tidetable.rollups.rebuild import cancel_rebuild, describe_rebuild, find_rebuild, list_rebuilds, order_rebuild
from tidetable.rollups.rebuild_estimate import estimate_rebuild
from tidetable.rollups.refresh import list_refreshed, refresh_rollups, schedule_rollups
from tidetable.rollups.run import RefreshReport
from tidetable.rollups.services import Services
from tidetable.rollups.status import describe_rollup, plan_rebuild
from tidetable.rollups.worker import work_on_message
from tidetable.times import parse_instant, to_text
from tidetable.work.claim import EVERY_STREAM, ItemName, Pause, WorkRecords, rests

# Reserved for the report, and for the release of the lease.
_RESERVE_SECONDS = 5.0
_TASKS = ("status", "rebuild", "cancel", "pause", "resume")
_KEYS = frozenset({"source", "dry_run", *_TASKS})


class RefreshFailed(TidetableError):
    """The rollups of some streams could not be refreshed; the rollups of the other streams were refreshed."""


class _CancelPayload(msgspec.Struct, forbid_unknown_fields=True):
    stream: str
    rollup: str


class _RebuildPayload(_CancelPayload):
    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")


@pause_collector
@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Refresh once and answer the report, or answer a status or the progress of a rebuild."""
    if "Records" in event:
        return _work(event["Records"], context)
    unknown = event.keys() - _KEYS
    if unknown:
        raise BadInvocation(
            f"unknown key {min(unknown)!r}: the payload may have dry_run and one of {', '.join(_TASKS)}"
        )
    tasks = [task for task in _TASKS if task in event]
    if len(tasks) > 1:
        raise BadInvocation(f"the payload may have {' or '.join(tasks)}, not both")
    if event.get("dry_run", False) is not False and not {"rebuild", "status"} & {*tasks}:
        raise BadInvocation("dry_run goes with rebuild: every other call changes something")
    # The lease lasts longer than this run, whatever the function's time-out is.
    length = choose_lease_length(timedelta(seconds=make_countdown(context)()))
    services = wiring_upkeep.pipeline().refresher(make_countdown(context, _RESERVE_SECONDS))
    if tasks:
        return _do_task(tasks[0], event, services)
    if "source" in event:
        return _wake_workers(services, length)
    report = refresh_rollups(wiring_upkeep.pipeline().definitions, services, context.aws_request_id, length)
    if report is None:
        return _skip()
    return _report_refresh(report)


def _do_task(task: str, event: Mapping[str, Any], services: Services) -> dict[str, Any]:
    match task:
        case "status":
            return _describe_stream(event[task], services)
        case "rebuild":
            return _rebuild_rollup(event, services)
        case "cancel":
            return _cancel_rebuild(event[task], services)
        case _:
            return _set_pause(event[task], services.work, on=task == "pause")


def _skip() -> dict[str, Any]:
    logger.info("another run refreshes the rollups")
    return {"skipped": "another run refreshes the rollups"}


def _wake_workers(services: Services, length: timedelta) -> dict[str, Any]:
    pipeline = wiring_upkeep.pipeline()
    found = schedule_rollups(pipeline.definitions, services, pipeline.work_queue, pipeline.config.work.workers, length)
    if found is None:
        return _skip()
    work, standing = found
    lag, oldest = int(standing.lag.total_seconds()), int(work.oldest.total_seconds())
    measure(MetricUnit.Seconds, RollupLag=lag, WorkOldest=oldest)
    count(RollupMarks=standing.marks, WorkDue=work.due)
    count_any(StreamsFailed=len(standing.failed))
    document = work._asdict() | {
        "oldest": oldest,
        "marks": standing.marks,
        "lag_seconds": lag,
        "unread": standing.failed,
    }
    logger.info("workers woken", report=document)
    return document


def _work(records: Sequence[Mapping[str, Any]], context: LambdaContext) -> dict[str, Any]:
    """Work on the items of messages; the answer names the messages that nobody can read, which become dead letters.

    An item that fails is no failure of its message: the scheduler sends another one.
    """
    pipeline, refused = wiring_upkeep.pipeline(), list[Mapping[str, Any]]()
    length = choose_lease_length(timedelta(seconds=make_countdown(context)()))
    for record in records:
        services = pipeline.refresher(make_countdown(context, _RESERVE_SECONDS))
        woken = read_woken(record, context)
        if woken is None:
            refused.append(record)
            continue
        name, owner = woken
        workers = pipeline.config.work.workers
        report = work_on_message(name, pipeline.definitions, services, pipeline.work_queue, workers, owner, length)
        if report is None:
            _skip()
            continue
        logger.info("rollups refreshed", kind=name.kind, item=name.name, report=_count_work(report))
    return answer_queue(*refused)


def _count_work(report: RefreshReport) -> dict[str, Any]:
    """Count what was done, and describe it."""
    count(RollupBucketsSealed=report.sealed, RollupBucketsResealed=report.resealed)
    count(RollupBucketsBlocked=len(report.blocked), RollupGroupsExceeded=len(report.over))
    count_any(StreamsFailed=len(report.failed))
    return {
        "sealed": report.sealed,
        "resealed": report.resealed,
        "rebuilt": report.rebuilt,
        "added": report.added,
        "gone": report.gone,
        "blocked": report.blocked,
        "overfull": report.over,
        "failed": report.failed,
        "finished": report.finished,
        # Another run has these streams or parts.
        "left_to_others": report.left,
    }


def _report_refresh(report: RefreshReport) -> dict[str, Any]:
    lag = int(report.lag.total_seconds())
    measure(MetricUnit.Seconds, RollupLag=lag)
    count(RollupMarks=report.marks)
    document = _count_work(report) | {"marks": report.marks, "lag_seconds": lag}
    logger.info("rollups refreshed", report=document)
    if report.failed:
        raise RefreshFailed("; ".join(report.failed))
    return document


def _describe_stream(stream: Any, services: Services) -> dict[str, Any]:
    if stream == EVERY_STREAM:
        return _describe_all(services)
    definitions = _list_definitions(stream)
    state, now = services.rollups.read_state(stream), services.clock.now()
    rebuilds = list_rebuilds(services, stream)
    described = [
        describe_rollup(definition, state, now, find_rebuild(definition, rebuilds)) for definition in definitions
    ]
    return {"stream": stream, "paused": rests(SEAL, stream, services.work.list_pauses()), "rollups": described}


def _describe_all(services: Services) -> dict[str, Any]:
    # Imported here, so that a worker does not wait for the import.
    from tidetable.rollups.outlook import list_pending

    definitions = wiring_upkeep.pipeline().definitions
    texts = {stream: {rollup.name: rollup.text for rollup in rollups} for stream, rollups in definitions.items()}
    return {"work": [pending._asdict() for pending in list_pending(definitions, services)], "definitions": texts}


def _set_pause(stream: Any, work: WorkRecords, *, on: bool) -> dict[str, Any]:
    if stream != EVERY_STREAM:
        _list_definitions(stream)
    work.set_pause(Pause(SEAL, stream), on=on)
    logger.info("rollups pause" if on else "rollups go on", stream=stream)
    return {"stream": stream, "paused": on}


def _rebuild_rollup(event: Mapping[str, Any], services: Services) -> dict[str, Any]:
    try:
        request = msgspec.convert(event["rebuild"], _RebuildPayload)
        start, end = parse_instant(request.start), parse_instant(request.end)
    except (msgspec.ValidationError, InvalidTime) as error:
        raise BadInvocation(f"rebuild: {error}") from error
    if not isinstance(event.get("dry_run", False), bool):
        raise BadInvocation("dry_run must be true or false")
    if start >= end:
        raise BadInvocation(f"rebuild: from {to_text(start)} is not before to {to_text(end)}")
    definition = _find_definition("rebuild", request)
    state, now = services.rollups.read_state(request.stream), services.clock.now()
    plan, version = plan_rebuild(definition, state, start, end, now), find_present(definition, state)
    if version is None or not (plan["buckets"] or plan["marked"]):
        pass
    elif event.get("dry_run"):
        definitions = _list_definitions(request.stream)
        plan["estimate"] = estimate_rebuild(version, definitions, state, (start, end), services)
    else:
        if order_rebuild(version, start, end, services):
            logger.info("rebuild ordered", stream=definition.stream, buckets=plan["buckets"], marked=plan["marked"])
        wiring_upkeep.pipeline().work_queue.send([ItemName(SEAL, request.stream)])
    rebuild = find_rebuild(definition, list_rebuilds(services, request.stream))
    return plan | {"rebuild": describe_rebuild(definition, rebuild, now)}


def _cancel_rebuild(payload: Any, services: Services) -> dict[str, Any]:
    try:
        request = msgspec.convert(payload, _CancelPayload)
    except msgspec.ValidationError as error:
        raise BadInvocation(f"cancel: {error}") from error
    definition = _find_definition("cancel", request)
    rebuild = find_rebuild(definition, list_rebuilds(services, request.stream))
    cancel_rebuild(definition, services)
    logger.info("rebuild cancelled", stream=definition.stream)
    return {"rebuild": describe_rebuild(definition, rebuild, services.clock.now())}


def _find_definition(task: str, request: _CancelPayload) -> Definition:
    definitions = _list_definitions(request.stream)
    definition = next((rollup for rollup in definitions if rollup.name == request.rollup), None)
    if definition is None:
        names = ", ".join(rollup.name for rollup in definitions)
        raise BadInvocation(f"{task}: {request.stream} has no rollup {request.rollup!r}; it has {names}")
    return definition


def _list_definitions(stream: Any) -> list[Definition]:
    pipeline = wiring_upkeep.pipeline()
    definitions = list_refreshed(pipeline.definitions, pipeline.config)
    if not isinstance(stream, str) or stream not in definitions:
        raise BadInvocation(f"{stream!r} is not a stream with rollups; there are: {', '.join(definitions)}")
    return list(definitions[stream])
