"""Removing notes: which go, in which order, and what a sweep leaves to the next."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import chain, repeat
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.noted import list_pages
from tests.worlds.rolled import MINUTES, SERIES, START, World
from tidetable.catalog import State
from tidetable.ports import Noting
from tidetable.rollup_model.bounds import to_millis
from tidetable.rollups.series_index_upkeep import begin_noting, sweep_notes

DAY, HOUR, MOMENT = timedelta(days=1), timedelta(hours=1), timedelta(microseconds=1)
AT = START + 5 * DAY
LABELS = ("2026-03-02", "2026-03-03")


def world_of(*deleted: datetime) -> World:
    """A world by series: the tables of the first days were deleted at these instants, and each has a note of before."""
    world = World((MINUTES,), SERIES)
    for number, at in enumerate(deleted):
        entry = world.entry("s", START + number * DAY)
        world.catalog.items["s", entry.period] = replace(entry, state=State.DELETED, deleted_at=at)
        world.rollups.put_notes("s", LABELS[number], list_pages("a"), to_millis(START))
    return world


def sweep(world: World, *remaining: float) -> None:
    """Sweep with so much time left at each look, and with enough after that."""
    looks = chain(remaining, repeat(remaining[-1] if remaining else 100.0))
    sweep_notes("s", world.rollups.read_state("s"), replace(world.services(), remaining=lambda: next(looks)))


def left(world: World) -> Sequence[str]:
    return [label for label in LABELS if world.rollups.notes.get(("s", label))]


@pytest.mark.parametrize(("after", "kept"), [(-HOUR, 0), (23 * HOUR, 0), (24 * HOUR, 1), (25 * HOUR, 1)])
def test_notes_that_were_put_within_a_day_of_the_deletion_go_too(after: timedelta, kept: int) -> None:
    """A process that noted a series before the deletion may note it again for a day; a restore notes later."""
    world = world_of(AT)
    world.rollups.put_notes("s", LABELS[0], list_pages("b"), to_millis(AT + after))
    world.time = AT + 3 * DAY
    sweep(world)
    assert list(world.rollups.notes["s", LABELS[0]]) == ["b"] * kept


@pytest.mark.parametrize(
    ("deleted", "removed", "swept"),
    [
        # The first deleted goes first, and the other counts as not yet looked at.
        ((AT + HOUR, AT), 1, AT + HOUR - MOMENT),
        # Of two that were deleted at one instant neither is behind the sweep.
        ((AT, AT), 0, AT - MOMENT),
    ],
)
def test_a_sweep_whose_time_is_up_between_two_periods_leaves_the_second_to_the_next(
    deleted: tuple[datetime, datetime], removed: int, swept: datetime
) -> None:
    world = world_of(*deleted)
    world.time = AT + 3 * DAY
    # Two looks for the first period: its notes, and that there are no more.
    sweep(world, 100.0, 100.0, 0.0)
    assert left(world) == [LABELS[1 - removed]]
    assert world.rollups.noting["s"].swept == swept
    sweep(world)
    assert left(world) == []


def test_a_sweep_needs_more_than_the_reserve_of_a_request() -> None:
    world = world_of(AT)
    world.time = AT + 3 * DAY
    sweep(world, 3.0)
    assert left(world) == [LABELS[0]]
    sweep(world, 3.1)
    assert left(world) == []


def test_a_table_whose_deletion_is_not_dated_keeps_its_notes() -> None:
    world = world_of(AT)
    entry = world.entry("s", START)
    world.catalog.items["s", entry.period] = replace(entry, deleted_at=None)
    world.time = AT + 3 * DAY
    sweep(world)
    assert left(world) == [LABELS[0]]


def test_what_another_run_noted_first_stands() -> None:
    """Two runs begin at once: the second reads what the first wrote."""
    world = world_of()
    world.rollups.noting.clear()
    state = world.rollups.read_state("s")
    first = Noting(START + HOUR, START)
    world.rollups.noting["s"] = first
    assert begin_noting("s", timedelta(0), state, world.services()).noting == first
    assert world.rollups.noting["s"] == first


def test_a_sweep_after_a_pause_looks_at_deletions_of_four_days_before_it() -> None:
    world = world_of()
    world.rollups.noting["s"] = Noting(START, AT, stopped=True)
    world.time = AT + HOUR
    begun = begin_noting("s", timedelta(minutes=5), world.rollups.read_state("s"), world.services()).noting
    assert begun == Noting(AT + HOUR + timedelta(minutes=15), AT - 4 * DAY)


def test_notes_go_in_the_very_moment_in_which_no_process_remembers_them() -> None:
    """What a sweep has passed is never looked at again."""
    world = world_of(AT)
    world.time = AT + 2 * DAY
    sweep(world)
    assert (left(world), world.rollups.noting["s"].swept) == ([], AT)


def test_a_deletion_that_the_catalog_reads_late_is_not_passed_over() -> None:
    world = world_of(AT)
    world.catalog.stale = {}
    world.time = AT + 3 * DAY
    sweep(world)
    assert left(world) == []


@pytest.mark.parametrize(("after", "looks"), [(HOUR - MOMENT, 0), (HOUR, 1)])
def test_the_catalog_is_searched_for_deletions_once_an_hour(after: timedelta, looks: int) -> None:
    """It is read from its first period on, and runs come every minute."""
    world = world_of()
    world.time = AT
    sweep(world)
    world.catalog.reads.clear()
    world.time = AT + after
    sweep(world)
    assert len(world.catalog.reads) == looks


def test_only_once_a_day_all_periods_are_read() -> None:
    """A period that was restored, and deleted again behind periods that were swept, is found then."""
    world = world_of(AT, AT + HOUR)
    world.catalog.horizons["s"] = START + 2 * DAY
    world.time = AT + 2 * DAY + HOUR
    sweep(world)
    assert left(world) == []
    entry = world.entry("s", START)
    world.catalog.items["s", entry.period] = replace(entry, deleted_at=AT + 2 * HOUR)
    world.rollups.put_notes("s", LABELS[0], list_pages("a"), to_millis(START))
    walked: list[datetime] = []
    walk = world.catalog.walk

    def note(*given: Any, **options: Any) -> Any:
        for entry in walk(*given, **options):
            walked.append(entry.period.start)
            yield entry

    world.catalog.walk = note  # type: ignore[method-assign]
    world.time += 2 * HOUR
    sweep(world)
    assert walked == [START + 2 * DAY, START + DAY], "up to the entry before the horizon, which was swept already"
    assert left(world) == [LABELS[0]]
    world.time += 24 * HOUR
    sweep(world)
    assert left(world) == []
