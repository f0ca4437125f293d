"""A rollup of a machine with 64 sensors, whose statistics are one cell."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from msgspec.structs import replace

from aws.sketches import DDSketches
from tests.worlds.cells import add_event
from tests.worlds.rolled import MINUTES, START, World, begin_rollups, reading, show_edges
from tidetable.packs.numbers import settle_text
from tidetable.rollup_model.cells import Bucket
from tidetable.rollups.run import RefreshReport

SENSORS = tuple(f"sensor_{number:02}" for number in range(64))
BUCKET = START + timedelta(minutes=40)


def refresh_sensors(decades: int) -> tuple[World, RefreshReport]:
    """Write 64 equal fields whose numbers fill so many decades; the rollup keeps every statistic of each."""
    world = begin_rollups((replace(MINUTES, fields=SENSORS),))
    events = []
    for step in range(100 * decades):
        numbers = dict.fromkeys(SENSORS, Decimal(f"{10 ** (step / 100):.4f}"))
        events.append(reading(41 + step * 0.01, 1, "machine-17", str(step), kind="x", **numbers))
    world.write(*events)
    report = world.refresh()
    assert report is not None
    return world, report


def test_a_cell_of_64_fields_with_every_statistic_fits_into_an_item() -> None:
    world, report = refresh_sensors(8)
    assert (report.over, report.failed, show_edges(world, "m")) == ([], [], ["00:10-01:10"])
    answer = world.ask(step="10m", by="series", field="sensor_63", stat="count,min,max,last,p50")
    (row,) = [row for row in answer.rows if row["count"]]
    assert (row["count"], row["min"], row["max"], row["last"]) == (
        800,
        1,
        Decimal("97723722.0956"),
        Decimal("97723722.0956"),
    )
    assert float(row["p50"]) == pytest.approx(10**4, rel=0.03)


def test_the_cell_needs_no_compression_to_fit() -> None:
    """The fields of this test are equal, which no machine's are: a pack would take much less."""
    bucket = Bucket(replace(MINUTES, fields=SENSORS), DDSketches())
    for step in range(1_000):
        data = dict.fromkeys(SENSORS, Decimal(f"{10 ** (step / 100):.4f}"))
        add_event(bucket, "machine-17", f"2026-03-02T00:40:{step:09}#machine-17#{'f' * 64}", data)
    cell, _ = bucket.make_events(BUCKET)
    assert 150_000 < len(settle_text(cell.data)) < 250_000 < 400 * 1024
