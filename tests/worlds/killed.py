"""A small stage with twenty events, and copies of it in which a function was stopped after each of its changes."""

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.stage import Killed, Stage, prepare_once
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
# The same configuration with packs of up to three events.
PACKED = CONFIG.replace('large = { beyond = "chunks" }', 'pack = { span = "3h" }')
# Packs whose suffix follows from the series: "a" has suffix 0 of 2, and "#" suffix 1.
BY_SUFFIX = PACKED.replace("shards = 2", 'shards = 2\nshard_by = "series"')
EVENTS = [
    {"series": "a", "id": f"e{number}", "time": to_text(NOON - timedelta(hours=number)), "data": {"n": number}}
    for number in range(20)
]
IDS = sorted(str(event["id"]) for event in EVENTS)


@prepare_once
def built(config: str = CONFIG) -> Stage:
    """A stage with its tables and twenty events of two days."""
    stage = Stage(NOON, config)
    stage.run_lifecycle()
    stage.send("s", json.dumps(EVENTS).encode())
    return stage


def ids(stage: Stage) -> list[str]:
    """The ids of all events that a query over the whole time finds."""
    stage.settle()
    policy, now = stage.config.streams["s"], stage.clock.now()
    parameters = {"from": [to_text(NOON - timedelta(days=3))], "to": [to_text(now)], "limit": ["1000"]}
    answer: Any = run_query(
        parse_query(policy, parameters, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    ).document()
    return sorted(event["id"] for event in answer["events"])


def state(stage: Stage) -> Any:
    """Everything that a run of the lifecycle can change, without the times of changes."""
    stage.clock.sleep(120)
    stage.dynamo.account.settle()
    entries = {
        entry.period.label: (entry.state, entry.archive and replace(entry.archive, at=NOON, made=""))
        for entry in stage.catalog.entries("s", consistent=True)
    }
    tables = {
        name: (table.status, table.write, table.read, table.infrequent)
        for name, table in stage.dynamo.account.tables.items()
    }
    # The progress of an archive is left out. It has no effect: the next archive of the period clears it first.
    # The name of a file has the instant when its archive was begun, and the generation of the claim that wrote it.
    keys = [re.sub(r"/part-\d+-(\d+)-\d+-", r"/part-\1-", key) for key in stage.bucket.objects]
    return entries, tables, sorted(key for key in keys if "_progress" not in key)


def copier_of(prepare: Callable[[], Stage]) -> Callable[[], Stage]:
    """Return a function that makes equal stages: copies of one prepared stage. To prepare each would take longer.

    A table that is still changing has a function that ends its change; a copy of this function would change the first
    stage. So if the prepared stage has such tables, each stage is prepared anew.
    """
    prepared = prepare()
    prepared.restart()
    return prepare if prepared.changes else prepared.copy


def killed_after_every_change(
    prepare: Callable[[], Stage], act: Callable[[Stage], object]
) -> Iterator[tuple[int, Stage]]:
    """Yield stages in which ``act`` was stopped: after its first call, and after each that may have changed something.

    The last call is left out: after it, the act is complete. A function that is stopped after a read leaves the same
    state as after the change before the read.
    """
    make = copier_of(prepare)

    def count_calls() -> tuple[int, list[int], list[str], datetime]:
        whole = make()
        whole.restart()
        whole.client.calls, whole.client.changes = 0, []
        act(whole)
        return whole.client.calls, whole.client.changes, sorted(whole.bucket.objects), whole.clock.now()

    first = count_calls()
    total, changes = first[:2]
    assert len(changes) > 1, "a function that changes nothing proves nothing"
    for calls in sorted({1, *changes} - {total}):
        stage = make()
        stage.restart()
        stage.client.calls, stage.client.allowance = 0, calls
        with pytest.raises(Killed):
            act(stage)
        stage.client.allowance = None
        stage.restart()
        # Wait until the lease of the stopped function has ended.
        stage.clock.sleep(300)
        yield calls, stage
    assert count_calls() == first, "a stage has changed another"
