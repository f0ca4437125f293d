"""The dashboard: its name, its graphs, and the metrics of each, written out."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.infra.synth import Template


def test_the_dashboard_shows_rollups_where_there_are_any(dev: Template, rolled: Template) -> None:
    shown = [json.dumps(next(iter(made.all("AWS::CloudWatch::Dashboard").values()))) for made in (dev, rolled)]
    metrics = ["Lag", "BucketsSealed", "BucketsResealed", "BucketsBlocked", "Marks", "GroupsExceeded"]
    assert [sum(f"Rollup{name}" in text for name in metrics) for text in shown] == [0, 6]


# Title: the function that counts, the statistic, and the names of its metrics.
OWN_GRAPHS = {
    "Events": ("ingest", "Sum", "EventsAccepted", "EventsQueued", "RequestsRefused", "PacksWritten"),
    "Write units and throttled writes": ("ingest", "Sum", "WriteUnits", "ThrottledWrites", "ThrottledLateWrites"),
    "Lag of the newest event, s": ("ingest", "Average", "NewestEventLag"),
    "Events read": ("query", "Sum", "EventsRead"),
    "Read units": ("query", "Sum", "ReadUnits"),
    "Period tables": ("lifecycle", "Maximum", "PeriodTables"),
    "Lifecycle": (
        "lifecycle",
        "Sum",
        *(f"LifecycleActions_{outcome}" for outcome in ("done", "deferred", "failed", "lost")),
    ),
    "To worry about": ("lifecycle", "Maximum", "StreamsWithoutNextTable", "ArchivesOverdue"),
    "Changes delivered": ("feed", "Sum", "ChangesDelivered"),
    "Rollups: lag, s": ("refresher", "Maximum", "RollupLag"),
    "Rollups: buckets": ("refresher", "Sum", "RollupBucketsSealed", "RollupBucketsResealed", "RollupBucketsBlocked"),
    "Rollups: marks, and steps with too many groups": ("refresher", "Maximum", "RollupMarks", "RollupGroupsExceeded"),
}
# Title: the metrics of other graphs, each of an API, a function, a queue or a service.
OTHER_GRAPHS = {
    "API requests and errors": ["Count SampleCount of tidetable-dev", "4XXError Sum of tidetable-dev"],
    "Errors": ["5XXError Sum of tidetable-dev", "Errors Sum of LifecycleFunction"],
    "API latency": ["Latency p50 of tidetable-dev", "Latency p99 of tidetable-dev"],
    "Query duration": ["Duration p50 of QueryFunction", "Duration p99 of QueryFunction"],
    "Overflow": ["ApproximateNumberOfMessagesVisible Maximum of IngestOverflow"],
    "Overflow's oldest message, s": [
        "OldestMessage Maximum of tidetable-dev-drain",
        "ApproximateAgeOfOldestMessage Maximum of IngestOverflow",
    ],
    "Dead letters": ["ApproximateNumberOfMessagesVisible Maximum of IngestDeadLetters"],
    "Feed's oldest record, ms": ["IteratorAge Maximum of FeedFunction"],
    "Feed's dead letters": ["ApproximateNumberOfMessagesVisible Maximum of FeedDeadLetters"],
}


def _name_part(part: Any) -> str:
    """A text, or the logical id to which a part of a joined text refers, without its hash."""
    if isinstance(part, str):
        return part
    referred = part["Ref"] if "Ref" in part else part["Fn::GetAtt"][0]
    return re.sub(r"(?<=[a-z])[0-9A-F]{8}$", "", referred)


def test_the_dashboard_shows_these_graphs_of_the_last_six_hours(rolled: Template) -> None:
    (board,) = rolled.all("AWS::CloudWatch::Dashboard").values()
    assert board["DashboardName"] == {"Fn::Join": ["", ["tidetable-dev-", {"Ref": "AWS::Region"}]]}
    body = json.loads("".join(map(_name_part, board["DashboardBody"]["Fn::Join"][1])))
    assert body["start"] == "-PT6H"
    shown: dict[str, list[str]] = {}
    for widget in body["widgets"]:
        # Three graphs fill a row of 24 columns.
        assert widget["width"] == 8
        # AWS: the average is what a graph shows without a statistic.
        shown[widget["properties"]["title"]] = [
            f"{metric[1]} {metric[-1].get('stat', 'Average')} of {metric[3]}"
            for metric in widget["properties"]["metrics"]
        ]
    own = {
        title: [f"{name} {statistic} of tidetable-dev-{handler}" for name in names]
        for title, (handler, statistic, *names) in OWN_GRAPHS.items()
    }
    assert shown == own | OTHER_GRAPHS


def test_the_dashboard_shows_the_gateways_free_metrics_only(dev: Template) -> None:
    """Metrics per API and stage. Metrics per route and method are off and would have no data."""
    (board,) = dev.all("AWS::CloudWatch::Dashboard").values()
    parts = board["DashboardBody"]["Fn::Join"][1]
    text = "".join(part if isinstance(part, str) else "reference" for part in parts)
    shown = re.findall(r'\["AWS/ApiGateway","(\w+)",((?:"[^"]*",?)+)', text)
    assert {name for name, _ in shown} == {"Count", "4XXError", "5XXError", "Latency"}
    assert {dimensions.rstrip(",") for _, dimensions in shown} == {'"ApiName","tidetable-dev","Stage","reference"'}
