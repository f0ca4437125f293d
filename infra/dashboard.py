"""The dashboard of a stage: requests, events, queries, tables, queues and feeds."""

from __future__ import annotations

from aws_cdk import Duration, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from .watched import Measure, Watched, read_document


class Dashboard(Construct):
    """The dashboard, with the rows of ``dashboard.toml``."""

    def __init__(self, scope: Construct, id: str, watched: Watched) -> None:
        super().__init__(scope, id)
        rows = read_document("dashboard.toml", dict[str, list[dict[str, list[Measure]]]])["rows"]
        self.board = cloudwatch.Dashboard(
            self,
            "Board",
            # AWS: a dashboard's name belongs to the account, and a stage of another Region may have the same name.
            dashboard_name=f"tidetable-{watched.common.stage}-{Stack.of(self).region}",
            default_interval=Duration.hours(6),
            widgets=[
                [
                    cloudwatch.GraphWidget(title=title, left=[_draw(watched, measure) for measure in measures], width=8)
                    for title, measures in row.items()
                ]
                for row in rows
                if all(watched.has(measure) for measures in row.values() for measure in measures)
            ],
        )


def _draw(watched: Watched, measure: Measure) -> cloudwatch.Metric:
    metric = watched.make_metric(measure)
    return metric.with_(label=measure.metric) if measure.own else metric
