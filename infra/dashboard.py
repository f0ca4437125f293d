"""The dashboard of a stage: requests, events, queries, tables, queues and feeds."""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from .api import Api
from .function import make_own_metric
from .stage_parts import StageParts


class Dashboard(Construct):
    """The dashboard. Its rows begin at the caller: API, ingest, queries, tables, queues, feeds."""

    def __init__(self, scope: Construct, id: str, stage: str, *, api: Api, parts: StageParts) -> None:
        super().__init__(scope, id)
        gateway, ingest, query = api.rest.deployment_stage, parts.ingest, parts.query.function
        lifecycle, feed = parts.lifecycle, parts.feed
        percentiles = ("p50", "p99")

        def own(handler: str, *names: str, statistic: str = "Sum") -> list[cloudwatch.IMetric]:
            return [make_own_metric(stage, handler, name, statistic).with_(label=name) for name in names]

        def waiting(queue: sqs.IQueue) -> list[cloudwatch.IMetric]:
            return [queue.metric_approximate_number_of_messages_visible()]

        ages = [
            *own("drain", "OldestMessage", statistic="Maximum"),
            ingest.overflow.metric_approximate_age_of_oldest_message(),
        ]
        buckets = own("refresher", "RollupBucketsSealed", "RollupBucketsResealed", "RollupBucketsBlocked")
        actions = [f"LifecycleActions_{outcome}" for outcome in ("done", "deferred", "failed", "lost")]
        troubles = own("lifecycle", "StreamsWithoutNextTable", "ArchivesOverdue", statistic="Maximum")
        rows: list[dict[str, Sequence[cloudwatch.IMetric]]] = [
            {
                "API requests and errors": [gateway.metric_count(), gateway.metric_client_error()],
                "Errors": [gateway.metric_server_error(), lifecycle.function.metric_errors()],
                "API latency": [gateway.metric_latency(statistic=percentile) for percentile in percentiles],
            },
            {
                "Events": own("ingest", "EventsAccepted", "EventsQueued", "RequestsRefused", "PacksWritten"),
                "Write units and throttled writes": own(
                    "ingest", "WriteUnits", "ThrottledWrites", "ThrottledLateWrites"
                ),
                "Lag of the newest event, s": own("ingest", "NewestEventLag", statistic="Average"),
            },
            {
                "Events read": own("query", "EventsRead"),
                "Read units": own("query", "ReadUnits"),
                "Query duration": [query.metric_duration(statistic=percentile) for percentile in percentiles],
            },
            {
                "Period tables": own("lifecycle", "PeriodTables", statistic="Maximum"),
                "Lifecycle": own("lifecycle", *actions),
                "To worry about": troubles,
            },
            {
                "Overflow": waiting(ingest.overflow),
                "Overflow's oldest message, s": ages,
                "Dead letters": waiting(ingest.dead_letters),
            },
            {
                "Changes delivered": own("feed", "ChangesDelivered"),
                "Feed's oldest record, ms": [feed.age],
                "Feed's dead letters": waiting(feed.dead_letters),
            },
        ]
        if parts.rollups is not None:
            marks = own("refresher", "RollupMarks", "RollupGroupsExceeded", statistic="Maximum")
            lag = own("refresher", "RollupLag", statistic="Maximum")
            rows.append(
                {
                    "Rollups: lag, s": lag,
                    "Rollups: buckets": buckets,
                    "Rollups: marks, and steps with too many groups": marks,
                }
            )
        self.board = cloudwatch.Dashboard(
            self,
            "Board",
            # AWS: a dashboard's name belongs to the account, and a stage of another Region may have the same name.
            dashboard_name=f"tidetable-{stage}-{Stack.of(self).region}",
            default_interval=Duration.hours(6),
            widgets=[
                [cloudwatch.GraphWidget(title=title, left=list(metrics), width=8) for title, metrics in row.items()]
                for row in rows
            ],
        )
