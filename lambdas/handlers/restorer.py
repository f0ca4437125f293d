"""Restores of archived periods, by workers: {"restore": {"stream": "quakes", "first": "2026-01-01", "last": "2026-01-31"}}.

The tables are kept for "keep_days", 7 without it. With "dry_run": true the answer only says which periods can be restored.
{"status": "quakes"} answers how far the restores of a stream are. {"cancel": "quakes"} ends them: restored periods stay.
{"pause": "quakes"} lets them rest until {"resume": "quakes"}; the stream "*" means all streams.

The scheduled run wakes workers for what is due. A worker has a message instead, with the name of a period or of a piece.

{"stream": "quakes", "period": "2026-01-31", "import": {"token": ..., "base": ..., "oldest": ..., "newest": ...}} lets the
files of an import into the archive count; with {} it only says if the period takes an import.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._messages import answer_queue, read_woken
from handlers._observe import count_any, logger, make_countdown, observe, pause_collector
from tidetable.archive import Restorer
from tidetable.archive.export import RESERVE_SECONDS
from tidetable.archive.importing import ImportOrder, finish_import
from tidetable.archive.restore_orders import RESTORE, RestoreOrder, cancel_restores, describe_order, list_orders
from tidetable.archive.restore_range import explain_refusal, find_left, follow_orders, list_range, order_restore
from tidetable.archive.restore_worker import wake_workers, work_on_message
from tidetable.errors import ArchiveBusy, ArchiveFailed, BadInvocation, InvalidName
from tidetable.work.claim import Pause, rests

_TASKS = ("restore", "status", "cancel", "pause", "resume")
_KEYS = frozenset({"source", "dry_run", *_TASKS})
_MOST_DAYS = 3650


class _RestorePayload(msgspec.Struct, forbid_unknown_fields=True):
    stream: str
    first: str
    last: str
    keep_days: int = 7


@pause_collector
@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Order a restore, answer how far it is, work on it, or let the files of an import count."""
    if event.keys() == {"stream", "period", "import"}:
        return _finish_import(event, context)
    restorer = wiring_upkeep.pipeline().restorer
    if "Records" in event:
        return _work(event["Records"][0], restorer, context)
    tasks = [task for task in _TASKS if task in event]
    if event.keys() - _KEYS or len(tasks) != ("source" not in event):
        raise BadInvocation(f"the payload has one of {', '.join(_TASKS)}, and restore may have dry_run")
    if not tasks:
        return _wake_workers(restorer)
    (task,) = tasks
    if task == "restore":
        return _restore(event, restorer)
    stream = event[task]
    if not isinstance(stream, str):
        raise BadInvocation(f"{task}: name a stream")
    if task == "status":
        return _describe_stream(stream, restorer)
    if task == "cancel":
        return _cancel(stream, restorer)
    restorer.archive.work.set_pause(Pause(RESTORE, stream), on=task == "pause")
    logger.info("restores pause" if task == "pause" else "restores go on", stream=stream)
    if task == "resume":
        wake_workers(restorer)
    return {"stream": stream, "paused": task == "pause"}


def _restore(event: Mapping[str, Any], restorer: Restorer) -> dict[str, Any]:
    """Order a restore, unless it is a dry run. The answer has each period of the range, and why it is not restored."""
    exporter, dry_run = restorer.archive, event.get("dry_run", False)
    try:
        request = msgspec.convert(event["restore"], _RestorePayload)
        entries = list_range(request.stream, request.first, request.last, exporter)
    except (msgspec.ValidationError, InvalidName) as error:
        raise BadInvocation(f"restore: {error}") from error
    if not 1 <= request.keep_days <= _MOST_DAYS:
        raise BadInvocation(f"restore: keep_days is a whole number from 1 to {_MOST_DAYS}")
    if not isinstance(dry_run, bool):
        raise BadInvocation("dry_run must be true or false")
    if not dry_run:
        order = order_restore(request.stream, request.first, request.last, request.keep_days, exporter)
        if order is not None:
            logger.info("restore ordered", stream=request.stream, first=request.first, last=request.last)
            follow_orders(exporter, request.stream)
            wake_workers(restorer)
    periods = [
        {
            "period": entry.period.label,
            "state": entry.state.value,
            "events": entry.archive.events if entry.archive is not None else 0,
            "refusal": explain_refusal(entry),
        }
        for entry in entries
    ]
    return _describe_stream(request.stream, restorer) | {"periods": periods}


def _describe_stream(stream: str, restorer: Restorer) -> dict[str, Any]:
    work = restorer.archive.work
    orders = [order for order in list_orders(work, stream) if order.item is not None]
    restores = [_describe_order(order, restorer) for order in orders]
    return {"stream": stream, "paused": rests(RESTORE, stream, work.list_pauses()), "restores": restores}


def _describe_order(order: RestoreOrder, restorer: Restorer) -> dict[str, Any]:
    left = find_left(order, restorer.archive)
    events = sum(entry.archive.events for entry in left if entry.archive is not None)
    return describe_order(order, len(left), events, restorer.archive.clock.now())


def _cancel(stream: str, restorer: Restorer) -> dict[str, Any]:
    answer = _describe_stream(stream, restorer)
    cancel_restores(restorer.archive.work, stream)
    logger.info("restores cancelled", stream=stream)
    wake_workers(restorer)
    return answer


def _wake_workers(restorer: Restorer) -> dict[str, Any]:
    follow_orders(restorer.archive)
    report = wake_workers(restorer)
    count_any(RestoresFailed=report.failed)
    logger.info("workers woken", due=report.due, running=report.running, failed=report.failed, sent=report.sent)
    return {"due": report.due, "running": report.running, "failed": report.failed, "sent": report.sent}


def _work(record: Mapping[str, Any], restorer: Restorer, context: LambdaContext) -> dict[str, Any]:
    """Work on the item of a message. A message that nobody can read becomes a dead letter.

    An item that fails is no failure of its message: its record has the reason, and the scheduled run wakes another worker.
    """
    woken = read_woken(record, context)
    if woken is None:
        return answer_queue(record)
    try:
        work_on_message(woken.name, restorer, woken.owner, make_countdown(context, RESERVE_SECONDS))
    except ArchiveBusy as error:
        logger.info("restoring is busy", item=woken.name.name, reason=str(error))
    except Exception as error:
        logger.exception("restoring failed", item=woken.name.name, reason=str(error))
    else:
        logger.info("restoring", item=woken.name.name)
    return answer_queue()


def _finish_import(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Let the files of an import count. That a period takes no import is an answer, no failure."""
    stream, period, pipeline = event["stream"], event["period"], wiring_upkeep.pipeline()
    remaining = make_countdown(context, RESERVE_SECONDS)
    try:
        order = msgspec.convert(event["import"], ImportOrder)
        owner, exporter = context.aws_request_id, pipeline.exporter
        state, reason = finish_import(stream, period, order, exporter, pipeline.rollups, owner, remaining), ""
    except msgspec.ValidationError as error:
        raise BadInvocation(f"import: {error}") from error
    except ArchiveBusy as error:
        state, reason = "busy", str(error)
    except ArchiveFailed as error:
        state, reason = "refused", str(error)
    answer = {"stream": stream, "period": period, "state": state, "reason": reason}
    logger.info("imported", report=answer)
    return answer
