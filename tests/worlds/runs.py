"""Runs of the refresher that end by the clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from msgspec.structs import replace

from tests.worlds.rolled import LENGTH, World
from tidetable.rollups.refresh import refresh_rollups
from tidetable.rollups.run import RefreshReport
from tidetable.rollups.services import Services

# The seconds that a run has.
LIFE = 295.0


def begin_run(world: World, strike: Callable[[], None] = lambda: None) -> Services:
    """The services of a run that begins now, and ends when its time is up by the clock."""
    end = world.time + timedelta(seconds=LIFE)
    return replace(world.services(0.0, strike), remaining=lambda: (end - world.time).total_seconds())


def refresh(world: World, owner: str, strike: Callable[[], None] = lambda: None) -> RefreshReport:
    report = refresh_rollups(world.definitions, begin_run(world, strike), owner, LENGTH)
    assert report is not None
    return report
