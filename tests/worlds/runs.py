"""Runs of the refresher that end by the clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import refresh_rollups
from tests.worlds.rolled import LENGTH, Killed, World
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


def kill_run(run: Callable[[Callable[[], None]], object], number: int) -> None:
    """Kill a run at its request with this number."""
    left = number

    def strike() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            raise Killed

    with pytest.raises(Killed):
        run(strike)


def kill_runs(prepare: Callable[[], World]) -> Iterator[World]:
    """Yield prepared worlds in which a run was killed: before its first request, and after each.

    Before the other requests it has done no more than after the one before.
    """
    calls = list[int]()
    prepare().refresh(0.0, lambda: calls.append(1))
    assert len(calls) > 30
    for number in (1, *range(2, len(calls) + 1, 2)):
        world = prepare()
        kill_run(partial(world.refresh, 0.0, owner="killed"), number)
        yield world
