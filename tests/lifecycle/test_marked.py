"""A table that is deleted without an archive waits for the marked buckets of its rollups, for a day at the most."""

from datetime import datetime, timedelta

import pytest

from tests.fakes.rollups import FakeRollups
from tests.lifecycle.world import NOON, World, outcomes
from tidetable.config import Config, parse
from tidetable.errors import StoreUnavailable
from tidetable.lifecycle import LifecycleRun, RunReport, reconcile
from tidetable.upkeep.actions import Delete

TEXT = """
[lifecycle]
delete_expired = true
[streams.s]
period = "day"
late = "1d"
retention = 5
on_expiry = "{ending}"
key = {{ partition_by = "time", bucket = "6h" }}
[[streams.s.rollup]]
name = "hours"
every = "1h"
retention = "730d"
[streams.other]
period = "day"
late = "1d"
retention = 5
on_expiry = "delete"
key = {{ partition_by = "time", bucket = "6h" }}
"""
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MIDNIGHT = NOON.replace(hour=0)
# The tables of this day expire six days later, at midnight.
FIRST, EXPIRY = MIDNIGHT, MIDNIGHT + 6 * DAY


class Marked:
    """A stage of two streams whose first day has just expired; the rollups of ``s`` have marks of that day."""

    def __init__(self, ending: str = "delete") -> None:
        self.config: Config = parse(TEXT.format(ending=ending))
        self.world, self.rollups = World(), FakeRollups()
        for day in range(6):
            self.run(FIRST + day * DAY)
        # The day before the first day expires a day earlier.
        self.run(EXPIRY - HOUR)

    def begin_run(self) -> LifecycleRun:
        return self.world.begin_run("run", lambda: 1000.0, config=self.config, find_rollups=lambda: self.rollups)

    def run(self, now: datetime, *, dry_run: bool = False) -> RunReport:
        self.world.clock.time = now
        return reconcile(self.begin_run(), dry_run=dry_run)

    def put_mark(self, bucket: datetime) -> None:
        self.rollups.put_marks("s", [bucket], 7, HOUR)

    def deleted(self, report: RunReport) -> list[str]:
        """The streams whose tables this run has deleted."""
        deletions = [done for done in report.done if isinstance(done.action, Delete) and done.outcome == "done"]
        return sorted(done.action.entry.stream for done in deletions)


def test_a_table_waits_for_its_marks_and_others_do_not() -> None:
    stage = Marked()
    stage.put_mark(FIRST + 3 * HOUR)
    stage.put_mark(FIRST + 23 * HOUR)
    for minutes in (1, 600, 1_439):
        report = stage.run(EXPIRY + timedelta(minutes=minutes))
        assert stage.deleted(report) == (["other"] if minutes == 1 else [])
        (waiting,) = [done for done in report.done if done.action.entry.stream == "s" and done.outcome == "deferred"]
        assert waiting.detail == (
            "its deletion waits until 2026-03-22T00:00:00.000000Z at most:"
            " 2 buckets of its rollups must be computed anew from its events"
        )
        assert (report.deleted_with_marks, report.healthy) == (0, True)
    report = stage.run(EXPIRY + DAY + timedelta(minutes=1))
    # The table of the second day has expired meanwhile, and has no marks.
    assert stage.deleted(report) == ["other", "s", "s"]
    (late,) = [done for done in report.done if isinstance(done.action, Delete) and done.action.marked]
    assert late.action.entry.period.start == FIRST
    assert "2 buckets of its rollups must be computed anew from its events, for longer than a day" in late.action.reason
    assert report.deleted_with_marks == 1


def test_a_table_goes_as_soon_as_its_marks_rest() -> None:
    stage = Marked()
    stage.put_mark(FIRST + 3 * HOUR)
    assert stage.deleted(stage.run(EXPIRY + HOUR)) == ["other"]
    (mark,) = stage.rollups.read_state("s").marks
    assert stage.rollups.note_resealed("s", mark, 9, rests=True)
    report = stage.run(EXPIRY + 2 * HOUR)
    assert (stage.deleted(report), report.deleted_with_marks) == (["s"], 0)


@pytest.mark.parametrize("bucket", [FIRST - HOUR, FIRST + DAY])
def test_marks_of_other_periods_do_not_count(bucket: datetime) -> None:
    stage = Marked()
    stage.put_mark(bucket)
    assert stage.deleted(stage.run(EXPIRY + HOUR)) == ["other", "s"]


def test_a_mark_that_reaches_into_the_period_counts() -> None:
    """A writer marks the shortest bucket that it knows, which may begin in the period before."""
    stage = Marked()
    stage.rollups.put_marks("s", [FIRST - HOUR], 7, 2 * HOUR)
    assert stage.deleted(stage.run(EXPIRY + HOUR)) == ["other"]


def test_a_plan_shows_the_table_that_waits() -> None:
    stage = Marked()
    stage.put_mark(FIRST + 3 * HOUR)
    report = stage.run(EXPIRY + HOUR, dry_run=True)
    reasons = [action["reason"] for action in report.document()["actions"] if action["stream"] == "s"]
    assert any("its deletion waits until" in reason for reason in reasons)
    assert ("delete", "2026-03-15", "planned") not in outcomes(report) or len(outcomes(report)) > 1


def test_a_table_waits_while_its_marks_cannot_be_read_but_not_for_ever() -> None:
    stage = Marked()
    stage.rollups.refuses = True
    report = stage.run(EXPIRY + HOUR)
    assert stage.deleted(report) == ["other"]
    assert (
        report.troubles == ["the marks of rollups could not be read for s: rollups is throttled"]
        or len(report.troubles) == 1
    )
    assert stage.deleted(stage.run(EXPIRY + 25 * HOUR)) == ["other", "s"]
    assert issubclass(StoreUnavailable, Exception)


def test_a_table_with_an_archive_does_not_wait() -> None:
    """A marked bucket is computed anew from the archive."""
    stage = Marked("archive")
    stage.put_mark(FIRST + 3 * HOUR)
    report = stage.run(EXPIRY + HOUR)
    assert not [done for done in report.done if "waits until" in done.detail]
    report = stage.run(EXPIRY + 20 * DAY)
    assert "s" in stage.deleted(report)
    assert report.deleted_with_marks == 0


def test_a_removed_rollup_and_a_removed_stream_hold_no_table() -> None:
    stage = Marked()
    stage.put_mark(FIRST + 3 * HOUR)
    text = TEXT.format(ending="delete")
    start, end = text.index("[[streams.s.rollup]]"), text.index("[streams.other]")
    stage.config = parse(text[:start] + text[end:])
    assert stage.deleted(stage.run(EXPIRY + HOUR)) == ["other", "s"]
