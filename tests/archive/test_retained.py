"""A period that is archived at its close: its table answers on, and each late write brings its segment into the archive."""

import pytest

from tests.worlds.retained import (
    FORMS,
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
)
from tidetable.catalog import State


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
    work(stage)
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
