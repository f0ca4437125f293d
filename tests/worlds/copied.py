"""A stage whose tables have copies in other Regions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from strict import StrictDynamo
from strict.client import StrictClient
from tests.fakes.stage import STAGE, Stage
from tidetable.catalog import Entry
from tidetable.lifecycle import RunReport
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
IRELAND, TOKYO = "eu-west-1", "ap-northeast-1"
# The labels of the periods of the first tables.
TODAY, TOMORROW, NEXT = "2026-03-15", "2026-03-16", "2026-03-17"
DAYS = (TODAY, TOMORROW, NEXT)
LIFECYCLE = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
"""
STREAM = """
[streams.s]
period = "day"
late = "1h"
retention = 2
premake = 2
{more}
replicas = {replicas}
[streams.s.key]
partition_by = "series"
[streams.s.capacity]
{capacity}
"""
ON_DEMAND = """
mode = "on-demand"
ladder = [{ age = 0 }, { age = 1, class = "infrequent-access" }]
"""
SCALED = """
mode = "provisioned"
autoscaling = { write = { min = 5, max = 100 } }
ladder = [{ age = 0, write = 10, read = 10 }, { age = 1, mode = "on-demand" }]
[[streams.s.index]]
name = "status"
partition_by = "status"
"""


def text(*replicas: str, capacity: str = ON_DEMAND, more: str = "", lifecycle: str = LIFECYCLE) -> str:
    """The configuration of a stream with these copies."""
    return lifecycle + STREAM.format(replicas=json.dumps(list(replicas)), capacity=capacity, more=more)


def made(*replicas: str, **options: Any) -> Stage:
    """Make a stage that was deployed successfully. Its other Regions are the Regions of the copies."""
    stage = Stage(NOON, text(*replicas, **options), regions=replicas or (IRELAND,))
    stage.catalog.mark_deployed()
    return stage


def run(stage: Stage, runs: int = 1, minutes: float = 5) -> RunReport:
    """Run the lifecycle ``runs`` times, as scheduled; return the last report. The clock goes on after a run."""
    for _ in range(runs):
        report = stage.run_lifecycle()
        stage.clock.sleep(minutes * 60)
    return report


def table_of(label: str, suffix: str = "") -> str:
    return f"tidetable-{STAGE}.s.{label}{suffix}"


def entry(stage: Stage, label: str) -> Entry:
    return next(entry for entry in stage.catalog.entries("s", consistent=True) if entry.period.label == label)


def describe(service: StrictDynamo, name: str) -> dict[str, Any]:
    """The description of a table by a Region's service; empty if there is no such table."""
    service.account.settle()
    if name not in service.account.tables:
        return {}
    described: dict[str, Any] = service.call("DescribeTable", {"TableName": name})["Table"]
    return described


def copies(stage: Stage, name: str) -> dict[str, str]:
    """The Regions of the copies that a table lists, with the states of the copies."""
    replicas = describe(stage.dynamo, name).get("Replicas", [])
    return {replica["RegionName"]: replica["ReplicaStatus"] for replica in replicas}


def steps(report: RunReport) -> list[tuple[str, str, str]]:
    """The actions of a run: action, period, outcome."""
    return [(result.action.name, result.action.entry.period.label, result.outcome) for result in report.done]


def send(stage: Stage, *ids: str, at: datetime = NOON) -> None:
    """Send events."""
    events = [
        {"series": "a", "id": id, "time": to_text(at + timedelta(seconds=number))} for number, id in enumerate(ids)
    ]
    outcome = stage.send("s", json.dumps(events).encode())
    assert outcome.accepted == len(ids)


def ids_in(service: StrictDynamo, name: str) -> list[str]:
    """The ids of the events that a Region's table holds."""
    items = service.call("Scan", {"TableName": name, "ConsistentRead": True})["Items"]
    return sorted(item["sk"]["S"].rsplit("#", 1)[1] for item in items)


def pass_to(stage: Stage, day: int, hour: int, minute: int = 0) -> None:
    """Move the clock to an instant in March, without a run of the lifecycle."""
    until = datetime(2026, 3, day, hour, minute, tzinfo=NOON.tzinfo)
    stage.clock.sleep((until - stage.clock.now()).total_seconds())


def client_of(stage: Stage, region: str = IRELAND) -> Any:
    """DynamoDB's client in another Region."""
    return StrictClient(stage.others[region])


def tags_of(service: StrictDynamo, name: str) -> dict[str, str]:
    """The tags of a table or of a copy, by a Region's service."""
    arn = describe(service, name)["TableArn"]
    tags = service.call("ListTagsOfResource", {"ResourceArn": arn})["Tags"]
    return {tag["Key"]: tag["Value"] for tag in tags}
