"""The scheduled run of the lifecycle, or a run by hand: {}, {"dry_run": true} or {"at": "2026-12-01T00:00:00Z"}.

{"backfill": {"stream": "quakes", "from": "2026-01-01", "to": "2026-02-01", "hours": 24}} first opens past periods.
Their tables get the units of "write" and "read" or, without these, are on demand. If the stream is a rollup that is to
be rebuilt, add "rebuild": true. {"end_backfill": "quakes"} closes all past periods of the stream again.
{"end_backfill": {"stream": "quakes", "from": "2026-01-01", "to": "2026-02-01"}} closes only the periods of that
backfill. All three run the lifecycle only for their stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
from aws_lambda_powertools.utilities.typing import LambdaContext

import wiring_upkeep
from handlers._observe import count, count_any, logger, make_countdown, observe
from settings import read_settings
from tidetable.catalog import Backfill, Opening
from tidetable.errors import BadInvocation, InvalidTime, StoreUnavailable, TableMissing
from tidetable.feed.mappings import FollowedFeeds
from tidetable.ingest.standstill import watch_drain
from tidetable.lifecycle import LifecycleRun, RunReport, reconcile
from tidetable.lifecycle.backfill import LONGEST_OPEN, end_backfills, open_backfill
from tidetable.lifecycle.report import make_notices
from tidetable.remaining import Remaining
from tidetable.times import parse_instant

# Reserved for the report, and for the release of the lease.
_RESERVE_SECONDS = 10.0
_MOST_HOURS = int(LONGEST_OPEN.total_seconds()) // 3600
# At most this many problems of the overflow are logged.
_LOGGED = 10
_KEYS = frozenset({"dry_run", "at", "source", "backfill", "end_backfill"})


class _BackfillPayload(msgspec.Struct, forbid_unknown_fields=True):
    stream: str
    start: str = msgspec.field(name="from")
    end: str = msgspec.field(name="to")
    hours: int = 24
    write: int | None = None
    read: int | None = None
    rebuild: bool = False


class _EndPayload(msgspec.Struct, forbid_unknown_fields=True):
    stream: str
    start: str | None = msgspec.field(name="from", default=None)
    end: str | None = msgspec.field(name="to", default=None)


@observe
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Run once and answer the report."""
    unknown = event.keys() - _KEYS
    if unknown:
        known = "dry_run, at, backfill and end_backfill"
        raise BadInvocation(f"unknown key {min(unknown)!r}: the payload may have {known}")
    dry_run = event.get("dry_run", False)
    if not isinstance(dry_run, bool):
        raise BadInvocation("dry_run must be true or false")
    if "backfill" in event and "end_backfill" in event:
        raise BadInvocation("one call opens a backfill or ends one: send backfill and end_backfill in two calls")
    at = _read_at(event.get("at"))
    if at is not None and not event.keys().isdisjoint(("backfill", "end_backfill")):
        raise BadInvocation('"at" goes with neither backfill nor end_backfill: they act on the present time')
    if at is not None and not dry_run and not read_settings().allow_time_travel:
        raise BadInvocation('"at" goes with "dry_run": true; only the local stage may act as if it were another time')
    run = wiring_upkeep.pipeline().begin_run(context.aws_request_id, make_countdown(context, _RESERVE_SECONDS))
    if event.get("source") != "schedule":
        # Who calls it by hand may have changed mappings by hand, too.
        run.followed = FollowedFeeds()
    try:
        report = _run_lifecycle(event, run, at, dry_run=dry_run)
    finally:
        # The queue's days do not wait for a lifecycle that fails.
        if event.get("source") == "schedule":
            _watch_drain(make_countdown(context))
    if not dry_run:
        _publish_metrics(report)
        publish_notices(report)
    document = report.document()
    logger.info("lifecycle run", report=document)
    return document


def _run_lifecycle(event: Mapping[str, Any], run: LifecycleRun, at: datetime | None, *, dry_run: bool) -> RunReport:
    if "backfill" in event:
        backfill, rebuilt = _read_backfill(event["backfill"])
        return open_backfill(backfill, run, dry_run=dry_run, rebuilt=rebuilt)
    if "end_backfill" in event:
        stream, span = _read_end(event["end_backfill"])
        ended = end_backfills(stream, run, span=span, dry_run=dry_run)
        spans = [backfill.document() for backfill in ended]
        logger.info("backfills end", stream=stream, dry_run=dry_run, backfills=spans)
        return reconcile(run, dry_run=dry_run, only=stream)
    return reconcile(run, at=at, dry_run=dry_run)


def _watch_drain(remaining: Remaining) -> None:
    """Send a beat to the drain; if the drain stands still, save what waits, and say so for the alarm OverflowUnread."""
    try:
        report = watch_drain(wiring_upkeep.pipeline().watch, remaining)
    except (StoreUnavailable, TableMissing) as error:
        # The beats get old, and requests use the bucket. The next run tries again.
        logger.warning("the drain was not watched", reason=str(error))
        return
    if report.stands_still:
        count(DrainStopped=1, EventsSaved=report.saved)
        logger.error("the drain stands still", seconds=int(report.silence.total_seconds()), saved=report.saved)
    for problem in report.problems[:_LOGGED]:
        logger.warning("the overflow is not safe yet", reason=problem)


def _read_at(value: Any) -> datetime | None:
    """Read the time at which the run pretends to be; None if the payload has no time."""
    try:
        return None if value is None else parse_instant(value)
    except InvalidTime as error:
        raise BadInvocation(f"at: {error}") from error


def _read_backfill(payload: Any) -> tuple[Backfill, bool]:
    """Read the request; the second value is True if it is for the rebuild of a rollup."""
    try:
        request = msgspec.convert(payload, _BackfillPayload)
        start, end = parse_instant(request.start), parse_instant(request.end)
    except (msgspec.ValidationError, InvalidTime) as error:
        raise BadInvocation(f"backfill: {error}") from error
    if not 1 <= request.hours <= _MOST_HOURS:
        raise BadInvocation(f"backfill: hours must be within 1 to {_MOST_HOURS}; the same request again prolongs it")
    until = wiring_upkeep.pipeline().clock.now() + timedelta(hours=request.hours)
    return Backfill(request.stream, start, end, Opening(until, request.write, request.read)), request.rebuild


def _read_end(payload: Any) -> tuple[str, tuple[datetime, datetime] | None]:
    """Read the stream whose backfills are to end, and a span of time if only the backfill of that span is to end."""
    try:
        end = msgspec.convert({"stream": payload} if isinstance(payload, str) else payload, _EndPayload)
        if end.start is None and end.end is None:
            return end.stream, None
        if end.start is None or end.end is None:
            raise BadInvocation("end_backfill: name both from and to, or neither to end every backfill of the stream")
        return end.stream, (parse_instant(end.start), parse_instant(end.end))
    except (msgspec.ValidationError, InvalidTime) as error:
        raise BadInvocation(f"end_backfill: {error}") from error


def publish_notices(report: RunReport) -> None:
    """Publish the run's actions on the event bus."""
    notices = make_notices(report, read_settings().stage)
    losses = wiring_upkeep.pipeline().event_bus.publish(notices) if notices else 0
    if losses:
        logger.warning("notices lost", lost=losses, of=len(notices))
        count(NoticesLost=losses)


def _publish_metrics(report: RunReport) -> None:
    if report.skipped is not None:
        count(LifecycleSkipped=1)
        return
    count(LifecycleRuns=1, LifecycleHealthy=int(report.healthy is True))
    count_any(DeletedWithMarks=report.deleted_with_marks)
    if report.only is None:  # a run for one stream does not know the numbers of the whole stage
        outlook = report.outlook
        count(PeriodTables=report.tables, StreamsWithoutNextTable=len(outlook.without_next_table))
        count(ArchivesOverdue=len(outlook.overdue), RemovedStreams=len(outlook.removed))
    count(
        **{f"LifecycleActions_{outcome}": report.count(outcome) for outcome in ("done", "deferred", "failed", "lost")}
    )
