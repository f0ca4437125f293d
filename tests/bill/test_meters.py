"""CloudWatch's metrics: what is asked for, and a failure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from aws.meters import CloudWatchMeters
from bill.consumed import ConsumedUnits, Traffic
from tidetable.errors import StoreUnavailable

NOW = datetime(2026, 3, 15, 12, 34, tzinfo=UTC)


class CloudWatch:
    """Answers each metric with the values of a test, on two pages."""

    def __init__(self, values: dict[tuple[str, str], list[float]] | Exception) -> None:
        self.values = values
        self.asked: list[Any] = []

    def get_paginator(self, name: str) -> Any:
        assert name == "get_metric_data"
        return self

    def paginate(self, **request: Any) -> Iterator[Any]:
        if isinstance(self.values, Exception):
            raise self.values
        self.asked.append(request)
        for page in range(2):
            results = []
            for query in request["MetricDataQueries"]:
                stat = query["MetricStat"]
                values = self.values.get((stat["Metric"]["MetricName"], stat["Stat"]), [])
                results.append({"Id": query["Id"], "Values": values[page::2]})
            yield {"MetricDataResults": results}


def meters(cloudwatch: CloudWatch) -> CloudWatchMeters:
    return CloudWatchMeters(lambda: cloudwatch, "prod", "Tidetable")


def test_the_traffic_is_that_of_the_stages_own_functions() -> None:
    values = {
        ("EventsAccepted", "Sum"): [100.0, 200.0, 300.0],
        ("EventsAccepted", "SampleCount"): [1.0, 2.0],
        ("ReadUnits", "Sum"): [7.5],
        ("ReadUnits", "SampleCount"): [3.0],
    }
    cloudwatch = CloudWatch(values)
    assert meters(cloudwatch).traffic(NOW) == Traffic(requests=3, events=600, queries=3, read_units=7.5)
    (request,) = cloudwatch.asked
    assert request["StartTime"] == datetime(2026, 2, 13, 13, tzinfo=UTC)
    assert request["EndTime"] == datetime(2026, 3, 15, 13, tzinfo=UTC)
    asked = {
        (metric["Namespace"], metric["MetricName"], metric["Dimensions"][0]["Value"])
        for metric in (query["MetricStat"]["Metric"] for query in request["MetricDataQueries"])
    }
    assert asked == {
        ("Tidetable", "EventsAccepted", "tidetable-prod-ingest"),
        ("Tidetable", "ReadUnits", "tidetable-prod-query"),
    }
    # AWS: an id begins with a small letter.
    assert all(query["Id"][0].islower() for query in request["MetricDataQueries"])
    assert {query["MetricStat"]["Period"] for query in request["MetricDataQueries"]} == {86_400}


def test_units_are_summed_over_pages() -> None:
    cloudwatch = CloudWatch(
        {("ConsumedWriteCapacityUnits", "Sum"): [1.0, 2.0, 3.0], ("ConsumedReadCapacityUnits", "Sum"): [4.0]}
    )
    assert meters(cloudwatch).consumed({"one": ["by_place"]}, NOW) == {
        ("one", ""): ConsumedUnits(6.0, 4.0),
        ("one", "by_place"): ConsumedUnits(6.0, 4.0),
    }


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "GetMetricData"),
        EndpointConnectionError(endpoint_url="https://monitoring"),
    ],
)
def test_a_failure_is_named(error: Exception) -> None:
    with pytest.raises(StoreUnavailable, match="CloudWatch did not answer"):
        meters(CloudWatch(error)).traffic(NOW)
    with pytest.raises(StoreUnavailable, match="CloudWatch did not answer"):
        meters(CloudWatch(error)).consumed({"one": []}, NOW)
