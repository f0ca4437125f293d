"""Archive one period: {"stream": "quakes", "period": "2026-01-31"}. The lifecycle calls this function, or an operator.
With "retain": true the table answers on, and is retained until it expires.

{"stream": ..., "period": ..., "rewrite": true} rewrites an archive of an earlier format; with "dry_run", it only says what
there is to rewrite. Call again as long as the state is not "current".

Workers have a message instead, with the name of a segment. {"pause": "quakes"} lets the archiving of a stream rest, and
{"resume": "quakes"} lets it go on.

If a run cannot finish, the next run continues. Call again as long as the answer's state is "archiving", and wait
``wait`` seconds before each call: an earlier run may read less from the table. The state "busy" says that this run did
nothing, and ``reason`` says why: another run is at work, or the table is changing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._messages import answer_queue, read_woken
from handlers._observe import count, logger, make_countdown, measure, observe, pause_collector
from tidetable.archive import Archived, archive_period
from tidetable.archive.export import RESERVE_SECONDS, work_on_message
from tidetable.archive.rewrite import rewrite_archive
from tidetable.archive.segments import ARCHIVE
from tidetable.catalog import State
from tidetable.errors import ArchiveBusy
from tidetable.lake.lake_work import name_archived
from tidetable.work.claim import Pause


@pause_collector
@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Archive and verify a period. An error fails the function, so that the caller sees it and an alarm counts it.

    A busy period is not an error: an export that takes longer than the lifecycle's five minutes meets its next run.
    """
    if "Records" in event:
        return _work(event["Records"][0], context)
    for task in ("pause", "resume"):
        if task in event:
            wiring_upkeep.pipeline().work.set_pause(Pause(ARCHIVE, event[task]), on=task == "pause")
            logger.info("archiving pauses" if task == "pause" else "archiving goes on", stream=event[task])
            return {"stream": event[task], "paused": task == "pause"}
    remaining = make_countdown(context, RESERVE_SECONDS)
    stream, period, exporter = event["stream"], event["period"], wiring_upkeep.pipeline().exporter
    try:
        if event.get("rewrite"):
            dry_run = bool(event.get("dry_run"))
            rewritten = rewrite_archive(stream, period, exporter, context.aws_request_id, remaining, dry_run=dry_run)
            # After an import, too, whose command asks for the removal of former files.
            if rewritten.state in ("switched", "current") and not dry_run:
                _wake_table(stream, period)
            return {"stream": stream, "period": period, **asdict(rewritten)}
        retain = bool(event.get("retain"))
        result = archive_period(stream, period, exporter, context.aws_request_id, remaining, retain=retain)
    except ArchiveBusy as error:
        logger.info("archiving is busy", stream=stream, period=period, reason=str(error))
        return {"stream": stream, "period": period, "state": "busy", "reason": str(error)}
    _report_archive(result)
    return {
        "stream": stream,
        "period": period,
        "state": (result.entry.state if result.done else State.ARCHIVING).value,
        "events": result.events,
        "wait": round(result.wait, 1),
    }


def _work(record: Mapping[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Work on the segment of a message. A message that nobody can read becomes a dead letter.

    A segment that fails is no failure of its message: its record has the reason, and the lifecycle wakes another worker.
    """
    woken = read_woken(record, context)
    if woken is None:
        return answer_queue(record)
    exporter, remaining = wiring_upkeep.pipeline().exporter, make_countdown(context, RESERVE_SECONDS)
    try:
        result = work_on_message(woken.name, exporter, woken.owner, remaining)
    except ArchiveBusy as error:
        logger.info("archiving is busy", segment=woken.name.name, reason=str(error))
    except Exception as error:
        logger.exception("segment failed", segment=woken.name.name, reason=str(error))
    else:
        if result is not None:
            _report_archive(result)
    return answer_queue()


def _wake_table(stream: str, period: str) -> None:
    """Wake the worker of the stream's Iceberg table. If no message can be sent, a run of the next day does its work."""
    if not wiring_upkeep.pipeline().lake_queue.send([name_archived(stream, period)]):
        logger.warning("the Iceberg table is not told of the archive", stream=stream)


def _report_archive(result: Archived) -> None:
    """Log how far an archive is, and count what a complete archive has."""
    entry, facts = result.entry, result.entry.archive
    stream, period = entry.stream, entry.period.label
    logger.info("archiving", stream=stream, period=period, state=entry.state, events=result.events)
    if result.done and facts is not None:
        _wake_table(stream, period)
        count(EventsArchived=facts.events)
        measure(MetricUnit.Bytes, BytesArchived=facts.bytes)
        if facts.untyped:
            # A stage without such values has no such metric, and does not pay for it.
            logger.warning(
                "values do not fit their declared columns", stream=stream, period=period, columns=dict(facts.untyped)
            )
            count(UntypedValues=sum(facts.untyped.values()))
