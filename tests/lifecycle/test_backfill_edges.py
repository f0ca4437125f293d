"""Backfills at their limits: spans, units, the quota of months, and several streams with rollups."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.lifecycle.world import NOON, World
from tidetable.catalog import Backfill, Opening, State
from tidetable.config import parse
from tidetable.config.demand import list_demands
from tidetable.errors import BadBackfill
from tidetable.lifecycle import RunReport
from tidetable.lifecycle.backfill import end_backfills, open_backfill
from tidetable.periods import Kind, find_containing

DAY = timedelta(days=1)
MIDNIGHT = NOON.replace(hour=0)
STREAM = """
[streams.{name}]
period = "{period}"
late = "1d"
retention = 5
key = {{ partition_by = "time", bucket = "6h" }}
"""
ROLLUP = """
[[streams.{name}.rollup]]
name = "hours"
every = "1h"
retention = "730d"
"""
ROLLED = STREAM.format(name="s", period="day") + ROLLUP.format(name="s")
BOTH = ROLLED + STREAM.format(name="other", period="day") + ROLLUP.format(name="other")


def make_world(text: str) -> World:
    world = World()
    world.config = parse(text)
    return world


def ask(world: World, start: datetime, end: datetime, *, dry_run: bool = False, **changes: Any) -> RunReport:
    opened = Opening(world.clock.now() + DAY, None, None)._replace(**changes)
    return open_backfill(Backfill("s", start, end, opened), world.begin_run("me", lambda: 300.0), dry_run=dry_run)


def test_a_backfill_has_a_length_and_no_more_units_than_aws_takes() -> None:
    world = World()
    with pytest.raises(BadBackfill, match="must be before to"):
        ask(world, MIDNIGHT, MIDNIGHT)
    with pytest.raises(BadBackfill, match="40001 is not within 1 to 40000"):
        ask(world, MIDNIGHT - DAY, MIDNIGHT, write=40_000, read=40_001)
    assert ask(world, MIDNIGHT - DAY, MIDNIGHT, dry_run=True, write=40_000, read=40_000).outlook.backfills


def test_the_tables_of_months_are_counted_by_long_months_for_a_request_and_by_short_ones_for_the_quota() -> None:
    """A request of 6,200 days has 200 tables at the least. One of 60 days meets four months at the most."""
    text = STREAM.format(name="s", period="month").replace('late = "1d"', 'late = "1d"\non_expiry = "keep"')
    world = make_world(text)
    assert ask(world, MIDNIGHT - 6_200 * DAY, MIDNIGHT, dry_run=True).outlook.backfills
    with pytest.raises(BadBackfill, match="that would open more than 200 tables"):
        ask(world, MIDNIGHT - 6_201 * DAY, MIDNIGHT, dry_run=True)
    always = sum(need.tables for need in list_demands(world.config))
    for room, refused in ((3, True), (4, False)):
        world = make_world(f"[lifecycle]\ntable_quota = {always + room}\n{text}")
        if refused:
            with pytest.raises(BadBackfill, match="needs up to 4 tables"):
                ask(world, MIDNIGHT - 60 * DAY, MIDNIGHT)
        else:
            ask(world, MIDNIGHT - 60 * DAY, MIDNIGHT)


def test_a_backfill_opens_the_rollups_of_its_own_stream_alone() -> None:
    world = make_world(BOTH)
    ask(world, MIDNIGHT - 3 * DAY, MIDNIGHT - 2 * DAY)
    counts = {name: len(world.catalog.backfills(name)) for name in world.config.streams}
    assert counts == {"s": 1, "s-hours": 1, "other": 0, "other-hours": 0}


def test_a_backfill_is_refused_if_a_table_of_a_rollup_takes_no_cells() -> None:
    world = make_world(ROLLED)
    world.run()
    month = next(entry for entry in world.catalog.entries("s-hours") if NOON in entry.period)
    assert month.period == find_containing(NOON, Kind.MONTH)
    world.catalog.items["s-hours", month.period] = replace(month, state=State.ARCHIVED)
    with pytest.raises(BadBackfill, match="2026-03 of s-hours are archived or gone: restore them first"):
        ask(world, MIDNIGHT - 5 * DAY, MIDNIGHT - 4 * DAY)
    assert world.catalog.requests == {}


def test_no_run_begins_while_a_backfill_is_opened_or_ended() -> None:
    world = World()
    lengths: list[timedelta] = []
    acquire = world.catalog.acquire

    def note(lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        lengths.append(length)
        return acquire(lease, owner, now, length)

    world.catalog.acquire = note  # type: ignore[method-assign]
    ask(world, MIDNIGHT - 3 * DAY, MIDNIGHT - 2 * DAY)
    end_backfills("s", world.begin_run("me", lambda: 200.0))
    # A backfill is opened, then the lifecycle runs. Its end is recorded by the next run.
    assert lengths == [timedelta(seconds=300), timedelta(seconds=300), timedelta(seconds=200)]


def test_all_periods_of_all_backfills_close_when_they_are_ended_together() -> None:
    world = World()
    for days in (10, 20, 30):
        ask(world, MIDNIGHT - days * DAY, MIDNIGHT - (days - 1) * DAY)
    world.clock.sleep(60)
    assert len(end_backfills("s", world.begin_run("me", lambda: 300.0))) == 3
    ends = {entry.opened.until for entry in world.catalog.entries("s") if entry.opened is not None}
    assert ends == {world.clock.now()}


def test_a_backfill_is_over_at_its_last_instant() -> None:
    world = World()
    start, end = MIDNIGHT - 10 * DAY, MIDNIGHT - 9 * DAY
    ask(world, start, end)
    world.clock.time = world.catalog.backfills("s")[0].opened.until
    assert end_backfills("s", world.begin_run("me", lambda: 300.0), dry_run=True) == []
    with pytest.raises(BadBackfill, match="; open: none"):
        end_backfills("s", world.begin_run("me", lambda: 300.0), span=(start, end))


def test_a_backfill_may_reach_to_the_present_and_not_beyond() -> None:
    world = World()
    with pytest.raises(BadBackfill, match="is in the future"):
        ask(world, NOON - DAY, NOON + timedelta(microseconds=1))
    ask(world, NOON - DAY, NOON)
    assert [request.end for request in world.catalog.backfills("s")] == [NOON]


def test_a_reason_that_holds_for_the_stream_and_its_rollups_is_given_once() -> None:
    world = make_world(ROLLED + ROLLUP.format(name="s").replace("hours", "days").replace("1h", "1d"))
    for span, reason in (
        ((NOON - DAY, NOON + DAY), "is in the future"),
        ((NOON, NOON), "must be before to"),
    ):
        with pytest.raises(BadBackfill) as refused:
            ask(world, *span)
        assert str(refused.value).count(reason) == 1


def test_the_end_of_all_backfills_leaves_the_periods_of_a_backfill_that_is_over_as_they_are() -> None:
    """A later end would delay the archive of these periods."""
    world = World()
    over = NOON + timedelta(hours=1)
    ask(world, MIDNIGHT - 10 * DAY, MIDNIGHT - 9 * DAY, until=over)
    ask(world, MIDNIGHT - 20 * DAY, MIDNIGHT - 19 * DAY)
    world.clock.sleep(2 * 3600)
    end_backfills("s", world.begin_run("me", lambda: 300.0))
    ends = {entry.period.start: entry.opened.until for entry in world.catalog.entries("s") if entry.opened is not None}
    assert ends == {MIDNIGHT - 20 * DAY: world.clock.now(), MIDNIGHT - 10 * DAY: over}


def test_the_periods_of_a_stream_and_its_rollups_are_far_ones_if_a_backfill_opens_them_before_the_horizon() -> None:
    """Otherwise the lifecycle would look at none of them once the backfill is over: their tables would stay for ever."""
    world = make_world(ROLLED)
    for name in ("s", "s-hours"):
        world.catalog.set_horizon(name, MIDNIGHT - 14 * DAY)
    ask(world, MIDNIGHT - 40 * DAY, MIDNIGHT - 39 * DAY)
    world.run()
    for name in ("s", "s-hours"):
        horizon, there = world.catalog.read_horizon(name), world.catalog.entries(name)
        assert horizon.at == MIDNIGHT - 14 * DAY
        assert [period for period in horizon.far if period.end <= horizon.at] == [there[0].period]
        assert there[0].period.start <= MIDNIGHT - 40 * DAY < there[1].period.start
