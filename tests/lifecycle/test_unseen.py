"""Facts that the service shows with a delay: a new table, its tags, and recent writes of other functions."""

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from strict import Fault, Kind, Timings
from tests.fakes.stage import CATALOG, STAGE, Stage
from tidetable.catalog import Entry, State
from tidetable.config import TableClass
from tidetable.errors import NotOurs, NotReady
from tidetable.events import Event
from tidetable.lifecycle import LifecycleRun
from tidetable.lifecycle.apply import apply
from tidetable.lifecycle.deployed import take_back
from tidetable.lifecycle.removal import Removed, remove
from tidetable.period_tables import PeriodTables, make_table_tags
from tidetable.ports import TableSpec
from tidetable.times import to_text
from tidetable.upkeep.actions import Delete

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
DAY = "2026-03-15"
TABLE = f"tidetable-lapse.s.{DAY}"
CONFIG = """
[lifecycle]
delete_expired = false
stagger = "0s"
[streams.s]
period = "day"
late = "2d"
retention = 3
removal = "delete"
versions = "keep"
large = { beyond = "s3" }
[streams.s.key]
partition_by = "series"
"""
# Longer than any pause between two runs, so that each meets it.
SLOW = Timings(seen=20, tagged=40)
SEEDS = range(8)


def world(stage: Stage, seconds: float = 500) -> LifecycleRun:
    end = stage.clock.now() + timedelta(seconds=seconds)

    def remaining() -> float:
        return (end - stage.clock.now()).total_seconds()

    return stage.begin_run("destroy", remaining)


def removing(stage: Stage) -> Removed:
    return remove(world(stage))


def read_entry(stage: Stage, label: str = DAY) -> Entry:
    return next(entry for entry in stage.catalog.entries("s", consistent=True) if entry.period.label == label)


def made_unanswered(seed: int, timings: Timings) -> Stage:
    """A stage whose first run had no answers to its CreateTable requests; the tables are being created nevertheless."""
    stage = Stage(NOON, CONFIG, seed)
    stage.dynamo.account.timings = timings
    stage.dynamo.faults.add(Fault(Kind.TIMEOUT_AFTER, operation="CreateTable"))
    assert {result.outcome for result in stage.run_lifecycle().done} == {"failed"}
    stage.dynamo.faults.clear()
    return stage


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_that_cannot_be_seen_yet_are_waited_for_and_made_once(seed: int) -> None:
    stage = made_unanswered(seed, SLOW)
    made = set(stage.dynamo.account.tables)
    report = stage.run_lifecycle()
    assert [
        (result.action.name, result.outcome, result.detail) for result in report.done if result.outcome != "done"
    ] == []
    assert {entry.state for entry in stage.catalog.entries("s", consistent=True)} == {State.OPEN}
    assert set(stage.dynamo.account.tables) == made


@pytest.mark.parametrize("seed", SEEDS)
def test_tables_that_cannot_be_seen_yet_go_with_the_stage(seed: int) -> None:
    """If a first deploy fails and is rolled back within seconds, nothing else would ever delete them."""
    stage = made_unanswered(seed, Timings(seen=8, tagged=40))
    assert len(stage.dynamo.account.tables) == 1 + 5
    assert len(removing(stage).tables) == 5
    stage.dynamo.account.settle()
    assert set(stage.dynamo.account.tables) == {CATALOG}


def test_a_new_table_that_never_shows_our_tags_is_a_strangers() -> None:
    stage = Stage(NOON, CONFIG)
    stage.run_lifecycle()
    entry = read_entry(stage)
    removing(stage)
    stage.tables.create(TableSpec(TABLE, None, None, TableClass.STANDARD, {"project": "another"}))
    began = stage.clock.now()
    tables = PeriodTables(STAGE, stage.tables, stage.clock, lambda: 500.0)
    with pytest.raises(NotOurs, match="not tagged as ours"):
        tables.find_owned(entry)
    assert timedelta(seconds=50) < stage.clock.now() - began < timedelta(seconds=70)
    began = stage.clock.now()
    with pytest.raises(NotOurs, match="not tagged as ours"):
        tables.find_owned(entry)
    assert stage.clock.now() == began, "of an older table the tags are known"


def test_tags_that_come_after_the_time_is_up_are_left_to_a_later_run() -> None:
    stage = Stage(NOON, CONFIG)
    stage.run_lifecycle()
    entry = read_entry(stage)
    removing(stage)
    stage.dynamo.account.timings = Timings(seen=0, tagged=5000)
    stage.tables.create(TableSpec(TABLE, None, None, TableClass.STANDARD, make_table_tags(STAGE, "s", DAY)))
    end = stage.clock.now() + timedelta(seconds=10)
    tables = PeriodTables(STAGE, stage.tables, stage.clock, lambda: (end - stage.clock.now()).total_seconds())
    with pytest.raises(NotReady, match="its tags cannot be seen yet"):
        tables.find_owned(entry)


def archived(*, until: State = State.ARCHIVED) -> Stage:
    """A stage with a period that has left the window and is archived or will be archived next."""
    stage = Stage(NOON, CONFIG)
    stage.run_lifecycle()
    events = [{"series": "a", "id": f"e{n}", "time": to_text(NOON - timedelta(hours=n)), "data": {}} for n in range(9)]
    assert stage.send("s", json.dumps(events).encode()).accepted == 9
    stage.clock.sleep(2.6 * 86_400 if until is State.CLOSED else 7 * 86_400)
    stage.run_lifecycle()
    stage.clock.sleep(1200)
    if until is State.ARCHIVED:
        stage.run_lifecycle()
    assert read_entry(stage).state is until
    return stage


def manifests(stage: Stage) -> list[str]:
    return [key for key in stage.bucket.objects if DAY in key and key.endswith("manifest.json")]


def test_a_table_into_which_an_archive_is_being_restored_is_not_deleted() -> None:
    """The lifecycle planned its deletion a moment before the restore began."""
    stage = archived()
    planned = Delete(read_entry(stage), "expired", unarchived=False)
    stage.clock.sleep(60)
    stage.catalog.move(planned.entry, State.RESTORING, expected=(State.ARCHIVED,))
    with pytest.raises(NotReady, match="is restoring, not archived"):
        apply(planned, world(stage), stage.clock.now())
    assert stage.dynamo.account.tables[TABLE].status == "ACTIVE"


def test_an_archive_that_was_finished_a_moment_ago_is_not_cleared() -> None:
    stage = archived(until=State.CLOSED)
    entry = read_entry(stage)
    stage.archive("s", DAY, within=240)
    kept = dict(stage.bucket.objects)
    assert len(manifests(stage)) == 1
    stage.runs += 1
    # This is the view of a read that lags by a second.
    assert stage.catalog.entries("s", entry.period.start, entry.period.start)[-1].state is not State.ARCHIVED
    stage.archive("s", DAY, within=240)
    assert stage.bucket.objects == kept


def test_an_archive_that_another_run_finished_before_this_one_had_its_lease_is_not_cleared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = archived(until=State.CLOSED)
    acquire, kept = stage.catalog.acquire, dict[str, bytes]()

    def late(lease: str, *arguments: Any) -> bool:
        if lease.startswith("archive#") and not kept:
            monkeypatch.setattr(stage.catalog, "acquire", acquire)
            stage.archive("s", DAY, within=240)
            kept.update(stage.bucket.objects)
            stage.runs += 1
        return acquire(lease, *arguments)

    monkeypatch.setattr(stage.catalog, "acquire", late)
    stage.archive("s", DAY, within=240)
    assert len(manifests(stage)) == 1
    assert stage.bucket.objects == kept


def test_what_was_written_a_moment_before_the_archive_is_in_it() -> None:
    stage = archived(until=State.CLOSED)
    late = [Event("a", NOON - timedelta(minutes=n), f"late-{n}", {}) for n in range(1, 8)]
    stage.queue.send("s", late, 0)
    stage.drain()
    assert stage.queue.messages == []
    stage.archive("s", DAY, within=240)
    manifest = json.loads(stage.bucket.objects[manifests(stage)[0]])
    assert manifest["events"] == 9 + 7


def test_an_event_that_is_sent_back_a_moment_after_the_restore_is_taken() -> None:
    stage = archived()
    entry = read_entry(stage)
    stage.client.delete_table(TableName=TABLE)
    stage.clock.sleep(60)
    stage.catalog.move(entry, State.DELETED, expected=(State.ARCHIVED,))
    stage.settle()
    assert stage.restore("s", DAY).state is State.CLOSED
    stage.queue.send("s", [Event("a", NOON - timedelta(minutes=5), "late", {})], 0)
    stage.drain()
    held = stage.dynamo.call("Scan", {"TableName": TABLE, "ConsistentRead": True})
    assert held["Count"] == 9 + 1


def test_a_stage_that_has_stood_since_a_moment_ago_is_not_taken_back() -> None:
    stage = Stage(NOON, CONFIG)
    stage.run_lifecycle()
    stage.clock.sleep(60)
    stage.catalog.mark_deployed()
    assert take_back(world(stage)) == []
    assert len(stage.dynamo.account.tables) == 1 + 5


@pytest.mark.parametrize("seed", SEEDS)
def test_an_object_of_a_version_that_moved_a_moment_ago_is_not_swept(seed: int) -> None:
    """The item of the event has its new version, and the item of the version before may not be seen yet."""
    stage = Stage(NOON, CONFIG, seed)
    stage.run_lifecycle()
    times = [to_text(NOON - timedelta(minutes=number)) for number in range(4)]
    for text in ("one", "two"):
        stage.clock.time = NOON if text == "one" else NOON + timedelta(hours=30)
        for number, time in enumerate(times):
            data = {"text": b64encode(Random(number).randbytes(525_000)).decode(), "n": text}
            event = {"series": "a", "id": f"e{number}", "time": time, "data": data}
            stage.send("s", json.dumps(event).encode())
        if text == "one":
            assert len(stage.values.blobs) == 4
    assert len(stage.values.blobs) == 8
    # Eventually consistent reads see some of the items now.
    stage.clock.sleep(1.5)
    assert stage.sweep().orphans == 0
    assert len(stage.values.blobs) == 8
