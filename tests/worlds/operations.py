"""A stage with large events and versions, and functions that read its tables and its events."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.fakes.noise import noise
from tests.fakes.stage import CATALOG, Stage
from tests.worlds.killed import NOON
from tidetable.query import parse_query, run_query
from tidetable.times import to_text

# The periods are long, so there are few tables. Each stop of a function then meets every table.
CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.s]
period = "month"
late = "1d"
retention = 1
premake = 1
removal = "delete"
versions = "{versions}"
cold = {cold}
large = {{ compress_above = 1024, beyond = "{beyond}" }}
key = {{ partition_by = "series" }}
table = {{ deletion_protection = true }}
[streams.s.capacity]
mode = "provisioned"
ladder = [{{ age = 0, write = 100, read = 100 }}, {{ age = 1, write = 2, read = 2, class = "infrequent-access" }}]
"""


WHOLE = CONFIG.format(versions="keep", cold='["raw"]', beyond="chunks")


LONG = noise(900_000, 1)


def event(id: str, **data: Any) -> dict[str, Any]:
    return {"series": "a", "id": id, "time": to_text(NOON - timedelta(hours=len(id))), "data": data}


def send(stage: Stage, *events: dict[str, Any]) -> None:
    outcome = stage.send("s", json.dumps(events).encode())
    assert (outcome.accepted, outcome.queued, outcome.rejections) == (len(events), 0, [])


def read_events(stage: Stage, start: datetime = NOON - timedelta(days=60), **more: str) -> list[tuple[str, Any]]:
    """Id and complete data of every event of a query."""
    policy, now = stage.config.streams["s"], stage.clock.now()
    parameters = {"from": [to_text(start)], "to": [to_text(now)], "series": ["a"], "fields": ["*"], "limit": ["1000"]}
    query = parse_query(policy, parameters | {name: [value] for name, value in more.items()}, now, stage.seal)
    answer: Any = run_query(query, policy, stage.reader(), now, lambda: 100.0).document()
    assert answer["next"] is None
    return [(event["id"], event["data"]) for event in answer["events"]]


def settle(stage: Stage, runs: int = 4) -> None:
    for _ in range(runs):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    stage.dynamo.account.settle()


def tables(stage: Stage) -> list[str]:
    stage.dynamo.account.settle()
    return sorted(name.removeprefix("tidetable-lapse.") for name in stage.dynamo.account.tables if name != CATALOG)


def states(stage: Stage) -> dict[str, str]:
    return {entry.period.label: entry.state.value for entry in stage.catalog.entries("s", consistent=True)}


def build_stage(config: str = WHOLE, now: datetime = NOON) -> Stage:
    stage = Stage(now, config)
    stage.part_bytes = 2000
    while stage.run_lifecycle().done:
        stage.clock.sleep(30)
    return stage


FIRST = [event("a", n=1, raw="r" * 900), event("bb", n=1, text=LONG), event("ccc", n=1)]


def age_stage(*rounds: list[dict[str, Any]]) -> Stage:
    """Make a stage whose first month was archived, and its table deleted."""
    stage = build_stage()
    for events in rounds:
        send(stage, *events)
        stage.clock.sleep(60)
    stage.clock.time = datetime(2026, 5, 3, tzinfo=UTC)
    settle(stage, 8)
    assert "s.2026-03" not in tables(stage)
    return stage
