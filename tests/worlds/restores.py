"""An archived period that tests restore."""

from typing import Any

from tests.fakes.stage import Stage, prepare_once
from tests.worlds.killed import IDS, built, ids
from tidetable.catalog import Entry

LABEL = "2026-03-15"


TABLE = f"tidetable-lapse.s.{LABEL}"


@prepare_once
def delete_first_tables(part_bytes: int = 800) -> Stage:
    """Make a stage whose first tables were archived in several parts, and deleted long ago."""
    stage = built()
    stage.part_bytes, stage.segment_bytes = part_bytes, 300
    for _ in range(12):
        stage.clock.sleep(86_400)
        for _ in range(2):
            stage.run_lifecycle()
            stage.clock.sleep(300)
    assert TABLE not in stage.dynamo.account.tables
    assert ids(stage) == IDS
    return stage


def entry(stage: Stage) -> Entry:
    return next(entry for entry in stage.catalog.entries("s", consistent=True) if entry.period.label == LABEL)


def items(stage: Stage) -> list[Any]:
    rows: list[Any] = stage.dynamo.account.engine.call("Scan", {"TableName": TABLE, "ConsistentRead": True})["Items"]
    return rows
