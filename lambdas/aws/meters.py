"""The consumed units of tables and the traffic of a stage, from CloudWatch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from aws.errors import require_answer
from bill.consumed import SPAN, ConsumedUnits, Traffic
from tidetable.names import name_service

_DAY_SECONDS = 86_400
# AWS: 500 metrics per GetMetricData call, at $0.01 per 1,000 metrics.
_AT_ONCE = 500
_METRICS = ("ConsumedWriteCapacityUnits", "ConsumedReadCapacityUnits")
# The functions put one value per request into these metrics, so the number of values is the number of requests. The
# doors' function counts as ingest, too.
_TRAFFIC = {
    "requests": ("ingest", "EventsAccepted", "SampleCount"),
    "events": ("ingest", "EventsAccepted", "Sum"),
    "queries": ("query", "ReadUnits", "SampleCount"),
    "read_units": ("query", "ReadUnits", "Sum"),
}


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
        end = _find_end(now)
        queries = [
            _make_query(name, self._namespace, metric, {"service": name_service(self._stage, handler)}, stat)
            for name, (handler, metric, stat) in _TRAFFIC.items()
        ]
        sums = dict.fromkeys(_TRAFFIC, 0.0)
        with require_answer("meters", "CloudWatch"):
            for name, values in _read_data(self._client(), queries, end):
                sums[name] += sum(values)
        return Traffic(**sums)


def read_consumed_units(
    client: Any, tables: Mapping[str, Sequence[str]], now: datetime
) -> dict[tuple[str, str], ConsumedUnits]:
    """Read the units of the last 30 days by (table, index); the index "" is the table itself, without its indexes."""
    resources = [(table, index) for table, indexes in tables.items() for index in ("", *indexes)]
    requested = [(resource, metric) for resource in resources for metric in _METRICS]
    sums: defaultdict[tuple[tuple[str, str], str], float] = defaultdict(float)
    end = _find_end(now)
    for first in range(0, len(requested), _AT_ONCE):
        batch = requested[first : first + _AT_ONCE]
        for id, values in _read_data(client, list(_make_queries(batch)), end):
            sums[batch[int(id[1:])]] += sum(values)
    return {resource: ConsumedUnits(*(sums[resource, metric] for metric in _METRICS)) for resource in resources}


def _find_end(now: datetime) -> datetime:
    return now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)


def _read_data(client: Any, queries: Sequence[dict[str, Any]], end: datetime) -> Iterator[tuple[str, Sequence[float]]]:
    """Yield the id and the values of each result; a long series comes in several results."""
    pages = client.get_paginator("get_metric_data").paginate(
        MetricDataQueries=list(queries), StartTime=end - SPAN, EndTime=end
    )
    for page in pages:
        for result in page["MetricDataResults"]:
            yield result["Id"], result["Values"]


def _make_queries(requested: Sequence[tuple[tuple[str, str], str]]) -> Iterator[dict[str, Any]]:
    for number, ((table, index), metric) in enumerate(requested):
        dimensions = {"TableName": table} | ({"GlobalSecondaryIndexName": index} if index else {})
        yield _make_query(f"m{number}", "AWS/DynamoDB", metric, dimensions, "Sum")


def _make_query(id: str, namespace: str, metric: str, dimensions: Mapping[str, str], stat: str) -> dict[str, Any]:
    named = [{"Name": name, "Value": value} for name, value in dimensions.items()]
    queried = {"Namespace": namespace, "MetricName": metric, "Dimensions": named}
    return {"Id": id, "MetricStat": {"Metric": queried, "Period": _DAY_SECONDS, "Stat": stat}}
