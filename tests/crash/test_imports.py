"""Backfills and removals are stopped after each of their calls, and run again."""

import json
from datetime import UTC, datetime, timedelta

from tests.fakes.stage import Stage
from tests.worlds.killed import killed_after_every_change
from tests.worlds.operations import FIRST, age_stage, build_stage, read_events, settle, states, tables
from tidetable.catalog import Backfill, Opening, State
from tidetable.lifecycle.backfill import end_backfills, open_backfill
from tidetable.lifecycle.removal import Removed, remove
from tidetable.problems import ProblemError
from tidetable.times import to_text

START, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)


LATER = datetime(2026, 5, 15, 12, tzinfo=UTC)


UNTIL = LATER + timedelta(hours=24)


HISTORY = [
    {"series": "a", "id": f"h{day}", "time": to_text(START + timedelta(days=day)), "data": {"n": day}}
    for day in range(20)
]


IDS = [f"h{day}" for day in range(19, -1, -1)]


BEFORE = START - timedelta(days=1)


def grown() -> Stage:
    """A stage whose horizon is in April, because its first months were deleted."""
    stage = build_stage(now=datetime(2026, 2, 10, 12, tzinfo=UTC))
    stage.clock.time = LATER - timedelta(hours=1)
    settle(stage, 6)
    assert states(stage) == {
        "2026-02": "deleted", "2026-03": "deleted", "2026-05": "open", "2026-06": "open",
    }  # fmt: skip
    return stage


def begin(stage: Stage) -> None:
    backfill = Backfill("s", START, END, Opening(UNTIL, 50, 5))
    assert open_backfill(backfill, stage.begin_run("begin", lambda: 280.0)).healthy


def end(stage: Stage) -> None:
    end_backfills("s", stage.begin_run("end", lambda: 280.0))


def imports(stage: Stage) -> bool:
    """Whether the stage accepts history."""
    try:
        outcome = stage.send("s", json.dumps(HISTORY).encode())
    except ProblemError:
        return False
    assert outcome.accepted == len(HISTORY)
    return True


def ages(stage: Stage) -> None:
    """Close and archive the periods, and delete their tables."""
    stage.clock.time = max(stage.clock.now(), UNTIL) + timedelta(hours=1)
    settle(stage, 8)


def test_the_begin_of_a_backfill_is_finished_by_the_next_request() -> None:
    for calls, stage in killed_after_every_change(grown, begin):
        begin(stage)
        stage.clock.sleep(60)
        assert imports(stage), f"killed after {calls} calls"
        assert {"s.2026-01", "s.2026-01.parts"} <= set(tables(stage))
        ages(stage)
        assert states(stage)["2026-01"] == "deleted", f"killed after {calls} calls"
        assert [id for id, _ in read_events(stage, BEFORE)] == IDS, f"killed after {calls} calls"


def test_a_backfill_that_was_stopped_is_finished_by_the_lifecycle_or_never_was() -> None:
    recorded = set()
    for calls, stage in killed_after_every_change(grown, begin):
        settle(stage, 2)
        requested = bool(stage.catalog.backfills("s"))
        recorded.add(requested)
        assert imports(stage) == requested, f"killed after {calls} calls"
        assert ("s.2026-01" in tables(stage)) == requested
        ages(stage)
        assert [id for id, _ in read_events(stage, BEFORE)] == IDS * requested, f"killed after {calls} calls"
        assert not [name for name in tables(stage) if "2026-01" in name], "it closed by itself"
    assert recorded == {False, True}


def test_the_end_of_a_backfill_is_finished_by_the_next_request() -> None:
    def imported() -> Stage:
        stage = grown()
        begin(stage)
        stage.clock.sleep(60)
        assert imports(stage)
        return stage

    for calls, stage in killed_after_every_change(imported, end):
        end(stage)
        stage.clock.sleep(10)
        assert stage.catalog.backfills("s") == []
        assert not imports(stage), f"killed after {calls} calls"
        assert [id for id, _ in read_events(stage, BEFORE)] == IDS
        # Fifteen minutes after it was closed, and not a day later.
        stage.clock.sleep(1200)
        settle(stage, 4)
        assert stage.clock.now() < UNTIL
        assert states(stage)["2026-01"] == "deleted", f"killed after {calls} calls"
        assert [id for id, _ in read_events(stage, BEFORE)] == IDS


def removing(stage: Stage) -> Removed:
    end_of_time = stage.clock.now() + timedelta(seconds=585)

    def remaining() -> float:
        return (end_of_time - stage.clock.now()).total_seconds()

    return remove(stage.begin_run(f"removal {stage.clock.now()}", remaining))


def test_a_removal_is_finished_by_the_next() -> None:
    """Of a month that is being restored, a month that is being archived, and open months, each with its table of parts."""

    def lived() -> Stage:
        stage = age_stage(FIRST[2:])
        assert stage.restore("s", "2026-03").state == "closed"
        entry = next(entry for entry in stage.catalog.entries("s", consistent=True) if entry.period.label == "2026-04")
        stage.catalog.move(entry, State.ARCHIVING, expected=[State.CLOSED, State.OPEN])
        entry = next(entry for entry in stage.catalog.entries("s", consistent=True) if entry.period.label == "2026-03")
        stage.catalog.move(entry, State.RESTORING, expected=[State.CLOSED])
        return stage

    whole = lived()
    months = ("2026-03", "2026-04", "2026-05", "2026-06")
    assert tables(whole) == [f"s.{month}{kind}" for month in months for kind in ("", ".parts")]
    removing(whole)
    archives = sorted(whole.bucket.objects)
    for calls, stage in killed_after_every_change(lived, removing):
        removing(stage)
        assert tables(stage) == [], f"killed after {calls} calls"
        assert set(states(stage).values()) == {"deleted"}
        assert sorted(stage.bucket.objects) == archives, "archives stay"
        assert [id for id, _ in read_events(stage)] == ["ccc"], "and are read"
        assert removing(stage).tables == []
