"""CloudWatch's metrics: the consumed units of tables, and the counters of the stage's functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from aws.errors import require_answer
from bill.consumed import SPAN, ConsumedUnits, Traffic
from tidetable.activity import Counted
from tidetable.names import name_service

_MINUTE_SECONDS, _DAY_SECONDS = 60, 86_400
# AWS: 500 metrics per GetMetricData call, at $0.01 per 1,000 metrics.
_AT_ONCE = 500
_UNITS = ("ConsumedWriteCapacityUnits", "ConsumedReadCapacityUnits")
# The functions put one value per request into these metrics, so the number of values is the number of requests. The
# doors' function counts as ingest, too.
_TRAFFIC = {
    "requests": ("ingest", "EventsAccepted", "SampleCount"),
    "events": ("ingest", "EventsAccepted", "Sum"),
    "queries": ("query", "ReadUnits", "SampleCount"),
    "read_units": ("query", "ReadUnits", "Sum"),
}
# The functions' metrics of each minute, by the field of Counted.
_MINUTES = {
    "events": ("ingest", "EventsAccepted", "Sum"),
    "queued": ("ingest", "EventsQueued", "Sum"),
    "arrival": ("ingest", "NewestEventLag", "Average"),
    "waiting": ("drain", "OldestMessage", "Maximum"),
    "sealing": ("refresher", "RollupLag", "Maximum"),
}


class MetricQuery(NamedTuple):
    """A metric, its statistic, and the seconds of which each value is."""

    namespace: str
    name: str
    dimensions: Mapping[str, str]
    seconds: int
    statistic: str = "Sum"

    @classmethod
    def of_table(cls, name: str, table: str, index: str, seconds: int) -> MetricQuery:
        """Make the query of a table's metric, or of an index's; the index "" is the table itself."""
        of_index = {"GlobalSecondaryIndexName": index} if index else {}
        return cls("AWS/DynamoDB", name, {"TableName": table, **of_index}, seconds)

    def encode(self, id: str) -> dict[str, Any]:
        """Encode the query for GetMetricData."""
        named = [{"Name": name, "Value": value} for name, value in self.dimensions.items()]
        metric = {"Namespace": self.namespace, "MetricName": self.name, "Dimensions": named}
        return {"Id": id, "MetricStat": {"Metric": metric, "Period": self.seconds, "Stat": self.statistic}}


def read_metrics(
    client: Any, queries: Sequence[MetricQuery], start: datetime, end: datetime
) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the results with the numbers of their queries; a long series comes in several results."""
    pages = client.get_paginator("get_metric_data")
    for first in range(0, len(queries), _AT_ONCE):
        batch = [query.encode(f"m{first + at}") for at, query in enumerate(queries[first : first + _AT_ONCE])]
        for page in pages.paginate(MetricDataQueries=batch, StartTime=start, EndTime=end):
            for result in page["MetricDataResults"]:
                yield int(result["Id"][1:]), result


class CloudWatchMeters:
    """CloudWatch through boto3. ``namespace`` is the namespace of the functions' own metrics."""

    def __init__(self, client: Callable[[], Any], stage: str, namespace: str) -> None:
        self._client = client
        self._stage = stage
        self._namespace = namespace

    def consumed(self, tables: Mapping[str, Sequence[str]], now: datetime) -> dict[tuple[str, str], ConsumedUnits]:
        with require_answer("meters", "CloudWatch"):
            return read_consumed_units(self._client(), tables, now)

    def traffic(self, now: datetime) -> Traffic:
        sums, end = [0.0] * len(_TRAFFIC), _find_end(now)
        with require_answer("meters", "CloudWatch"):
            for number, result in read_metrics(self._client(), self._list_own(_TRAFFIC, _DAY_SECONDS), end - SPAN, end):
                sums[number] += sum(result["Values"])
        return Traffic(*sums)

    def count_minutes(self, tables: Sequence[str], start: datetime, end: datetime) -> Counted:
        written = [MetricQuery.of_table(_UNITS[0], table, "", _MINUTE_SECONDS) for table in tables]
        queries = [*self._list_own(_MINUTES, _MINUTE_SECONDS), *written]
        series: list[dict[datetime, float]] = [{} for _ in queries]
        with require_answer("gauges", "CloudWatch"):
            for number, result in read_metrics(self._client(), queries, start, end):
                times = (time.astimezone(UTC) for time in result["Timestamps"])
                series[number].update(zip(times, result["Values"], strict=True))
        own, units = series[: len(_MINUTES)], series[len(_MINUTES) :]
        return Counted(dict(zip(tables, units, strict=True)), *own)

    def _list_own(self, metrics: Mapping[str, tuple[str, str, str]], seconds: int) -> list[MetricQuery]:
        return [
            MetricQuery(self._namespace, name, {"service": name_service(self._stage, handler)}, seconds, statistic)
            for handler, name, statistic in metrics.values()
        ]


def read_consumed_units(
    client: Any, tables: Mapping[str, Sequence[str]], now: datetime
) -> dict[tuple[str, str], ConsumedUnits]:
    """Read the units of the last 30 days by (table, index); the index "" is the table itself, without its indexes."""
    resources = [(table, index) for table, indexes in tables.items() for index in ("", *indexes)]
    requested = [(resource, metric) for resource in resources for metric in _UNITS]
    queries = [MetricQuery.of_table(metric, *resource, _DAY_SECONDS) for resource, metric in requested]
    sums: defaultdict[tuple[tuple[str, str], str], float] = defaultdict(float)
    end = _find_end(now)
    for number, result in read_metrics(client, queries, end - SPAN, end):
        sums[requested[number]] += sum(result["Values"])
    return {resource: ConsumedUnits(*(sums[resource, metric] for metric in _UNITS)) for resource in resources}


def _find_end(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
