"""Marks before late events: the order of mark, event and acknowledgement, and what becomes of events that cannot be marked."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.rollups import FakeRollups
from tests.ingest.streams import NOW
from tests.worlds.intake import event as late
from tests.worlds.marked import AT, FAILURES, HOURS, MINUTES, PACKED, Recorder, Rolled, Stopped, message
from tidetable.config.stream import KeyPolicy, PackPolicy
from tidetable.errors import NotDrained, Outage, StoreUnavailable
from tidetable.ingest.drain import drain_message
from tidetable.ingest.marks import Marks
from tidetable.ingest.recent_periods import RecentPeriods
from tidetable.ports import Mark
from tidetable.problems import ProblemError

# Now is 00:05:00 of 1 March; half an hour ago is 23:35 of 28 February.
HALF_HOUR_AGO = datetime(2026, 2, 28, 23, 35, tzinfo=UTC)


@pytest.mark.parametrize("pack", [None, PACKED], ids=["plain", "packed"])
def test_a_late_event_is_marked_then_written_then_acknowledged(pack: PackPolicy | None) -> None:
    stage = Rolled(HOURS, MINUTES, pack=pack)
    outcome = stage.send(late(1, minutes=30))
    assert (outcome.status, outcome.accepted, stage.log) == (200, 1, ["mark", "write"])
    # Of the finest rollup, with the clock of the request.
    assert list(stage.rollups.read_state("quakes").marks) == [Mark(HALF_HOUR_AGO, AT, timedelta(minutes=1), since=AT)]
    assert stage.rollups.read_state("quakes-hours").marks == []


@pytest.mark.parametrize("pack", [None, PACKED], ids=["plain", "packed"])
def test_on_time_events_put_no_mark_and_the_bound_is_two_minutes(pack: PackPolicy | None) -> None:
    stage = Rolled(MINUTES, pack=pack)
    stage.send(late(1, seconds=120), late(2, seconds=0), late(3, seconds=-100))
    assert (stage.log, stage.rollups.calls) == (["write"], [])
    stage.send(late(4, seconds=120, microseconds=1), late(5, seconds=1))
    assert stage.rollups.calls == [("quakes", [datetime(2026, 3, 1, 0, 2, tzinfo=UTC)], AT, timedelta(minutes=1))]


@pytest.mark.parametrize("pack", [None, PACKED], ids=["plain", "packed"])
def test_a_late_event_is_marked_wherever_it_stands_in_its_request(pack: PackPolicy | None) -> None:
    stage = Rolled(HOURS, pack=pack)
    stage.send(late(1), late(2, hours=1), late(3))
    assert [buckets for _, buckets, _, _ in stage.rollups.calls] == [[datetime(2026, 2, 28, 23, tzinfo=UTC)]]


def test_each_bucket_is_marked_once_for_all_of_its_events() -> None:
    stage = Rolled(HOURS)
    stage.send(late(1, hours=1), late(2, hours=1.01), late(3, hours=30), late(4, hours=1))
    (call,) = stage.rollups.calls
    assert call[1] == [datetime(2026, 2, 27, 18, tzinfo=UTC), datetime(2026, 2, 28, 23, tzinfo=UTC)]


def test_a_stream_without_rollups_marks_nothing() -> None:
    stage = Rolled()
    stage.send(late(1, hours=30))
    assert (stage.log, stage.rollups.calls) == (["write"], [])
    assert stage.drain(message(late(2, hours=30))) == 1
    assert stage.rollups.calls == []


@pytest.mark.parametrize("pack", [None, PACKED], ids=["plain", "packed"])
def test_a_stream_without_rollups_marks_nothing_beside_one_that_has_some(pack: PackPolicy | None) -> None:
    """The process has the state of rollups for the other stream."""
    stage = Rolled(pack=pack)
    stage.marks = Marks(stage.rollups)
    assert stage.send(late(1, hours=30)).accepted == 1
    assert stage.drain(message(late(2, hours=30)), seconds=5) == 1
    assert stage.rollups.calls == []


def test_a_process_marks_a_bucket_again_after_five_seconds() -> None:
    stage = Rolled(HOURS)
    stage.send(late(1, hours=1), known=RecentPeriods())
    stage.clock.sleep(4.999)
    stage.send(late(2, hours=1))
    assert len(stage.rollups.calls) == 1
    stage.clock.sleep(0.001)
    stage.send(late(3, hours=1))
    assert [at for _, _, at, _ in stage.rollups.calls] == [AT, AT + 5_000]
    # A clock that was set back says nothing of when the mark was put.
    stage.clock.sleep(-2)
    stage.send(late(4, hours=1))
    assert len(stage.rollups.calls) == 3


def test_a_mark_of_another_bucket_makes_none_forgotten() -> None:
    stage = Rolled(HOURS)
    stage.send(late(1, hours=1), known=RecentPeriods())
    stage.send(late(2, hours=3))
    stage.send(late(3, hours=1))
    assert [call[1] for call in stage.rollups.calls] == [
        [datetime(2026, 2, 28, 23, tzinfo=UTC)],
        [datetime(2026, 2, 28, 21, tzinfo=UTC)],
    ]


def test_a_mark_is_neither_put_again_nor_made_younger_by_another_one_of_its_request() -> None:
    """After five seconds the bucket may be sealed without its late events."""
    stage = Rolled(HOURS)
    stage.send(late(1, hours=1), known=RecentPeriods())
    stage.clock.sleep(4)
    stage.send(late(2, hours=1), late(3, hours=3))
    stage.clock.sleep(1)
    stage.send(late(4, hours=1), late(5, hours=3))
    first, third = datetime(2026, 2, 28, 23, tzinfo=UTC), datetime(2026, 2, 28, 21, tzinfo=UTC)
    assert [(buckets, at - AT) for _, buckets, at, _ in stage.rollups.calls] == [
        ([first], 0),
        ([third], 4_000),
        ([first], 5_000),
    ]


def test_a_mark_that_failed_is_not_remembered() -> None:
    stage = Rolled(HOURS)
    stage.rollups.fails = StoreUnavailable(Outage.NO_ANSWER, "time-out")
    stage.send(late(1, hours=1))
    stage.rollups.fails = None
    assert stage.send(late(2, hours=1)).status == 200
    assert len(stage.rollups.calls) == 2


@pytest.mark.parametrize("failure", FAILURES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("pack", [None, PACKED], ids=["plain", "packed"])
def test_events_that_cannot_be_marked_are_queued_and_the_others_stored(
    failure: Exception, pack: PackPolicy | None
) -> None:
    stage = Rolled(HOURS, pack=pack)
    stage.rollups.fails = failure
    outcome = stage.send(late(1, hours=30), late(2), late(3, hours=3))
    assert (outcome.status, outcome.accepted, outcome.queued, outcome.unmarked) == (202, 1, 2, 2)
    assert sorted(message.id for message in stage.overflow.queued) == ["1", "3"]
    assert (stage.count("2026-02-27"), stage.count("2026-02-28"), stage.count("2026-03-01")) == (0, 0, 1)
    assert all(outcome.refs), "a queued event has its ref too"


def test_a_table_whose_events_could_not_be_marked_was_not_tried_and_its_failures_are_remembered() -> None:
    """A table is left alone for ever longer until it takes an event: for two seconds, then for four."""
    stage, table = Rolled(HOURS), "tidetable-t.quakes.2026-02-27"
    stage.circuit.trip([table])
    stage.clock.sleep(2)
    stage.rollups.fails = FAILURES[0]
    assert stage.send(late(1, hours=30)).queued == 1
    stage.circuit.trip([table])
    stage.clock.sleep(3)
    assert not stage.circuit.admits(table)
    stage.clock.sleep(1)
    assert stage.circuit.admits(table)


@pytest.mark.parametrize("policy", [{}, {"key": KeyPolicy(partition_by="series", shards=2)}], ids=["time", "series"])
def test_an_event_without_a_table_is_marked_when_it_is_drained_and_not_before(policy: dict[str, Any]) -> None:
    """The request writes nothing of it. A mark would make queries read events that they need not read."""
    stage = Rolled(HOURS, **policy)
    stage.catalog.items.pop(next(key for key in stage.catalog.items if key[1].label == "2026-02-27"))
    outcome = stage.send(late(1, hours=30), late(2))
    assert (outcome.accepted, outcome.queued, outcome.unmarked) == (1, 1, 0)
    assert stage.rollups.calls == []
    assert [label for _, label in stage.rollups.notes] == ["2026-03-01"] * len(policy)


def test_an_on_time_event_waits_with_the_late_event_of_its_pack() -> None:
    stage = Rolled(MINUTES, pack=PACKED)
    stage.rollups.fails = FAILURES[0]
    outcome = stage.send(late(1, minutes=3), late(2, minutes=1))
    assert (outcome.queued, stage.stored()) == (2, 0)


def test_what_can_be_neither_marked_nor_queued_is_not_acknowledged() -> None:
    stage = Rolled(HOURS)
    stage.rollups.fails = FAILURES[0]
    stage.overflow.send = lambda _, events, __: list(events)  # type: ignore[method-assign, assignment]
    with pytest.raises(ProblemError) as error:
        stage.send(late(1, hours=30))
    assert (error.value.problem.status, error.value.problem.code, stage.stored()) == (503, "not_durable", 0)


def test_a_process_that_dies_after_the_mark_leaves_a_mark_and_no_event() -> None:
    stage = Rolled(HOURS)
    write = stage.store.write
    stage.store.write = lambda _: (_ for _ in ()).throw(Stopped)  # type: ignore[method-assign, assignment]
    with pytest.raises(Stopped):
        stage.send(late(1, hours=1))
    assert (len(stage.rollups.marks), stage.stored()) == (1, 0)
    stage.store.write = write  # type: ignore[method-assign]
    assert stage.send(late(1, hours=1)).accepted == 1


def test_a_process_that_dies_before_the_mark_has_written_nothing() -> None:
    stage = Rolled(HOURS)
    stage.rollups.fails = Stopped()
    with pytest.raises(Stopped):
        stage.send(late(1, hours=1))
    assert (stage.rollups.marks, stage.stored(), stage.log) == ({}, 0, ["mark"])


def test_the_drain_marks_before_it_writes_whatever_it_writes() -> None:
    stage = Rolled(HOURS)
    assert stage.drain(message(late(1, minutes=1), late(2, hours=3), late(3, hours=4)), seconds=5) == 3
    assert (stage.log[0], set(stage.log[1:])) == ("mark", {"write"})
    (call,) = stage.rollups.calls
    assert call[1] == [datetime(2026, 2, 28, 20, tzinfo=UTC), datetime(2026, 2, 28, 21, tzinfo=UTC)]


def test_events_that_waited_in_the_queue_are_marked_although_they_came_in_time() -> None:
    stage = Rolled(MINUTES)
    body = message(late(1))
    assert stage.drain(body, seconds=5) == 1
    assert stage.rollups.calls == []
    stage.clock.sleep(600)
    assert stage.drain(body, seconds=5) == 1
    assert stage.rollups.calls == [("quakes", [NOW], AT + 600_000, timedelta(minutes=1))]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda error: type(error).__name__)
def test_a_message_that_cannot_be_marked_stays_in_the_queue_whole(failure: Exception) -> None:
    stage = Rolled(HOURS)
    stage.rollups.fails = failure
    stage.letters.takes = True
    with pytest.raises(NotDrained, match=f"rollups of quakes could not be marked, .*: {failure}$"):
        drain_message(message(late(1), late(2, hours=30)), stage.drainer(), lambda: 5.0)
    assert (stage.stored(), stage.letters.kept) == (0, [])
    stage.rollups.fails = None
    assert stage.drain(message(late(1), late(2, hours=30)), seconds=5) == 2


def test_a_message_without_late_events_is_drained_without_marks() -> None:
    stage = Rolled(HOURS)
    stage.rollups.fails = FAILURES[0]
    assert stage.drain(message(late(1)), seconds=5) == 1


def test_callers_send_no_events_to_a_rollup() -> None:
    stage = Rolled(HOURS)
    with pytest.raises(ProblemError) as error:
        stage.post(b"[]", known=None, stream="quakes-hours")
    assert error.value.problem.document() == {
        "type": "about:blank",
        "title": "Forbidden",
        "status": 403,
        "code": "derived_stream",
        "detail": "quakes-hours is a rollup of quakes, which the pipeline itself writes: send events to quakes",
    }


def test_a_process_remembers_no_more_marks_than_it_needs() -> None:
    marks = Marks(FakeRollups())
    stream = Rolled(MINUTES).config.streams["quakes"]
    for start in range(0, 40_000, 5_000):
        times = [NOW - timedelta(minutes=10 + start + number) for number in range(5_000)]
        assert marks.mark(stream, times, NOW + timedelta(seconds=start))
    assert len(marks._put) <= 10_000


def test_marks_of_a_moment_ago_are_remembered_however_many_there_are() -> None:
    """Beyond 10,000, a process forgets the buckets that it must mark again anyway, and no other."""
    rollups = Recorder([])
    marks, stream = Marks(rollups), Rolled(MINUTES).config.streams["quakes"]
    times = [NOW - timedelta(minutes=10 + number) for number in range(11_000)]
    for many in (times[:6_000], times[6_000:], times):
        assert marks.mark(stream, many, NOW)
    assert [len(buckets) for _, buckets, _, _ in rollups.calls] == [6_000, 5_000]


def test_a_mark_of_one_stream_is_no_mark_of_another() -> None:
    rollups = Recorder([])
    marks, stream = Marks(rollups), Rolled(HOURS).config.streams["quakes"]
    for name in ("quakes", "tides", "quakes"):
        assert marks.mark(replace(stream, name=name), [NOW - timedelta(hours=1)], NOW)
    assert [name for name, *_ in rollups.calls] == ["quakes", "tides"]
