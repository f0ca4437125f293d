"""The lifecycle stopped after every single call that it makes, in turn, and run again."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.lifecycle.world import NOON, World


class Killed(BaseException):
    """The function ended here; nothing catches it, as nothing catches a time-out."""


class _Counting:
    """Passes calls through to a fake and ends the run after the n-th over all fakes."""

    def __init__(self, target: Any, allowance: list[int]) -> None:
        self._target = target
        self._allowance = allowance

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._target, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = attribute(*args, **kwargs)
            self._allowance[0] -= 1
            if self._allowance[0] <= 0:
                raise Killed
            return answer

        return call


def _run_killed_after(world: World, calls: int) -> bool:
    """Whether the run was killed before it had done everything."""
    real: Callable[..., Any] = World.parts
    allowance = [calls]
    parts = real(world)
    parts.catalog, parts.tables = _Counting(parts.catalog, allowance), _Counting(parts.tables, allowance)
    parts.archiver = _Counting(parts.archiver, allowance)
    world.parts = lambda: parts  # type: ignore[method-assign]
    try:
        world.run()
    except Killed:
        return True
    finally:
        world.parts = lambda: real(world)  # type: ignore[method-assign]
        # The lease of a killed run runs out.
        world.clock.time += timedelta(seconds=1001)
    return False


def _expected() -> tuple[Any, Any, Any]:
    world = World()
    world.run()
    world.at(NOON + timedelta(days=7))
    return world.states(), world.levels(), set(world.archive.periods)


@pytest.mark.parametrize("start", range(1, 200, 20))
def test_a_run_killed_after_any_call_is_finished_by_the_next(start: int) -> None:
    expected = _expected()
    for calls in range(start, start + 20):
        world = World()
        world.run()
        world.clock.time = NOON + timedelta(days=7)
        _run_killed_after(world, calls)
        world.run()
        world.run()
        assert (world.states(), world.levels(), set(world.archive.periods)) == expected, f"killed after {calls} calls"
        assert world.run().done == []


def test_the_calls_tried_above_reach_the_end_of_a_run() -> None:
    world = World()
    world.run()
    world.clock.time = NOON + timedelta(days=7)
    assert not _run_killed_after(world, 199)
