"""The refresher, and a request with late events, are stopped after each of their calls: no aggregate is wrong at any time."""

import json
from datetime import datetime, timedelta
from typing import Any

from tests.fakes.stage import Stage
from tests.worlds.aggregates import Rows, ask_aggregate, rollups_of, rows_of, tally
from tests.worlds.killed import CONFIG, NOON, killed_after_every_change
from tidetable.events import Event
from tidetable.rollup_model.bounds import to_millis
from tidetable.times import from_text, to_text

ROLLED = (
    CONFIG
    + """
[[streams.s.rollup]]
name = "hours"
every = "1h"
by = ["series"]
fields = ["n"]
stats = ["count", "sum", "min", "max", "first", "last", "percentiles"]
retention = "60d"
[[streams.s.rollup]]
name = "days"
every = "1d"
fields = ["n"]
stats = ["count", "sum", "min", "max", "first", "last"]
retention = "60d"
"""
)
HOUR = timedelta(hours=1)
START = NOON + HOUR
MIDNIGHT = NOON.replace(hour=0) + timedelta(days=1)


def event(id: str, time: datetime, n: int, series: str = "a") -> dict[str, Any]:
    return {"series": series, "id": id, "time": to_text(time), "data": {"n": n}}


# On time in the second of the hours that are sealed first; then late events: a new, a corrected, and one of another hour.
FIRST = [event(f"e{n}", START + HOUR + timedelta(minutes=10 * n), n, "ab"[n % 2]) for n in range(6)]
LATE = [
    event("late", START + timedelta(minutes=90), 70, "c"),
    event("e3", START + HOUR + timedelta(minutes=30), -7, "b"),
    event("early", START + timedelta(minutes=5), 90),
]


def send(stage: Stage, events: list[dict[str, Any]]) -> None:
    outcome = stage.send("s", json.dumps(events).encode())
    assert (outcome.accepted, outcome.queued, outcome.rejections) == (len(events), 0, [])


def begun() -> Stage:
    """A stage whose rollups begin at 13:00 and at midnight, and which has events of 14:00 to 15:00."""
    stage = Stage(NOON + timedelta(minutes=30), ROLLED)
    stage.run_lifecycle()
    stage.clock.sleep(60)
    assert stage.refresh()
    stage.clock.time = START + 2 * HOUR
    send(stage, FIRST)
    stage.run_lifecycle()
    stage.clock.time = START + 2 * HOUR + timedelta(minutes=30)
    return stage


def sealed() -> Stage:
    """The same after its hours were sealed."""
    stage = begun()
    refresh(stage)
    return stage


def marked() -> Stage:
    """The same with late events, when their marks are old enough."""
    stage = sealed()
    send(stage, LATE)
    stage.clock.sleep(300)
    return stage


def refresh(stage: Stage) -> None:
    report = stage.refresh()
    assert report is not None
    assert (report.failed, report.blocked, report.over, report.finished) == ([], [], [], True)


def read(stage: Stage, step: str, by: str, **more: str) -> tuple[Rows, set[str]]:
    # A read may be as old as a write whose function was stopped.
    stage.settle()
    grouped = {"by": by} if by else {}
    asked = {"step": step, "stat": "count,sum,min,max,first,last", "field": "n", **grouped, **more}
    found = ask_aggregate(stage, "s", START, START + 3 * HOUR, **asked)
    return rows_of(found), rollups_of(found)


def check(stage: Stage, events: list[dict[str, Any]], what: str) -> set[str]:
    """Compare the hours with what was sent; returns the rollups that answered."""
    rolled, used = read(stage, "1h", "series")
    raw, _ = read(stage, "1h", "series", rollups="false")
    assert rolled == raw == tally(events, HOUR, ["series"]), what
    return used


def corrected() -> list[dict[str, Any]]:
    return [*(event for event in FIRST if event["id"] != "e3"), *LATE]


def test_hours_that_were_sealed_answer() -> None:
    stage = begun()
    assert check(stage, FIRST, "before") == set()
    refresh(stage)
    assert check(stage, FIRST, "sealed") == {"s-hours"}
    send(stage, LATE)
    assert check(stage, corrected(), "late") == set()
    stage.clock.sleep(300)
    refresh(stage)
    assert check(stage, corrected(), "resealed") == {"s-hours"}
    assert not stage.rollups.read_state("s").marks


def test_a_refresher_that_was_stopped_while_it_seals_is_finished_by_the_next() -> None:
    for calls, stage in killed_after_every_change(begun, refresh):
        check(stage, FIRST, f"killed after {calls} calls")
        # The lease of the refresher that was stopped lasts longer than the pause after a stop.
        stage.clock.sleep(60)
        refresh(stage)
        assert check(stage, FIRST, f"killed after {calls} calls") == {"s-hours"}


def test_a_refresher_that_was_stopped_while_it_computes_late_buckets_anew_is_finished_by_the_next() -> None:
    for calls, stage in killed_after_every_change(marked, refresh):
        check(stage, corrected(), f"killed after {calls} calls")
        stage.clock.sleep(60)
        refresh(stage)
        assert check(stage, corrected(), f"killed after {calls} calls") == {"s-hours"}
        assert not stage.rollups.read_state("s").marks, f"killed after {calls} calls"


def test_a_message_with_late_events_that_comes_again_leaves_no_event_that_aggregates_miss() -> None:
    def queued() -> Stage:
        stage = sealed()
        waiting = [Event(event["series"], from_text(event["time"]), event["id"], event["data"]) for event in LATE]
        stage.queue.send("s", waiting, to_millis(stage.clock.now()))
        return stage

    for calls, stage in killed_after_every_change(queued, Stage.drain):
        rolled, _ = read(stage, "1h", "series")
        assert rolled == read(stage, "1h", "series", rollups="false")[0], f"killed after {calls} calls"
        refresh(stage)
        stage.clock.sleep(400)
        stage.drain()
        assert stage.queue.messages == []
        check(stage, corrected(), f"killed after {calls} calls")
        stage.clock.sleep(300)
        refresh(stage)
        assert check(stage, corrected(), f"killed after {calls} calls") == {"s-hours"}


def test_a_day_is_made_of_its_hours_by_the_run_after_the_stopped_one() -> None:
    sent = [event(f"d{n}", MIDNIGHT + timedelta(hours=n), n) for n in (1, 5, 23)]

    def due() -> Stage:
        """A minute before the last hour and its day can be sealed, all but the last hour is."""
        stage = begun()
        for hours, events in ((10, sent[:2]), (23.5, sent[2:])):
            stage.clock.time = MIDNIGHT + hours * HOUR
            stage.run_lifecycle()
            send(stage, events)
            refresh(stage)
        stage.clock.time = MIDNIGHT + 24 * HOUR + timedelta(minutes=4)
        return stage

    def check_day(stage: Stage, rollup: str | None, calls: int) -> None:
        stage.settle()
        asked = {"step": "1d", "stat": "count,sum,min,max,first,last", "field": "n"}
        found = ask_aggregate(stage, "s", MIDNIGHT, MIDNIGHT + 24 * HOUR, **asked)
        assert rows_of(found) == tally(sent, 24 * HOUR, []), f"killed after {calls} calls"
        assert rollup is None or rollups_of(found) == {rollup}, f"killed after {calls} calls"

    for calls, stage in killed_after_every_change(due, refresh):
        check_day(stage, None, calls)
        stage.clock.sleep(60)
        refresh(stage)
        check_day(stage, "s-days", calls)


def test_a_request_with_late_events_that_was_cut_short_leaves_no_event_that_aggregates_miss() -> None:
    for calls, stage in killed_after_every_change(sealed, lambda stage: send(stage, LATE)):
        rolled, _ = read(stage, "1h", "series")
        raw, _ = read(stage, "1h", "series", rollups="false")
        assert rolled == raw, f"killed after {calls} calls"
        refresh(stage)
        assert read(stage, "1h", "series")[0] == raw, f"killed after {calls} calls"
        send(stage, LATE)
        check(stage, corrected(), f"killed after {calls} calls")
        stage.clock.sleep(300)
        refresh(stage)
        assert check(stage, corrected(), f"killed after {calls} calls") == {"s-hours"}


BY_SERIES = ROLLED.replace('partition_by = "time"\nbucket = "6h"', 'partition_by = "series"')


def test_a_request_that_was_stopped_has_written_no_event_whose_series_is_not_noted() -> None:
    """An event of another process comes first, so that some series are noted."""
    events = [event(f"e{n}", NOON + timedelta(minutes=20), n, f"series-{n % 7}") for n in range(30)]

    def noted() -> Stage:
        stage = Stage(NOON + timedelta(minutes=30), BY_SERIES)
        stage.run_lifecycle()
        stage.clock.sleep(60)
        send(stage, events[:3])
        return stage

    def count_items(stage: Stage) -> int:
        tables = stage.dynamo.account.tables
        return sum(table.count for name, table in tables.items() if name.startswith("tidetable-lapse.s."))

    written = set()
    for calls, stage in killed_after_every_change(noted, lambda stage: send(stage, events)):
        found = ask_aggregate(stage, "s", NOON, START, by="series", stat="count", rollups="false")
        assert sum(row["count"] for row in found.rows) == count_items(stage), f"killed after {calls} calls"
        written.add(count_items(stage))
        send(stage, events)
        assert count_items(stage) == 30
    assert written == {3, 25}


def test_a_first_run_that_was_stopped_begins_each_rollup_once() -> None:
    """The next run begins ten minutes after itself, never before."""

    def nothing() -> Stage:
        stage = Stage(NOON + timedelta(minutes=30), ROLLED)
        stage.run_lifecycle()
        # As if the stream had been there before its rollups.
        for rollup in ("hours", "days"):
            stage.rollups.forget("s", rollup)
        stage.clock.sleep(60)
        return stage

    for calls, stage in killed_after_every_change(nothing, refresh):
        stage.clock.sleep(60)
        refresh(stage)
        starts = [(edge.rollup, edge.start) for edge in stage.rollups.read_state("s").edges]
        assert starts == [("hours", START), ("days", MIDNIGHT)], f"killed after {calls} calls"
