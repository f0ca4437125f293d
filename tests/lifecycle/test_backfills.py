"""Several backfills of a stream at once: each opens its own range, and the open ranges are shown."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.lifecycle.world import NOON, World
from tests.worlds.backfills import (
    HISTORY,
    LABELS,
    entries,
    make_backfill,
    send,
    stage,
    start_backfill,
    stop_backfills,
    write_units,
)
from tests.worlds.killed import CONFIG
from tidetable.catalog import Backfill, Entry, Opening, State
from tidetable.config import parse
from tidetable.errors import ArchiveBusy, ArchiveFailed, BadBackfill, StaleEntry
from tidetable.layout import Layout
from tidetable.lifecycle.premake import find_missing_periods, find_opening
from tidetable.periods import parse_label
from tidetable.problems import ProblemError
from tidetable.times import from_text

__all__ = ["stage"]

SECOND = from_text("2026-02-20T00:00:00Z"), from_text("2026-02-21T00:00:00Z")
EVENT = {"series": "a", "id": "late", "time": "2026-02-20T10:00:00Z", "data": {}}
EARLY = HISTORY[0]


def test_a_backfill_opens_the_periods_that_it_overlaps_and_not_its_neighbours() -> None:
    start, end = from_text("2026-02-10T00:00:00Z"), from_text("2026-02-13T00:00:00Z")
    backfill = Backfill("s", start, end, Opening(NOON, None, None))
    labels = ["2026-02-09", "2026-02-10", "2026-02-12", "2026-02-13", "2026-02-12T23", "2026-02-13T00"]
    assert [backfill.meets(parse_label(label)) for label in labels] == [False, True, True, False, True, False]


def states(stage: Any) -> dict[str, State]:
    return {label: entry.state for label, entry in entries(stage).items() if label < "2026-03-01"}


def later(stage: Any, seconds: float) -> Any:
    stage.clock.sleep(seconds)
    return stage.run_lifecycle()


def test_a_second_backfill_stands_beside_the_first(stage: Any) -> None:
    start_backfill(stage)
    later(stage, 300)
    start_backfill(stage, make_backfill(stage, *SECOND))
    for _ in range(3):
        later(stage, 300)
    assert states(stage) == dict.fromkeys([*LABELS, "2026-02-20"], State.OPEN)
    assert send(stage, [EARLY, EVENT]).accepted == 2


def test_the_end_of_the_first_backfill_leaves_the_second(stage: Any) -> None:
    first = make_backfill(stage)
    start_backfill(stage, first)
    start_backfill(stage, make_backfill(stage, *SECOND))
    assert stop_backfills(stage, span=(first.start, first.end)) == [first]
    later(stage, 60)
    assert states(stage) == dict.fromkeys(LABELS, State.CLOSED) | {"2026-02-20": State.OPEN}
    assert send(stage, [EVENT]).accepted == 1
    with pytest.raises(ProblemError, match="refused"):
        send(stage, [EARLY])
    with pytest.raises(BadBackfill, match=r"open: 2026-02-20T00:00:00\.000000Z 2026-02-21T00:00:00\.000000Z"):
        stop_backfills(stage, span=(first.start, first.end))
    assert len(stop_backfills(stage)) == 1
    assert stage.catalog.backfills("s") == []


def test_the_end_of_a_backfill_leaves_a_period_open_that_another_meets(stage: Any) -> None:
    first = make_backfill(stage, hours=48, write=30, read=9)
    wider = make_backfill(stage, first.start, first.start + timedelta(hours=5), hours=10, write=20, read=4)
    start_backfill(stage, first)
    start_backfill(stage, wider)
    assert entries(stage)["2026-02-10"].opened == Opening(first.opened.until, 30, 9)
    stop_backfills(stage, span=(first.start, first.end))
    assert entries(stage)["2026-02-10"].opened == wider.opened
    assert send(stage, [EARLY]).accepted == 1
    later(stage, 60)
    assert states(stage) == {"2026-02-10": State.OPEN, "2026-02-11": State.CLOSED, "2026-02-12": State.CLOSED}
    assert write_units(stage, "2026-02-10") == 20


def test_an_end_that_stopped_in_between_is_finished_by_the_next(stage: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    start_backfill(stage)
    move = stage.catalog.move

    def moving(entry: Entry, *args: Any, **kwargs: Any) -> Entry:
        if entry.period.label == "2026-02-11":
            raise StaleEntry("s", entry.period.label, [])
        moved: Entry = move(entry, *args, **kwargs)
        return moved

    with monkeypatch.context() as patch:
        patch.setattr(stage.catalog, "move", moving)
        with pytest.raises(StaleEntry):
            stop_backfills(stage)
    stop_backfills(stage)
    later(stage, 60)
    assert states(stage) == dict.fromkeys(LABELS, State.CLOSED)
    assert stage.catalog.backfills("s") == []


def test_the_answer_to_an_import_tells_the_open_backfills(stage: Any) -> None:
    request = make_backfill(stage, *SECOND)
    start_backfill(stage, request)
    window = send(stage, [EVENT]).document()["window"]
    (told,) = window["backfills"]
    assert (told["from"], told["to"]) == ("2026-02-20T00:00:00.000000Z", "2026-02-21T00:00:00.000000Z")
    assert from_text(told["until"]) == request.opened.until
    now = [{**EVENT, "time": stage.clock.now().isoformat()}]
    assert "backfills" not in send(stage, now).document()["window"], "nobody looked: it costs a read"


def test_what_is_too_old_names_the_way_to_import_it(stage: Any) -> None:
    with pytest.raises(ProblemError) as refused:
        send(stage, [EVENT])
    (error,) = refused.value.problem.more["errors"]
    assert error["code"] == "too_old"
    assert error["detail"].endswith("; to import history, open its time with `tidetable backfill s FROM TO`")


def test_the_reason_for_closing_is_the_backfills_end(stage: Any) -> None:
    start_backfill(stage, make_backfill(stage, *SECOND, hours=2))
    report = later(stage, 2 * 3600 + 1)
    # 2026-03-15T12:00Z is the fixture's noon; opening took no more than seconds of it.
    (close,) = [
        result
        for result in report.done
        if result.action.name == "close" and result.action.entry.period.label == "2026-02-20"
    ]
    assert close.action.reason.startswith("it was open for a backfill until 2026-03-")
    assert states(stage) == {"2026-02-20": State.CLOSED}


def test_open_backfills_are_in_the_report_of_a_run(stage: Any) -> None:
    request = make_backfill(stage, *SECOND)
    shown = {"stream": "s", "from": "2026-02-20T00:00:00.000000Z", "to": "2026-02-21T00:00:00.000000Z"}
    planned = start_backfill(stage, request, dry_run=True).document()["backfills"]
    assert [{key: step[key] for key in shown} for step in planned] == [shown]
    start_backfill(stage, request)
    (told,) = later(stage, 300).document()["backfills"]
    assert {key: told[key] for key in shown} == shown
    assert from_text(told["until"]) == request.opened.until
    assert later(stage, 25 * 3600).document()["backfills"] == []


TWO = """
[lifecycle]
delete_expired = true
[streams.s]
period = "day"
late = "1d"
retention = 5
[streams.s.key]
partition_by = "series"
[streams.other]
period = "day"
late = "1d"
retention = 5
[streams.other.key]
partition_by = "series"
"""


def test_a_backfill_does_its_own_streams_work_only(stage: Any) -> None:
    stage.config = parse(TWO)
    planned = start_backfill(stage, dry_run=True)
    assert {result.action.entry.stream for result in planned.done} == {"s"}
    report = start_backfill(stage)
    assert {result.action.entry.stream for result in report.done} == {"s"}
    assert report.only == "s"
    assert stage.catalog.entries("other", consistent=True) == []


def test_an_expired_period_that_is_reopened_is_not_archived_in_the_same_run() -> None:
    world = World(retention=2)
    for _ in range(5):
        world.after(hours=12)
    world.archiver.fails = True
    world.after(hours=36)
    oldest = min(label for label, state in world.states().items() if state is State.CLOSED)
    world.archiver.fails = False
    period = parse_label(oldest)
    until = world.clock.now() + timedelta(hours=3)
    world.catalog.put_backfill(Backfill("s", period.start, period.end, Opening(until, 7, 7)))
    report = world.after(minutes=5)
    mine = [result.action.name for result in report.done if result.action.entry.period.label == oldest]
    assert mine == ["reopen", "capacity"]
    assert world.states()[oldest] is State.OPEN
    world.at(until + timedelta(minutes=14))
    assert world.states()[oldest] is State.CLOSED, "a write that began before the end may still be under way"
    world.at(until + timedelta(minutes=16))
    assert world.states()[oldest] in (State.ARCHIVED, State.DELETED)


def test_a_period_that_is_open_for_a_backfill_is_not_archived_by_hand(stage: Any) -> None:
    start_backfill(stage)
    later(stage, 300)
    with pytest.raises((ArchiveBusy, ArchiveFailed, StaleEntry)):
        stage.archive("s", LABELS[0], within=100)
    assert states(stage)[LABELS[0]] is State.OPEN


def test_what_an_import_writes_as_its_backfill_ends_is_not_left_out_of_an_archive_by_hand(stage: Any) -> None:
    start_backfill(stage)
    later(stage, 300)
    send(stage, [EARLY])
    stop_backfills(stage)
    later(stage, 60)
    stage.clock.sleep(300)
    assert states(stage)[LABELS[0]] is State.CLOSED
    # A request that ingest took a second before the end writes for up to half a minute after it.
    with pytest.raises(ArchiveBusy, match="writes that began before may still land; archive it after"):
        stage.archive("s", LABELS[0], within=100)
    assert states(stage)[LABELS[0]] is State.CLOSED
    stage.clock.sleep(15 * 60)
    stage.archive("s", LABELS[0], within=100)
    assert states(stage)[LABELS[0]] is State.ARCHIVED


def test_a_backfill_that_is_over_makes_no_tables() -> None:
    config = parse(TWO).streams["s"]
    over = Backfill("s", *SECOND, Opening(NOON, None, None))
    assert [period.label for period, _ in find_missing_periods(config, NOON, [], [over])] == [
        "2026-03-14", "2026-03-15", "2026-03-16", "2026-03-17",
    ]  # fmt: skip
    running = replace(over, opened=Opening(NOON + timedelta(seconds=1), None, None))
    labels = [period.label for period, _ in find_missing_periods(config, NOON, [], [running])]
    assert labels[0] == "2026-02-20"


def test_a_backfill_takes_events_until_its_very_end_and_in_its_range_only() -> None:
    held = Backfill("s", *SECOND, Opening(NOON, None, None))
    second = timedelta(seconds=1)
    assert held.is_open(NOON - second)
    assert not held.is_open(NOON)
    assert held.holds(SECOND[0])
    assert not held.holds(SECOND[1])
    assert not held.holds(SECOND[0] - second)


def test_only_a_table_that_takes_writes_is_open_for_a_backfill() -> None:
    period = parse_label("2026-02-20")
    entry = Entry("s", period, "t", Layout("series", 1, "id"), State.CLOSED, NOON, opened=Opening(NOON, None, None))
    second = timedelta(seconds=1)
    writable = {state for state in State if replace(entry, state=state).is_open(NOON - second)}
    assert writable == {State.CREATING, State.OPEN, State.CLOSED, State.RETAINED}
    assert not entry.is_open(NOON)


def test_backfills_that_meet_get_the_later_end_and_the_greater_units() -> None:
    period, second = parse_label("2026-02-20"), timedelta(seconds=1)
    first = Backfill("s", *SECOND, Opening(NOON, 5, 9))
    second_backfill = Backfill("s", *SECOND, Opening(NOON + second, 7, 3))
    demand = Backfill("s", *SECOND, Opening(NOON, None, None))
    elsewhere = Backfill("s", SECOND[1], SECOND[1] + timedelta(days=1), Opening(NOON + 2 * second, 99, 99))
    assert find_opening(period, [first, second_backfill, elsewhere]) == Opening(NOON + second, 7, 9)
    assert find_opening(period, [first, demand]) == Opening(NOON, None, None)
    assert find_opening(period, [elsewhere]) is None


def test_backfills_leave_room_for_the_next_tables_within_the_quota(stage: Any) -> None:
    # Days of five with a table of parts each: at most (5 + 1 + 2 + 1) x 2 = 18 of the stream itself.
    stage.config = parse(CONFIG.replace("[lifecycle]", "[lifecycle]\ntable_quota = 30"))
    start_backfill(stage)  # three days, counted as four: 8
    stage.config = parse(CONFIG.replace("[lifecycle]", "[lifecycle]\ntable_quota = 29"))
    with pytest.raises(
        BadBackfill, match=r"needs up to 12 tables, and the configuration 18: together more than .* = 29"
    ):
        start_backfill(stage, make_backfill(stage, *SECOND))
    stage.config = parse(CONFIG.replace("[lifecycle]", "[lifecycle]\ntable_quota = 30"))
    start_backfill(stage, make_backfill(stage, *SECOND))
    assert start_backfill(stage, make_backfill(stage, *SECOND)).healthy, "the same again is no more tables"


def test_events_of_a_closed_period_that_a_backfill_asked_for_wait_until_it_is_open(stage: Any) -> None:
    for _ in range(3):
        later(stage, 86_400)
    label = "2026-03-15"
    assert entries(stage)[label].state is State.CLOSED
    start = from_text(f"{label}T00:00:00Z")
    stage.catalog.put_backfill(make_backfill(stage, start, start + timedelta(days=1)))
    event = {"series": "a", "id": "late", "time": f"{label}T10:00:00Z", "data": {}}
    assert send(stage, [event]).queued == 1
    held = stage.dynamo.call("Scan", {"TableName": f"tidetable-lapse.s.{label}", "ConsistentRead": True})
    assert held["Count"] == 0, "a table that is not open may be archived at any moment"
    stage.run_lifecycle()
    assert send(stage, [event]).accepted == 1
    stage.drain()
    assert (stage.queue.messages, stage.queue.dead) == ([], [])


def test_no_backfill_is_opened_or_ended_while_a_run_is_under_way(stage: Any) -> None:
    """A run that read the catalog earlier would not see it: it could move the horizon beyond it, or make unwanted tables."""
    first = make_backfill(stage)
    lease = "lifecycle", "a run", stage.clock.now(), timedelta(minutes=5)
    assert stage.catalog.acquire(*lease)
    with pytest.raises(BadBackfill, match="a run of the lifecycle is under way; try again in a moment"):
        start_backfill(stage, first)
    assert stage.catalog.backfills("s") == []
    stage.catalog.release("lifecycle", "a run")
    start_backfill(stage, first)
    assert stage.catalog.acquire(*lease)
    with pytest.raises(BadBackfill, match="a run of the lifecycle is under way; try again in a moment"):
        stop_backfills(stage)
    assert stage.catalog.backfills("s") == [first]


def test_a_backfill_may_be_open_for_thirty_days_and_no_longer(stage: Any) -> None:
    with pytest.raises(BadBackfill, match="it must close within 30 days, and not have closed already"):
        start_backfill(stage, make_backfill(stage, hours=30 * 24 + 1))
    with pytest.raises(BadBackfill, match="it must close within 30 days, and not have closed already"):
        start_backfill(stage, make_backfill(stage, hours=0))
    start_backfill(stage, make_backfill(stage, hours=30 * 24))
    assert len(stage.catalog.backfills("s")) == 1
