"""An archived period that tests restore."""

from typing import Any

from tests.fakes.stage import Stage
from tests.worlds.killed import IDS, built, ids
from tidetable.catalog import Entry

LABEL = "2026-03-15"


TABLE = f"tidetable-lapse.s.{LABEL}"


def gone() -> Stage:
    """A stage whose first tables were archived, in several parts, and deleted long ago."""
    stage = built()
    stage.part_bytes = 800
    for _ in range(12):
        stage.clock.sleep(86_400)
        for _ in range(2):
            stage.run_lifecycle()
            stage.clock.sleep(300)
    assert TABLE not in stage.dynamo.account.tables
    assert ids(stage) == IDS
    return stage


def entry(stage: Stage) -> Entry:
    return next(one for one in stage.catalog.entries("s", consistent=True) if one.period.label == LABEL)


def items(stage: Stage) -> list[Any]:
    found: list[Any] = stage.dynamo.account.engine.call("Scan", {"TableName": TABLE, "ConsistentRead": True})["Items"]
    return found
