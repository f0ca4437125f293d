"""A change of the auto scaling policy that was interrupted: nothing goes on by the former policy."""

from typing import Any

import pytest

from tests.lifecycle.world import SCALED, World, configuration

BOTH = SCALED.replace("max = 100 }", "max = 100 }, read = { min = 10, max = 20 }")
TABLES = ["tidetable-t.s.2026-03-14", "tidetable-t.s.2026-03-15"]


class Calls:
    """Application Auto Scaling that keeps the tables that were deregistered, or does not answer."""

    def __init__(self) -> None:
        self.answers = False
        self.tables: list[str] = []

    def deregister(self, table: str, *_: Any) -> None:
        if not self.answers:
            raise ConnectionError("no answer")
        self.tables.append(table)


@pytest.mark.parametrize("capacity", [SCALED, BOTH], ids=["the new policy", "the former policy again"])
def test_a_change_that_was_interrupted_takes_the_former_policy_back_in_the_next_run(capacity: str) -> None:
    """The service does not answer in the first run after reads left the policy. The next run has one of both policies."""
    world, calls = World(capacity=BOTH), Calls()
    world.run()
    world.after(minutes=5)
    world.scaling.deregister = calls.deregister  # type: ignore[method-assign, assignment]
    world.config = configuration(capacity=SCALED)
    assert not world.after(minutes=5).healthy
    world.config, calls.answers = configuration(capacity=capacity), True
    assert world.after(minutes=5).healthy
    assert sorted(calls.tables) == TABLES
    assert world.after(minutes=5).done == []
