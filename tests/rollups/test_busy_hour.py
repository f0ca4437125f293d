"""An hour of a stream that is too busy for one worker: several workers keep up, and every cell is right."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.crew import Crew
from tests.worlds.rolled import MINUTES, START, World
from tests.worlds.runs import refresh
from tidetable.batch import Batch
from tidetable.events import Event
from tidetable.layout import Layout
from tidetable.rollup_model.bounds import from_millis, to_millis
from tidetable.times import to_text

# Minutes after the start: the rollup begins at the first of them.
FIRST, LAST = 10, 70
PER_MINUTE = 6_000
STATS = ("count", "sum", "min", "max")
# Each limit that counts events, groups or bytes, in thousandths.
LIMITS = {
    "division.PART_EVENTS": 100,
    "division.MOST_WHOLE": 300,
    "bucket.MOST_WHOLE": 300,
    "division._LONG": 1_000,
    "bucket_parts.MOST_PART": 2_000,
    "bucket_parts._PIECE": 300,
    "collect.MOST_GROUPS": 200,
    "collect.MOST_IN_RANGE": 2_000,
    "collect._MOST_HELD": 8_000,
}
# What the events of a minute have: their seconds, their ids, and the data from which each draws.
SECONDS = [f":{number // 100:02}.{number % 100:02}0000Z" for number in range(PER_MINUTE)]
IDS = list(map(str, range(PER_MINUTE)))
DATAS = [{"mag": Decimal(number) / 4, "kind": kind} for number in range(-40, 400) for kind in "xyz"]


def draw_batch(chance: Random, minute: int) -> Batch:
    """Draw the events of a minute, each of one of nine groups."""
    start = to_text(START + timedelta(minutes=minute))[:16]
    times = [start + second for second in SECONDS]
    return Batch(times, chance.choices("abc", k=PER_MINUTE), IDS, chance.choices(DATAS, k=PER_MINUTE), minute)


def draw_late(chance: Random, minute: int, former: Event | None) -> Event:
    """Draw an event of an earlier minute, or the same event as ``former`` with another number."""
    if former is not None:
        return replace(former, data={**former.data, "mag": former.data["mag"] + 1})
    time = START + timedelta(minutes=minute - chance.uniform(4, minute - FIRST))
    return Event(chance.choice("abc"), time, f"late {minute}", chance.choice(DATAS))


class Tally:
    """The values of ``STATS`` that each bucket and group should have."""

    def __init__(self) -> None:
        self._groups: defaultdict[tuple[datetime, str, str], list[Decimal]] = defaultdict(list)

    def add(self, time: datetime, series: Sequence[str], datas: Sequence[Any]) -> None:
        """Add events of the bucket that holds a time."""
        bucket = MINUTES.floor(time)
        for name, data in zip(series, datas, strict=True):
            self._groups[bucket, name, data["kind"]].append(data["mag"])

    def remove(self, event: Event) -> None:
        self._groups[MINUTES.floor(event.time), event.series, event.data["kind"]].remove(event.data["mag"])

    def sum_up(self) -> dict[tuple[str, str, str], list[Any]]:
        return {
            (to_text(bucket), series, kind): [len(mags), sum(mags), min(mags), max(mags)]
            for (bucket, series, kind), mags in self._groups.items()
        }


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
    """100,000 plain events per second, and all limits, in thousandths: 100 events per second, 360,000 in the hour.

    Times, requests of 5 ms, and the number of workers are not divided. A worker computes 50,000 events per second, so one
    worker is too slow; the table delivers 20,000 read units, which are 400,000 events of 200 bytes. A page of 1 MB would
    have five events: it has fifty. Some events come late, new or again, and some workers die with their claims.
    """
    for name, limit in LIMITS.items():
        monkeypatch.setattr(f"tidetable.rollups.{name}", limit)
    monkeypatch.setattr("tidetable.query.units._WHOLE_PAGE", 50)
    world, chance, deaths = World((replace(MINUTES, stats=STATS),), Layout("time", 2, "id", 60)), Random(38), Random(1)
    world.adds = True
    refresh(world, "begin")
    world.sleep(FIRST * 60)
    # One message of twenty ends with the death of its worker, at one of its first 400 requests.
    crew = Crew(world, 8, 50, 400, lambda: deaths.randrange(1, 400) if deaths.random() < 0.05 else 1_000_000)
    tally, firsts = Tally(), list[Event]()
    waits: list[timedelta] = []
    for minute in range(FIRST, LAST + 50):
        now = START + timedelta(minutes=minute + 1)
        if minute < LAST:
            batch = draw_batch(chance, minute)
            world.put_batch(world.entry("s", world.time), batch)
            tally.add(now - timedelta(minutes=1), batch.series, batch.datas)
            firsts.append(batch.make_event(0))
            if minute > 25 and minute % 3 == 0:
                # Two of the late events came before, with another number.
                former = chance.choice(firsts[:-5]) if minute in (36, 57) else None
                late = draw_late(chance, minute, former)
                world.write(late)
                if former is not None:
                    tally.remove(former)
                tally.add(late.time, [late.series], [late.data])
        crew.begin_schedule()
        crew.go_on(now)
        # The name of a part says when it was added.
        parts = [item.name.split("#")[3] for item in world.work.list_items("part") if not item.done]
        waits.append(now - from_millis(min(map(int, parts), default=to_millis(now))))
    reports, standings = zip(*crew.found, strict=True)
    lag, waited = max(standing.lag for standing in standings), max(waits)
    # A bucket takes five minutes. A worker that dies with a claim holds it up for two minutes more, and the parts of
    # marked buckets wait behind the parts of newer buckets.
    assert (lag < timedelta(minutes=9), waited < timedelta(minutes=8)) == (True, True), (lag, waited)
    assert (reports[-1].due, standings[-1].marks, crew.queue.messages) == (0, 0, [])
    assert crew.died == 12
    assert min(crew.events_read) > sum(crew.events_read) / 10
    assert ask_cells(world) == tally.sum_up()
