"""Large events that tests send to a stage, and how they read them back."""

import json
from datetime import timedelta
from typing import Any

from tests.fakes.noise import noise
from tests.fakes.stage import Stage
from tests.worlds.large import CONFIG, DAY, NOON
from tidetable.catalog import Entry
from tidetable.ingest.request import Outcome
from tidetable.query import parse_query, run_query
from tidetable.times import to_text

STREAMS = ("chunked", "stored", "kept", "texts")


def built() -> Stage:
    stage = Stage(NOON, CONFIG)
    stage.part_bytes = 10**7
    ready(stage)
    return stage


def ready(stage: Stage) -> None:
    """Run the lifecycle until nothing is left to do: AWS limits the number of creations at a time."""
    while stage.run_lifecycle().done:
        stage.clock.sleep(10)


def event(number: int, data: dict[str, Any], series: str = "a") -> dict[str, Any]:
    return {"series": series, "id": f"e{number}", "time": to_text(NOON - timedelta(minutes=number)), "data": data}


SENT = [
    event(0, {"kind": "small", "n": 1}),
    event(1, {"kind": "loose", "text": "tide " * 1000, "raw": "cold " * 400}),
    event(2, {"kind": "large", "text": noise(900_000), "raw": noise(600)}),
    event(3, {"kind": "large", "text": noise(500_000, 3), "list": [1, 2.5, None]}),
]


def send(stage: Stage, stream: str, *events: dict[str, Any]) -> Outcome:
    return stage.send(stream, json.dumps(events).encode())


def ask(stage: Stage, stream: str, **parameters: str) -> list[dict[str, Any]]:
    """Every event of a query, page by page."""
    stage.settle()
    policy, now, events = stage.config.streams[stream], stage.clock.now(), list[dict[str, Any]]()
    query_string = {
        "from": [to_text(NOON - timedelta(days=1))],
        "to": [to_text(NOON + timedelta(days=1))],
        "series": ["a"],
    }
    query_string |= {name: [value] for name, value in parameters.items()}
    while True:
        query = parse_query(policy, query_string, now, stage.seal)
        answer: Any = run_query(query, policy, stage.reader(), now, lambda: 100.0).document()
        events += answer["events"]
        if answer["next"] is None:
            return events
        query_string = {"cursor": [answer["next"]], "limit": query_string.get("limit", ["100"])}


def age(stage: Stage) -> None:
    """Run the lifecycle for more than three hours."""
    for _ in range(40):
        stage.run_lifecycle()
        stage.clock.sleep(300)


def entry_of(stage: Stage) -> Entry:
    return next(entry for entry in stage.catalog.entries("stored", consistent=True) if entry.period.label == DAY)
