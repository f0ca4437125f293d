"""``latest`` where no notes name the series of a table: each table is read once after its end, and again after late events,
and no event is missed.

Streams without rollups, by series and in packs by the series, and packs by the series with a rollup.
"""

import json
import random
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from tests.fakes.stage import Stage
from tidetable.catalog import Backfill, Opening, State
from tidetable.config import parse
from tidetable.errors import Outage, StoreUnavailable
from tidetable.events import Event
from tidetable.lifecycle.backfill import end_backfills, open_backfill
from tidetable.query import find_latest
from tidetable.rollups import last_periods
from tidetable.rollups.services import BucketBlocked, TooManyEvents
from tidetable.times import EPOCH, to_text

START = datetime(2026, 3, 2, 0, 1, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
STREAM = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
[streams.s]
period = "hour"
late = "1h"
retention = 7
"""
BY_SERIES = 'key = { partition_by = "series" }\n'
IN_PACKS = 'key = { partition_by = "time", bucket = "1h", shards = 2, shard_by = "series" }\npack = { span = "1m" }\n'
ROLLUP = """
[[streams.s.rollup]]
name = "tens"
every = "10m"
fields = ["mag"]
stats = ["count"]
retention = "9d"
"""
KINDS = {"plain": BY_SERIES, "packs": IN_PACKS, "rolled": IN_PACKS + ROLLUP, "late": BY_SERIES}
NAMES = [f"n{number}" for number in range(5)]


@pytest.fixture(autouse=True)
def few_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few tables be many."""
    monkeypatch.setattr("tidetable.config.model.LATEST_TABLES", 3)


@cache
def make_stage(kind: str) -> Stage:
    """Make a stage with a day of tables, without events."""
    stream = STREAM.replace('late = "1h"', 'late = "6h"') if kind == "late" else STREAM
    stage = Stage(START, stream + KINDS[kind], stale_seconds=0.0)
    for _ in range(8):
        stage.run_lifecycle()
        stage.refresh()
        stage.clock.sleep(3_600)
    return stage


class Latest:
    """A stage, and the events that it has stored, by series."""

    def __init__(self, kind: str) -> None:
        self.stage = make_stage(kind).copy()
        self.stored: dict[str, list[tuple[str, str]]] = {name: [] for name in NAMES}

    @property
    def now(self) -> datetime:
        return self.stage.clock.now()

    def send(self, series: str, time: datetime, id: str) -> None:
        body = json.dumps([{"series": series, "time": to_text(time), "id": id, "data": {"mag": 1}}]).encode()
        outcome = self.stage.send("s", body)
        assert outcome.accepted, outcome
        self.stored[series].append((to_text(time), id))

    def drain(self, series: str, time: datetime, id: str) -> None:
        """Write an event that waited in the queue, of whatever time, unless its table takes no event any more."""
        self.stage.queue.send("s", [Event(series, time, id, {"mag": 1})], 1)
        dead = len(self.stage.queue.dead)
        self.stage.drain()
        assert self.stage.queue.messages == []
        if len(self.stage.queue.dead) == dead:
            self.stored[series].append((to_text(time), id))

    def pass_time(self, minutes: float) -> None:
        """Let a part of an hour pass, with the runs of the functions."""
        self.stage.clock.sleep(60 * minutes)
        self.stage.run_lifecycle()
        self.refresh()

    def refresh(self) -> None:
        refreshed = self.stage.refresh()
        assert refreshed is not None
        assert (refreshed.failed, refreshed.blocked) == ([], [])

    def run_hours(self, hours: int) -> None:
        for _ in range(3 * hours):
            self.pass_time(20)

    def ask(self, *names: str, prefix: str = "") -> Any:
        reader = self.stage.reader()
        reader = replace(reader, access=replace(reader.access, series_prefix=prefix))
        given = {"series": list(names or NAMES)}
        return find_latest(self.stage.config.streams["s"], given, reader, self.now, lambda: 100.0)

    def check(self, prefix: str = "") -> int:
        """Compare the answer with what was stored; return the number of requests to tables."""
        entries, oldest = self.stage.catalog.entries("s", None, self.now, consistent=True), to_text(self.now)
        for entry in reversed(entries):
            if not entry.live:
                break
            oldest = to_text(entry.period.start)
        found = self.ask(prefix=prefix)
        for row in found.document()["latest"]:
            seen = [event for event in self.stored[row["series"]] if event[0] >= oldest]
            event = row["event"]
            assert (event and (event["time"], event["id"])) == (max(seen) if seen else None), (row, self.now)
            assert "stopped" not in row
        return int(found.cost.requests)

    def record(self) -> Any:
        return self.stage.rollups.read_at_once("s").last


@pytest.mark.parametrize("kind", KINDS)
def test_silent_series_cost_the_tables_that_may_take_events(kind: str) -> None:
    world = Latest(kind)
    world.run_hours(3)
    world.send("n0", world.now, "old")
    world.run_hours(5)
    tables = {"plain": 5, "packs": 2, "rolled": 2, "late": 5}[kind]
    # Of the present hour and the one before, whatever ``late`` is.
    assert world.check() <= 3 * tables
    assert world.ask("n1").cost.requests <= 4
    assert world.ask("n0").cost.requests <= 5
    assert world.record().covered


def test_late_events_cost_their_tables_until_these_have_rested_and_are_read_again() -> None:
    world, started = Latest("late"), []
    world.run_hours(1)
    silent = world.check()
    scan = world.stage.store.scan_partitions

    def note(table: str) -> Any:
        started.append((table[-2:], world.now.strftime("%H:%M")))
        return scan(table)

    world.stage.store.scan_partitions = note  # type: ignore[method-assign]
    hours = [4, 3, 2]
    for hour in hours:
        world.send("n0", world.now - hour * HOUR, f"late-{hour}")
    # The newest of the three tables has the latest event of one series, which is not looked for in the others.
    assert world.check() == silent + 5 + 4 + 4
    world.pass_time(20)
    world.send("n1", world.now - 4 * HOUR, "again")
    world.run_hours(4)
    # Their last events came 2, 3 and 4 hours after their beginnings; half of it later their marks rest, and within five
    # minutes more the tables are due. A run comes every 20 minutes.
    read = [(table, at) for table, at in started if table in ("05", "06", "07")]
    assert read == [("07", "10:24"), ("06", "10:44"), ("05", "11:44")]
    # The event of the last hour has expired; the other one is read from its table.
    assert world.check() == silent + 1


def test_a_table_that_takes_no_more_events_of_requests_rests_for_late_at_the_most() -> None:
    world = Latest("plain")
    world.run_hours(1)
    world.drain("n0", world.now - 5 * HOUR, "late")
    world.pass_time(30)
    assert len(world.stage.rollups.read_at_once("s").marks) == 1
    world.run_hours(1)
    assert world.stage.rollups.read_at_once("s").marks == []
    assert len(world.record().covered) == 1


def test_a_request_waits_in_the_queue_while_a_period_that_is_over_cannot_be_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Latest("plain")
    bodies = [
        {"series": f"n{hours}", "time": to_text(world.now - hours * HOUR), "id": "a", "data": {}} for hours in (0, 1)
    ]
    puts = Mock(side_effect=StoreUnavailable(Outage.OTHER, "x"))
    with monkeypatch.context() as patch:
        patch.setattr(world.stage.rollups, "put_marks", puts)
        outcome = world.stage.send("s", json.dumps(bodies).encode())
        assert (outcome.accepted, outcome.queued, outcome.unmarked) == (1, 1, 1)
        assert world.stage.send("s", json.dumps(bodies[:1]).encode()).accepted == 1
    assert puts.call_count == 1
    world.stage.drain()
    assert set(world.ask("n0", "n1").events) == {"n0", "n1"}


def test_a_process_marks_a_period_once_in_five_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    world, puts = Latest("plain"), Mock()
    monkeypatch.setattr(world.stage.rollups, "put_marks", puts)
    for seconds in (0, 1, 298, 2):
        world.stage.clock.sleep(seconds)
        world.send("n0", world.now - HOUR, "a")
    assert [call.args[1] for call in puts.call_args_list] == [[START.replace(hour=7, minute=0)]] * 2


@pytest.mark.parametrize(("kind", "seed"), [("plain", 1), ("packs", 3), ("rolled", 4), ("late", 5)])
def test_no_event_is_missed_whatever_comes_late_and_whenever_runs_come(
    monkeypatch: pytest.MonkeyPatch, kind: str, seed: int
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(last_periods, "_PERIODS", 2)
    world = Latest(kind)
    for step in range(36):
        world.stage.clock.sleep(chance.choice([60, 300, 1_300, 2_000]))
        if chance.random() < 0.8:
            world.stage.run_lifecycle()
        name, id = chance.choice(NAMES[: 1 + step % 5]), str(step)
        match chance.randrange(6):
            case 0 | 1:
                world.send(
                    name, world.now - chance.choice([timedelta(0), HOUR, *([4 * HOUR] if kind == "late" else [])]), id
                )
            case 2 | 3:
                world.drain(name, world.now - chance.randrange(1, 7) * HOUR, id)
            case 4:
                start = world.now - chance.randrange(3, 5) * HOUR
                import_event(world, name, start, id)
        if chance.random() < 0.4:
            world.check("n" if step % 2 else "")
        if chance.random() < 0.8:
            world.refresh()
        world.check()
    assert world.record().generation > 2


def import_event(world: Latest, series: str, start: datetime, id: str) -> None:
    """Open a period for a backfill, import an event, and end the backfill."""
    opening = Opening(world.now + HOUR, None, None)
    report = open_backfill(Backfill("s", start, start + MINUTE, opening), world.stage.begin_run("open", lambda: 280.0))
    assert report.healthy
    world.refresh()
    world.check()
    world.send(series, start, id)
    world.check()
    world.refresh()
    world.check()
    end_backfills("s", world.stage.begin_run("end", lambda: 280.0))
    world.stage.run_lifecycle()


def find_label(world: Latest, hours: int) -> str:
    (entry,) = world.stage.catalog.entries("s", world.now - hours * HOUR, world.now - hours * HOUR, consistent=True)
    return entry.period.label


@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_period_is_searched(kind: str) -> None:
    world = Latest(kind)
    world.send("n0", world.now, "old")
    world.run_hours(9)
    at = timedelta(hours=9)
    (entry,) = world.stage.catalog.entries("s", world.now - at, world.now - at, consistent=True)
    assert entry.state is State.DELETED
    for hours in (8, 9):
        # Both are kept, so that the tables follow each other.
        world.stage.restore("s", find_label(world, hours), keep_days=1)
    assert world.ask("n0").document()["latest"][0]["event"]["id"] == "old"
    world.run_hours(1)
    assert world.ask("n0").document()["latest"][0]["event"]["id"] == "old"


def test_the_drain_writes_nothing_into_a_closed_table_that_it_cannot_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Latest("plain")
    late = Event("n0", world.now - 4 * HOUR, "late", {})
    with monkeypatch.context() as patch:
        patch.setattr(world.stage.rollups, "put_marks", Mock(side_effect=StoreUnavailable(Outage.OTHER, "x")))
        # Into an open table it writes without a mark.
        world.drain("n1", world.now, "present")
        world.stage.queue.send("s", [late], 1)
        world.stage.drain()
        assert world.ask("n0").events == {}
    world.stage.clock.sleep(600)
    world.stage.drain()
    assert world.ask("n0").events["n0"]["id"] == "late"


def test_a_run_between_the_mark_and_the_event_of_the_queue_does_not_let_the_mark_go(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Latest("plain")
    world.run_hours(2)
    world.stage.clock.sleep(3_600)
    assert world.record().due < world.now
    transact = world.stage.store.transact

    def refresh_first(*given: Any, **options: Any) -> Any:
        world.refresh()
        return transact(*given, **options)

    with monkeypatch.context() as patch:
        patch.setattr(world.stage.store, "transact", refresh_first)
        world.drain("n0", world.now - 5 * HOUR, "late")
    world.check()
    world.run_hours(1)
    assert world.check() <= 4 * len(NAMES) + 1


def test_a_table_that_takes_events_again_has_marks() -> None:
    """``late`` is raised."""
    world = Latest("plain")
    world.run_hours(1)
    for _ in range(8):
        world.stage.clock.sleep(1_200)
        world.refresh()
    world.stage.config = parse((STREAM + BY_SERIES).replace('late = "1h"', 'late = "5h"'))
    world.send("n0", world.now - 2 * HOUR, "late")
    world.check()


def test_a_record_of_a_version_whose_requests_put_no_marks_does_not_count() -> None:
    """Its tables are read again, but not before every function of the former version has ended."""
    world = Latest("plain")
    world.run_hours(1)
    state = world.stage.rollups.read_at_once("s")
    assert state.last is not None
    former = state.last._replace(since=EPOCH, version=state.last.version + 1)
    assert world.stage.rollups.put_last("s", former, state.last)
    assert world.ask("n0").cost.requests >= 7
    begun = world.now
    world.refresh()
    assert (world.record().covered, world.record().due) == ((), begun + 15 * MINUTE)
    world.run_hours(1)
    assert world.ask("n0").cost.requests <= 4


def test_a_record_at_which_nobody_looked_for_three_hours_does_not_count() -> None:
    """A former version may have worked meanwhile: its drain puts no marks."""
    world = Latest("plain")
    world.run_hours(3)
    assert world.ask("n0").cost.requests <= 4
    for _ in range(10):
        world.stage.clock.sleep(1_200)
        world.stage.run_lifecycle()
    assert world.ask("n0").cost.requests >= 7
    world.refresh()
    # The tables are read again, but not before every function of the former version has ended.
    assert world.record().covered == ()
    world.run_hours(1)
    assert world.ask("n0").cost.requests <= 4


def test_a_provisioned_table_with_few_units_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Latest("plain")
    world.run_hours(1)
    covered = world.record().covered
    with monkeypatch.context() as patch:
        patch.setattr(last_periods, "_LEAST_UNITS", 10**9)
        patch.setattr("tidetable.catalog.SeenTable.read", 24)
        world.run_hours(2)
        assert world.record().covered[-1][1] == covered[-1][1]
        assert world.check() > 3 * len(NAMES)
    world.run_hours(1)
    assert world.record().covered[-1][1] > covered[-1][1]


@pytest.mark.parametrize("error", [TooManyEvents(9), BucketBlocked("damaged")])
def test_a_table_that_cannot_be_read_is_searched_and_stops_no_other_work(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    world = Latest("rolled")
    world.run_hours(1)
    covered = world.record().covered
    with monkeypatch.context() as patch:
        patch.setattr(last_periods, "read_hashes", Mock(side_effect=error))
        world.run_hours(2)
        assert world.record().covered[-1][1] == covered[-1][1]
        world.check()
    world.run_hours(2)
    assert world.record().covered[-1][1] > covered[-1][1]


def test_a_stream_with_few_tables_has_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Latest("plain")
    monkeypatch.setattr("tidetable.config.model.LATEST_TABLES", 7)
    before = world.record()
    world.run_hours(2)
    assert world.record() == before
    assert world.check() >= 7 * len(NAMES)
