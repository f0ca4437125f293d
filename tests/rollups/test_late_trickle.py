"""Late events that go on: how often their bucket is computed anew, what that reads, and that every answer stays exact."""

import random
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import refresh_rollups
from tests.worlds.rolled import HOURS, LENGTH, MINUTES, START, Killed, World, begin_rollups, reading
from tidetable.ports import Mark
from tidetable.rollup_model.bounds import can_reseal, can_rest, choose_pause, find_due, is_forgotten, to_millis
from tidetable.rollups import reseal as resealing
from tidetable.rollups.due import measure_waiting
from tidetable.rollups.services import BucketBlocked

MINUTE, SECOND, HOUR = timedelta(minutes=1), timedelta(seconds=1), timedelta(hours=1)
PER_MINUTE = replace(MINUTES, every=MINUTE, stats=("count", "sum"), by=())
# 01:00 to 01:10, which is sealed at 01:20.
BUCKET = START + HOUR


def trickle(seconds: int, hours: int = 1) -> tuple[World, list[float]]:
    """A late event into one bucket every so many seconds, and a run each minute: the minutes at which it was resealed."""
    world = begin_rollups((MINUTES,))
    world.write(reading(62, 1, kind="x"))
    world.refresh()
    world.sleep(600)
    world.refresh()
    world.sleep(3_700)
    world.refresh()
    assert (world.rollups.marks, world.rollups.resealed) == ({}, {})
    begun, resealed, number, due = world.time, list[float](), 0, 0.0
    for minute in range(60 * hours):
        while due <= 60 * minute:
            world.write(reading(62, 1, kind="x", id=f"late-{number}"))
            number, due = number + 1, due + seconds
        report = world.refresh()
        assert report is not None
        if report.resealed:
            resealed.append((world.time - begun) / MINUTE)
        world.sleep(60)
    return world, resealed


@pytest.mark.parametrize("seconds", [30, 60, 119])
def test_a_bucket_with_a_late_event_each_minute_is_computed_anew_at_bounded_intervals(seconds: int) -> None:
    """Its mark is never 120 seconds old. The first time is within five minutes, then the pauses double."""
    _, resealed = trickle(seconds, hours=5)
    assert resealed == [5, 11, 22, 43, 84, 145, 206, 267]


@pytest.mark.parametrize("seconds", [125, 180, 240])
def test_a_bucket_whose_mark_rests_between_its_late_events_has_the_same_pauses(seconds: int) -> None:
    _, resealed = trickle(seconds, hours=5)
    assert resealed[0] <= 5
    gaps = [after - before for before, after in pairwise(resealed)]
    assert all(5 < gap <= 70 for gap in gaps)
    assert len(resealed) <= 9


def test_two_late_events_an_hour_apart_are_each_computed_at_once() -> None:
    world, resealed = trickle(70 * 60, hours=3)
    assert resealed == [3, 73, 143]
    assert world.rollups.resealed != {}
    world.sleep(3_700)
    world.refresh()
    assert (world.rollups.marks, world.rollups.resealed) == ({}, {})


def test_the_cells_have_all_but_the_latest_late_events_when_the_events_are_deleted() -> None:
    """An hour with a late event each minute. Before, the cells had none of them."""
    world, _ = trickle(60)
    # 01:00 to 02:00 has only these events; the answer from the events has all of them.
    hour = {"from": "2026-03-02T01:00:00Z", "to": "2026-03-02T01:10:00Z", "step": "10m"}
    assert [row["count"] for row in world.ask(**hour).rows] == [61]
    world.forget("s", START)
    # The pause that began in the 43rd minute ends in the 84th.
    world.sleep(1_500)
    world.refresh()
    answer = world.ask(**hour)
    # The last time was in the 43rd minute.
    assert [row["count"] for row in answer.rows] == [45]
    assert [(gap.start, gap.end, gap.reason) for gap in answer.gaps] == [
        (BUCKET, BUCKET + 10 * MINUTE, "late events deleted")
    ]


@pytest.mark.parametrize(("pauses", "left"), [(1, HOUR), (2, 24 * HOUR), (9, 24 * HOUR)])
def test_the_pauses_of_a_bucket_begin_anew_after_a_day_or_an_hour_if_it_has_not_waited(
    pauses: int, left: timedelta
) -> None:
    mark = Mark(BUCKET, 0, MINUTE, resealed=to_millis(BUCKET), pauses=pauses)
    assert not is_forgotten(mark, BUCKET + left)
    assert is_forgotten(mark, BUCKET + left + SECOND)


def test_rested_marks_of_a_large_import_are_removed_over_several_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resealing, "SWEPT_AT_ONCE", 2)
    world = begin_rollups((MINUTES,))
    world.refresh()
    world.rollups.put_marks("s", [START + number * 10 * MINUTE for number in range(1, 6)], 0, MINUTES.every)
    world.refresh(owner="computes")
    assert (len(world.rollups.marks), len(world.rollups.resealed)) == (0, 5)
    world.sleep(3_601)
    services = replace(world.services(), remaining=lambda: 2.9)
    assert refresh_rollups(world.definitions, services, "no time", LENGTH) is not None
    left = [5]
    for number in range(4):
        world.refresh(owner=f"run {number}")
        left.append(len(world.rollups.resealed))
    assert left == [5, 3, 1, 0, 0]


@pytest.mark.parametrize(("share", "most"), [(0.0, 1.0), (0.01, 2.0), (0.1, 6.0), (0.5, 9.0)])
def test_the_reads_per_event_are_bounded(share: float, most: float) -> None:
    """20 events per minute for three hours; a share of them is up to an hour late. Measured: 1.0, 1.3, 3.5 and 8.3."""
    chance = random.Random(3)
    world = World((PER_MINUTE,))
    world.refresh()
    world.sleep(1_200)
    world.refresh()
    before, sent = world.store.items_read, 0
    for minute in range(180):
        events = []
        for number in range(20):
            at = (world.time - START) / MINUTE
            at -= chance.uniform(3, min(60, at)) if chance.random() < share else 0.5
            events.append(reading(max(at, 20), 1, kind="x", id=f"{minute}-{number}"))
        world.write(*events)
        sent += len(events)
        world.refresh()
        world.sleep(60)
    assert (world.store.items_read - before) / sent <= most


QUERY = {"step": "10m", "stat": "count,sum", "field": "mag", "from": "2026-03-02T01:00:00Z"}


@pytest.mark.parametrize("seed", range(4))
def test_every_answer_is_exact_wherever_a_run_stops_and_whatever_the_clocks_say(seed: int) -> None:
    """Writers whose clocks are wrong by up to five seconds write late events, some of them slowly. Runs are killed."""
    chance = random.Random(seed)
    world = begin_rollups((MINUTES, HOURS))
    world.refresh()
    for number in range(90):
        writer = world.begin([reading(chance.uniform(62, 68), number, kind="x", id=f"{number}")], chance.uniform(-5, 5))
        for _ in range(chance.randrange(3)):
            if writer.steps:
                writer.step()
        world.sleep(chance.choice([20, 40, 90]))
        calls, last = 0, chance.choice([10_000, 10_000, chance.randrange(1, 60)])

        def strike(last: int = last) -> None:
            nonlocal calls
            calls += 1
            if calls >= last:
                raise Killed

        try:
            world.refresh(chance.uniform(-5, 5), strike, f"run-{number}")
        except Killed:
            world.sleep(400)
        world.check([QUERY, {**QUERY, "step": "1h", "by": "kind"}])
    world.sleep(200)
    world.refresh(owner="last")
    world.sleep(3_700)
    world.refresh(owner="later")
    assert list(world.rollups.read_state("s").marks) == []
    assert world.check([QUERY]) == 1


def test_a_mark_that_comes_while_its_bucket_is_computed_is_never_lost() -> None:
    """A writer marks and writes between any two calls of the run."""
    for strike_at in range(1, 200):
        world = begin_rollups((MINUTES,))
        world.refresh()
        world.write(reading(62, 1, kind="x", id="first"))
        world.sleep(200)
        calls = 0

        def strike(world: World = world, at: int = strike_at) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                world.write(reading(62, 1, kind="x", id="meanwhile"))

        world.refresh(strike=strike)
        world.check([QUERY])
        world.sleep(400)
        world.refresh(owner="next")
        assert list(world.rollups.read_state("s").marks) == []
        if calls < strike_at:
            assert strike_at > 20
            return
        assert [row["count"] for row in world.ask(**QUERY).rows] == [2]
        assert world.check([QUERY]) == 1
    raise AssertionError("the run has more calls than this test tries")


def at(seconds: float) -> datetime:
    return START + seconds * SECOND


def mark(since: float, last: float, resealed: float = 0, pauses: int = 0) -> Mark:
    return Mark(BUCKET, to_millis(at(last)), MINUTE, to_millis(at(since)), to_millis(at(resealed)), pauses)


@pytest.mark.parametrize(
    ("made", "seconds", "reseals", "rests"),
    [
        (mark(0, 0), 120, False, False),  # a reader may still read cells, and the writer may still write
        (mark(0, 0), 120.001, True, True),
        (mark(0, 100), 200, False, False),
        (mark(0, 100), 221, True, True),
        (mark(0, 200), 240, False, False),
        (mark(0, 200), 240.001, True, False),  # four minutes after the first mark
        (mark(0, 1_000, resealed=900, pauses=1), 1_199, False, True),
        (mark(0, 1_000, resealed=900, pauses=1), 1_201, True, True),
        (mark(0, 1_200, resealed=900, pauses=2), 1_500, False, True),
        (mark(0, 1_500, resealed=900, pauses=2), 1_501, True, False),
        # It has rested: a new mark begins anew, but its pause goes on.
        (mark(1_000, 1_000, resealed=900, pauses=3), 1_140, False, True),
        (mark(1_000, 1_000, resealed=900, pauses=3), 2_101, True, True),
        (mark(1_000, 1_050, resealed=500, pauses=1), 1_100, False, False),  # a reader before the new mark
    ],
)
def test_the_instants_at_which_a_bucket_is_computed_anew(
    made: Mark, seconds: float, *, reseals: bool, rests: bool
) -> None:
    assert (can_reseal(made, at(seconds)), can_rest(made, at(seconds))) == (reseals, rests)


def test_pauses_double_up_to_an_hour() -> None:
    assert [choose_pause(count) / MINUTE for count in (1, 2, 3, 4, 5, 6, 400)] == [5, 10, 20, 40, 60, 60, 60]


def test_a_mark_that_waits_longer_than_it_should_is_a_lag() -> None:
    world = begin_rollups((MINUTES,))
    world.refresh()
    world.write(reading(62, 1, kind="x"))
    state = world.rollups.read_state("s")
    assert find_due(state.marks[0]) == world.time + 4 * MINUTE
    assert measure_waiting(state, world.time + 4 * MINUTE) == timedelta(0)
    assert measure_waiting(state, world.time + 14 * MINUTE) == 10 * MINUTE
    assert measure_waiting(state._replace(marks=[]), world.time + HOUR) == timedelta(0)
    resealed = state._replace(marks=[mark(0, 5_000, resealed=900, pauses=5)])
    assert measure_waiting(resealed, at(900) + HOUR + 3 * MINUTE) == 3 * MINUTE


def test_a_run_reports_the_lag_of_marked_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The edges are up to date, but a marked bucket cannot be computed."""

    def refuse(*_: object, **__: object) -> None:
        raise BucketBlocked("later")

    world = begin_rollups((MINUTES,))
    world.write(reading(62, 1, kind="x"))
    world.refresh()
    world.sleep(1_800)
    monkeypatch.setattr(resealing, "compute_bucket", refuse)
    report = world.refresh()
    assert report is not None
    assert (report.marks, report.lag) == (1, 26 * MINUTE)
