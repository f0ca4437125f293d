"""Runs of the refresher that end by the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.worlds.rolled import LENGTH, Killed, World
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


def kill_runs(prepare: Callable[[], World]) -> Iterator[World]:
    """Yield prepared worlds in which a run was killed: before its first request, and after each.

    Before the other requests it has done no more than after the one before.
    """
    calls, kill = 0, 0

    def strike() -> None:
        nonlocal calls
        calls += 1
        if 0 < kill <= calls:
            raise Killed

    prepare().refresh(0.0, strike)
    total = calls
    assert total > 30
    for kill in (1, *range(2, total + 1, 2)):  # noqa: B007 - ``strike`` reads it
        world, calls = prepare(), 0
        with pytest.raises(Killed):
            world.refresh(0.0, strike, owner="killed")
        yield world
