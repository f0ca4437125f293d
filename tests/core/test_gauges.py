"""CloudWatch's minutes: what is asked for, how results become series, and a failure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from aws.meters import CloudWatchMeters
from tidetable.errors import StoreUnavailable

START, END = datetime(2026, 3, 15, 12, tzinfo=UTC), datetime(2026, 3, 15, 12, 33, tzinfo=UTC)


class CloudWatch:
    """Answers each metric with a value per minute, on two pages, in the zone of the machine as boto3 does."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.requests: list[Any] = []

    def get_paginator(self, name: str) -> Any:
        assert name == "get_metric_data"
        return self

    def paginate(self, **request: Any) -> Iterator[Any]:
        if self.fails:
            raise EndpointConnectionError(endpoint_url="https://monitoring")
        self.requests.append(request)
        zone = timezone(timedelta(hours=2))
        for page in range(2):
            times = [(START + timedelta(minutes=page)).astimezone(zone)]
            yield {
                "MetricDataResults": [
                    {"Id": query["Id"], "Timestamps": times, "Values": [len(query["Id"]) + page / 10]}
                    for query in request["MetricDataQueries"]
                ]
            }


def test_a_minute_of_each_table_and_of_the_functions_is_read() -> None:
    cloudwatch = CloudWatch()
    counted = CloudWatchMeters(lambda: cloudwatch, "prod", "Tidetable").count_minutes(["one", "two"], START, END)
    later = START + timedelta(minutes=1)
    assert counted.units == {"one": {START: 2.0, later: 2.1}, "two": {START: 2.0, later: 2.1}}
    assert counted.events == {START: 2.0, later: 2.1}
    (request,) = cloudwatch.requests
    assert (request["StartTime"], request["EndTime"]) == (START, END)
    found = {
        (metric["Namespace"], metric["MetricName"], query["MetricStat"]["Stat"], metric["Dimensions"][0]["Value"])
        for query in request["MetricDataQueries"]
        for metric in [query["MetricStat"]["Metric"]]
    }
    assert found == {
        ("AWS/DynamoDB", "ConsumedWriteCapacityUnits", "Sum", "one"),
        ("AWS/DynamoDB", "ConsumedWriteCapacityUnits", "Sum", "two"),
        ("Tidetable", "EventsAccepted", "Sum", "tidetable-prod-ingest"),
        ("Tidetable", "EventsQueued", "Sum", "tidetable-prod-ingest"),
        ("Tidetable", "NewestEventLag", "Average", "tidetable-prod-ingest"),
        ("Tidetable", "OldestMessage", "Maximum", "tidetable-prod-drain"),
        ("Tidetable", "RollupLag", "Maximum", "tidetable-prod-refresher"),
    }
    assert {query["MetricStat"]["Period"] for query in request["MetricDataQueries"]} == {60}


def test_a_call_takes_at_most_500_metrics() -> None:
    cloudwatch = CloudWatch()
    tables = [f"t{number}" for number in range(800)]
    counted = CloudWatchMeters(lambda: cloudwatch, "prod", "Tidetable").count_minutes(tables, START, END)
    assert [len(request["MetricDataQueries"]) for request in cloudwatch.requests] == [500, 305]
    assert len(counted.units) == 800
    assert all(len(minutes) == 2 for minutes in counted.units.values())


def test_a_failure_is_named() -> None:
    with pytest.raises(StoreUnavailable, match="CloudWatch did not answer"):
        CloudWatchMeters(lambda: CloudWatch(fails=True), "prod", "Tidetable").count_minutes([], START, END)
