"""The dashboard of a stage: requests, events, queries, tables, queues and feeds."""

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from .api import Api
from .function import make_own_metric
from .stage_parts import StageParts


class Dashboard(Construct):
    """The dashboard. Its rows begin at the caller: API, ingest, queries, tables, queues, feeds."""

    def __init__(self, scope: Construct, id: str, stage: str, *, api: Api, parts: StageParts) -> None:
        super().__init__(scope, id)
        gateway, ingest, lifecycle, feed = api.rest.deployment_stage, parts.ingest, parts.lifecycle, parts.feed
        five = Duration.minutes(5)

        def list_metrics(handler: str, *names: str, statistic: str = "Sum") -> list[cloudwatch.IMetric]:
            return [make_own_metric(stage, handler, name, statistic).with_(period=five, label=name) for name in names]

        of_rollups = [
            [
                _draw_graph("Rollups: lag, s", list_metrics("refresher", "RollupLag", statistic="Maximum")),
                _draw_graph(
                    "Rollups: buckets",
                    list_metrics("refresher", "RollupBucketsSealed", "RollupBucketsResealed", "RollupBucketsBlocked"),
                ),
                _draw_graph(
                    "Rollups: marks, and steps with too many groups",
                    list_metrics("refresher", "RollupMarks", "RollupGroupsExceeded", statistic="Maximum"),
                ),
            ]
        ]
        self.board = cloudwatch.Dashboard(
            self,
            "Board",
            # AWS: a dashboard's name belongs to the account, and a stage of another Region may have the same name.
            dashboard_name=f"tidetable-{stage}-{Stack.of(self).region}",
            default_interval=Duration.hours(6),
            widgets=[
                [
                    _draw_graph("API requests and errors", [gateway.metric_count(), gateway.metric_client_error()]),
                    _draw_graph("Errors", [gateway.metric_server_error(), lifecycle.function.metric_errors()]),
                    _draw_graph(
                        "API latency", [gateway.metric_latency(statistic=percentile) for percentile in ("p50", "p99")]
                    ),
                ],
                [
                    _draw_graph(
                        "Events",
                        list_metrics("ingest", "EventsAccepted", "EventsQueued", "RequestsRefused", "PacksWritten"),
                    ),
                    _draw_graph(
                        "Write units and throttled writes",
                        list_metrics("ingest", "WriteUnits", "ThrottledWrites", "ThrottledLateWrites"),
                    ),
                    _draw_graph(
                        "Lag of the newest event, s", list_metrics("ingest", "NewestEventLag", statistic="Average")
                    ),
                ],
                [
                    _draw_graph("Events read", list_metrics("query", "EventsRead")),
                    _draw_graph("Read units", list_metrics("query", "ReadUnits")),
                    _draw_graph(
                        "Query duration",
                        [parts.query.function.metric_duration(statistic=percentile) for percentile in ("p50", "p99")],
                    ),
                ],
                [
                    _draw_graph("Period tables", list_metrics("lifecycle", "PeriodTables", statistic="Maximum")),
                    _draw_graph(
                        "Lifecycle",
                        list_metrics(
                            "lifecycle",
                            *(f"LifecycleActions_{outcome}" for outcome in ("done", "deferred", "failed", "lost")),
                        ),
                    ),
                    _draw_graph(
                        "To worry about",
                        list_metrics("lifecycle", "StreamsWithoutNextTable", "ArchivesOverdue", statistic="Maximum"),
                    ),
                ],
                [
                    _draw_graph(
                        "Overflow", [ingest.overflow.metric_approximate_number_of_messages_visible(period=five)]
                    ),
                    _draw_graph(
                        "Overflow's oldest message, s",
                        [
                            *list_metrics("drain", "OldestMessage", statistic="Maximum"),
                            ingest.overflow.metric_approximate_age_of_oldest_message(),
                        ],
                    ),
                    _draw_graph(
                        "Dead letters", [ingest.dead_letters.metric_approximate_number_of_messages_visible(period=five)]
                    ),
                ],
                [
                    _draw_graph("Changes delivered", list_metrics("feed", "ChangesDelivered")),
                    _draw_graph("Feed's oldest record, ms", [feed.age]),
                    _draw_graph(
                        "Feed's dead letters",
                        [feed.dead_letters.metric_approximate_number_of_messages_visible(period=five)],
                    ),
                ],
                *(of_rollups if parts.rollups is not None else []),
            ],
        )


def _draw_graph(title: str, metrics: list[cloudwatch.IMetric]) -> cloudwatch.GraphWidget:
    return cloudwatch.GraphWidget(title=title, left=metrics, width=8)
