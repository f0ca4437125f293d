"""The capacity of tables against the control plane as it was measured: what CreateTable says, maxima, decreases of a day."""

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fakes.stage import Stage
from tests.worlds.control_plane import INDEX_AFTER, KEY, LIFECYCLE, NOON, entry, quiet, stream, tables
from tidetable.config import parse

# What CreateTable says


def test_a_table_is_made_with_its_streams_key_change_stream_and_maxima() -> None:
    capacity = 'mode = "on-demand"\nmax = { write = 500, read = 600 }'
    table = f'encryption = "{KEY}"\nstream = "new-and-old-images"'
    stage = Stage(NOON, LIFECYCLE + stream("s", capacity=capacity, table=table, more=INDEX_AFTER))
    made: list[Any] = []
    create = stage.client.create_table
    stage.tables._client = _Recording(stage.client, made)  # type: ignore[assignment]
    assert create is not None
    stage.run_lifecycle()
    assert len(made) == 4
    for request in made:
        assert request["SSESpecification"] == {"Enabled": True, "SSEType": "KMS", "KMSMasterKeyId": KEY}
        assert request["StreamSpecification"] == {"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"}
        assert request["OnDemandThroughput"] == {"MaxWriteRequestUnits": 500, "MaxReadRequestUnits": 600}
        (index,) = request["GlobalSecondaryIndexes"]
        assert index["OnDemandThroughput"] == {"MaxWriteRequestUnits": 500, "MaxReadRequestUnits": 600}


class _Recording:
    """Passes calls on, and notes the requests for tables."""

    def __init__(self, client: Any, made: list[Any]) -> None:
        self._client = client
        self._made = made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def create_table(self, **request: Any) -> Any:
        self._made.append(request)
        return self._client.create_table(**request)


# Maxima


MAXIMA = """
mode = "provisioned"
max = { write = 500, read = 600 }
ladder = [{ age = 0, mode = "on-demand" }, { age = 1, write = 2, read = 5 }]
"""


def test_maxima_are_there_again_after_a_table_was_provisioned_for_a_while() -> None:
    stage = Stage(
        NOON, LIFECYCLE + stream("s", capacity=MAXIMA, more=INDEX_AFTER).replace("retention = 3", "retention = 9")
    )
    stage.run_lifecycle()
    stage.clock.sleep(3 * 86_400)
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    table = tables(stage)["2026-03-14"]
    assert (table.on_demand, table.write, table.maximum, table.indexes["status"].maximum) == (False, 2, {}, {})
    # A longer window makes the table young again.
    longer = (
        stream("s", capacity=MAXIMA, more=INDEX_AFTER).replace("retention = 3", "retention = 9").replace('"1d"', '"8d"')
    )
    stage.config = parse(LIFECYCLE + longer)
    quiet(stage)
    assert (table.on_demand, table.maximum, table.indexes["status"].maximum) == (
        True,
        {"Write": 500, "Read": 600},
        {"Write": 500, "Read": 600},
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [("max = { write = 700, read = 800 }", {"Write": 700, "Read": 800}), ("", {})],
    ids=["others", "none"],
)
def test_other_maxima_hold_for_open_tables_from_the_next_run(line: str, expected: dict[str, int]) -> None:
    first = 'mode = "on-demand"\nmax = { write = 500, read = 600 }'
    stage = Stage(NOON, LIFECYCLE + stream("s", capacity=first, more=INDEX_AFTER))
    stage.run_lifecycle()
    stage.config = parse(LIFECYCLE + stream("s", capacity=f'mode = "on-demand"\n{line}', more=INDEX_AFTER))
    quiet(stage)
    for table in tables(stage).values():
        assert table.maximum == expected
        assert table.indexes["status"].maximum == expected


# Decreases of a day

STEPS = """
mode = "provisioned"
ladder = [
    { age = 0, write = 60, read = 10 },
    { age = 1, write = 50, read = 10 },
    { age = 2, write = 40, read = 10 },
    { age = 3, write = 30, read = 10 },
    { age = 4, write = 20, read = 10 },
    { age = 5, write = 10, read = 10 },
]
"""
INDEX_STEPS = """
mode = "provisioned"
ladder = [
    { age = 0, write = 10, read = 10, index = { status = { write = 60, read = 10 } } },
    { age = 1, write = 10, read = 10, index = { status = { write = 50, read = 10 } } },
    { age = 2, write = 10, read = 10, index = { status = { write = 40, read = 10 } } },
    { age = 3, write = 10, read = 10, index = { status = { write = 30, read = 10 } } },
    { age = 4, write = 10, read = 10, index = { status = { write = 20, read = 10 } } },
    { age = 5, write = 10, read = 10, index = { status = { write = 10, read = 10 } } },
]
"""


@pytest.mark.parametrize(("capacity", "more"), [(STEPS, ""), (INDEX_STEPS, INDEX_AFTER)], ids=["table", "index alone"])
def test_the_fifth_decrease_of_a_day_is_deferred_and_never_refused(capacity: str, more: str) -> None:
    """A table that is raised by hand after each run must be lowered again: four times at once, then an hour after the last."""
    config = LIFECYCLE + stream("s", capacity=capacity, more=more).replace('"day"', '"hour"').replace('"1d"', '"0s"')
    stage = Stage(datetime(2026, 3, 15, 5, 1, tzinfo=UTC), config.replace("retention = 3", "retention = 40"))
    stage.run_lifecycle()
    stage.clock.time = datetime(2026, 3, 15, 14, 1, tzinfo=UTC)
    name = "tidetable-lapse.s.2026-03-15T05"
    seen: list[tuple[str, str]] = []
    for _ in range(6):
        report = stage.run_lifecycle()
        seen += [(result.action.name, result.outcome) for result in report.done if result.action.entry.table == name]
        stage.clock.sleep(5)
        raised = {"WriteCapacityUnits": 60, "ReadCapacityUnits": 10}
        update: dict[str, Any] = {"ProvisionedThroughput": raised}
        if more:
            update = {
                "GlobalSecondaryIndexUpdates": [{"Update": {"IndexName": "status", "ProvisionedThroughput": raised}}]
            }
        if any(result.action.name == "capacity" and result.action.entry.table == name for result in report.done):
            stage.client.update_table(TableName=name, **update)
            stage.clock.sleep(5)
        # The lifecycle looks at a closed table within the hour; here at each run.
        stage.catalog.note(entry(stage, "2026-03-15T05"), _looked_at(stage, name))
    assert [outcome for outcome in seen if outcome[0] in ("capacity", "deferred")] == [("capacity", "done")] * 4 + [
        ("deferred", "deferred")
    ] * 2


def _looked_at(stage: Stage, name: str) -> Any:
    table = stage.tables.describe(name)
    assert table is not None
    assert table.seen is not None
    return table.seen
