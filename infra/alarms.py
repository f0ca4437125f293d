"""Alarms: each describes the fault, and names the section of docs/operate/runbook.md that describes the remedy."""

from __future__ import annotations

from typing import Any

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from tidetable.config.demand import NEAR

from .api import Api
from .function import Common, make_own_metric
from .lifecycle import EVERY_MINUTES
from .stage_parts import StageParts
from .targets import Targets

# The fault that each alarm reports, by the alarm's section of docs/operate/runbook.md.
_FAULTS = {
    "ApiFailing": "The API answers 5xx: events are refused, or queries fail. The functions make these answers themselves, so"
    " CloudWatch counts no errors of the functions.",
    "FormerKeyUsed": "A key that has expired, or a secret that was rotated, is still sent: its sender's requests are refused.",
    "SignedApiFailing": "The API for signed requests answers 5xx: events are refused, or queries fail.",
    "DeadLetters": "Events could not be written in half a day and wait in the dead-letter queue, which keeps them 14 days.",
    "OverflowOld": "Acknowledged events have waited for an hour to be written: a table is missing or throttled.",
    "OverflowUnread": "Acknowledged events have waited for an hour to be read: the drain is not called, or far too slow.",
    "OverflowSaved": "Acknowledged events waited in the overflow queue for ten days. They are safe in the bucket, and not in"
    " tables.",
    "DrainFailing": "The drain crashes or times out: acknowledged events wait in the overflow queue, and become dead letters.",
    "LifecycleFailing": "The lifecycle has crashed in three runs: the next tables may not be made.",
    "LifecycleUnhealthy": "Three runs of the lifecycle ended with failed actions: tables may be missing, or cost more than they"
    " should.",
    "LifecycleNotRunning": f"The lifecycle, due every {EVERY_MINUTES} minutes, has not run for 20 minutes: the next tables may"
    " not be made.",
    "LifecycleUndelivered": "A scheduled run of the lifecycle was not delivered, or failed.",
    "NextTableMissing": "A stream's next table is missing a quarter of a period, or an hour, before it is needed: events will be"
    " queued.",
    "WritesThrottled": "Writes were throttled a thousand times in five minutes, three times in a row: raise write, or shards.",
    "ItemCollectionFull": "A partition key holds 10 GB, the most in a table with local indexes: its events become dead letters.",
    "TableQuotaNear": "This stage alone has {near:,} tables; the account may have {quota:,} in the Region until AWS raises the"
    " quota.",
    "ArchiveOverdue": "A period should have been archived a day ago; until it is, its table costs as before.",
    "ArchiveFailing": "A period could not be archived; its table is kept, and every run tries again.",
    "UntypedValues": "An archived period has values that their declared column does not hold: queries of its files miss them.",
    "SweepFailing": "The sweep failed. It removes large values to which no event refers: until it succeeds, they cost storage.",
    "FeedLagging": "A feed is 15 minutes behind: a target refuses changes or is too slow. After 24 hours changes would be lost.",
    "FeedDeadLetters": "A target of a feed did not take some changes; they wait in the feed's dead-letter queue, which keeps them"
    " 14 days.",
    "FeedFailing": "The feed's function crashes or times out; its records are tried again until they are 24 hours old.",
    "IngestFailing": "The ingest function crashes or times out; its answers ask callers to send again.",
    "DoorsFailing": "The function of the doors crashes or times out; its answers ask senders to send again.",
    "RollupLagging": "Rollups are sealed, or computed anew for late events, ten minutes later than they should be, or not at all:"
    " aggregates read more events than they need.",
    "RollupMarksStaying": "For six hours there were never fewer than a thousand marked buckets: late events go on, or buckets"
    " cannot be computed anew. Aggregates read the events of these buckets.",
    "DeletedWithMarks": "A table was deleted a day after it expired, though rollups still needed its late events: answers have a"
    " gap.",
    "RollupsFailing": "The refresher fails: rollups are not sealed, and aggregates read events instead.",
    "RollupGroupsExceeded": "A bucket of a rollup has more groups than max_groups, or too long values of by: aggregates read its"
    " events.",
}
_MINUTE = Duration.minutes(1)
_MAXIMUM = "Maximum"


class Alarms(Construct):
    """The alarms of the API and, with the ``parts`` of a stage, of its functions, queues and tables.

    Every alarm notifies the targets of the configuration when it begins and when it ends. Its metric counts five
    minutes, unless the metric says otherwise.
    """

    def __init__(
        self, scope: Construct, id: str, common: Common, *, api: Api, targets: Targets, parts: StageParts | None = None
    ) -> None:
        super().__init__(scope, id)
        self._common, self._targets = common, targets
        # The alarms by their sections of docs/operate/runbook.md, such as ``DeadLetters``.
        self.by_name: dict[str, cloudwatch.Alarm] = {}
        self._watch_errors("ApiFailing", api.rest.deployment_stage.metric_server_error(period=_MINUTE, statistic="Sum"))
        if api.keys is not None:
            self._watch("FormerKeyUsed", self._count("authorizer", "FormerKeysUsed"))
        if api.signed is not None:
            signed = api.signed.deployment_stage
            self._watch_errors("SignedApiFailing", signed.metric_server_error(period=_MINUTE, statistic="Sum"))
        if parts is not None:
            self._watch_writing(parts)
            self._watch_lifecycle(parts)
            self._watch_feed(parts)
            self._watch_rollups(parts)

    def _watch_writing(self, parts: StageParts) -> None:
        ingest = parts.ingest
        self._watch("DeadLetters", ingest.dead_letters.metric_approximate_number_of_messages_visible(period=_MINUTE))
        self._watch("OverflowOld", self._count("drain", "OldestMessage", _MAXIMUM), threshold=3600)
        # AWS: this metric ignores messages that were received three times or more. So it grows only while no function
        # receives the messages.
        self._watch("OverflowUnread", ingest.overflow.metric_approximate_age_of_oldest_message(), threshold=3600)
        self._watch("OverflowSaved", self._count("drain", "SavedMessages", _MAXIMUM))
        self._watch_errors("DrainFailing", ingest.drain.metric_errors())
        self._watch("WritesThrottled", self._count("ingest", "ThrottledWrites"), threshold=1000, periods=3)
        self._watch("ItemCollectionFull", self._count("ingest", "FullCollectionWrites"))
        self._watch_errors("IngestFailing", ingest.function.metric_errors(period=_MINUTE))
        if parts.doors is not None:
            self._watch_errors("DoorsFailing", parts.doors.function.metric_errors(period=_MINUTE))

    def _watch_lifecycle(self, parts: StageParts) -> None:
        lifecycle, quota = parts.lifecycle, self._common.config.lifecycle.table_quota
        self._watch_errors("LifecycleFailing", lifecycle.function.metric_errors())
        # LifecycleNotRunning reports missing runs.
        self._watch("LifecycleUnhealthy", lifecycle.health, periods=3, below=True, missing_is_bad=False)
        runs = lifecycle.function.metric_invocations()
        running = self._watch("LifecycleNotRunning", runs, periods=4, below=True, missing_is_bad=True)
        # Before the first run the metric has no data, and this alarm takes missing data for a fault. So the alarm is
        # created after the schedule, and deleted before it.
        running.node.add_dependency(lifecycle.schedule)
        letters = lifecycle.dead_letters.metric_approximate_number_of_messages_visible(period=_MINUTE)
        self._watch("LifecycleUndelivered", letters)
        self._watch("NextTableMissing", self._count("lifecycle", "StreamsWithoutNextTable", _MAXIMUM), periods=2)
        near = int(NEAR * quota)
        tables = self._count("lifecycle", "PeriodTables", _MAXIMUM)
        self._watch("TableQuotaNear", tables, threshold=near, near=near, quota=quota)
        self._watch("ArchiveOverdue", self._count("lifecycle", "ArchivesOverdue", _MAXIMUM), periods=2)
        self._watch("ArchiveFailing", lifecycle.archiver.metric_errors())
        if any(stream.archive.columns for stream in self._common.config.streams.values()):
            self._watch("UntypedValues", self._count("archiver", "UntypedValues"))
        self._watch("SweepFailing", lifecycle.sweeper.metric_errors())

    def _watch_feed(self, parts: StageParts) -> None:
        feed = parts.feed
        self._watch("FeedLagging", feed.age, threshold=15 * 60 * 1000, periods=3)
        self._watch("FeedDeadLetters", feed.dead_letters.metric_approximate_number_of_messages_visible(period=_MINUTE))
        self._watch_errors("FeedFailing", feed.function.metric_errors())

    def _watch_rollups(self, parts: StageParts) -> None:
        if parts.rollups is None:
            return
        lag = self._count("refresher", "RollupLag", _MAXIMUM)
        lagging = self._watch("RollupLagging", lag, threshold=600, periods=3, missing_is_bad=True)
        # The alarm is created after the schedule, as with LifecycleNotRunning: without a run the metric has no data.
        lagging.node.add_dependency(parts.rollups.schedule)
        marks = self._count("refresher", "RollupMarks", "Minimum").with_(period=Duration.hours(1))
        self._watch("RollupMarksStaying", marks, threshold=1000, periods=6)
        self._watch("DeletedWithMarks", self._count("lifecycle", "DeletedWithMarks"))
        self._watch_errors("RollupsFailing", parts.rollups.function.metric_errors())
        self._watch("RollupGroupsExceeded", self._count("refresher", "RollupGroupsExceeded", _MAXIMUM))

    def _count(self, handler: str, name: str, statistic: str = "Sum") -> cloudwatch.Metric:
        return make_own_metric(self._common.stage, handler, name, statistic)

    def _watch_errors(self, id: str, metric: cloudwatch.Metric) -> None:
        """Add an alarm for errors in three periods in a row: a single error is not yet a fault."""
        self._watch(id, metric, periods=3)

    def _watch(
        self,
        id: str,
        metric: cloudwatch.Metric,
        *,
        threshold: float = 1,
        periods: int = 1,
        below: bool = False,
        missing_is_bad: bool = False,
        **facts: Any,
    ) -> cloudwatch.Alarm:
        """Add an alarm; ``facts`` are the figures in the description of its fault."""
        operator, missing = cloudwatch.ComparisonOperator, cloudwatch.TreatMissingData
        alarm = cloudwatch.Alarm(
            self,
            id,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=operator.LESS_THAN_THRESHOLD if below else operator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=missing.BREACHING if missing_is_bad else missing.NOT_BREACHING,
            alarm_description=f"{_FAULTS[id].format(**facts)} What to do: docs/operate/runbook.md#{id.lower()}",
        )
        self._targets.watch_alarm(alarm)
        self.by_name[id] = alarm
        return alarm
