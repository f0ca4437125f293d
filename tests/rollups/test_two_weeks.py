"""Two weeks of random events, cell by cell: what the rollups answer is what sums over the sent events give."""

import random
from collections import defaultdict
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds import rolled
from tests.worlds.rolled import HOURS, LENGTH, MINUTES, PACKED, PLAIN, START, Killed, World, reading
from tidetable.events import Event
from tidetable.times import to_text

DAYS = 14
STATS = ("count", "sum", "min", "max", "first", "last")


def sum_up(events: list[Event], every: timedelta, by: tuple[str, ...]) -> dict[tuple[str, ...], list[Any]]:
    """The values of ``STATS`` of each bucket and group. ``None`` stands for a field that is missing."""
    groups: defaultdict[tuple[str, ...], list[Event]] = defaultdict(list)
    for event in sorted(events, key=lambda event: (event.time, event.series, event.id)):
        bucket = START + (event.time - START) // every * every
        names = [event.series if name == "series" else event.data.get(name) for name in by]
        groups[to_text(bucket), *map(str, names)].append(event)
    found = {}
    for key, members in groups.items():
        numbers = [event.data["mag"] for event in members]
        found[key] = [len(numbers), sum(numbers, Decimal(0)), min(numbers), max(numbers), numbers[0], numbers[-1]]
    return found


def ask_cells(world: World, day: int, step: str, by: tuple[str, ...]) -> dict[tuple[str, ...], list[Any]]:
    """The same of a day, from the rollups alone."""
    start = START + timedelta(days=day)
    span = {"from": to_text(start), "to": to_text(start + timedelta(days=1))}
    answer = world.ask(**span, step=step, by=",".join(by), field="mag", stat=",".join(STATS))
    assert {scan.entry.stream for scan in answer.sources} == {"s-m" if step == "10m" else "s-h"}
    return {
        (row["start"], *(str(row["group"].get(name)) for name in by)): [row[name] for name in STATS]
        for row in answer.rows
    }


def check_cells(world: World, events: list[Event]) -> None:
    """Check the cells of all whole days."""
    for step, every, by in (("10m", MINUTES.every, MINUTES.by), ("1h", HOURS.every, HOURS.by)):
        found: dict[tuple[str, ...], list[Any]] = {}
        for day in range(1, DAYS):
            found |= ask_cells(world, day, step, by)
        first, last = (to_text(START + timedelta(days=day)) for day in (1, DAYS))
        expected = {key: values for key, values in sum_up(events, every, by).items() if first <= key[0] < last}
        assert len(found) > 400
        assert found == expected


def kill_run(world: World, last: int) -> None:
    """Kill a run at one of its requests, and let time pass until its claim ends."""
    calls = 0

    def strike() -> None:
        nonlocal calls
        calls += 1
        if calls >= last:
            raise Killed

    with suppress(Killed):
        world.refresh(0.0, strike, owner="killed")
    world.sleep(LENGTH.total_seconds() + 1)


@pytest.mark.parametrize("layout", [PLAIN, PACKED], ids=["plain", "packed"])
def test_the_cells_of_two_weeks_are_sums_over_the_events(layout: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """New, doubled and overwritten events come on time and up to a day late; some runs are killed."""
    monkeypatch.setattr(rolled, "DAYS", DAYS + 2)
    stats = ("count", "sum", "min", "max", "first", "last")
    world, chance = World((replace(MINUTES, stats=stats), replace(HOURS, stats=stats)), layout), random.Random(14)
    world.adds = True
    world.refresh()
    world.sleep(600)
    states: dict[tuple[str, float], Event] = {}
    added = resealed = 0
    while world.time < START + timedelta(days=DAYS):
        now = (world.time - START).total_seconds() / 60
        minutes = [now - chance.uniform(0, 2), max(now - chance.uniform(2, 1_440), 60)]
        if states and chance.random() < 0.2:
            minutes.append(chance.choice(list(states))[1])
        for minute in dict.fromkeys(minutes):
            mag = chance.choice([Decimal("0.25"), Decimal("-1.5"), 3, 1_000])
            event = reading(max(minute, 60), mag, chance.choice("ab"), kind=chance.choice("xy"))
            for _ in range(chance.choice([1, 1, 1, 2])):
                world.write(event)
            states[event.series, max(minute, 60)] = event
        world.sleep(chance.choice([1_200, 2_400, 4_800]))
        if chance.random() < 0.1:
            kill_run(world, chance.randrange(1, 40))
        report = world.refresh(owner=f"run {now}")
        assert report is not None
        assert report.failed == []
        added, resealed = added + report.added, resealed + report.resealed
    for _ in range(4):
        world.sleep(3_700)
        world.refresh()
    assert not world.rollups.read_state("s").marks
    assert resealed > 100
    assert (added > 200) is (layout is PLAIN)
    check_cells(world, list(states.values()))
