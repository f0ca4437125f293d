"""The Iceberg tables: the scheduled run wakes a worker per stream, and a worker has a message.

{"stream": "quakes"} makes the table of a stream equal to its archive at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._messages import answer_queue, read_woken
from handlers._observe import count, count_any, logger, make_countdown, observe
from tidetable.errors import BadInvocation
from tidetable.lake.lake_work import TABLE, find_due_tables, work_on_table
from tidetable.lake.reconcile import Reconciled
from tidetable.rollup_model.bounds import choose_lease_length
from tidetable.work.claim import ItemName
from tidetable.work.schedule import wake_workers


@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Reconcile a table, or wake the workers of all tables."""
    if "Records" in event:
        return _work(event["Records"][0], context)
    if event.get("source") == "schedule":
        return _wake_workers()
    if event.keys() != {"stream"} or event["stream"] not in wiring_upkeep.pipeline().config.streams:
        raise BadInvocation("the payload must have stream, a stream of the configuration")
    done = _reconcile(ItemName(TABLE, event["stream"]), context.aws_request_id, context, full=True)
    return {
        "stream": event["stream"],
        **({"state": "busy"} if done is None else {"state": "current", **done._asdict()}),
    }


def _wake_workers() -> dict[str, Any]:
    pipeline = wiring_upkeep.pipeline()
    dropped = pipeline.lake_tables.drop_others([*pipeline.config.streams])
    due, workers = find_due_tables(pipeline.config, pipeline.work), pipeline.config.work.workers
    report = wake_workers(due, workers, pipeline.work, pipeline.work_queue, pipeline.clock.now())
    logger.info("workers woken", due=report.due, running=report.running, sent=report.sent, dropped=dropped)
    return {"due": report.due, "running": report.running, "sent": report.sent, "dropped": dropped}


def _work(record: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Work on the table of a message. A message that nobody can read becomes a dead letter.

    A table that fails is no failure of its message: its record has the reason, and the next hour's run wakes another worker.
    """
    woken = read_woken(record, context)
    if woken is None:
        return answer_queue(record)
    try:
        _reconcile(*woken, context)
    except Exception as error:
        logger.exception("table failed", stream=woken.name.name, reason=str(error))
        count(LakeFailed=1)
    return answer_queue()


def _reconcile(name: ItemName, owner: str, context: LambdaContext, *, full: bool = False) -> Reconciled | None:
    pipeline = wiring_upkeep.pipeline()
    length, now = choose_lease_length(timedelta(seconds=make_countdown(context)())), pipeline.clock.now()
    done = work_on_table(name, pipeline.lake, pipeline.work, owner, now, length, full=full)
    if done is None:
        logger.info("another worker has the table, or it rests", stream=name.name)
        return None
    count_any(LakeFailed=len(done.lost), LakeColumnsRefused=len(done.refused))
    logger.info("table reconciled", stream=name.name, report=done._asdict())
    return done
