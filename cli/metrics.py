"""What on-demand tables took, as CloudWatch counted it: DynamoDB itself does not tell."""

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


class Taken(NamedTuple):
    """Write and read units that a table or an index consumed."""

    write: float = 0.0
    read: float = 0.0


def units_taken(client: Any, tables: Mapping[str, Sequence[str]], now: datetime) -> dict[tuple[str, str], Taken]:
    """The units of the last 30 days by (table, index), "" being the table itself; ``tables`` are names with their indexes' names.

    An index is a metric of its own: what its table shows does not include it.
    """
    places = [(table, index) for table, indexes in tables.items() for index in ("", *indexes)]
    wanted = [(place, metric) for place in places for metric in _METRICS]
    sums: dict[tuple[tuple[str, str], str], float] = {}
    end = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    for first in range(0, len(wanted), _AT_ONCE):
        some = wanted[first : first + _AT_ONCE]
        pages = client.get_paginator("get_metric_data").paginate(
            MetricDataQueries=list(_queries(some)), StartTime=end - SPAN, EndTime=end
        )
        for page in pages:
            for result in page["MetricDataResults"]:
                key = some[int(result["Id"][1:])]
                sums[key] = sums.get(key, 0.0) + sum(result["Values"])
    return {place: Taken(*(sums.get((place, metric), 0.0) for metric in _METRICS)) for place in places}


def _queries(wanted: Sequence[tuple[tuple[str, str], str]]) -> Iterator[dict[str, Any]]:
    for number, ((table, index), metric) in enumerate(wanted):
        dimensions = [{"Name": "TableName", "Value": table}]
        if index:
            dimensions.append({"Name": "GlobalSecondaryIndexName", "Value": index})
        of = {"Namespace": "AWS/DynamoDB", "MetricName": metric, "Dimensions": dimensions}
        yield {"Id": f"m{number}", "MetricStat": {"Metric": of, "Period": _DAY_SECONDS, "Stat": "Sum"}}
