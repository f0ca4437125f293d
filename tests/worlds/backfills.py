"""A stage that imports three days of history, and functions that start and stop its backfills."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.fakes.stage import Stage
from tests.worlds.killed import CONFIG, NOON
from tidetable.catalog import Backfill, Entry, Opening
from tidetable.lifecycle.backfill import end_backfills, open_backfill
from tidetable.times import from_text, to_text

START, END = from_text("2026-02-10T00:00:00Z"), from_text("2026-02-13T00:00:00Z")
HISTORY = [
    {"series": "a", "id": f"h{hour}", "time": to_text(START + timedelta(hours=hour)), "data": {"n": hour}}
    for hour in range(72)
]


@pytest.fixture
def stage() -> Stage:
    stage_in_memory = Stage(NOON, CONFIG)
    stage_in_memory.run_lifecycle()
    return stage_in_memory


def make_backfill(
    stage: Stage, start: datetime = START, end: datetime = END, hours: int = 24, **units: Any
) -> Backfill:
    until = stage.clock.now() + timedelta(hours=hours)
    return Backfill("s", start, end, Opening(until, units.get("write"), units.get("read")))


def start_backfill(stage: Stage, request: Backfill | None = None, *, dry_run: bool = False) -> Any:
    return open_backfill(request or make_backfill(stage), stage.begin_run("b", lambda: 280.0), dry_run=dry_run)


def stop_backfills(stage: Stage, stream: str = "s", span: Any = None) -> list[Backfill]:
    return end_backfills(stream, stage.begin_run("e", lambda: 280.0), span=span)


def send(stage: Stage, events: list[dict[str, Any]] = HISTORY) -> Any:
    return stage.send("s", json.dumps(events).encode())


def entries(stage: Stage) -> dict[str, Entry]:
    return {entry.period.label: entry for entry in stage.catalog.entries("s", consistent=True)}


def write_units(stage: Stage, label: str) -> int | None:
    stage.clock.sleep(60)
    stage.dynamo.account.settle()
    return stage.dynamo.account.tables[f"tidetable-lapse.s.{label}"].write


LABELS = ["2026-02-10", "2026-02-11", "2026-02-12"]
