"""The daily sweep: its scheduled run wakes a worker, and a worker has a message. By hand: {} or {"dry_run": true}.

A dry run that does not end in time answers its position: {"dry_run": true, "position": ...} goes on there.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._observe import count, logger, make_countdown, measure, observe
from tidetable.errors import BadInvocation, TidetableError
from tidetable.large.sweep import sweep
from tidetable.large.sweep_report import DryPosition, Swept
from tidetable.large.sweep_work import SWEEP, find_due_sweep, work_on_sweep
from tidetable.rollup_model.bounds import choose_lease_length
from tidetable.work.schedule import wake_workers

_KEYS = frozenset({"dry_run", "position", "source"})


class SweepIncomplete(TidetableError):
    """Some objects could not be checked: an operator should look at the log. All other objects were swept."""


@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Remove large values that no event refers to; answer the counts."""
    if "Records" in event:
        return _work(context)
    if event.get("source") == "schedule":
        return _wake_worker()
    dry_run = event.get("dry_run", False)
    if event.keys() - _KEYS or not isinstance(dry_run, bool):
        raise BadInvocation("the payload may have dry_run, true or false")
    position = None
    if "position" in event:
        try:
            position = msgspec.convert(event["position"], DryPosition)
        except msgspec.ValidationError as error:
            raise BadInvocation(f"position must be that of an unfinished dry run: {error}") from error
    return _report(sweep(wiring_upkeep.pipeline().sweeper, make_countdown(context), dry_run=dry_run, position=position))


def _wake_worker() -> dict[str, Any]:
    pipeline = wiring_upkeep.pipeline()
    now = pipeline.clock.now()
    report = wake_workers(find_due_sweep(pipeline.work, now), 1, pipeline.work, pipeline.work_queue, now)
    logger.info("workers woken", due=report.due, running=report.running, sent=report.sent)
    return {"due": report.due, "running": report.running, "sent": report.sent}


def _work(context: LambdaContext) -> dict[str, Any]:
    """Sweep if it is due, and send a message if it is unfinished."""
    pipeline, remaining = wiring_upkeep.pipeline(), make_countdown(context)
    length = choose_lease_length(timedelta(seconds=remaining()))
    swept = work_on_sweep(pipeline.sweeper, pipeline.work, context.aws_request_id, remaining, length)
    if swept is not None:
        if not swept.finished:
            pipeline.work_queue.send([SWEEP])
        _report(swept)
        if swept.failures:
            raise SweepIncomplete(f"{len(swept.failures)} objects could not be checked, such as {swept.failures[0]}")
    return {"batchItemFailures": []}


def _report(swept: Swept) -> dict[str, Any]:
    if not swept.dry_run:
        count(ObjectsSwept=swept.orphans + swept.expired)
        measure(MetricUnit.Bytes, BytesSwept=swept.bytes)
    report = swept.document()
    logger.info("swept", report=report)
    return report
