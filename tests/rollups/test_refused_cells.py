"""Cells that DynamoDB refuses for ever: their bucket is read from its events."""

from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.rolled import MINUTES, QUERIES, START, begin_rollups, reading
from tidetable.catalog import State
from tidetable.errors import PutRefused
from tidetable.ports import Written


@pytest.mark.parametrize("state", [State.OPEN, State.CLOSED])
def test_a_bucket_whose_cell_dynamodb_refuses_is_over_and_read_from_its_events(state: State) -> None:
    """A retry would be refused, too, and would delay every later bucket."""
    world = begin_rollups((MINUTES,))
    entry = world.entry("s-m", START)
    world.catalog.items["s-m", entry.period] = replace(entry, state=state)
    world.write(reading(45, 1))

    def refuse_puts(puts: Any, *_: Any) -> Any:
        return Written(unwritten=list(puts), refused={put.slot: "ValidationException: no" for put in puts})

    def refuse_transaction(*_: Any) -> Any:
        raise PutRefused("ValidationException: no")

    world.store.write_each = refuse_puts  # type: ignore[method-assign, assignment]
    world.store.transact = refuse_transaction  # type: ignore[method-assign, assignment]
    report = world.refresh()
    assert report is not None
    assert (report.failed, report.blocked) == ([], [])
    assert report.over == ["s-m 2026-03-02T00:40:00.000000Z: DynamoDB refuses a cell: ValidationException: no"]
    assert world.check(QUERIES) > 0
