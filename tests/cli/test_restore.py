"""`restore`: what it says before it asks, the progress, and what it says at the end."""

import json

import pytest

from cli import restore
from tests.fakes.stage import Stage
from tests.worlds.commands import FakeFunctions, run
from tidetable.catalog import State

FIRST, LAST = "2026-03-15T04", "2026-03-15T06"


def states(stage: Stage) -> dict[str, State]:
    return {entry.period.label: entry.state for entry in stage.catalog.entries("s", consistent=True)}


def test_a_range_is_priced_asked_for_and_restored(stage: Stage) -> None:
    before = [label for label, state in states(stage).items() if FIRST <= label <= LAST and state is State.DELETED]
    assert len(before) > 1
    refused = run("restore", "s", FIRST, LAST, input="n\n")
    assert refused.exit_code == 1
    assert f"s: to restore: {len(before)} periods with 0 events" in refused.output
    assert "0 write units, 0 read units, 0 s of workers, tables of 0.0 MB: $0.00" in refused.output
    assert "prices of us-east-1" in refused.output
    assert {states(stage)[label] for label in before} == {State.DELETED}
    done = run("restore", "s", FIRST, LAST, "--keep", "3", input="y\n")
    assert done.exit_code == 0, done.output
    assert f"s {len(before)} periods: restored" in done.output
    assert {states(stage)[label] for label in before} == {State.CLOSED}


def test_a_dry_run_changes_nothing_and_periods_that_cannot_be_restored_are_listed(stage: Stage) -> None:
    before = states(stage)
    result = run("restore", "s", FIRST, "2026-03-15T12", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "period 2026-03-15T12 of s is open: it has its table" in result.output
    assert (states(stage), stage.work.list_items("restore")) == (before, [])
    nothing = run("restore", "s", "2026-03-15T12", "--yes")
    assert nothing.exit_code == 1
    assert "s: to restore: 0 periods with 0 events" in nothing.output


def test_a_restore_goes_on_without_the_command_and_is_joined_and_cancelled(
    stage: Stage, functions: FakeFunctions
) -> None:
    functions.rest = True
    begun = run("restore", "s", FIRST, LAST, "--yes", "--no-wait")
    assert begun.exit_code == 0, begun.output
    assert restore.GOES_ON in " ".join(begun.output.split())
    shown = run("restore", "s")
    assert f"s: the restore from {FIRST} to {LAST} is under way: 0 of" in shown.output
    joined = " ".join(run("restore", "s", FIRST, LAST, "--dry-run").output.split())
    assert f"the restore from {FIRST} to {LAST} is under way: 0 of" in joined
    other = " ".join(run("restore", "s", FIRST, "--dry-run").output.split())
    assert f"the restore from {FIRST} to {LAST} comes first" in other
    functions.rest = False
    ended = run("restore", "s", "--cancel")
    assert f"s: the restore from {FIRST} to {LAST} ends: 0 of" in ended.output
    assert "no period of s is being restored" in run("restore", "s").output


def test_restores_rest_and_go_on(stage: Stage) -> None:
    assert "the restores of s rest" in run("restore", "s", "--pause").output
    assert "the restores of s rest: --resume lets them go on" in run("restore", "s").output
    assert "the restores of all streams go on" in run("restore", "*", "--resume").output
    assert json.loads(run("restore", "s", "--json").stdout) == {"stream": "s", "paused": True, "restores": []}
    assert run("restore", "s", "--resume").exit_code == 0


def test_the_json_is_the_plan_with_the_price_or_what_is_left(stage: Stage) -> None:
    plan = json.loads(run("restore", "s", "2026-03-15T05", "--dry-run", "--json").stdout)
    assert plan["periods"] == [{"period": "2026-03-15T05", "state": "deleted", "events": 0, "refusal": None}]
    assert (plan["restores"], plan["price"]["write_units"]) == ([], 0)
    done = json.loads(run("restore", "s", "2026-03-15T05", "--json").stdout)
    assert [period["refusal"] for period in done["periods"]] == [
        "period 2026-03-15T05 of s is closed: it has its table"
    ]


def test_the_command_waits_as_long_as_it_goes_on_and_gives_up_when_a_problem_stays(
    stage: Stage, functions: FakeFunctions, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses, key = list[float](), next(key for key in stage.bucket.objects if "T05" in key and "manifest" in key)
    body = stage.bucket.objects[key]

    def work(seconds: float) -> None:
        pauses.append(seconds)
        if stage.work_queue.messages:
            stage.work_on_restores(most=1)

    functions.rest = True
    monkeypatch.setattr(restore, "sleep", work)
    assert run("restore", "s", "2026-03-15T04", "--yes").exit_code == 0
    assert len(pauses) >= 3
    assert set(pauses) == {5.0}
    del stage.bucket.objects[key]
    monkeypatch.setattr(restore, "_PATIENCE", 2)

    def break_work(seconds: float) -> None:
        try:
            work(seconds)
        except Exception:
            pauses.append(seconds)

    monkeypatch.setattr(restore, "sleep", break_work)
    stuck = run("restore", "s", "2026-03-15T05", "--yes")
    assert stuck.exit_code == 1
    assert f"the archive's object {key} does not exist" in " ".join(stuck.output.split())
    assert "--cancel ends it" in stuck.output
    stage.bucket.objects[key] = body
    run("restore", "s", "--cancel")
    stage.work_on_restores()

    def cancel(_: float) -> None:
        run("restore", "s", "--cancel")
        stage.work_on_restores()

    monkeypatch.setattr(restore, "sleep", cancel)
    ended = run("restore", "s", "2026-03-15T05", "--yes")
    assert (ended.exit_code, "1 period not restored: the restore was cancelled" in ended.output) == (1, True)


@pytest.mark.parametrize(
    "words", [("2026-03-15T05", "--cancel"), ("--cancel", "--pause"), ("2026-03-15T05", "--resume")]
)
def test_a_command_that_means_two_things_is_used_wrongly(stage: Stage, words: tuple[str, ...]) -> None:
    result = run("restore", "s", *words)
    assert (result.exit_code, "name periods, or give --cancel" in result.output) == (64, True)
