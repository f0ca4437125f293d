"""The pace of an archive: the units that a run reads of a slow, a fast, a throttled and a busy table."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes import FakeClock
from tests.worlds.archives import NOW, World, some
from tidetable.archive.pacing import Pacer, compute_rate, count_readers
from tidetable.catalog import Opening, State
from tidetable.config import ArchivePolicy, TableClass
from tidetable.errors import ArchiveBusy, ArchiveFailed, StaleEntry, TableMissing
from tidetable.ports import Table


def test_it_goes_on_where_the_time_was_up_and_keeps_the_parts_that_are_verified() -> None:
    world = World(some(100))
    world.seconds, world.page_seconds = 63, 1
    first = world.run()
    assert not first.done
    assert first.events == 7 * 4, "no page is begun with less than a minute left"
    before = {key: world.bucket[key] for key in world.parts}
    runs = 1
    while not world.run().done:
        runs += 1
    assert runs == 3
    assert before.items() <= world.bucket.items()
    assert world.state is State.ARCHIVED


def test_of_a_slow_table_a_run_reads_what_was_left_unused_and_ends_instead_of_sleeping() -> None:
    """8 units, a quarter of them: 2 per second, and five minutes of those unused are 600. An item is a unit here."""
    world = World(some(1500))
    world.read, world.policy = 8, "archive = { read_share = 0.25 }"
    begun = world.clock.now()
    first = world.run()
    assert (first.done, first.events) == (False, 602)
    assert world.clock.now() == begun, "nothing was slept"
    assert first.wait == pytest.approx(301, abs=1)
    again = world.run()
    assert (again.done, again.events) == (False, 602), "a run that comes too early finds nothing to read, and says so"
    assert again.wait == pytest.approx(301, abs=1)
    world.clock.sleep(100)
    assert world.run().events == pytest.approx(602 + 200, abs=7)
    world.clock.sleep(10_000)
    assert world.run().events == pytest.approx(802 + 600, abs=14), "what is unused for longer is lost"
    world.clock.sleep(300)
    assert world.run().done
    assert world.slept == []


def test_a_table_that_was_switched_to_on_demand_is_read_at_once() -> None:
    world = World(some(100))
    world.read = None
    assert world.run().done
    assert world.clock.now() == NOW


def test_a_table_that_is_fast_enough_is_read_at_its_pace() -> None:
    """At 1,000 units per second a run may wait: waiting costs less than its reads."""
    world = World(some(1500))
    world.read, world.units = 2000, 2000.0
    begun = world.clock.now()
    assert world.run().done
    # 215 pages of 2,000 units, of which 300,000 were unused before.
    assert (world.clock.now() - begun).total_seconds() == pytest.approx((215 * 2000 - 300_000) / 1000, abs=10)


def test_what_a_table_on_demand_may_take_at_the_most_holds_for_its_export() -> None:
    table = Table("t", "ACTIVE", None, None, TableClass.STANDARD)
    assert compute_rate(table, ArchivePolicy()) == 6000
    assert compute_rate(table, ArchivePolicy(), 50) == 25
    assert compute_rate(table, ArchivePolicy(), 50_000) == 6000


@pytest.mark.parametrize(("rate", "pause"), [(599.0, None), (600.0, 10.0)])
def test_a_run_waits_only_if_the_units_cost_more_than_the_function(rate: float, pause: float | None) -> None:
    """3 GB of Lambda for 1,000 seconds cost $0.04. 600 units per second for as long cost $0.075 on demand."""
    assert Pacer(rate, FakeClock(NOW), free=NOW + timedelta(seconds=10)).pause() == pause


@pytest.mark.parametrize(("seconds", "pause"), [(0.5, 0.5), (0.51, None)])
def test_a_run_of_a_slow_table_waits_half_a_second_at_the_most(seconds: float, pause: float | None) -> None:
    assert Pacer(10.0, FakeClock(NOW), free=NOW + timedelta(seconds=seconds)).pause() == pause


def test_a_run_does_not_wait_so_long_that_no_time_is_left_for_its_part() -> None:
    """12,000 units a page, half of 12,000 per second: two seconds each. 63 seconds are there, 60 must be left."""
    world = World(some(100))
    world.read, world.units, world.seconds = None, 12_000.0, 63
    assert not world.run().done
    assert world.slept == [1.0, 2.0]


@pytest.mark.parametrize(("rate", "items"), [(256.0, None), (255.0, 255), (25.0, 25), (0.4, 1)])
def test_a_page_takes_no_more_than_the_rate_grants_in_a_second(rate: float, items: int | None) -> None:
    """Without a limit a page may take 256 units. An item counts as one unit until a page was read."""
    assert Pacer(rate, FakeClock(NOW), free=NOW).limit() == items


def test_a_page_of_large_items_has_fewer() -> None:
    pacer = Pacer(25.0, FakeClock(NOW), free=NOW)
    pacer.account(units=50, items=10)
    assert pacer.limit() == 5
    pacer.account(units=50, items=100)
    assert pacer.limit() == 50
    pacer.account(units=5, items=1)
    assert pacer.limit() == 5
    pacer.account(units=1, items=0)
    assert pacer.limit() == 5, "a page without items says nothing of their size"


def test_a_page_of_items_that_took_no_units_has_a_limit_all_the_same() -> None:
    """An item has 4 KB at the most per unit, and one byte at the least: 25 units are 102,400 bytes."""
    pacer = Pacer(25.0, FakeClock(NOW), free=NOW)
    pacer.account(units=0, items=10)
    assert pacer.limit() == 102_400


def test_units_that_were_unused_for_longer_than_the_table_keeps_them_are_lost() -> None:
    """10 units per second for 10 seconds are 100, though nothing was read for 1,000 seconds."""
    pacer = Pacer(10.0, FakeClock(NOW), burst=10, free=NOW - timedelta(seconds=1000))
    assert pacer.limit() == 100
    pacer = Pacer(10.0, FakeClock(NOW), burst=10, free=NOW - timedelta(seconds=1000))
    pacer.account(units=20, items=20)
    assert pacer.free == NOW - timedelta(seconds=8)


@pytest.mark.parametrize(("rate", "readers"), [(100.0, 1), (1199.9, 1), (1200.0, 2), (6000.0, 10), (40_000.0, 16)])
def test_each_reader_has_enough_units_to_be_worth_waiting(rate: float, readers: int) -> None:
    """Below 600 units per second, a function that waits costs more than the units."""
    assert count_readers(rate, ArchivePolicy(segments=16)) == readers


def test_a_table_on_demand_has_no_unused_units_to_read_at_once() -> None:
    """50 units at the most, half of them: 25 per second from the first second on, in pauses as short as a page."""
    world = World(some(500))
    world.read = None
    world.capacity = 'mode = "on-demand"\nmax = { write = 100, read = 50 }'
    assert world.run().done
    assert sum(world.slept) == pytest.approx((500 - 25) / 25, abs=0.5)


def test_a_table_that_is_changing_is_not_begun_with() -> None:
    world = World(some(10))
    world.status = "UPDATING"
    with pytest.raises(ArchiveBusy, match="UPDATING"):
        world.run()
    assert (world.state, world.bucket) == (State.CLOSED, {})
    world.status = "ACTIVE"
    assert world.run().done


def test_what_throttles_it_only_delays_it_and_ever_longer() -> None:
    world = World(some(100))
    world.throttles = 3
    world.archive()
    assert world.state is State.ARCHIVED
    assert world.slept == [1.0, 2.0, 4.0]


def test_a_table_that_throttles_on_is_left_to_a_later_run() -> None:
    world = World(some(100))
    world.throttles = 10**6
    assert not world.run().done
    assert sum(world.slept) == 7.0
    world.throttles = 0
    assert world.run().done


def test_a_table_that_goes_away_while_it_is_archived_is_not_called_archived() -> None:
    world = World(some(100))
    page, pages = world.page, iter(range(100))

    def lose_table(*arguments: Any, **options: Any) -> Any:
        if next(pages) == 3:
            raise TableMissing("gone")
        return page(*arguments, **options)

    world.page = lose_table  # type: ignore[method-assign]
    with pytest.raises(ArchiveFailed, match=r"^table \S+ went away while it was archived$"):
        world.run()
    assert world.state is State.ARCHIVING
    world.page = page  # type: ignore[method-assign]
    assert world.run().done


@pytest.mark.parametrize("state", [State.CREATING, State.OPEN])
def test_a_table_that_takes_events_is_not_archived(state: State) -> None:
    world = World(some(10))
    entry = world.catalog.entries("s")[0]
    world.catalog.move(entry, state, expected=[State.CLOSED])
    with pytest.raises(StaleEntry):
        world.archive()
    assert world.state is state


def test_a_table_is_not_archived_while_a_write_that_began_before_it_closed_may_land() -> None:
    world = World(some(10))
    # The period of the first of March with `late = "1d"` is open until the third, 00:00.
    world.clock.time = datetime(2026, 3, 3, 0, 15, tzinfo=UTC)
    with pytest.raises(ArchiveBusy, match=r"archive it after 2026-03-03T00:15:00\.000000Z"):
        world.archive()
    assert (world.state, world.bucket) == (State.CLOSED, {})
    world.clock.time += timedelta(seconds=1)
    assert world.archive().state is State.ARCHIVED


def test_a_table_is_not_archived_while_a_write_of_its_backfill_may_land() -> None:
    world = World(some(10))
    (entry,) = world.catalog.entries("s")
    world.catalog.move(entry, State.CLOSED, expected=[State.CLOSED], opened=Opening(NOW, None, None))
    with pytest.raises(ArchiveBusy, match=r"archive it after 2026-03-20T00:15:00\.000000Z"):
        world.archive()
    assert (world.state, world.bucket) == (State.CLOSED, {})
    world.clock.time += timedelta(minutes=15, seconds=1)
    assert world.archive().state is State.ARCHIVED


# `late` of the stream is a day: so long after its end the period takes events, and 15 minutes longer they may be under way.
STILL_OPEN = [datetime(2026, 3, 1, 12, tzinfo=UTC), datetime(2026, 3, 3, tzinfo=UTC)]


@pytest.mark.parametrize("now", STILL_OPEN)
def test_a_closed_period_that_takes_events_again_as_late_was_raised_is_not_archived(now: datetime) -> None:
    world = World(some(10))
    world.clock.time = now
    with pytest.raises(ArchiveBusy, match=r"archive it after 2026-03-03T00:15:00\.000000Z"):
        world.archive()
    assert (world.state, world.bucket) == (State.CLOSED, {})


@pytest.mark.parametrize("now", STILL_OPEN)
def test_a_local_stage_that_acts_as_at_a_later_time_archives_what_it_closed_so(now: datetime) -> None:
    world = World(some(10))
    world.clock.time, world.time_travel = now, True
    assert world.archive().state is State.ARCHIVED


def test_a_local_stage_waits_for_writes_into_a_period_that_closed_in_its_time() -> None:
    world = World(some(10))
    world.clock.time, world.time_travel = datetime(2026, 3, 3, 0, 0, 1, tzinfo=UTC), True
    with pytest.raises(ArchiveBusy, match="has just closed"):
        world.archive()


def test_an_archive_that_has_begun_goes_on_whatever_the_configuration_says_now() -> None:
    world = World(some(100))
    world.calls = 12
    with pytest.raises(KeyboardInterrupt):
        world.archive()
    assert world.state is State.ARCHIVING
    world.calls, world.clock.time = 10**9, datetime(2026, 3, 3, tzinfo=UTC)
    assert world.archive().state is State.ARCHIVED
