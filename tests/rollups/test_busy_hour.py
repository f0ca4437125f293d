"""An hour of a stream that is too busy for one worker: several workers keep up, and every cell is right."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.crew import Crew
from tests.worlds.rolled import MINUTES, START, World, reading
from tests.worlds.runs import refresh
from tidetable.layout import Layout
from tidetable.rollup_model.bounds import from_millis, to_millis
from tidetable.times import to_text

# Minutes after the start: the rollup begins at the first of them.
FIRST, LAST = 10, 70
PER_MINUTE = 300
STATS = ("count", "sum", "min", "max")
# Each limit that counts events, groups or bytes, in twenty-thousandths.
LIMITS = {
    "division.PART_EVENTS": 5,
    "division.MOST_WHOLE": 15,
    "bucket.MOST_WHOLE": 15,
    "division._LONG": 50,
    "bucket_parts.MOST_PART": 100,
    "bucket_parts._PIECE": 15,
    "collect.MOST_GROUPS": 10,
    "collect.MOST_IN_RANGE": 100,
    "collect._MOST_HELD": 400,
}


def draw_reading(chance: Random, minute: float) -> Any:
    """Draw an event of one of nine groups."""
    mag = Decimal(chance.randrange(-40, 400)) / 4
    return reading(minute, mag, chance.choice("abc"), kind=chance.choice("xyz"))


def sum_up(events: Any) -> dict[tuple[str, str, str], list[Any]]:
    """The values of ``STATS`` of each bucket and group."""
    groups: defaultdict[tuple[str, str, str], list[Any]] = defaultdict(list)
    for event in events:
        bucket = START + (event.time - START) // MINUTES.every * MINUTES.every
        groups[to_text(bucket), event.series, event.data["kind"]].append(event.data["mag"])
    return {group: [len(mags), sum(mags), min(mags), max(mags)] for group, mags in groups.items()}


def ask_cells(world: World) -> dict[tuple[str, str, str], list[Any]]:
    """The same from the rollup alone."""
    span = {name: to_text(START + timedelta(minutes=minute)) for name, minute in (("from", FIRST), ("to", LAST))}
    answer = world.ask(**span, step="10m", by="series,kind", field="mag", stat=",".join(STATS))
    assert {scan.entry.stream for scan in answer.sources} == {"s-m"}
    return {
        (row["start"], row["group"]["series"], row["group"]["kind"]): [row[name] for name in STATS]
        for row in answer.rows
    }


def test_workers_keep_up_with_a_busy_stream_for_an_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    """100,000 plain events per second, and all limits, in twenty-thousandths: 5 events per second, 18,000 in the hour.

    Times, requests of 5 ms, and the number of workers are not divided. A worker computes 50,000 events per second, so one
    worker is too slow; the table delivers 20,000 read units, which are 400,000 events of 200 bytes. A page of 1 MB would
    have a quarter of an event: it has ten. Some events come late, new or again, and some workers die with their claims.
    """
    for name, limit in LIMITS.items():
        monkeypatch.setattr(f"tidetable.rollups.{name}", limit)
    monkeypatch.setattr("tidetable.query.units._WHOLE_PAGE", 10)
    world, chance, deaths = World((replace(MINUTES, stats=STATS),), Layout("time", 2, "id", 60)), Random(38), Random(1)
    world.adds = True
    refresh(world, "begin")
    world.sleep(FIRST * 60)
    # One message of twenty ends with the death of its worker, at one of its first 400 requests.
    crew = Crew(world, 8, 2.5, 20, lambda: deaths.randrange(1, 400) if deaths.random() < 0.05 else 1_000_000)
    sent: dict[tuple[str, Any], Any] = {}
    waits: list[timedelta] = []
    for minute in range(FIRST, LAST + 50):
        now = START + timedelta(minutes=minute + 1)
        if minute < LAST:
            events = [draw_reading(chance, minute + n / PER_MINUTE) for n in range(PER_MINUTE)]
            world.put(world.entry("s", world.time), events, minute)
            if minute > 25 and minute % 3 == 0:
                late = draw_reading(chance, minute - chance.uniform(4, minute - FIRST))
                if minute in (36, 57):
                    # An event comes again, with another number.
                    former = chance.choice([event for event in sent.values() if event.time < late.time])
                    late = replace(former, data=former.data | {"mag": late.data["mag"]})
                world.write(late)
                events.append(late)
            sent |= {(event.series, event.time): event for event in events}
        crew.begin_schedule()
        crew.go_on(now)
        # The name of a part says when it was added.
        parts = [item.name.split("#")[3] for item in world.work.list_items("part") if not item.done]
        waits.append(now - from_millis(min(map(int, parts), default=to_millis(now))))
    reports, standings = zip(*crew.found, strict=True)
    lag, waited = max(standing.lag for standing in standings), max(waits)
    # A bucket takes five minutes. A worker that dies with the stream's claim holds it up for two minutes more, and the
    # parts of marked buckets wait behind the parts of newer buckets.
    assert (lag < timedelta(minutes=9), waited < timedelta(minutes=8)) == (True, True), (lag, waited)
    assert (reports[-1].due, standings[-1].marks, crew.queue.messages) == (0, 0, [])
    assert crew.died == 6
    assert min(crew.events_read) > sum(crew.events_read) / 10
    assert ask_cells(world) == sum_up(sent.values())
