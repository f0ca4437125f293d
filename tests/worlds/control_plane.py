"""Streams on a control plane with the measured durations, and the service's own view of their tables."""

from datetime import UTC, datetime
from typing import Any

from tests.fakes.stage import Stage
from tidetable.catalog import Entry

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
KEY = "arn:aws:kms:us-east-1:000000000000:key/11111111-2222-3333-4444-555555555555"
LIFECYCLE = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
stagger = "0s"
"""
LADDER = """
mode = "provisioned"
ladder = [{ age = 0, write = 10, read = 10 }, { age = 1, write = 2, read = 5 }]
"""
# In TOML, an index is declared after the stream's own keys.
INDEX_AFTER = """
[[streams.s.index]]
name = "status"
partition_by = "status"
"""


def stream(name: str, *, capacity: str = LADDER, table: str = "", more: str = "", key: str = "") -> str:
    return f"""
[streams.{name}]
period = "day"
late = "1d"
retention = 3
{more}
[streams.{name}.key]
partition_by = "series"
{key}
[streams.{name}.table]
{table}
[streams.{name}.capacity]
{capacity}
"""


def tables(stage: Stage, name: str = "s") -> dict[str, Any]:
    """The tables of a stream as the service itself holds them, by the labels of their periods."""
    prefix = f"tidetable-lapse.{name}."
    stage.dynamo.account.settle()
    return {
        table.removeprefix(prefix): held
        for table, held in stage.dynamo.account.tables.items()
        if table.startswith(prefix)
    }


def entry(stage: Stage, label: str, name: str = "s") -> Entry:
    return next(entry for entry in stage.catalog.entries(name, consistent=True) if entry.period.label == label)


def quiet(stage: Stage) -> None:
    """Run the lifecycle a few times, and check that it then has nothing to do."""
    for _ in range(6):
        stage.clock.sleep(300)
        report = stage.run_lifecycle()
    assert (report.done, report.healthy) == ([], True)
