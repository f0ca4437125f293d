"""``latest`` of silent series: it leaves out the periods in which they have no event, and it never misses an event."""

import json
import random
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from tests.fakes.stage import Stage
from tidetable.errors import Outage, StoreUnavailable, TableMissing, TableThrottled
from tidetable.query import find_latest, silent_series
from tidetable.rollup_model import last_periods as model
from tidetable.rollups import last_periods
from tidetable.times import to_text

START = datetime(2026, 3, 2, 0, 1, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
CONFIG = """
[lifecycle]
delete_expired = true
delete_grace = "0s"
[streams.s]
period = "hour"
late = "4h"
retention = 9
key = { partition_by = "series" }
[[streams.s.rollup]]
name = "tens"
every = "10m"
fields = ["mag"]
stats = ["count"]
retention = "9d"
"""
NAMES = [f"n{number}" for number in range(6)]


@cache
def make_stage() -> Stage:
    """Make a stage whose first tables, which are not noted, are deleted."""
    stage = Stage(START, CONFIG, stale_seconds=0.0)
    for _ in range(14):
        stage.run_lifecycle()
        stage.refresh()
        stage.clock.sleep(3_600)
    return stage


class Latest:
    """A stage all of whose tables are noted, and the events that it has acknowledged, by series."""

    def __init__(self) -> None:
        self.stage = make_stage().copy()
        self.sent: dict[str, list[tuple[str, str]]] = {name: [] for name in NAMES}

    @property
    def now(self) -> datetime:
        return self.stage.clock.now()

    def send(self, series: str, time: datetime, id: str) -> None:
        body = json.dumps([{"series": series, "time": to_text(time), "id": id, "data": {"mag": 1}}]).encode()
        outcome = self.stage.send("s", body)
        assert outcome.status == 200, outcome
        if outcome.accepted:
            self.sent[series].append((to_text(time), id))

    def ask(self, *names: str, **options: str) -> Any:
        parameters = {"series": list(names or NAMES)} | {name: [value] for name, value in options.items()}
        return find_latest(self.stage.config.streams["s"], parameters, self.stage.reader(), self.now, lambda: 100.0)

    def list_oldest(self) -> datetime:
        """Find the beginning of the oldest table of those that follow each other up to now."""
        entries = self.stage.catalog.entries("s", None, self.now, consistent=True)
        oldest = self.now
        for entry in reversed(entries):
            if not entry.live:
                break
            oldest = entry.period.start
        return oldest

    def check(self, before: datetime | None = None) -> int:
        """Compare the answer with what was sent; return the number of requests to tables."""
        oldest, options = to_text(self.list_oldest()), {} if before is None else {"before": to_text(before)}
        found = self.ask(**options)
        rows = {row["series"]: row for row in found.document()["latest"]}
        for name, events in self.sent.items():
            seen = [event for event in events if event[0] >= oldest and (before is None or event[0] < to_text(before))]
            event = rows[name]["event"]
            assert (event and (event["time"], event["id"])) == (max(seen) if seen else None), (name, self.now)
            assert "stopped" not in rows[name]
        return int(found.cost.requests)


@pytest.mark.parametrize("seed", range(2))
def test_no_event_is_missed_whatever_comes_late_and_whenever_runs_come(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    # Few series and few hours must reach every branch.
    monkeypatch.setattr(model, "_SLOT_SERIES", 2)
    monkeypatch.setattr(last_periods, "_SLOTS_AT_ONCE", 1 + seed)
    monkeypatch.setattr(last_periods, "_PERIODS", 2)
    world = Latest()
    for step in range(60):
        world.stage.clock.sleep(chance.choice([120, 300, 1_500, 2_400]))
        world.stage.run_lifecycle()
        for number in range(chance.choice([0, 0, 1, 2])):
            name = chance.choice(NAMES[: 2 + step % 5])
            ago = chance.choice([timedelta(0), MINUTE, HOUR, 2 * HOUR, 4 * HOUR - MINUTE])
            world.send(name, world.now - ago, f"{step}-{number}")
            if chance.random() < 0.3:
                world.check()
        if chance.random() < 0.7:
            refreshed = world.stage.refresh()
            assert refreshed is not None
            assert refreshed.failed == []
        world.check(chance.choice([None, None, world.now - 4 * HOUR]))
    record = world.stage.rollups.read_at_once("s").last
    assert record is not None
    assert record.generation > 3
    assert record.covered[0][0] >= world.list_oldest() - HOUR


def run_hours(world: Latest, hours: int) -> None:
    for _ in range(hours):
        world.stage.clock.sleep(3_600)
        world.stage.run_lifecycle()
        world.stage.refresh()


def test_silent_series_cost_the_open_hours_and_one_table_with_their_event() -> None:
    world = Latest()
    run_hours(world, 3)
    world.send("n0", world.now, "old")
    run_hours(world, 7)
    world.send("n1", world.now, "new")
    # The present hour, and the hour of the old event.
    assert world.check() <= len(NAMES) + 1
    found = world.ask("n2", "n3")
    assert found.cost.requests == 2
    # The oldest covered hour was just deleted.
    assert found.document()["searched_back_to"] == to_text(world.list_oldest() - HOUR)
    assert world.ask("n0").cost.requests == 2


def test_a_late_event_is_found_before_and_after_its_bucket_was_computed_anew() -> None:
    world = Latest()
    run_hours(world, 10)
    for time in (world.now - 2 * HOUR, world.now - 3 * HOUR):
        world.send("n5", time, f"late-{time:%H}")
        # The next late event of this time goes into a marked bucket.
        world.send("n4", time + MINUTE, f"later-{time:%H}")
        for _ in range(12):
            assert world.check() < 40
            world.stage.clock.sleep(60)
            world.stage.refresh()
    run_hours(world, 1)
    assert world.check() <= len(NAMES) + 3


def test_with_too_many_marks_all_tables_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Latest()
    run_hours(world, 10)
    assert world.ask("n0").cost.requests <= 3
    monkeypatch.setattr("aws.dynamodb.rollups._MOST_MARKS", 2)
    for hours in (1, 2, 3):
        world.send("n1", world.now - hours * HOUR, "late")
    assert world.ask("n0").cost.requests >= 9
    assert world.check() >= 9


def test_a_generation_that_was_replaced_while_it_was_read_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Latest()
    run_hours(world, 10)
    world.send("n0", world.now, "now")
    rollups, read = world.stage.rollups, world.stage.rollups.read_slots
    replaced = iter([True, False, True, True])
    monkeypatch.setattr(rollups, "read_slots", lambda *given: None if next(replaced) else read(*given))
    given: Any = ("s", ["n0"], world.stage.reader().rolled, world.stage.catalog, world.now)
    assert silent_series.read_series_periods(*given) is not None
    assert silent_series.read_series_periods(*given) is None


@pytest.mark.parametrize(
    "error", [TableThrottled("rollups"), TableMissing("rollups"), StoreUnavailable(Outage.OTHER, "x")]
)
def test_an_outage_of_their_table_fails_no_search(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    world = Latest()
    world.send("n0", world.now, "now")
    for name in ("read_last", "read_slots"):
        with monkeypatch.context() as patch:
            patch.setattr(world.stage.rollups, name, Mock(side_effect=error))
            assert world.check() >= 9


def test_a_key_with_a_series_prefix_gets_the_same_answer_whatever_comes_late_in_other_series() -> None:
    world = Latest()
    world.send("n1", world.now, "own")
    run_hours(world, 8)
    reader = replace(world.stage.reader(), access=replace(world.stage.reader().access, series_prefix="n"))

    def ask() -> Any:
        given = world.stage.config.streams["s"], {"series": ["n0", "n1"]}, reader, world.now, lambda: 100.0
        return find_latest(*given)

    before = ask()
    assert before.cost.requests <= 3
    for hours in (1, 2, 3):
        world.send("n5", world.now - hours * HOUR, "late")
    after = ask()
    assert after.cost.requests >= 5
    assert after.document() == before.document()


def refresh_formerly(world: Latest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run of a version work that knows neither records of last periods nor marks of new events."""
    assert world.stage.catalog.acquire("rollups", "a former run", world.now, MINUTE)
    with monkeypatch.context() as patch:
        patch.setattr("tidetable.rollups.refresh.shut_out_former", lambda services, _: services)
        patch.setattr("tidetable.rollups.reseal.cut_marked", lambda _, state, __: state)
        for name in ("add_new_events", "cover_periods"):
            patch.setattr(f"tidetable.rollups.seal.{name}", lambda *_: None)
        refreshed = world.stage.refresh()
    assert refreshed is not None
    assert refreshed.failed == []


@pytest.mark.parametrize("when", ["before", "while"])
def test_after_a_rollback_the_former_record_does_not_hide_an_event(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """A former version lets a mark rest, before or while ``latest`` searches. The record says still that its period is
    covered.
    """
    world = Latest()
    run_hours(world, 10)
    assert world.ask("n0").cost.requests <= 3
    monkeypatch.setattr("tidetable.ingest.marks.MOST_ADDED", 0)
    world.stage.clock.sleep(1_000)
    world.send("n0", world.now - 2 * HOUR, "late")
    rollups, read = world.stage.rollups, world.stage.rollups.read_last

    def roll_back() -> None:
        for _ in range(12):
            world.stage.clock.sleep(61)
            refresh_formerly(world, monkeypatch)
        assert rollups.read_state("s").marks == []

    def read_later(stream: str) -> Any:
        roll_back()
        return read(stream)

    if when == "before":
        roll_back()
    with monkeypatch.context() as patch:
        if when == "while":
            patch.setattr(rollups, "read_last", read_later)
        # The next upgrade: first its queries come, then its refresher, which looks at the record after an hour at most.
        assert world.check() >= 9
    world.stage.clock.sleep(61)
    world.stage.refresh()
    world.check()
    world.stage.clock.sleep(3_600)
    world.stage.run_lifecycle()
    world.stage.refresh()
    assert world.check() <= 2 * len(NAMES)
    assert world.ask("n1").cost.requests <= 3


def test_two_series_with_one_hash_are_both_found(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (last_periods, silent_series):
        monkeypatch.setattr(module, "hash_series", lambda _: 7)
    world = Latest()
    run_hours(world, 2)
    world.send("n0", world.now, "older")
    run_hours(world, 3)
    world.send("n1", world.now, "newer")
    run_hours(world, 4)
    world.check()


def test_a_run_that_was_stopped_while_it_wrote_slots_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "_SLOT_SERIES", 1)
    monkeypatch.setattr(last_periods, "_SLOTS_AT_ONCE", 1)
    world = Latest()
    for number, name in enumerate(NAMES):
        world.send(name, world.now, str(number))
    run_hours(world, 6)
    before = world.stage.rollups.read_at_once("s").last
    put, allowed = world.stage.rollups.put_slots, iter([True, True])

    def stop(*given: Any) -> None:
        if not next(allowed, False):
            raise KeyboardInterrupt
        put(*given)

    monkeypatch.setattr(world.stage.rollups, "put_slots", stop)
    world.stage.clock.sleep(3_600)
    world.stage.run_lifecycle()
    world.send("n0", world.now - 2 * MINUTE, "then")
    world.stage.clock.sleep(3_600)
    world.stage.run_lifecycle()
    with pytest.raises(KeyboardInterrupt):
        world.stage.refresh()
    assert world.stage.rollups.read_at_once("s").last == before
    world.check()
    monkeypatch.setattr(world.stage.rollups, "put_slots", put)
    world.stage.clock.sleep(900)
    world.stage.refresh()
    assert world.stage.rollups.read_at_once("s").last != before
    world.check()
