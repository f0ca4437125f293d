"""Streams that are rollups: their tables, their backfills, and what is left of them when they leave the configuration."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.fakes.rollups import FakeRollups
from tests.lifecycle.world import NOON, World
from tidetable.catalog import Backfill, Opening, RecordedPolicy
from tidetable.config import Config, parse
from tidetable.config.demand import list_demands
from tidetable.errors import BadBackfill, Outage, StoreUnavailable
from tidetable.lifecycle import LifecycleRun, reconcile
from tidetable.lifecycle.backfill import end_backfills, open_backfill
from tidetable.ports import Edge, Mark

TEXT = """
[streams.s]
period = "day"
late = "1d"
retention = 5
[streams.s.key]
partition_by = "time"
bucket = "6h"
"""
ROLLUP = """
[[streams.s.rollup]]
name = "hours"
every = "1h"
retention = "730d"
"""
DAY = timedelta(days=1)
START, END = NOON.replace(hour=0) - 4 * DAY, NOON.replace(hour=0) - 2 * DAY
EDGE = Edge("hours", START, END, "{}")


class Rolled:
    """A stage whose configuration may change, on fakes."""

    def __init__(self, text: str = TEXT + ROLLUP) -> None:
        self.world = World()
        self.rollups = FakeRollups()
        self.config: Config = parse(text)

    def begin_run(self, owner: str, remaining: Callable[[], float]) -> LifecycleRun:
        return self.world.begin_run(owner, remaining, config=self.config, find_rollups=lambda: self.rollups)

    def run(self) -> None:
        assert reconcile(self.begin_run("a run", lambda: 300.0)).healthy

    def spans(self, stream: str) -> list[tuple[object, object]]:
        return [(backfill.start, backfill.end) for backfill in self.world.catalog.backfills(stream)]


def backfill(stream: str = "s") -> Backfill:
    return Backfill(stream, START, END, Opening(NOON + DAY, None, None))


def test_the_tables_of_a_stream_and_of_its_rollups_must_fit_into_the_quota_together() -> None:
    """Two days are counted as three tables of s and, as they may lie in two months, as two tables of its rollup."""
    stage = Rolled()
    always = sum(need.tables for need in list_demands(stage.config))
    quota = "[lifecycle]\ntable_quota = {}\n" + TEXT + ROLLUP
    stage.config = parse(quota.format(always + 4))
    with pytest.raises(BadBackfill, match="needs up to 5 tables"):
        open_backfill(backfill(), stage.begin_run("e", lambda: 300.0))
    assert stage.spans("s") == []
    stage.config = parse(quota.format(always + 5))
    assert open_backfill(backfill(), stage.begin_run("e", lambda: 300.0)).healthy


def test_a_rollup_has_tables_of_its_own() -> None:
    stage = Rolled()
    stage.run()
    labels = [entry.period.label for entry in stage.world.catalog.entries("s-hours")]
    assert labels
    assert all(len(label) == len("2026-03") for label in labels)


def test_a_backfill_of_a_stream_opens_its_rollups_and_its_end_closes_them() -> None:
    stage = Rolled()
    stage.run()
    open_backfill(backfill(), stage.begin_run("me", lambda: 300.0))
    assert stage.spans("s") == stage.spans("s-hours") == [(START, END)]
    stage.run()
    assert end_backfills("s", stage.begin_run("me", lambda: 300.0)) == [backfill()]
    assert stage.spans("s") == stage.spans("s-hours") == []


def test_the_end_of_one_span_leaves_the_other_spans_of_the_rollup() -> None:
    stage = Rolled()
    stage.run()
    open_backfill(backfill(), stage.begin_run("me", lambda: 300.0))
    earlier = Backfill("s", START - 2 * DAY, START - DAY, Opening(NOON + DAY, None, None))
    open_backfill(earlier, stage.begin_run("me", lambda: 300.0))
    end_backfills("s", stage.begin_run("me", lambda: 300.0), span=(START, END))
    assert stage.spans("s") == stage.spans("s-hours") == [(START - 2 * DAY, START - DAY)]


def test_a_rollup_is_opened_by_itself_only_to_be_rebuilt() -> None:
    stage = Rolled()
    stage.run()
    with pytest.raises(BadBackfill) as error:
        open_backfill(backfill("s-hours"), stage.begin_run("me", lambda: 300.0))
    assert str(error.value) == (
        "s-hours is a rollup of s and takes no events: open a backfill of s, which opens its rollups, too; or compute it anew:"
        " tidetable rollup s --rebuild"
    )
    assert stage.spans("s-hours") == []
    open_backfill(backfill("s-hours"), stage.begin_run("me", lambda: 300.0), rebuilt=True)
    assert (stage.spans("s"), stage.spans("s-hours")) == ([], [(START, END)])
    assert end_backfills("s-hours", stage.begin_run("me", lambda: 300.0)) == [backfill("s-hours")]


def test_a_rollup_that_leaves_the_configuration_is_forgotten_and_its_marks_and_tables_stay() -> None:
    """While it is away nobody marks late events: what was sealed must not count when it comes back."""
    stage = Rolled()
    stage.run()
    (edge,) = stage.rollups.read_state("s").edges
    stage.rollups.put_marks("s", [START], 7, timedelta(hours=1))
    stage.run()
    assert list(stage.rollups.read_state("s").edges) == [edge]
    tables = [entry.table for entry in stage.world.catalog.entries("s-hours")]
    stage.config = parse(TEXT)
    stage.run()
    state = stage.rollups.read_state("s")
    assert (list(state.edges), list(state.marks)) == ([], [Mark(START, 7, timedelta(hours=1), since=7)])
    assert [entry.table for entry in stage.world.catalog.entries("s-hours")] == tables
    # Once is enough: it may come back, and begin anew.
    stage.config = parse(TEXT + ROLLUP)
    stage.run()
    stage.rollups.put_edge("s", EDGE, None)
    stage.run()
    assert list(stage.rollups.read_state("s").edges) == [EDGE]


def test_a_rollup_that_could_not_be_forgotten_is_not_recorded_as_removed_so_the_next_run_tries_again() -> None:
    stage = Rolled()
    stage.run()
    stage.rollups.put_edge("s", EDGE, None)
    stage.config = parse(TEXT)
    stage.rollups.refuses = True
    report = reconcile(stage.begin_run("a run", lambda: 300.0))
    (trouble,) = report.document()["troubles"]
    assert trouble.startswith("the policy of s-hours could not be recorded: TableThrottled")
    stage.rollups.refuses = False
    stage.run()
    assert stage.rollups.read_state("s").edges == []


def test_a_new_stream_whose_rollup_cannot_be_recorded_gets_no_table_before_the_next_run() -> None:
    """If the rollup were not recorded, its removal would not end the noting that began with the stream."""
    stage = Rolled()
    put = stage.world.catalog.put_policy

    def fail(policy: RecordedPolicy) -> None:
        if policy.stream == "s-hours":
            raise StoreUnavailable(Outage.NO_ANSWER, "time-out")
        put(policy)

    stage.world.catalog.put_policy = fail  # type: ignore[method-assign, assignment]
    report = reconcile(stage.begin_run("a run", lambda: 300.0))
    assert [str(trouble) for trouble in report.troubles] == [
        f"the policy of {stream} could not be recorded, so no table of it is made yet: StoreUnavailable: {why}"
        for stream, why in (("s-hours", "no answer: time-out"), ("s", "other: its rollup s-hours comes first"))
    ]
    assert (stage.world.catalog.entries("s"), stage.rollups.noting, stage.rollups.edges) == ([], {}, {})
    stage.world.catalog.put_policy = put  # type: ignore[method-assign]
    stage.run()
    assert (bool(stage.world.catalog.entries("s")), len(stage.rollups.edges)) == (True, 1)


def test_the_end_of_a_backfill_that_fails_midway_is_finished_by_the_next_call() -> None:
    """The stream's own request is what a second call goes by, so it is dropped last."""
    stage = Rolled()
    stage.run()
    open_backfill(backfill(), stage.begin_run("me", lambda: 300.0))
    drop, dropped = stage.world.catalog.drop_backfill, list[str]()

    def drop_one(request: Backfill) -> None:
        if dropped:
            raise StoreUnavailable(Outage.NO_ANSWER, "time-out")
        dropped.append(request.stream)
        drop(request)

    stage.world.catalog.drop_backfill = drop_one  # type: ignore[method-assign, assignment]
    with pytest.raises(StoreUnavailable):
        end_backfills("s", stage.begin_run("me", lambda: 300.0))
    stage.world.catalog.drop_backfill = drop  # type: ignore[method-assign]
    assert end_backfills("s", stage.begin_run("me", lambda: 300.0)) == [backfill()]
    assert (stage.spans("s"), stage.spans("s-hours")) == ([], [])


@pytest.mark.parametrize("gone", ["the rollup", "the stream"])
def test_without_rollups_a_stream_says_that_its_series_are_noted_no_more(gone: str) -> None:
    """What was noted before says nothing of the periods in which nobody notes: the rollup may come back."""
    stage = Rolled()
    stage.run()
    noting = stage.rollups.noting["s"]
    stage.run()
    assert stage.rollups.noting == {"s": noting}
    stage.config = parse(TEXT if gone == "the rollup" else TEXT.replace("streams.s", "streams.t"))
    begun = stage.world.clock.now()
    stage.run()
    said = stage.rollups.noting["s"]
    assert said.stopped
    assert begun <= said.since == said.swept <= stage.world.clock.now()


def test_a_rollup_that_leaves_another_one_leaves_the_notes_as_they_are() -> None:
    stage = Rolled(TEXT + ROLLUP + ROLLUP.replace("hours", "days").replace("1h", "1d"))
    stage.run()
    noting = stage.rollups.noting["s"]
    stage.config = parse(TEXT + ROLLUP)
    stage.run()
    assert stage.rollups.noting == {"s": noting}
    assert not noting.stopped
