"""The consumed units of on-demand tables, from CloudWatch, as DynamoDB itself does not report them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

# CloudWatch keeps hours for 15 months; a day is the longest period that GetMetricData takes.
SPAN = timedelta(days=30)
_DAY_SECONDS = 86_400
# AWS: 500 metrics per GetMetricData call, at $0.01 per 1,000 metrics.
_AT_ONCE = 500
_METRICS = ("ConsumedWriteCapacityUnits", "ConsumedReadCapacityUnits")


class ConsumedUnits(NamedTuple):
    """Write and read units that a table or an index consumed."""

    write: float = 0.0
    read: float = 0.0


def read_consumed_units(
    client: Any, tables: Mapping[str, Sequence[str]], now: datetime
) -> dict[tuple[str, str], ConsumedUnits]:
    """The units of the last 30 days by (table, index), where the index "" is the table itself.

    ``tables`` maps names of tables to the names of their indexes. The metric of a table does not include its indexes.
    """
    resources = [(table, index) for table, indexes in tables.items() for index in ("", *indexes)]
    requested = [(resource, metric) for resource in resources for metric in _METRICS]
    sums: dict[tuple[tuple[str, str], str], float] = {}
    end = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    for first in range(0, len(requested), _AT_ONCE):
        batch = requested[first : first + _AT_ONCE]
        pages = client.get_paginator("get_metric_data").paginate(
            MetricDataQueries=list(_queries(batch)), StartTime=end - SPAN, EndTime=end
        )
        for page in pages:
            for result in page["MetricDataResults"]:
                key = batch[int(result["Id"][1:])]
                sums[key] = sums.get(key, 0.0) + sum(result["Values"])
    return {
        resource: ConsumedUnits(*(sums.get((resource, metric), 0.0) for metric in _METRICS)) for resource in resources
    }


def _queries(requested: Sequence[tuple[tuple[str, str], str]]) -> Iterator[dict[str, Any]]:
    for number, ((table, index), metric) in enumerate(requested):
        dimensions = [{"Name": "TableName", "Value": table}]
        if index:
            dimensions.append({"Name": "GlobalSecondaryIndexName", "Value": index})
        queried = {"Namespace": "AWS/DynamoDB", "MetricName": metric, "Dimensions": dimensions}
        yield {"Id": f"m{number}", "MetricStat": {"Metric": queried, "Period": _DAY_SECONDS, "Stat": "Sum"}}
