"""A period that is archived at its close: its table answers on, and each late write brings its segment into the archive."""

from datetime import timedelta

import pytest

from tests.worlds.backfills import make_backfill, send, start_backfill
from tests.worlds.killed import CONFIG
from tests.worlds.retained import (
    FORMS,
    LABEL,
    ask,
    divide_small_tables,
    drain,
    find_entry,
    make_closed,
    make_retained,
    queue_late,
    read_archive,
    read_table,
    work,
    work_on_messages,
)
from tidetable.archive_expiry import find_archive_expiry
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.times import to_text


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    divide_small_tables(monkeypatch)


def test_a_period_is_archived_after_its_close_and_its_table_answers_until_its_retention_ends() -> None:
    stage = make_closed(hours=36.1)
    work(stage)
    assert find_entry(stage).state is State.CLOSED, "writes that began before the close may still land"
    stage.clock.sleep(900)
    work(stage)
    assert find_entry(stage).state is State.CLOSED
    assert not stage.dynamo.account.tables[find_entry(stage).table].write, "it is made faster once"
    outcomes = [done.outcome for done in stage.run_lifecycle().done if done.action.name == "archive"]
    assert outcomes == ["done"]
    stage.clock.sleep(300)
    retained = find_entry(stage)
    assert (retained.state, retained.is_retained) == (State.RETAINED, True)
    assert read_archive(stage) == read_table(stage)
    assert {source["from"] for source in ask(stage)["sources"]} == {"table"}
    work(stage)
    stage.dynamo.account.settle()
    assert stage.dynamo.account.tables[retained.table].write == 2, "the ladder has it again"
    stage.clock.sleep(3 * 86_400)
    for _ in range(3):
        work(stage)
    assert find_entry(stage).archive == retained.archive
    stage.clock.sleep(86_400)
    for _ in range(3):
        work(stage)
    gone = find_entry(stage)
    assert gone.state is State.DELETED
    assert gone.archive is not None
    assert retained.archive is not None
    assert gone.archive.oldest == retained.archive.at, "the bucket's rules count from the oldest file"
    expires = parse(CONFIG + '[streams.s.archive]\nexpire_after = "100d"')
    assert find_archive_expiry(gone, expires) == retained.archive.at + timedelta(days=100)
    assert gone.archive.at > retained.archive.at, "it was verified again before the deletion"
    assert {"period": "2026-03-15", "from": "archive"} in ask(stage)["sources"]


@pytest.mark.parametrize("form", FORMS)
def test_a_late_write_marks_its_segment_and_only_that_is_archived_again(form: str) -> None:
    stage = make_retained(form, 4)
    before, files = read_archive(stage), {key for key in stage.bucket.objects if "03-15/part" in key}
    queue_late(stage, 1, 2, 23.9)
    queue_late(stage, 12, label="e", n=77)
    drain(stage)
    assert not stage.queue.dead
    # In a table by series, or with versions, nobody knows the segments of a scan: all are archived again.
    marked = (4,) if form in ("versions", "series") else (0, 2, 3)
    assert find_entry(stage).marks.numbers == marked
    assert read_archive(stage) == before
    if form != "series":
        assert ask(stage).keys() >= {"late1", "late2", "late23.9", "e12"}, "the table answers with them at once"
    work(stage)
    assert read_archive(stage) == before, "segments are archived again once an hour"
    stage.clock.sleep(3_600)
    for _ in range(3):
        work(stage)
    again = find_entry(stage)
    assert again.is_retained
    assert read_archive(stage) == read_table(stage) != before
    kept = files & stage.bucket.objects.keys()
    assert bool(kept) is (marked != (4,)), "the other segments keep their files"
    assert again.archive is not None
    assert (again.archive.oldest is not None) is bool(kept)


def test_a_backfill_opens_a_retained_period_and_all_of_it_is_archived_again_afterwards() -> None:
    stage = make_retained("items", 3)
    before = find_entry(stage)
    request = make_backfill(stage, before.period.start, before.period.end, hours=2)
    start_backfill(stage, request)
    assert find_entry(stage).state is State.OPEN
    times = [to_text(before.period.start + timedelta(minutes=90 * number)) for number in range(12)]
    more = [{"series": "b", "id": f"h{number}", "time": time, "data": {}} for number, time in enumerate(times)]
    stage.settle()
    stage.restart()
    assert send(stage, more).status == 200
    assert len(read_archive(stage)) == 13, "the former files stay"
    stage.clock.sleep(3 * 3_600)
    for _ in range(7):
        work(stage)
    again = find_entry(stage)
    assert again.is_retained
    assert again.archive is not None
    assert again.archive.oldest is None
    assert read_archive(stage) == read_table(stage)
    assert len(read_archive(stage)) == 25


def test_a_restored_period_is_archived_again_when_its_time_is_over() -> None:
    stage = make_retained()
    whole = read_archive(stage)
    stage.clock.sleep(5 * 86_400)
    for _ in range(3):
        work(stage)
    assert find_entry(stage).state is State.DELETED
    assert stage.restore("s", LABEL, keep_days=2)
    queue_late(stage, 3)
    drain(stage)
    for _ in range(3):
        work(stage)
    assert find_entry(stage).state is State.CLOSED
    stage.clock.sleep(2 * 86_400)
    for _ in range(4):
        work(stage)
    assert find_entry(stage).state is State.DELETED
    found = read_archive(stage)
    assert [row for row in found if "late3" not in row[1]] == whole
    assert len(found) == len(whole) + 1


def test_the_setting_may_change_both_ways() -> None:
    stage = make_closed()
    at_close, stage.config = stage.config, parse(CONFIG)
    for _ in range(3):
        work(stage)
    assert find_entry(stage).state is State.CLOSED
    stage.config = at_close
    for _ in range(3):
        work(stage)
    assert find_entry(stage).is_retained, "a table that is closed already is archived now"
    stage.config = parse(CONFIG)
    queue_late(stage, 3)
    drain(stage)
    stage.clock.sleep(3_600)
    work(stage)
    assert find_entry(stage).is_retained, "a table that is retained stays so, and its marks are worked on"
    assert read_archive(stage) == read_table(stage)
    stage.clock.sleep(4 * 86_400)
    for _ in range(3):
        work(stage)
    assert find_entry(stage).state is State.DELETED


def test_an_operator_may_end_the_retention() -> None:
    stage = make_retained()
    queue_late(stage, 3)
    drain(stage)
    stage.archive("s", LABEL, within=230)
    entry = find_entry(stage)
    assert entry.state is State.ARCHIVED
    assert entry.marks.numbers == ()
    assert any("late3" in row[1] for row in read_archive(stage))


@pytest.mark.parametrize("lost", ["part-", "_manifest"])
def test_a_lost_object_is_found_before_the_table_is_deleted_and_all_is_written_again(lost: str) -> None:
    stage = make_retained("items", 3)
    whole = read_archive(stage)
    gone = next(key for key in stage.bucket.objects if f"period={LABEL}/{lost}" in key)
    del stage.bucket.objects[gone]
    stage.clock.sleep(5 * 86_400)
    for _ in range(7):
        stage.run_lifecycle()
        work_on_messages(stage)
        stage.clock.sleep(300)
    assert find_entry(stage).state is State.DELETED
    assert read_archive(stage) == whole


def test_a_late_event_of_a_request_waits_in_the_queue_although_late_was_raised() -> None:
    """Such a period is in the window again. Its table takes events by the drain alone, whose writes mark segments."""
    stage = make_retained()
    stage.config = parse(FORMS["items"].replace('late = "1d"', 'late = "3d"'))
    event = {"series": "a", "id": "again", "time": to_text(find_entry(stage).period.start), "data": {}}
    assert send(stage, [event]).status == 202
    drain(stage)
    assert find_entry(stage).marks.numbers == (0,)
