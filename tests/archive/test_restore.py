"""A restored period is a table again, with everything in it, until its own date."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes.stage import CATALOG, Stage
from tests.worlds.killed import EVENTS, IDS, ids, killed_after_every_change
from tests.worlds.restores import LABEL, TABLE, delete_first_tables, entry, items
from tidetable.archive import restore_piece
from tidetable.archive.exporter import open_source
from tidetable.catalog import State
from tidetable.errors import ArchiveFailed, ArchiveMismatch
from tidetable.events import Event
from tidetable.times import from_text

COUNT = sum(str(event["time"]) >= LABEL for event in EVENTS)


def test_a_restored_period_is_read_from_its_table_and_tended_again() -> None:
    stage = delete_first_tables()
    before = entry(stage)
    assert stage.restore("s", LABEL).state is State.CLOSED
    assert stage.work.list_items("restore") == []
    assert entry(stage).layout == before.layout
    assert len(items(stage)) == COUNT
    # The table answers, so the archive can be deleted.
    stage.bucket.objects = {key: body for key, body in stage.bucket.objects.items() if LABEL not in key}
    assert ids(stage) == IDS
    for _ in range(3):
        assert stage.run_lifecycle().healthy
        stage.clock.sleep(300)
    table = stage.dynamo.account.tables[TABLE]
    assert (table.on_demand, table.write, table.infrequent) == (False, 1, True), "its age's step of the ladder"


def test_it_expires_again_on_its_own_date_with_what_came_meanwhile() -> None:
    stage = delete_first_tables()
    stage.restore("s", LABEL, keep_days=3)
    # A dead letter of the archived period is sent back.
    stage.queue.send("s", [Event("late", from_text("2026-03-15T10:00:00Z"), "came late", {})], 0)
    stage.drain()
    assert stage.queue.messages == []
    for _ in range(2 * 24):
        done = [
            result.action.name for result in stage.run_lifecycle().done if result.action.entry.period.label == LABEL
        ]
        assert set(done) <= {"capacity", "class"}
        stage.clock.sleep(3600)
    stage.clock.sleep(30 * 3600)
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    assert entry(stage).state is State.DELETED
    assert TABLE not in stage.dynamo.account.tables
    assert ids(stage) == sorted([*IDS, "came late"])


def test_a_restore_stopped_after_any_call_is_finished_by_the_next() -> None:
    for calls, stage in killed_after_every_change(delete_first_tables, lambda stage: stage.restore("s", LABEL)):
        assert ids(stage) == IDS, f"killed after {calls} calls: something cannot be found meanwhile"
        if entry(stage).state is not State.CLOSED:
            stage.clock.sleep(900)
            stage.restore("s", LABEL)
        assert ids(stage) == IDS, f"killed after {calls} calls"
        assert len(items(stage)) == COUNT


def test_during_a_restore_the_period_is_read_from_its_archive() -> None:
    stage = delete_first_tables()
    # One message makes the table, the others write a file each.
    assert stage.restore("s", LABEL, most=3).state is State.RESTORING
    assert 0 < len(items(stage)) < COUNT
    assert ids(stage) == IDS
    assert stage.restore("s", LABEL).state is State.CLOSED
    assert ids(stage) == IDS


def test_a_restore_that_is_never_finished_leaves_a_table_that_every_run_counts() -> None:
    stage = delete_first_tables()
    stage.restore("s", LABEL, most=2)
    assert TABLE in stage.dynamo.account.tables
    for _ in range(3):
        stage.clock.sleep(300)
        report = stage.run_lifecycle()
        there = set(stage.dynamo.account.tables) - {CATALOG}
        assert (report.tables, report.outlook.overdue) == (len(there), ())
    assert entry(stage).state is State.RESTORING


def test_a_damaged_archive_is_not_restored() -> None:
    stage = delete_first_tables()
    part = next(key for key in stage.bucket.objects if LABEL in key and "part" in key)
    stage.bucket.objects[part] = stage.bucket.objects[part].replace(b"e3", b"x3") + b" "
    with pytest.raises(ArchiveMismatch, match="differs from the bytes that were written"):
        stage.restore("s", LABEL)
    assert entry(stage).state is State.RESTORING


def test_a_table_that_is_not_what_the_manifest_says_is_not_opened() -> None:
    stage = delete_first_tables()
    stage.restore("s", LABEL, most=2)
    stranger = {"pk": {"S": "2026-03-15T00:00:00.000000Z#0"}, "sk": {"S": "2026-03-15T01:00:00.000000Z#a#x"}}
    stage.dynamo.account.engine.call("PutItem", {"TableName": TABLE, "Item": {**stranger, "data": {"M": {}}}})
    with pytest.raises(ArchiveMismatch, match="its manifest"):
        stage.restore("s", LABEL)
    assert ids(stage) == IDS


def test_what_has_a_table_or_no_archive_says_so() -> None:
    stage = delete_first_tables()
    today = (stage.clock.now()).date().isoformat()
    with pytest.raises(ArchiveFailed, match="it has its table"):
        stage.restore("s", today)
    with pytest.raises(ArchiveFailed, match="the catalog has no period 2020-01-01"):
        stage.restore("s", "2020-01-01")


class SlowPages:
    """Pages of two items, each of which takes 40 seconds; during each, a run of the lifecycle raises the horizon."""

    def __init__(self, source: Any, stage: Stage) -> None:
        self.source = source
        self.stage = stage
        self.afters: list[Any] = []

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> Any:
        self.afters.append(after)
        self.stage.clock.sleep(40)
        self.stage.catalog.set_horizon("s", datetime(2026, 3, 22, tzinfo=UTC))
        return self.source.page(table, segment=segment, segments=segments, after=after, limit=2)


def test_a_comparison_goes_on_in_a_later_run_and_the_period_is_seen_whatever_the_horizon_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = delete_first_tables()
    pages = SlowPages(open_source(entry(stage), stage.exporter()), stage)
    monkeypatch.setattr(restore_piece, "open_source", lambda *_: pages)
    assert stage.restore("s", LABEL, within=100).state is State.CLOSED
    assert len(pages.afters) > 4, "a run has the time for three pages"
    assert len(pages.afters) == len({str(after) for after in pages.afters}), "no page is read twice"
    assert len(items(stage)) == COUNT
    horizon = stage.catalog.read_horizon("s")
    assert horizon.at is not None
    assert entry(stage).period in horizon.far
    assert horizon.at >= entry(stage).period.end + timedelta(days=6)
    stage.clock.sleep(300)
    report = stage.run_lifecycle()
    assert report.healthy
    assert report.tables == len(set(stage.dynamo.account.tables) - {CATALOG})
