"""How soon a stream with a backlog has its workers, in virtual time: all of them if it is alone, else its share."""

from __future__ import annotations

from datetime import timedelta
from random import Random

import pytest

from tests.fakes.refresher import expect_failures
from tests.worlds.crew import Crew
from tests.worlds.divided import divide_short
from tests.worlds.rolled import MINUTES, START, World, reading, show_edges
from tests.worlds.runs import refresh
from tidetable.layout import Layout

WORKERS, PER_BUCKET, BUCKETS, SPEED = 8, 400, 6, 2.5


def begin_backlog(monkeypatch: pytest.MonkeyPatch) -> Crew:
    """Six buckets of 400 events are due. A worker reads 2.5 events per second, so each bucket takes it 160 seconds."""
    monkeypatch.setattr("tidetable.query.units._WHOLE_PAGE", 10)
    divide_short(monkeypatch, part=10, whole=20)
    world, chance = World((MINUTES,), Layout("time", 2, "id", 60)), Random(3)
    refresh(world, "begin")
    first = [bucket * 10 + n * 10 / PER_BUCKET for bucket in range(1, 1 + BUCKETS) for n in range(PER_BUCKET)]
    events = [reading(minute, n % 7, chance.choice("abc"), kind=chance.choice("xyz")) for n, minute in enumerate(first)]
    world.put(world.entry("s", START), events, 1)
    world.sleep(4_500)
    return Crew(world, WORKERS, SPEED, 100, lambda: 1_000_000)


def pass_minutes(crew: Crew, minutes: int) -> list[int]:
    """Let the scheduler run once a minute; return how many parts had a worker 15, 30, 45 and 60 seconds after it."""
    counts = []
    for _ in range(minutes):
        crew.begin_schedule()
        for _ in range(4):
            now = crew.world.time + timedelta(seconds=15)
            crew.go_on(now)
            counts.append(sum(item.is_claimed(now) and not item.done for item in crew.world.work.list_items("part")))
    return counts


def test_a_stream_that_is_alone_has_all_workers_as_soon_as_its_bucket_is_divided(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first run reads 160 events before it finds the bucket to be long, which takes it 64 seconds."""
    crew = begin_backlog(monkeypatch)
    assert pass_minutes(crew, 2)[:5] == [0, 0, 0, 0, 8]
    # The later buckets are known to be long. The 2,240 events that are left take eight workers 112 seconds.
    running = pass_minutes(crew, 2)
    assert sum(running[:5]) > 0.8 * 5 * 8, running
    assert show_edges(crew.world, "m") == ["00:10-01:10"]


@expect_failures("the record of part t#.* cannot be read")
def test_a_stream_keeps_its_share_while_another_one_has_a_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the eight workers have parts of the stream ``t``, which has more of them."""
    crew = begin_backlog(monkeypatch)
    work, now = crew.world.work, crew.world.time
    for number in range(20):
        work.add("part", f"t#m#2026-03-02T00:10:00.000000Z#0#{number:04}", "")
        if number < 4:
            name = f"t#m#2026-03-02T00:10:00.000000Z#0#{number:04}"
            assert work.claim("part", name, "another", now, now + timedelta(hours=1), added=True)
    running = pass_minutes(crew, 4)
    assert max(running) == 4 + 4
    assert not [name for name in crew.queue.messages if name.name.startswith("t")]
