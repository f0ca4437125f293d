"""Two schedulers at the same time, and workers that get every message twice, in any order, also while others work on it."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from tests.worlds.crew import Crew
from tests.worlds.divided import EVENTS, divide_short, list_cells, prepare
from tests.worlds.rolled import QUERIES, reading, show_edges
from tests.worlds.runs import refresh
from tidetable.work.claim import Pause

AGAIN = reading(61, 99, "a", "4", kind="y")


def begin_crew(seed: int) -> Crew:
    """Four workers whose queue delivers each message twice, and the others in any order."""
    crew = Crew(prepare(events=EVENTS), 4, 4, 16, lambda: 1_000_000)
    crew.double_messages(Random(seed))
    return crew


def list_whole() -> list[object]:
    """The cells of one run at a time that reads whole buckets."""
    with pytest.MonkeyPatch.context() as patch:
        divide_short(patch, part=1_000, whole=1_000)
        world = prepare(events=EVENTS)
        refresh(world, "run")
        world.write(AGAIN)
        for _ in range(3):
            world.sleep(600)
            refresh(world, "run")
    return list_cells(world)


@pytest.mark.parametrize("pause", [Pause("seal", "s"), Pause("seal", "*"), Pause("sweep", "*"), Pause("seal", "t")])
def test_two_schedulers_and_doubled_messages(monkeypatch: pytest.MonkeyPatch, pause: Pause) -> None:
    """A pause holds while messages of two schedulers are under way; a pause of another kind or stream holds nothing."""
    whole = list_whole()
    divide_short(monkeypatch, part=2, whole=3)
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 2.0)
    holds = pause in (Pause("seal", "s"), Pause("seal", "*"))
    for seed in (0, 2):
        crew = begin_crew(seed)
        world = crew.world
        crew.begin_schedule()
        crew.go_on(world.time + timedelta(seconds=12))
        assert world.work.list_items("part"), seed
        world.work.set_pause(pause, on=True)
        # Workers go on for two seconds with what they have.
        crew.schedule_twice(8)
        assert (show_edges(world, "m") == ["00:10-01:00"]) is holds, seed
        world.work.set_pause(pause, on=False)
        crew.schedule_twice(12)
        assert (show_edges(world, "m"), world.check(QUERIES) > 0) == (["00:10-01:20"], True), seed
        world.write(AGAIN)
        crew.schedule_twice(30)
        assert (world.check(QUERIES) > 0, world.work.list_items("part"), world.rollups.parts) == (True, [], {}), seed
        assert list_cells(world)[: len(whole)] == whole, seed
        assert crew.found[-1][1].marks == 0, seed
