"""The command `advise`: what it reads from CloudWatch, from the logs and from the keys, and what it prints."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from msgspec.structs import replace

from cli import common, measure
from cli.account import Account, AccountError
from cli.advising import Hour, Use, Writing
from cli.measure import Sources
from cli.measure_keys import read_shares, share_out, take_heaviest_bucket
from cli.measure_logs import read_uses, read_writing
from cli.measure_units import read_hours
from tests.fakes.stage import Stage
from tests.worlds.commands import NOW, run
from tidetable.catalog import Entry

HOUR = datetime(2026, 3, 15, 11, tzinfo=UTC)
DENIED = ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "Any")


class Watch:
    """CloudWatch: points of metrics by table, index and metric, answered in two pages; reports of Contributor Insights."""

    def __init__(self, points: dict[tuple[str, str, str], list[tuple[datetime, float]]]) -> None:
        self.points = points
        self.periods: dict[str, int] = {}
        self.report: dict[str, Any] = {}
        self.fails = False

    def get_paginator(self, name: str) -> Any:
        assert name == "get_metric_data"
        return self

    def paginate(self, *, MetricDataQueries: Any, StartTime: Any, EndTime: Any) -> Iterator[Any]:  # noqa: N803
        if self.fails:
            raise DENIED
        assert len(MetricDataQueries) <= 500
        assert StartTime < EndTime
        for half in (0, 1):
            results = []
            for query in MetricDataQueries:
                metric = query["MetricStat"]["Metric"]
                places = {place["Name"]: place["Value"] for place in metric["Dimensions"]}
                self.periods[metric["MetricName"]] = query["MetricStat"]["Period"]
                key = places["TableName"], places.get("GlobalSecondaryIndexName", ""), metric["MetricName"]
                points = self.points.get(key, [])[half::2]
                results.append(
                    {
                        "Id": query["Id"],
                        "Timestamps": [at for at, _ in points],
                        "Values": [value for _, value in points],
                    }
                )
            yield {"MetricDataResults": results}

    def get_insight_rule_report(self, **asked: Any) -> Any:
        assert asked["EndTime"] - asked["StartTime"] <= timedelta(days=1)
        return self.report


class Logs:
    """CloudWatch Logs Insights: rows by the groups that are searched; each query is running when it is first looked at."""

    def __init__(self, rows: dict[str, list[dict[str, str]]], status: str = "Complete") -> None:
        self.rows, self.status = rows, status
        self.queries: list[str] = []
        self.stopped = 0
        self._asked = 0
        self._groups: list[str] = []

    def start_query(self, **query: Any) -> Any:
        self.queries.append(query["queryString"])
        self._groups, self._asked = query["logGroupNames"], 0
        assert query["startTime"] < query["endTime"]
        return {"queryId": "q"}

    def get_query_results(self, **_: Any) -> Any:
        self._asked += 1
        if self._asked == 1:
            return {"status": "Running", "results": []}
        rows = [row for group in self._groups for row in self.rows.get(group, [])]
        cells = [[{"field": name, "value": value} for name, value in row.items()] for row in rows]
        return {"status": self.status, "results": cells}

    def stop_query(self, **_: Any) -> None:
        self.stopped += 1


class Insights:
    """DynamoDB with Contributor Insights on or off; queries go to the stage's tables."""

    def __init__(self, dynamo: Any = None, *, on: bool = False) -> None:
        self._dynamo, self._on = dynamo, on
        self.queries = 0

    def describe_contributor_insights(self, **_: Any) -> Any:
        if not self._on:
            return {"ContributorInsightsStatus": "DISABLED"}
        rules = ["DynamoDBContributorInsights-PKT-t", "DynamoDBContributorInsights-PKC-t"]
        return {"ContributorInsightsStatus": "ENABLED", "ContributorInsightsRuleList": rules}

    def query(self, **request: Any) -> Any:
        self.queries += 1
        return self._dynamo.call("Query", request)


def test_points_of_five_minutes_become_hours_with_their_peak_and_their_throttles() -> None:
    five = timedelta(minutes=5)
    watch = Watch(
        {
            ("t", "", "ConsumedWriteCapacityUnits"): [(HOUR, 300.0), (HOUR + five, 1500.0), (HOUR + 13 * five, 600.0)],
            ("t", "", "ConsumedReadCapacityUnits"): [(HOUR + five, 30.0)],
            ("t", "", "WriteKeyRangeThroughputThrottleEvents"): [(HOUR, 7.0)],
            ("t", "i", "WriteProvisionedThroughputThrottleEvents"): [(HOUR, 3.0)],
            ("u", "", "ReadAccountLimitThrottleEvents"): [(HOUR, 0.0)],
        }
    )
    hours = read_hours(watch, {"t": ["i"], "u": []}, HOUR, NOW)
    assert hours == {
        ("t", ""): (
            Hour(HOUR, 1800.0, 30.0, 5.0, 0.1, {("Write", "KeyRangeThroughput"): 7.0}),
            Hour(HOUR + timedelta(hours=1), 600.0, 0.0, 2.0, 0.0),
        ),
        ("t", "i"): (Hour(HOUR, throttles={("Write", "ProvisionedThroughput"): 3.0}),),
        ("u", ""): (Hour(HOUR),),
    }
    assert watch.periods["ConsumedWriteCapacityUnits"] == 300
    assert {name for name, period in watch.periods.items() if period == 3600} == {
        f"{operation}{reason}ThrottleEvents"
        for operation in ("Write", "Read")
        for reason in ("KeyRangeThroughput", "ProvisionedThroughput", "MaxOnDemandThroughput", "AccountLimit")
    }


USES = [
    {"route": "events", "compared": "a%26b:eq&size:ge", "queries": "4", "calls": "8", "units": "6.5", "events": "90"}
    | {"returned": "3"},
    {"route": "events", "compared": "customer:eq", "outcome": "needs_index", "queries": "12"},
    {"route": "latest", "compared": "", "queries": "2", "calls": "2", "units": "1", "events": "2", "returned": "2"},
]


def test_the_logs_say_what_was_queried_and_how_many_events_a_request_has() -> None:
    logs = Logs({"q": USES, "i": [{"requests": "10", "events": "950.0"}], "d": [{"requests": "2", "events": "50"}]})
    waited: list[float] = []
    assert read_uses(logs, ["q"], "s", HOUR, NOW, waited.append) == (
        Use("events", ("a&b:eq", "size:ge"), 4, 8, 6.5, 90, 3),
        Use("events", ("customer:eq",), 12, refused=True),
        Use("latest", (), 2, 2, 1.0, 2, 2),
    )
    assert read_writing(logs, ["i", "d"], "s", HOUR, NOW, waited.append) == Writing(12, 1000)
    assert read_writing(logs, ["none"], "s", HOUR, NOW, waited.append) is None
    assert waited == [1.0, 1.0, 1.0]
    assert all('stream = "s"' in query for query in logs.queries)


def test_a_query_of_the_logs_that_fails_or_lasts_too_long_says_what_to_do() -> None:
    with pytest.raises(AccountError, match=r"ended as Failed: try a shorter range with --days"):
        read_uses(Logs({}, "Failed"), ["q"], "s", HOUR, NOW, lambda _: None)
    endless = Logs({}, "Running")
    with pytest.raises(AccountError, match=r"longer than two minutes"):
        read_uses(endless, ["q"], "s", HOUR, NOW, lambda _: None)
    assert endless.stopped == 1


def test_of_the_reports_keys_the_heaviest_bucket_counts() -> None:
    counts = {"b1#0": 5.0, "b1#1": 5.0, "b2#0": 30.0, "b2#1": 10.0}
    assert share_out(take_heaviest_bucket(counts)) == {"0": 0.75, "1": 0.25}
    assert share_out({"a#0": 30.0, "b#0": 10.0}, 100.0) == {"a#0": 0.3, "b#0": 0.1}
    assert share_out({}) is None


TIME = """
[streams.t]
period = "day"
late = "1h"
retention = 2
[streams.t.key]
partition_by = "time"
bucket = "1h"
shards = 4
shard_by = "series"
"""


@pytest.fixture
def timed() -> tuple[Stage, Entry]:
    """A stage with 90 events of one series and ten of others, two and a half minutes old."""
    stage = Stage(NOW, TIME)
    stage.run_lifecycle()
    at = (NOW - timedelta(seconds=90)).isoformat()
    events = [{"series": "a" if n < 90 else f"b{n}", "id": str(n), "time": at, "data": {}} for n in range(100)]
    assert stage.send("t", json.dumps(events).encode()).accepted == 100
    stage.settle()
    (entry,) = (entry for entry in stage.pipeline.catalog.entries("t") if NOW in entry.period)
    return stage, entry


def test_without_contributor_insights_a_minute_is_counted_by_suffix(timed: tuple[Stage, Entry]) -> None:
    stage, entry = timed
    insights = Insights(stage.dynamo)
    shares = read_shares(insights, None, entry, NOW)
    assert shares is not None
    # `a` has the suffix 2 of 4 (docs/inside/suffix.md).
    assert next(iter(shares)) == "2"
    assert shares["2"] >= 0.9
    assert sum(shares.values()) == pytest.approx(1)
    assert insights.queries == 4


def test_with_contributor_insights_no_key_is_read(timed: tuple[Stage, Entry]) -> None:
    _, entry = timed
    watch, insights = Watch({}), Insights(on=True)
    bucket = "2026-03-15T11:00:00.000000Z"
    watch.report = {
        "AggregateValue": 40.0,
        "Contributors": [
            {"Keys": [f"{bucket}#1"], "ApproximateAggregateValue": 10.0},
            {"Keys": [f"{bucket}#3"], "ApproximateAggregateValue": 30.0},
        ],
    }
    assert read_shares(insights, watch, entry, NOW) == {"3": 0.75, "1": 0.25}
    assert insights.queries == 0
    series = replace(entry, layout=replace(entry.layout, partition_by="series", bucket=0))
    watch.report["AggregateValue"] = 80.0
    assert read_shares(insights, watch, series, NOW) == {f"{bucket}#3": 0.375, f"{bucket}#1": 0.125}
    assert read_shares(Insights(), None, series, NOW) is None


BUSY = """
[streams.s]
period = "hour"
late = "1h"
retention = 4
[streams.s.key]
partition_by = "series"
[streams.s.capacity]
mode = "provisioned"
ladder = [{ age = 0, write = 10, read = 10 }, { age = 1, write = 2, read = 5 }]
"""


@pytest.fixture
def watched(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> tuple[Watch, Logs]:
    """The stage in memory, whose hourly tables were throttled at their units in four hours."""
    points = {}
    for entry in stage.pipeline.catalog.entries("s"):
        if entry.period.start < NOW - timedelta(hours=1):
            start = entry.period.start
            points[entry.table, "", "ConsumedWriteCapacityUnits"] = [
                (start + timedelta(minutes=5 * n), 3000.0) for n in range(12)
            ]
            points[entry.table, "", "WriteProvisionedThroughputThrottleEvents"] = [(start, 14_400.0)]
    watch, logs = Watch(points), Logs({"queries": USES, "requests": [{"requests": "10", "events": "950"}]})
    outputs = {"QueryLogs": "queries", "IngestLogs": "requests"}
    account = Account(stage.pipeline, outputs, metrics=watch)
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    monkeypatch.setattr(measure, "open_sources", lambda *_: Sources(watch, logs, Insights(), lambda _: None))
    Path("tidetable.toml").write_text(BUSY)
    return watch, logs


def test_the_command_prints_the_figures_the_price_and_the_lines(watched: tuple[Watch, Logs]) -> None:
    result = run("advise")
    assert result.exit_code == 0, result.output
    assert "s: 1 to change, by 0." in result.output
    # Ten units were used up, and four requests per second were throttled: 14 / 0.7.
    assert "1. change the units of the ladder: costs $" in result.output
    assert "throttled writes: " in result.output
    assert "    { age = 0, write = 20, read = 10 }," in result.output
    assert "missing: 0.4 days are measured: advice about the bill needs 7" in result.output
    assert "--apply" not in run("advise", "--help").output


def test_the_command_answers_json(watched: tuple[Watch, Logs]) -> None:
    answer = json.loads(run("advise", "--json", "--stream", "s").output)
    assert (answer["prices"]["region"], answer["prices"]["month"]) == ("us-east-1", "2026-11")
    (document,) = answer["advice"]
    (finding,) = document["findings"]
    assert (document["stream"], finding["rule"], finding["confidence"]) == ("s", "units", "medium")
    ladder = tomllib.loads(finding["toml"])["streams"]["s"]["capacity"]["ladder"]
    assert ladder == [
        {"age": 0, "write": 20, "read": 10},
        {"age": 1, "write": 2, "read": 5},
    ]
    assert finding["dollars_saved_per_month"] < 0


def test_what_the_account_refuses_is_said(watched: tuple[Watch, Logs], monkeypatch: pytest.MonkeyPatch) -> None:
    watch, logs = watched

    def refuse(**_: Any) -> Any:
        raise DENIED

    monkeypatch.setattr(logs, "start_query", refuse)
    text = run("advise").output
    assert "missing: the logs were not read:" in text
    assert "allow logs:StartQuery and logs:GetQueryResults" in text
    assert "no advice about indexes, buckets and fewer shards" in text
    watch.fails = True
    result = run("advise")
    assert (result.exit_code, "allow cloudwatch:GetMetricData" in result.output) == (1, True)


def test_a_stream_that_does_not_exist_is_a_wrong_use(watched: tuple[Watch, Logs]) -> None:
    result = run("advise", "--stream", "nothing")
    assert (result.exit_code, "there is no stream 'nothing'; there are: s" in result.output) == (64, True)


def test_logs_and_keys_are_read_in_the_emulator_too() -> None:
    made: Any = []
    session = SimpleNamespace(client=lambda name, **options: made.append((name, options)) or name)
    account: Any = SimpleNamespace(session=session, metrics="metrics")
    sources = measure.open_sources(account, "http://e")
    assert (sources.metrics, sources.logs, sources.dynamodb) == ("metrics", "logs", "dynamodb")
    assert made == [("logs", {"endpoint_url": "http://e"}), ("dynamodb", {"endpoint_url": "http://e"})]
