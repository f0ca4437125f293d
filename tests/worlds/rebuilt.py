"""Rebuilds of a world, which its runs compute."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.worlds.rolled import MINUTES, START, World
from tests.worlds.runs import begin_run, refresh
from tidetable.ports import Edge
from tidetable.rollup_model.cover import find_present
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.bucket import compute_bucket
from tidetable.rollups.rebuild import describe_rebuild, find_obstacle, find_rebuild, list_rebuilds, order_rebuild
from tidetable.rollups.run import RefreshReport, RefreshRun


def cut_short(patch: pytest.MonkeyPatch, buckets: int = 2, at_once: int = 3) -> None:
    """Let a piece have at most so many buckets, and let so many pieces be cut at once."""
    patch.setattr("tidetable.rollups.rebuild_turn.PIECE_BUCKETS", buckets)
    patch.setattr("tidetable.rollups.rebuild_turn.PIECES_AT_ONCE", at_once)


def seal_hours(first: int, last: int) -> World:
    """Ten-minute buckets are sealed from the hour ``first`` to the hour ``last``, and have no events."""
    world = World((MINUTES,))
    world.rollups.put_edge(
        "s", Edge("m", START + timedelta(hours=first), START + timedelta(hours=last), MINUTES.text), None
    )
    world.sleep(60 * 3_600)
    return world


def order(world: World, definition: Definition, start: datetime, end: datetime) -> str | None:
    """Order a rebuild, as the refresher's function does; return the reason why it cannot be computed yet."""
    services = world.services()
    state = world.rollups.read_state(definition.source)
    version, problem = find_present(definition, state), find_obstacle(definition, state, world.now())
    if version is not None and problem is None:
        order_rebuild(version, start, end, services)
    return problem


def show_progress(world: World, definition: Definition) -> dict[str, Any] | None:
    """The progress of a rebuild; None if there is none."""
    rebuild = find_rebuild(definition, list_rebuilds(world.services(), definition.source))
    return describe_rebuild(definition, rebuild, world.now())


def rebuild(world: World, definition: Definition, start: datetime, end: datetime) -> None:
    """Order a rebuild, and let runs compute it. Sealed buckets are computed two minutes after they were marked."""
    assert order(world, definition, start, end) is None
    for number in range(4):
        refresh(world, f"rebuild {number}")
        if show_progress(world, definition) is None:
            return
        world.sleep(125)
    raise AssertionError(show_progress(world, definition))


def rebuild_alone(world: World, definition: Definition, start: datetime) -> None:
    """Compute the buckets from ``start`` to the rollup's beginning one after another, in one run without pieces."""
    services, source = begin_run(world), definition.source
    run = RefreshRun(source, world.definitions[source], services, RefreshReport(), services.remaining)
    state = world.rollups.read_state(source)
    version = find_present(definition, state)
    assert version is not None
    edge = version.edge
    while edge.start > start:
        compute_bucket(version, edge.start - definition.every, run, state)
        moved = edge._replace(start=edge.start - definition.every)
        assert world.rollups.put_edge(source, moved, edge)
        edge = moved
