"""The ladder's step for tables whose period is over and which still take late events."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lifecycle.world import World, configuration, outcomes
from tidetable.catalog import Backfill, Opening, State
from tidetable.ladder import compute_level
from tidetable.lifecycle.backfill import end_backfills, open_backfill
from tidetable.periods import Kind, find_containing
from tidetable.run_streams import lower_fully

LATE = """
        mode = "provisioned"
        ladder = [
            { age = 0, write = 10, read = 10 },
            { age = "late", write = 3, read = 6 },
            { age = 1, write = 2, read = 5 },
            { age = 3, write = 1, read = 1, class = "infrequent-access" },
        ]
"""
SCALED = """
        mode = "provisioned"
        autoscaling = { write = { min = 5, max = 100 } }
        ladder = [
            { age = 0, write = 10, read = 10 },
            { age = "late", write = 2, read = 10 },
            { age = 2, write = 1, read = 5 },
        ]
"""
INDEXED = """
        mode = "provisioned"
        ladder = [
            { age = 0, write = 10, read = 10, index = { status = { write = 7, read = 2 } } },
            { age = "late", write = 2, read = 4, index = { status = { write = 1, read = 3 } } },
            { age = 1, write = 1, read = 1 },
        ]
        [[streams.s.index]]
        name = "status"
        partition_by = "status"
"""
ON_DEMAND = """
        mode = "provisioned"
        ladder = [
            { age = 0, write = 10, read = 10 },
            { age = "late", mode = "on-demand" },
            { age = 1, mode = "on-demand", class = "infrequent-access" },
        ]
"""
FULL, LOWERED, CLOSED = (10, 10, "standard"), (3, 6, "standard"), (2, 5, "standard")
TABLE = "tidetable-t.s.2026-03-15"


def at(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, minute, tzinfo=UTC)


def test_a_table_is_lowered_when_its_period_is_over_and_again_when_it_closes() -> None:
    world = World(capacity=LATE, late="2d")
    world.run()
    assert world.levels()["2026-03-15"] == FULL
    assert world.levels()["2026-03-14"] == LOWERED, "a table of the window that is made after its period"
    world.at(at(16, 0, 15))
    assert world.levels()["2026-03-15"] == FULL, "requests, slow clocks and the drain still have a quarter of an hour"
    report = world.at(at(16, 0, 16))
    assert ("capacity", "2026-03-15", "done") in outcomes(report)
    assert world.levels()["2026-03-15"] == LOWERED
    assert world.states()["2026-03-15"] is State.OPEN, "its late events are taken as before"
    assert world.levels()["2026-03-16"] == FULL
    assert world.after(minutes=5).done == []
    world.at(at(18))
    assert world.levels()["2026-03-15"] == LOWERED
    world.at(at(18, 0, 1))
    assert world.levels()["2026-03-15"] == CLOSED
    assert world.states()["2026-03-15"] is State.CLOSED


def test_the_reason_names_the_step() -> None:
    world = World(capacity=LATE, late="2d")
    world.run()
    (action,) = [result.action for result in world.at(at(16, 0, 16)).done if result.action.entry.table == TABLE]
    assert action.reason == "10/10 to 3/6; its period is over: step late of the ladder"


def test_auto_scaling_ends_before_the_table_is_lowered() -> None:
    world = World(capacity=SCALED, late="2d")
    world.run()
    world.after(minutes=5)
    assert set(world.scaling.tended) == {TABLE}, "what is lowered is not tended"
    world.tables.set_capacity(TABLE, 80, 10)
    world.at(at(16, 0, 14))
    assert TABLE in world.scaling.tended
    report = world.at(at(16, 0, 20))
    mine = [(name, outcome) for name, label, outcome in outcomes(report) if label == "2026-03-15"]
    assert mine == [("unscale", "done"), ("capacity", "done")]
    assert TABLE not in world.scaling.tended
    assert world.levels()["2026-03-15"] == (2, 10, "standard")
    assert world.after(minutes=5).done == []
    world.at(at(18, 12))
    assert world.levels()["2026-03-15"] == (2, 10, "standard"), "the step holds until the next, beyond the closing"


def test_an_index_has_units_of_its_own_for_late_events() -> None:
    world = World(capacity=INDEXED, late="2d")
    world.run()
    for now, wanted in ((at(15, 12, 5), (10, (7, 2))), (at(16, 1), (2, (1, 3))), (at(18, 1), (1, (1, 1)))):
        world.at(now)
        world.after(minutes=5)
        table = world.tables.describe(TABLE)
        assert table is not None
        assert (table.write, table.index_units["status"]) == wanted


def test_a_table_may_be_on_demand_for_late_events() -> None:
    world = World(capacity=ON_DEMAND, late="2d")
    world.run()
    world.at(at(16, 1))
    assert world.levels()["2026-03-15"] == (None, None, "standard")
    world.at(at(18, 1))
    assert world.levels()["2026-03-15"] == (None, None, "infrequent-access")


def request(world: World, first: int, last: int, **units: Any) -> Backfill:
    until = world.clock.now() + timedelta(hours=5)
    return Backfill("s", at(first), at(last), Opening(until, units.get("write"), units.get("read")))


def test_a_backfill_raises_tables_that_are_lowered_and_gives_them_back() -> None:
    world = World(capacity=LATE, late="3d")
    world.run()
    world.at(at(17, 12))
    assert world.levels()["2026-03-15"] == LOWERED
    report = open_backfill(request(world, 15, 17, write=50, read=7), world.begin_run("b", lambda: 100.0))
    assert ("reopen", "2026-03-15", "done") in outcomes(report)
    raised = {label: level[:2] for label, level in world.levels().items()}
    assert (raised["2026-03-15"], raised["2026-03-16"]) == ((50, 7), (50, 7))
    assert (raised["2026-03-14"], raised["2026-03-17"]) == ((3, 6), (10, 10)), "others have what they had"
    assert world.after(minutes=5).done == []
    world.after(hours=5)
    assert world.levels()["2026-03-15"] == LOWERED
    assert world.states()["2026-03-15"] is State.OPEN, "the window takes late events after the backfill, too"
    world.at(at(19, 1))
    assert world.levels()["2026-03-15"] == CLOSED
    assert world.states()["2026-03-15"] is State.CLOSED


def test_a_backfill_that_outlives_the_window_keeps_its_units_until_it_ends() -> None:
    world = World(capacity=LATE, late="2d")
    world.run()
    world.at(at(17, 22))
    open_backfill(request(world, 15, 16, write=50, read=7), world.begin_run("b", lambda: 100.0))
    world.at(at(18, 1))
    assert (world.levels()["2026-03-15"][:2], world.states()["2026-03-15"]) == ((50, 7), State.OPEN)
    world.at(at(18, 3, 1))
    assert (world.levels()["2026-03-15"], world.states()["2026-03-15"]) == (CLOSED, State.CLOSED)


def test_a_backfill_that_is_ended_gives_a_lowered_table_back() -> None:
    world = World(capacity=LATE, late="3d")
    world.run()
    world.at(at(17, 12))
    open_backfill(request(world, 15, 16), world.begin_run("b", lambda: 100.0))
    assert world.levels()["2026-03-15"] == (None, None, "standard")
    end_backfills("s", world.begin_run("e", lambda: 100.0))
    world.after(minutes=5)
    assert (world.levels()["2026-03-15"], world.states()["2026-03-15"]) == (LOWERED, State.OPEN)


def test_without_the_step_a_backfill_leaves_tables_of_the_window_as_they_are() -> None:
    world = World(late="3d")
    world.run()
    world.at(at(17, 12))
    world.after(minutes=5)
    report = open_backfill(request(world, 15, 16, write=50, read=7), world.begin_run("b", lambda: 100.0))
    assert outcomes(report) == [("reopen", "2026-03-15", "done")]
    assert world.levels()["2026-03-15"] == FULL


def test_adding_and_removing_the_step_holds_from_the_next_run() -> None:
    world = World(late="2d")
    world.run()
    world.at(at(16, 12))
    assert world.levels()["2026-03-15"] == FULL
    world.config = configuration(late="2d", capacity=LATE)
    world.after(minutes=5)
    assert world.levels()["2026-03-15"] == LOWERED
    world.config = configuration(late="2d")
    world.after(minutes=5)
    assert world.levels()["2026-03-15"] == FULL


def test_a_removed_stream_keeps_the_step_and_then_the_lowest_units() -> None:
    stream = configuration(late="2d", capacity=INDEXED).streams["s"]
    steps = [(step.age, step.write, step.read, dict(step.index)) for step in lower_fully(stream).capacity.ladder]
    assert steps == [(0, 1, 1, {}), ("late", 1, 1, {}), (1, 1, 1, {})]


def test_only_tables_whose_period_is_not_over_are_made_warm() -> None:
    made: dict[str, Any] = {}
    world = World(
        capacity=LATE.replace("ladder =", "warm = { write = 8000, read = 9000 }\n        ladder ="), late="1d"
    )
    create = world.tables.create
    world.tables.create = lambda spec: made.update({spec.name: spec.warm}) or create(spec)  # type: ignore[method-assign]
    world.run()
    assert made.pop("tidetable-t.s.2026-03-14") is None
    assert set(made.values()) == {(8000, 9000)}


HOLDS = {"0": (10, 10), "late": (9, 9), "1": (8, 8), "2": (7, 7)}
SPELT = {"0": "0", "late": '"late"', "1": "1", "2": "2"}
LENGTHS = {Kind.HOUR: timedelta(hours=1), Kind.DAY: timedelta(days=1), Kind.WEEK: timedelta(days=7)}


@settings(deadline=None)
@given(
    st.sampled_from(list(LENGTHS)),
    st.integers(0, 4 * 24 * 60),
    st.sets(st.sampled_from(["late", "1", "2"])),
    st.sampled_from(["ends", "settled", "closes", "one later"]),
    st.integers(-3, 3),
    st.integers(0, 10),
)
def test_the_step_in_force_is_the_last_that_an_instant_has_reached(
    kind: Kind, late: int, ages: set[str], edge: str, off: int, delay: int
) -> None:
    steps = [age for age in ("0", "late", "1", "2") if age in ages | {"0"}]
    text = ", ".join(f"{{ age = {SPELT[age]}, write = {HOLDS[age][0]}, read = {HOLDS[age][1]} }}" for age in steps)
    capacity = f'mode = "provisioned"\nladder = [{text}]'
    stream = configuration(period=kind.value, late=f"{late}m", retention=100, capacity=capacity).streams["s"]
    period = find_containing(datetime(2026, 5, 20, 13, tzinfo=UTC), kind)
    end = period.start + LENGTHS[kind]
    closes = end + timedelta(minutes=late)
    instants = {
        "ends": end,
        "settled": end + timedelta(minutes=15),
        "closes": closes,
        "one later": closes + LENGTHS[kind],
    }
    # An instant, and a microsecond, a minute or two to either side of it.
    now = (
        instants[edge]
        + timedelta(minutes=delay)
        + (abs(off) // 2) * timedelta(minutes=off)
        + timedelta(microseconds=off)
    )
    then = now - timedelta(minutes=delay)
    begins = {"late": end + timedelta(minutes=15), "1": closes, "2": closes + LENGTHS[kind]}
    reached = ["0", *(age for age in ("late", "1", "2") if then > begins[age])]
    # A table that closed before it settled is beyond the step for late events.
    if then > closes and "late" not in reached:
        reached.append("late")
    last = max((age for age in steps if age in reached), key=steps.index)
    level = compute_level(period, stream, now, delay=timedelta(minutes=delay))
    assert (level.write, level.read) == HOLDS[last]


@pytest.mark.parametrize("late", ["0s", "10m", "15m"])
def test_a_window_shorter_than_the_settling_never_lowers_an_open_table(late: str) -> None:
    world = World(capacity=LATE, period="hour", late=late, retention=5)
    world.run()
    world.after(minutes=45)
    assert world.levels()["2026-03-15T12"] == FULL
    world.after(minutes=32)
    assert world.levels()["2026-03-15T12"] == CLOSED


def test_tables_are_lowered_for_late_events_as_staggered_as_for_any_step() -> None:
    """Many tables of one end are not changed in one moment: each has its own delay, here an hour."""
    stream, period = World(capacity=LATE, late="2d").config.streams["s"], find_containing(at(15), Kind.DAY)
    for now, write in ((at(16, 0, 16), 10), (at(16, 1, 15), 10), (at(16, 1, 16), 3)):
        assert compute_level(period, stream, now, timedelta(hours=1)).write == write
