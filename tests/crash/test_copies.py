"""The lifecycle of a stream with copies is stopped after each of its changes in AWS, and run again."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.stage import Stage
from tests.worlds.copied import IRELAND, TOKYO, entry, made, run, send, table_of
from tests.worlds.killed import killed_after_every_change, state
from tidetable.archive.export import work_on_message
from tidetable.archive.segments import list_segments

PLAIN: dict[str, Any] = {}
PARTS = {"more": 'large = { beyond = "chunks" }'}
GIVEN_UP = {"more": 'on_expiry = "delete"'}


def regions_state(stage: Stage) -> Any:
    """Everything that a run can change, in every Region, without times."""
    stage.clock.sleep(300)
    origin = state(stage)
    elsewhere: Any = {}
    for region, service in stage.others.items():
        service.account.settle()
        tables = service.account.tables.values()
        elsewhere[region] = sorted(
            (table.name, table.status, table.infrequent, table.count, sorted(table.tags.items())) for table in tables
        )
    marks = {held.period.label: held.copies.active for held in stage.catalog.entries("s", consistent=True)}
    return origin, elsewhere, marks


def ready(options: dict[str, Any], runs: int, days: float = 0) -> Callable[[], Stage]:
    """A stage after so many runs, with two events, and then so many days later without a run."""

    def prepare() -> Stage:
        stage = made(IRELAND, TOKYO, **options)
        run(stage, runs)
        send(stage, "a", "b")
        stage.clock.sleep(max(days * 86_400, 1200))
        return stage

    return prepare


def run_until_quiet(stage: Stage) -> None:
    """Run the lifecycle 14 times, every 20 minutes, or until three runs have done nothing."""
    quiet = 0
    for _ in range(14):
        quiet = 0 if run(stage, minutes=20).done else quiet + 1
        if quiet == 3:
            break
    # A run that was killed after it had marked a period as archived left the records of its segments. The next archive of
    # the stage wakes a worker, which removes them.
    exporter = stage.exporter()
    for segment in list_segments(exporter.work):
        assert work_on_message(segment.name, exporter, "worker", lambda: 100.0) is None


@pytest.mark.parametrize(
    ("options", "runs", "days"),
    [
        # Begins the first copies, of empty tables and of one with events; then those of the second Region.
        pytest.param(PLAIN, 1, 0, id="first copies"),
        pytest.param(PARTS, 2, 0, id="copies of parts"),
        # A step of the ladder, an archive, and the deletions; `runs` more have begun them.
        pytest.param(PLAIN, 5, 2.55, id="archive and first deletion"),
        pytest.param(PARTS, 8, 2.55, id="deletions of parts"),
        pytest.param(GIVEN_UP, 5, 2.55, id="deletion without an archive"),
    ],
)
def test_a_run_that_was_cut_short_is_finished_by_the_next_runs(options: dict[str, Any], runs: int, days: float) -> None:
    prepare = ready(options, runs, days)
    whole = prepare()
    run(whole, 14, minutes=20)
    expected = regions_state(whole)
    marks = expected[2]
    assert marks["2026-03-17"] == (IRELAND, TOKYO)
    for calls, stage in killed_after_every_change(prepare, Stage.run_lifecycle):
        run_until_quiet(stage)
        assert regions_state(stage) == expected, f"killed after {calls} calls"


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_a_deletion_that_was_cut_short_between_its_copies_is_finished(gone: int) -> None:
    """After the archive, and after the deletion of the first copy or of both."""
    prepare_ready = ready(PLAIN, 5, 2.55)

    def prepare() -> Stage:
        stage = prepare_ready()
        run(stage, 1 + gone, minutes=20)
        return stage

    whole = prepare()
    run(whole, 6, minutes=20)
    expected = regions_state(whole)
    assert table_of("2026-03-15") not in whole.dynamo.account.tables
    for calls, stage in killed_after_every_change(prepare, Stage.run_lifecycle):
        assert set(entry(stage, "2026-03-15").copies.active) <= set(), "nobody is sent to a copy that may go"
        run(stage, 6, minutes=20)
        assert regions_state(stage) == expected, f"killed after {calls} calls"
