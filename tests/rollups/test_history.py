"""On random histories an aggregate with rollups is the aggregate of the events, at every moment, also within a refresher's run.

A history has late, doubled and overwritten events, writers that mark, and write up to their last moment, refreshers that are
killed before or after any of their requests, clocks that are wrong, archives, restores, and changes of a definition.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.worlds.divided import divide_short
from tests.worlds.rebuilt import cut_short, order
from tests.worlds.rolled import (
    BY_SUFFIX,
    HOURS,
    LENGTH,
    MINUTES,
    PACKED,
    PACKED_SERIES,
    PLAIN,
    QUERIES,
    SERIES,
    START,
    Killed,
    World,
    reading,
)
from tests.worlds.runs import kill_runs
from tidetable.catalog import State
from tidetable.events import Event

LAYOUTS = [PLAIN, PACKED, BY_SUFFIX, SERIES, PACKED_SERIES]
NAMES = ["items", "packs", "packs by suffix", "items by series", "packs by series"]
# Half of what two clocks may differ by.
ERRORS = st.sampled_from([-5.0, 0.0, 5.0])
AGES = st.sampled_from([0, 60, 119, 121, 125, 300, 1_800, 7_200])
EVENTS = st.tuples(
    AGES,
    st.sampled_from("ab"),
    st.sampled_from([None, "x", "y"]),
    st.integers(-3, 3) | st.sampled_from([Decimal("1.5"), Decimal("-0.5")]),
    st.sampled_from("pq"),
    st.booleans(),
)
ACTIONS = st.one_of(
    st.tuples(st.just("write"), st.lists(EVENTS, min_size=1, max_size=3), ERRORS),
    st.tuples(st.just("step"), st.integers(0, 3)),
    st.tuples(st.just("sleep"), st.sampled_from([1, 30, 95, 130, 600, 3_600])),
    st.tuples(st.just("refresh"), ERRORS, st.none() | st.integers(1, 60), st.lists(st.integers(0, 40), max_size=3)),
    st.tuples(st.just("archive"), st.sampled_from(["s", "s-m"])),
    st.tuples(st.just("restore"), st.sampled_from(["s", "s-m"])),
    st.tuples(
        st.just("define"),
        st.sampled_from([MINUTES, replace(MINUTES, by=("kind",)), replace(MINUTES, every=timedelta(minutes=20))]),
    ),
    st.tuples(st.just("rebuild"), st.integers(0, 6)),
)


def event_of(world: World, drawn: tuple[Any, ...], error: float) -> Event:
    """An event that is so old for a writer. Some are on whole minutes, so that they are overwritten."""
    age, series, kind, mag, id, whole = drawn
    minutes = ((world.time - START).total_seconds() + error - age) / 60
    minutes = float(int(minutes // 5 * 5)) if whole else minutes
    return reading(max(minutes, 0.0), mag, series, id, kind=kind)


def act(world: World, action: tuple[Any, ...]) -> None:  # noqa: C901 - a table of actions
    kind, *rest = action
    match kind:
        case "write":
            drawn, error = rest
            world.begin([event_of(world, drawing, error) for drawing in drawn], error)
        case "step":
            if world.writers:
                writer = world.writers[rest[0] % len(world.writers)]
                if writer.steps:
                    writer.step()
        case "sleep":
            world.sleep(rest[0])
        case "refresh":
            run(world, *rest)
        case "archive":
            if world.entry(rest[0], START).state is State.OPEN and world.time > START + timedelta(days=1):
                world.move_to_archive(rest[0], START)
        case "restore":
            if world.entry(rest[0], START).state is State.DELETED:
                world.restore(rest[0], START)
        case "define":
            world.definitions["s"] = [rest[0], HOURS]
        case "rebuild":
            begin = START + timedelta(minutes=20 * rest[0])
            order(world, world.definitions["s"][0], begin, begin + timedelta(hours=2))


def run(world: World, error: float, kill: int | None, moments: list[int]) -> None:
    """A refresher: writers go on at some of its requests, queries ask at these, and it may be killed at one."""
    calls = 0

    def strike() -> None:
        nonlocal calls
        calls += 1
        if kill is not None and calls >= kill:
            raise Killed
        if calls in moments:
            world.sleep(1)
            for writer in world.writers:
                if writer.steps:
                    writer.step()
            world.refresh(-error, owner="another")
            world.check(QUERIES[:2])

    with suppress(Killed):
        report = world.refresh(error, strike, owner=f"run {to_number(world)}")
        assert report is None or not report.failed


def to_number(world: World) -> float:
    """What tells one run from another."""
    return (world.time - START).total_seconds()


PAIR = [(0, "a", None, 0, "p", False), (300, "a", None, 0, "p", False)]
# A rollup is defined anew while it is rebuilt and a marked bucket is divided.
REDEFINED = [
    ("write", PAIR, -5.0),
    ("sleep", 30),
    ("write", PAIR, -5.0),
    ("refresh", -5.0, None, []),
    ("rebuild", 0),
    ("refresh", -5.0, None, []),
    ("define", replace(MINUTES, by=("kind",))),
]


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(LAYOUTS), st.booleans(), st.booleans(), st.lists(ACTIONS, min_size=4, max_size=25))
@example(LAYOUTS[0], True, False, REDEFINED)
def test_an_aggregate_is_the_same_with_rollups_and_without(
    layout: Any, divided: bool, adds: bool, actions: list[tuple[Any, ...]]
) -> None:
    """Divided: a bucket with more than one event is divided, and at some requests of a run another run works.

    Adds: late events that are new are written with marks of their own, and added to the cells.
    """
    with pytest.MonkeyPatch.context() as patch:
        cut_short(patch)
        if divided:
            divide_short(patch)
        check_history(layout, actions, adds=adds)


def check_history(layout: Any, actions: list[tuple[Any, ...]], *, adds: bool = False) -> None:
    world = World(layout=layout)
    world.adds = adds
    world.refresh()
    world.sleep(5_000)
    for action in actions:
        act(world, action)
        if action[0] in ("refresh", "sleep"):
            world.check(QUERIES)
    # What is due in the end is done, whoever was killed before. Sealed pieces of a rebuild are cut three at a time, and the
    # parts of a bucket are computed by the run after the one that divides it.
    for _ in range(12):
        world.sleep(4_000)
        report = world.refresh()
        assert report is not None
        assert not report.failed
        world.check(QUERIES)
        if not (world.work.list_items("rebuild") or world.work.list_items("part")):
            break
    assert (world.work.list_items("part"), world.rollups.parts) == ([], {})
    left = world.rollups.read_state("s").marks, world.work.list_items("rebuild")
    assert left == ([], []) or world.entry("s-m", START).state is not State.OPEN


@pytest.mark.parametrize("layout", LAYOUTS, ids=NAMES)
def test_a_refresher_may_be_killed_at_any_request(layout: Any) -> None:
    """Late events of buckets that are sealed, one of which changes its group; the run that reseals them is killed."""

    def prepare() -> World:
        world = World(layout=layout)
        world.refresh()
        world.sleep(5_000)
        world.write(reading(65, 1, kind="x", id="p"), reading(66, 2, kind="y", id="q"), reading(15, 3, id="p"))
        world.sleep(10_000)
        world.refresh()
        world.write(reading(65, 5, kind="y", id="p"), reading(66.5, 7, kind="x"))
        world.sleep(400)
        return world

    for world in kill_runs(prepare):
        assert world.check(QUERIES) == len(QUERIES)
        world.sleep(LENGTH.total_seconds() + 1)
        report = world.refresh(owner="next")
        assert report is not None
        assert not report.failed
        assert not world.rollups.marks
        assert world.check(QUERIES) == len(QUERIES)


@pytest.mark.parametrize("layout", [PLAIN, SERIES], ids=["by time", "by series"])
def test_a_mark_that_is_renewed_while_its_bucket_is_computed_stays(layout: Any) -> None:
    """At each request of the refresher another writer marks the bucket; its event comes after the run."""
    total = 0

    def prepare() -> World:
        world = World(layout=layout)
        world.refresh()
        world.sleep(10_000)
        world.refresh()
        world.write(reading(65, 5, kind="y"))
        world.sleep(400)
        return world

    def count() -> None:
        nonlocal total
        total += 1

    prepare().refresh(0.0, count)
    for number in range(1, total + 1):
        world, calls = prepare(), 0
        writer = world.begin([reading(66, 7, kind="x")])

        def strike() -> None:
            nonlocal calls
            calls += 1
            if calls == number:  # noqa: B023
                writer.step()  # noqa: B023

        world.refresh(0.0, strike)
        while writer.steps:
            writer.step()
        assert world.check(QUERIES) == len(QUERIES)
        assert world.rollups.marks


@pytest.mark.parametrize("age", [60, 119, 121, 300, 1_000], ids=str)
@pytest.mark.parametrize("errors", [(0, 0), (5, -5), (-5, 5)], ids=str)
def test_a_writer_and_a_refresher_meet_in_every_order(age: int, errors: tuple[int, int]) -> None:
    """The writer's mark and event, each at any moment of its life, against every request of refreshers before and after."""
    for mark_at, write_at in ((0, 0), (0, 75), (75, 75)):
        for begin in range(-100, 200, 60):
            _meet(age, errors, begin, mark_at, write_at)


def _meet(age: int, errors: tuple[int, int], begin: int, mark_at: int, write_at: int) -> None:
    """A refresher runs every minute; the writer begins so many seconds from the moment at which a bucket is sealed."""
    of_writer, of_refresher = errors
    world = World(layout=PLAIN)
    world.refresh()
    # The bucket of 01:00 to 01:10 is sealed 210 seconds after its end.
    world.sleep(4_150)
    # On time, so nothing but the late event marks a bucket.
    world.write(reading(69, 1, kind="x", id="before"))
    world.sleep(4_200 + 210 - 130 - 4_150)
    schedule: list[tuple[float, Callable[[], object]]] = []
    late = reading((4_200 + 210 + begin + of_writer - age) / 60, 5, kind="y", id="late")
    base = 130 + begin

    def start() -> None:
        writer = world.begin([late], of_writer)
        schedule.append((base + mark_at, writer.step))
        schedule.append((base + write_at + 0.1, writer.step))

    schedule.append((base, start))
    schedule += [(second, lambda: world.refresh(of_refresher)) for second in range(0, 540, 60)]
    at = 0.0
    while schedule:
        schedule.sort(key=lambda step: step[0])
        when, do = schedule.pop(0)
        world.time += timedelta(seconds=when - at)
        at = when
        do()
        world.check(QUERIES[:2])
    assert not world.rollups.marks


def test_a_late_event_is_seen_at_once_though_the_refresher_has_not_met_its_writers_configuration() -> None:
    """A deploy has just made the step coarser: the mark is of a bucket that holds several of those that are sealed."""
    world = World()
    world.refresh()
    world.sleep(5_000)
    world.refresh()
    world.definitions["s"] = [replace(MINUTES, every=timedelta(minutes=20)), HOURS]
    world.write(reading(57, 3))
    for definitions in (world.definitions["s"], [MINUTES, HOURS]):
        world.definitions["s"] = definitions
        world.check(QUERIES)
