"""Alarms: each describes the fault, and names the section of docs/operate/runbook.md that describes the remedy."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from tidetable.config.demand import NEAR

from .api import Api
from .doors import Doors
from .feed import Feed
from .function import make_own_metric
from .ingest import Ingest
from .lifecycle import EVERY_MINUTES, Lifecycle
from .rollups import Rollups
from .targets import Targets


class Alarms(Construct):
    """The alarms of the API: both a stage and a reader have them.

    Every alarm notifies the targets of the configuration when it begins and when it ends.
    """

    def __init__(self, scope: Construct, id: str, *, stage: str, api: Api, targets: Targets) -> None:
        super().__init__(scope, id)
        self._targets = targets
        # The alarms by their sections of docs/operate/runbook.md, such as ``DeadLetters``.
        self.by_name: dict[str, cloudwatch.Alarm] = {}
        minute, five = Duration.minutes(1), Duration.minutes(5)
        self._add_alarm(
            "ApiFailing",
            api.rest.deployment_stage.metric_server_error(period=minute, statistic="Sum"),
            "The API answers 5xx: events are refused, or queries fail. The functions make these answers themselves, so"
            " CloudWatch counts no errors of the functions.",
            periods=3,
        )
        if api.keys is not None:
            self._add_alarm(
                "FormerKeyUsed",
                make_own_metric(stage, "authorizer", "FormerKeysUsed").with_(period=five),
                "A key that has expired, or a secret that was rotated, is still sent: its sender's requests are refused.",
            )
        if api.signed is not None:
            self._add_alarm(
                "SignedApiFailing",
                api.signed.deployment_stage.metric_server_error(period=minute, statistic="Sum"),
                "The API for signed requests answers 5xx: events are refused, or queries fail.",
                periods=3,
            )

    def _add_alarm(
        self,
        id: str,
        metric: cloudwatch.Metric,
        description: str,
        *,
        threshold: float = 1,
        periods: int = 1,
        below: bool = False,
        missing_is_bad: bool | None = None,
    ) -> cloudwatch.Alarm:
        operator = cloudwatch.ComparisonOperator
        missing = cloudwatch.TreatMissingData
        breaching = below if missing_is_bad is None else missing_is_bad
        alarm = cloudwatch.Alarm(
            self,
            id,
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=operator.LESS_THAN_THRESHOLD if below else operator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            treat_missing_data=missing.BREACHING if breaching else missing.NOT_BREACHING,
            alarm_description=f"{description} What to do: docs/operate/runbook.md#{id.lower()}",
        )
        self._targets.watch_alarm(alarm)
        self.by_name[id] = alarm
        return alarm


class StageAlarms(Alarms):
    """The alarms of a whole stage."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        stage: str,
        ingest: Ingest,
        lifecycle: Lifecycle,
        feed: Feed,
        api: Api,
        rollups: Rollups | None,
        doors: Doors | None,
        targets: Targets,
        quota: int,
        typed: bool,
    ) -> None:
        super().__init__(scope, id, stage=stage, api=api, targets=targets)
        near = int(NEAR * quota)
        minute, five = Duration.minutes(1), Duration.minutes(5)
        self._add_alarm(
            "DeadLetters",
            ingest.dead_letters.metric_approximate_number_of_messages_visible(period=minute),
            "Events could not be written in half a day and wait in the dead-letter queue, which keeps them 14 days.",
        )
        self._add_alarm(
            "OverflowOld",
            make_own_metric(stage, "drain", "OldestMessage", "Maximum").with_(period=five),
            "Acknowledged events have waited for an hour to be written: a table is missing or throttled.",
            threshold=3600,
        )
        # AWS: this metric ignores messages that were received three times or more. So it grows only while no function
        # receives the messages.
        self._add_alarm(
            "OverflowUnread",
            ingest.overflow.metric_approximate_age_of_oldest_message(period=five),
            "Acknowledged events have waited for an hour to be read: the drain is not called, or far too slow.",
            threshold=3600,
        )
        self._add_alarm(
            "OverflowSaved",
            make_own_metric(stage, "drain", "SavedMessages", "Maximum").with_(period=five),
            "Acknowledged events waited in the overflow queue for ten days. They are safe in the bucket, and not in tables.",
        )
        self._add_alarm(
            "DrainFailing",
            ingest.drain.metric_errors(period=five),
            "The drain crashes or times out: acknowledged events wait in the overflow queue, and become dead letters.",
            periods=3,
        )
        self._add_alarm(
            "LifecycleFailing",
            lifecycle.function.metric_errors(period=five),
            "The lifecycle has crashed in three runs: the next tables may not be made.",
            periods=3,
        )
        self._add_alarm(
            "LifecycleUnhealthy",
            lifecycle.health.with_(period=five),
            "Three runs of the lifecycle ended with failed actions: tables may be missing, or cost more than they should.",
            periods=3,
            below=True,
            missing_is_bad=False,  # LifecycleNotRunning reports missing runs
        )
        running = self._add_alarm(
            "LifecycleNotRunning",
            lifecycle.function.metric_invocations(period=five),
            f"The lifecycle, due every {EVERY_MINUTES} minutes, has not run for 20 minutes: the next tables may not be made.",
            periods=4,
            below=True,
        )
        # Before the first run the metric has no data, and this alarm takes missing data for a fault. So the alarm is
        # created after the schedule, and deleted before it.
        running.node.add_dependency(lifecycle.schedule)
        self._add_alarm(
            "LifecycleUndelivered",
            lifecycle.dead_letters.metric_approximate_number_of_messages_visible(period=minute),
            "A scheduled run of the lifecycle was not delivered, or failed.",
        )
        self._add_alarm(
            "NextTableMissing",
            make_own_metric(stage, "lifecycle", "StreamsWithoutNextTable", "Maximum").with_(period=five),
            "A stream's next table is missing a quarter of a period, or an hour, before it is needed: events will be queued.",
            periods=2,
        )
        self._add_alarm(
            "WritesThrottled",
            make_own_metric(stage, "ingest", "ThrottledWrites").with_(period=five),
            "Writes were throttled a thousand times in five minutes, three times in a row: raise write, or shards.",
            threshold=1000,
            periods=3,
        )
        self._add_alarm(
            "ItemCollectionFull",
            make_own_metric(stage, "ingest", "FullCollectionWrites").with_(period=five),
            "A partition key holds 10 GB, the most in a table with local indexes: its events become dead letters.",
        )
        self._add_alarm(
            "TableQuotaNear",
            make_own_metric(stage, "lifecycle", "PeriodTables", "Maximum").with_(period=five),
            f"This stage alone has {near:,} tables; the account may have {quota:,} in the Region until AWS raises the quota.",
            threshold=near,
        )
        self._add_alarm(
            "ArchiveOverdue",
            make_own_metric(stage, "lifecycle", "ArchivesOverdue", "Maximum").with_(period=five),
            "A period should have been archived a day ago; until it is, its table costs as before.",
            periods=2,
        )
        self._add_alarm(
            "ArchiveFailing",
            lifecycle.archiver.metric_errors(period=five),
            "A period could not be archived; its table is kept, and every run tries again.",
        )
        if typed:
            self._add_alarm(
                "UntypedValues",
                make_own_metric(stage, "archiver", "UntypedValues").with_(period=five),
                "An archived period has values that their declared column does not hold: queries of its files miss them.",
            )
        self._add_alarm(
            "SweepFailing",
            lifecycle.sweeper.metric_errors(period=five),
            "The sweep failed. It removes large values to which no event refers: until it succeeds, they cost storage.",
        )
        self._add_alarm(
            "FeedLagging",
            feed.age.with_(period=five),
            "A feed is 15 minutes behind: a target refuses changes or is too slow. After 24 hours changes would be lost.",
            threshold=15 * 60 * 1000,
            periods=3,
        )
        self._add_alarm(
            "FeedDeadLetters",
            feed.dead_letters.metric_approximate_number_of_messages_visible(period=minute),
            "A target of a feed did not take some changes; they wait in the feed's dead-letter queue, which keeps them 14 days.",
        )
        self._add_alarm(
            "FeedFailing",
            feed.function.metric_errors(period=five),
            "The feed's function crashes or times out; its records are tried again until they are 24 hours old.",
            periods=3,
        )
        self._add_alarm(
            "IngestFailing",
            ingest.function.metric_errors(period=minute),
            "The ingest function crashes or times out; its answers ask callers to send again.",
            periods=3,
        )
        if doors is not None:
            self._add_alarm(
                "DoorsFailing",
                doors.function.metric_errors(period=minute),
                "The function of the doors crashes or times out; its answers ask senders to send again.",
                periods=3,
            )
        if rollups is not None:
            self._watch_rollups(stage, rollups)

    def _watch_rollups(self, stage: str, rollups: Rollups) -> None:
        five = Duration.minutes(5)
        lagging = self._add_alarm(
            "RollupLagging",
            make_own_metric(stage, "refresher", "RollupLag", "Maximum").with_(period=five),
            "Rollups are sealed, or computed anew for late events, ten minutes later than they should be, or not at all:"
            " aggregates read more events than they need.",
            threshold=600,
            periods=3,
            missing_is_bad=True,
        )
        # The alarm is created after the schedule, as with LifecycleNotRunning: without a run the metric has no data.
        lagging.node.add_dependency(rollups.schedule)
        self._add_alarm(
            "RollupMarksStaying",
            make_own_metric(stage, "refresher", "RollupMarks", "Minimum").with_(period=Duration.hours(1)),
            "For six hours there were never fewer than a thousand marked buckets: late events go on, or buckets cannot be"
            " computed anew. Aggregates read the events of these buckets.",
            threshold=1000,
            periods=6,
        )
        self._add_alarm(
            "DeletedWithMarks",
            make_own_metric(stage, "lifecycle", "DeletedWithMarks").with_(period=five),
            "A table was deleted a day after it expired, though rollups still needed its late events: answers have a gap.",
        )
        self._add_alarm(
            "RollupsFailing",
            rollups.function.metric_errors(period=five),
            "The refresher fails: rollups are not sealed, and aggregates read events instead.",
            periods=3,
        )
        self._add_alarm(
            "RollupGroupsExceeded",
            make_own_metric(stage, "refresher", "RollupGroupsExceeded", "Maximum").with_(period=five),
            "A bucket of a rollup has more groups than max_groups, or too long values of by: aggregates read its events.",
        )
