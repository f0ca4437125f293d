"""Buckets that are divided although they have few events."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.worlds.rolled import MINUTES, World, reading
from tests.worlds.runs import refresh
from tidetable.layout import Layout
from tidetable.rollups.writing import read_present

# Ten minutes after 01:00 have forty events, so they have four parts of ten events.
EVENTS = [reading(60 + n / 4, n % 7, "ab"[n % 2], f"{n}", kind="xyz"[n % 3]) for n in range(40)]


def divide_short(patch: pytest.MonkeyPatch, part: int = 1, whole: int = 1) -> None:
    """Let a part have about ``part`` events, and let a bucket with more than ``whole`` events be divided."""
    for name in ("PART_EVENTS", "_LONG"):
        patch.setattr(f"tidetable.rollups.division.{name}", part)
    for module in ("collect", "division"):
        patch.setattr(f"tidetable.rollups.{module}.PACKED", 1)
    for module in ("bucket", "division"):
        patch.setattr(f"tidetable.rollups.{module}.MOST_WHOLE", whole)


def prepare(layout: Layout | None = None, definitions: Any = (MINUTES,), events: Any = EVENTS) -> World:
    """A world whose bucket of 01:00 has events and is due, after empty buckets."""
    world = World(definitions, layout) if layout else World(definitions)
    refresh(world, "begin")
    world.sleep(4_300)
    world.write(*events)
    world.sleep(120)
    return world


def list_cells(world: World) -> list[Any]:
    """The cells of the rollup of minutes, with what they hold."""
    cells = list[Any]()
    for entry in world.catalog.entries("s-m", consistent=True):
        bucket = entry.period.start
        while bucket < entry.period.end:
            cells += read_present(entry, bucket, world.services()).events.items()
            bucket += MINUTES.every
    return sorted((place, text) for place, (_, text) in cells)


def list_filled(world: World) -> list[Any]:
    """The cells with events. An event that changed its group leaves a cell without events, if it had been sealed before."""
    return [cell for cell in list_cells(world) if '"count":0' not in cell[1]]


def draw_event(chance: Random, now: float) -> Any:
    """An event on time, or late by minutes, hours or days; some are on whole quarters, so that they are overwritten."""
    age = chance.choice([0.0, 1.0, 1.0, 5.0, 61.0, 600.0, 3_000.0])
    minutes = max(now - age, 60.0)
    minutes = float(minutes // 15 * 15) if chance.random() < 0.5 else minutes
    return reading(minutes, chance.randrange(9), chance.choice("ab"), chance.choice("pq"), kind=chance.choice("xyz"))
