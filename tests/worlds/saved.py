"""A stage whose overflow has messages of an hour and more, and the messages that it saved."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from strict.refusals import refuse_throttled
from tests.fakes.stage import Stage
from tidetable.events import Event
from tidetable.query import parse_query, run_query
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
CONFIG = """
[streams.s]
period = "month"
late = "20d"
retention = 2
[streams.s.key]
partition_by = "time"
bucket = "1h"
"""
TWO = CONFIG + CONFIG.replace("streams.s", "streams.t")


def stage_of(config: str = CONFIG) -> Stage:
    stage = Stage(NOON, config)
    stage.run_lifecycle()
    stage.clock.sleep(60)
    return stage


def queue_events(stage: Stage, *ids: str, stream: str = "s", at: int = 5, **data: Any) -> None:
    stage.queue.send(stream, [Event("a", NOON, id, data) for id in ids], at)


def read_events(stage: Stage, stream: str = "s") -> Mapping[str, Any]:
    stage.clock.sleep(60)
    policy, now = stage.config.streams[stream], stage.clock.now()
    parameters = {"from": [to_text(NOON - DAY)], "to": [to_text(NOON + DAY)], "limit": ["5000"]}
    query = parse_query(policy, parameters, now, stage.seal)
    answer = run_query(query, policy, stage.reader(), now, lambda: 100.0)
    return {row["id"]: row["data"] for row in answer.document()["events"]}


def throttle(stage: Stage, *operations: str) -> Callable[[], None]:
    """Refuse writes of the tables of stream ``s`` until the returned function is called."""
    call = stage.dynamo.call

    def refuse(operation: str, payload: Any) -> Any:
        if operation in (operations or ("PutItem", "BatchWriteItem")) and ".s." in json.dumps(payload, default=str):
            raise refuse_throttled([])
        return call(operation, payload)

    stage.dynamo.call = refuse  # type: ignore[method-assign]

    def end() -> None:
        stage.dynamo.call = call  # type: ignore[method-assign]

    return end


def list_saved(stage: Stage) -> list[str]:
    return sorted(key for key in stage.values.blobs if key.startswith("saved/"))
