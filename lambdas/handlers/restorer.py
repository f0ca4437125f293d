"""Restore one period: {"stream": "quakes", "period": "2026-01-31", "keep_days": 7, "start": null}.

If one run cannot finish, the next run continues: the ``next`` of an answer is the ``start`` of the next call.

{"stream": "quakes", "period": "2026-01-31", "import": {"token": ..., "base": ..., "oldest": ..., "newest": ...}} lets the
files of an import into the archive count; with {} it only says if the period takes an import.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._observe import logger, make_countdown, observe
from tidetable.archive import restore_period
from tidetable.archive.importing import ImportOrder, finish_import
from tidetable.archive.restore import RestorePosition
from tidetable.errors import ArchiveBusy, ArchiveFailed, BadInvocation

_RESERVE_SECONDS = 10.0
_KEYS = frozenset({"stream", "period", "keep_days", "start"})


@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Restore as much of the period as the time allows. An error fails the function."""
    if event.keys() == {"stream", "period", "import"}:
        return _finish_import(event, context)
    keep = event.get("keep_days", 7)
    if not {"stream", "period"} <= event.keys() <= _KEYS:
        raise BadInvocation("the payload has stream and period, and may have keep_days and start")
    if type(keep) is not int or not 1 <= keep <= 3650:
        raise BadInvocation("keep_days is a whole number from 1 to 3650")
    try:
        start = msgspec.convert(event.get("start") or {}, RestorePosition)
    except msgspec.ValidationError as error:
        raise BadInvocation("start must be the next of an earlier answer") from error
    result = restore_period(
        event["stream"],
        event["period"],
        wiring_upkeep.pipeline().restorer,
        context.aws_request_id,
        keep=timedelta(days=keep),
        start=start,
        remaining=make_countdown(context, _RESERVE_SECONDS),
    )
    answer = {
        "stream": result.entry.stream,
        "period": result.entry.period.label,
        "state": result.entry.state.value,
        "parts": result.parts,
        "next": msgspec.to_builtins(result.next),
    }
    logger.info("restored", report=answer)
    return answer


def _finish_import(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Let the files of an import count. That a period takes no import is an answer, no failure."""
    stream, period, pipeline = event["stream"], event["period"], wiring_upkeep.pipeline()
    remaining = make_countdown(context, _RESERVE_SECONDS)
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
