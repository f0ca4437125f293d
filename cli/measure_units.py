"""The units and throttles of tables and indexes by the hour, from CloudWatch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, get_args

from aws.meters import MetricQuery, read_metrics
from cli.advising import Hour
from cli.advising.history import Reason

# The metrics of a table do not include the metrics of its indexes
# (docs.aws.amazon.com/amazondynamodb/latest/developerguide/TroubleshootingThrottling-cloudwatch.html). CloudWatch keeps
# points of five minutes for 63 days (docs.aws.amazon.com/AmazonCloudWatch: metrics retention).
LONGEST = timedelta(days=60)
_FIVE_MINUTES, _HOUR = 300, 3600


class _Metric(NamedTuple):
    """A metric of a table or an index: its name, its operation, and the reason of a throttle ("" for units)."""

    name: str
    operation: str
    reason: str = ""


_METRICS = (
    *(_Metric(f"Consumed{operation}CapacityUnits", operation) for operation in ("Write", "Read")),
    *(
        _Metric(f"{operation}{reason}ThrottleEvents", operation, reason)
        for operation in ("Write", "Read")
        for reason in get_args(Reason)
    ),
)


def read_hours(
    client: Any, tables: Mapping[str, Sequence[str]], start: datetime, end: datetime
) -> dict[tuple[str, str], tuple[Hour, ...]]:
    """Read the measured hours by (table, index), oldest first; the index "" is the table itself.

    ``tables`` maps names of tables to the names of their indexes. Tables that are deleted are measured, too.
    """
    places = [(table, index) for table, indexes in tables.items() for index in ("", *indexes)]
    requested = [(place, metric) for place in places for metric in _METRICS]
    queries = [
        MetricQuery.of_table(metric.name, *place, _HOUR if metric.reason else _FIVE_MINUTES)
        for place, metric in requested
    ]
    points: defaultdict[tuple[str, str], defaultdict[datetime, list[tuple[_Metric, float]]]]
    points = defaultdict(lambda: defaultdict(list))
    for number, result in read_metrics(client, queries, start, end):
        place, metric = requested[number]
        for at, value in zip(result["Timestamps"], result["Values"], strict=True):
            hour = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
            points[place][hour].append((metric, value))
    return {place: tuple(_make_hour(at, hours[at]) for at in sorted(hours)) for place, hours in points.items()}


def _make_hour(start: datetime, points: Sequence[tuple[_Metric, float]]) -> Hour:
    units: dict[str, list[float]] = {"Write": [0.0], "Read": [0.0]}
    throttles: dict[Any, float] = {}
    for metric, value in points:
        if not metric.reason:
            units[metric.operation].append(value)
        elif value:
            key = metric.operation, metric.reason
            throttles[key] = throttles.get(key, 0.0) + value
    return Hour(
        start,
        sum(units["Write"]),
        sum(units["Read"]),
        max(units["Write"]) / _FIVE_MINUTES,
        max(units["Read"]) / _FIVE_MINUTES,
        throttles,
    )
