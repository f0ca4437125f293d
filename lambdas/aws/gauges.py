"""The counters of a stage by the minute, from CloudWatch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aws.errors import require_answer
from tidetable.activity import Counted
from tidetable.names import name_service

# AWS: 500 metrics per GetMetricData call, at $0.01 per 1,000 metrics.
_AT_ONCE = 500
_MINUTE_SECONDS = 60
# The functions' own metrics, by the field of Counted. The doors' function counts as ingest, too.
_STAGE = {
    "events": ("ingest", "EventsAccepted", "Sum"),
    "queued": ("ingest", "EventsQueued", "Sum"),
    "arrival": ("ingest", "NewestEventLag", "Average"),
    "waiting": ("drain", "OldestMessage", "Maximum"),
    "sealing": ("refresher", "RollupLag", "Maximum"),
}


class CloudWatchGauges:
    """CloudWatch through boto3. ``namespace`` is the namespace of the functions' own metrics."""

    def __init__(self, client: Callable[[], Any], stage: str, namespace: str) -> None:
        self._client = client
        self._stage = stage
        self._namespace = namespace

    def count_minutes(self, tables: Sequence[str], start: datetime, end: datetime) -> Counted:
        own = [
            _make_query(name, self._namespace, metric, {"service": name_service(self._stage, handler)}, stat)
            for name, (handler, metric, stat) in _STAGE.items()
        ]
        written = [
            _make_query(f"m{number}", "AWS/DynamoDB", "ConsumedWriteCapacityUnits", {"TableName": table}, "Sum")
            for number, table in enumerate(tables)
        ]
        found: defaultdict[str, dict[datetime, float]] = defaultdict(dict)
        queries = own + written
        with require_answer("gauges", "CloudWatch"):
            pages = self._client().get_paginator("get_metric_data")
            for first in range(0, len(queries), _AT_ONCE):
                batch = queries[first : first + _AT_ONCE]
                for page in pages.paginate(MetricDataQueries=batch, StartTime=start, EndTime=end):
                    for result in page["MetricDataResults"]:
                        times = (time.astimezone(UTC) for time in result["Timestamps"])
                        found[result["Id"]].update(zip(times, result["Values"], strict=True))
        return Counted(
            {table: found[f"m{number}"] for number, table in enumerate(tables)}, *(found[name] for name in _STAGE)
        )


def _make_query(id: str, namespace: str, metric: str, dimensions: Mapping[str, str], stat: str) -> dict[str, Any]:
    named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    queried = {"Namespace": namespace, "MetricName": metric, "Dimensions": named}
    return {"Id": id, "MetricStat": {"Metric": queried, "Period": _MINUTE_SECONDS, "Stat": stat}}
