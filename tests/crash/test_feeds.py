"""A run of the lifecycle is stopped after each of its changes: the next runs map every open table to its feed, once."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.fakes.stage import Stage
from tests.worlds.killed import CONFIG, built, killed_after_every_change
from tidetable.catalog import State
from tidetable.config import parse
from tidetable.feed.mappings import FeedTables

FEED = 'feed = { targets = ["arn:aws:sqs:eu-central-1:123456789012:changes"] }\n'
FED = CONFIG.replace("late =", f"{FEED}late =")


def differences(stage: Stage) -> list[str]:
    """Open tables whose present stream has no mapping, and mappings whose table is gone or whose stream is another's."""
    stage.dynamo.account.settle()
    tables = stage.dynamo.account.tables
    streams = {
        name: table.describe(stage.clock.now(), frozenset()).get("LatestStreamArn") for name, table in tables.items()
    }
    mapped = [mapping.source for mapping in stage.mappings.list() if mapping.state != "Deleting"]
    opened = [entry.table for entry in stage.catalog.entries("s", consistent=True) if entry.state is State.OPEN]
    return [
        *(f"{table} is not mapped" for table in opened if streams[table] not in mapped),
        *(f"{source} is mapped, and gone" for source in mapped if source not in streams.values()),
        *(f"{source} is mapped twice" for source in set(mapped) if mapped.count(source) > 1),
    ]


def half_a_day_later() -> Stage:
    stage = built(FED)
    # A new mapping is listed late, so a run may try to make it again.
    stage.mappings.hidden = timedelta(minutes=1)
    stage.clock.sleep(0.5 * 86_400)
    return stage


def before_a_deletion() -> Stage:
    """A stage whose first tables were archived by an earlier run: the next deletes them and their mappings."""
    stage = built(FED)
    stage.clock.sleep(7 * 86_400)
    stage.run_lifecycle()
    stage.clock.sleep(300)
    return stage


def without_feed() -> Stage:
    """A stage whose tables were made without change streams, and whose configuration has a feed since."""
    stage = built()
    stage.clock.sleep(3_600)
    stage.config = parse(FED)
    return stage


@pytest.mark.parametrize("prepare", [half_a_day_later, before_a_deletion, without_feed])
def test_a_run_that_was_stopped_leaves_nothing_that_the_next_runs_do_not_mend(prepare: Callable[[], Stage]) -> None:
    for calls, stage in killed_after_every_change(prepare, Stage.run_lifecycle):
        for _ in range(3):
            stage.run_lifecycle()
            stage.clock.sleep(300)
        assert differences(stage) == [], f"killed after {calls} calls"
        assert stage.mappings.list()
        assert stage.run_lifecycle().feeds == [], f"killed after {calls} calls"


def test_a_removal_that_was_stopped_is_finished_by_the_next() -> None:
    def remove(stage: Stage) -> None:
        FeedTables(stage.config, "lapse", stage.tables, stage.mappings, stage.catalog).remove_all()

    for calls, stage in killed_after_every_change(half_a_day_later, remove):
        remove(stage)
        assert {mapping.state for mapping in stage.mappings.list()} <= {"Deleting"}, f"killed after {calls} calls"
        stage.clock.sleep(60)
        assert stage.mappings.list() == []
