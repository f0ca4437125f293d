"""A small stage with twenty events, and copies of it in which a function was stopped after each of its calls."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.stage import Killed, Stage
from tidetable.query import parse_query, run_query
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
[streams.s]
period = "day"
late = "1d"
retention = 5
large = { beyond = "chunks" }
[streams.s.key]
partition_by = "time"
bucket = "6h"
shards = 2
[streams.s.capacity]
mode = "provisioned"
ladder = [
    { age = 0, write = 10, read = 10 },
    { age = 1, write = 2, read = 5 },
    { age = 3, write = 1, read = 1, class = "infrequent-access" },
]
"""
# The same with packs of up to three events.
PACKED = CONFIG.replace('large = { beyond = "chunks" }', 'pack = { span = "3h" }')
EVENTS = [
    {"series": "a", "id": f"e{number}", "time": to_text(NOON - timedelta(hours=number)), "data": {"n": number}}
    for number in range(20)
]
IDS = sorted(str(event["id"]) for event in EVENTS)


def built(config: str = CONFIG) -> Stage:
    """A stage with its tables and twenty events of two days."""
    stage = Stage(NOON, config)
    stage.run_lifecycle()
    stage.send("s", json.dumps(EVENTS).encode())
    return stage


def ids(stage: Stage) -> list[str]:
    """The ids of everything that a query over all time finds."""
    stage.settle()
    policy, now = stage.config.streams["s"], stage.clock.now()
    parameters = {"from": [to_text(NOON - timedelta(days=3))], "to": [to_text(now)], "limit": ["1000"]}
    answer: Any = run_query(
        parse_query(policy, parameters, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    ).document()
    return sorted(event["id"] for event in answer["events"])


def state(stage: Stage) -> Any:
    """Everything that a run of the lifecycle can change, without times."""
    stage.clock.sleep(120)
    stage.dynamo.account.settle()
    entries = {
        entry.period.label: (entry.state, entry.archive and replace(entry.archive, at=NOON))
        for entry in stage.catalog.entries("s", consistent=True)
    }
    tables = {
        name: (table.status, table.write, table.read, table.infrequent)
        for name, table in stage.dynamo.account.tables.items()
    }
    # Progress that was not cleared has no effect: the next archive of the period clears it first.
    return entries, tables, sorted(key for key in stage.bucket.objects if "_progress" not in key)


def killed_after_every_call(
    prepare: Callable[[], Stage], act: Callable[[Stage], object]
) -> Iterator[tuple[int, Stage]]:
    """Stages in which the act was stopped after its first call, its second, and so on to its last but one."""
    whole = prepare()
    whole.restart()
    whole.client.calls = 0
    act(whole)
    total = whole.client.calls
    assert total > 3, "a function that makes no calls proves nothing"
    for calls in range(1, total):
        stage = prepare()
        stage.restart()
        stage.client.calls, stage.client.allowance = 0, calls
        with pytest.raises(Killed):
            act(stage)
        stage.client.allowance = None
        stage.restart()
        # Wait until the lease of the stopped function has ended.
        stage.clock.sleep(300)
        yield calls, stage
