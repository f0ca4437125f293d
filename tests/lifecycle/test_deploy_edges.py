"""How often a deploy runs, which tables it needs, and what its failure says; on fakes, so each case takes milliseconds."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.lifecycle.world import NOON, World
from tidetable.catalog import State
from tidetable.errors import TableRefused
from tidetable.leases import is_recorded
from tidetable.lifecycle import deploy as deploying
from tidetable.lifecycle import reconcile
from tidetable.lifecycle.deploy import Deployed, Unmade, deploy, list_unmade_tables

TODAY, LAST = "tidetable-t.s.2026-03-15", "tidetable-t.s.2026-03-17"
MINUTE = timedelta(minutes=1)


def run(
    world: World, configuration: str = "a", *, first: bool = False, remaining: Callable[[], float] = lambda: 500.0
) -> Deployed:
    return deploy(world.begin_run("deploy", remaining), configuration, first=first)


def fail(*_: Any, **__: Any) -> Any:
    raise ConnectionError("no answer")


def test_a_refusal_is_final_after_four_runs_with_pauses_of_five_seconds() -> None:
    """The rights of a new role take some seconds to hold everywhere."""
    world = World()
    world.tables.fails = {LAST}
    began = world.clock.now()
    done = run(world, first=True)
    assert (done.failure, len(done.reports), list_unmade_tables(done.unmade)) == (None, 4, [LAST])
    # The first run also waits three seconds for the other tables, which are made at the same time.
    assert world.clock.now() - began == timedelta(seconds=3 * 5 + 3)


@pytest.mark.parametrize(("seconds", "runs"), [(10.0, 4), (9.9, 1)])
def test_another_run_begins_only_if_ten_seconds_are_left(seconds: float, runs: int) -> None:
    world = World()
    world.tables.fails = {LAST}
    assert len(run(world, remaining=lambda: seconds).reports) == runs


def test_the_first_five_errors_of_a_configuration_are_named_and_a_rollback_is_not_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    assert run(world, "former", first=True).failure is None
    problems = [f"problem {number}" for number in range(6)]
    monkeypatch.setattr(deploying, "find_conflicts", lambda *_: iter(problems))
    refused = run(world, "new")
    assert (refused.failure, refused.reports) == ("; ".join(problems[:5]), [])
    assert not is_recorded(world.catalog, "deployed#new", NOON)
    assert run(world, "former").failure is None
    # A catalog that does not answer is reported by the runs.
    monkeypatch.setattr(deploying, "find_conflicts", fail)
    assert run(world, "new").failure is None
    assert is_recorded(world.catalog, "deployed#new", NOON)


def test_a_deploy_whose_runs_end_early_says_why_after_four_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.run()
    runs = list[int]()

    def fail_first(*given: Any, **named: Any) -> Any:
        runs.append(1)
        return fail() if len(runs) == 1 else reconcile(*given, **named)

    monkeypatch.setattr(deploying, "reconcile", fail_first)
    recovered = run(world)
    assert (recovered.failure, recovered.troubles, len(recovered.reports)) == (None, [], 2)
    monkeypatch.setattr(deploying, "reconcile", fail)
    failed = run(world, "b")
    assert failed.failure == ("some tables could not be checked: a run ended early: ConnectionError: no answer")
    assert (len(failed.reports), is_recorded(world.catalog, "deployed#b", NOON)) == (4, False)


def test_a_stream_that_cannot_be_looked_at_is_a_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.run()
    monkeypatch.setattr(deploying, "_find_unmade", fail)
    assert run(world).failure == (
        "some tables could not be checked: the catalog could not be read for s: ConnectionError: no answer"
    )


def test_a_catalog_that_does_not_say_what_stood_stops_no_deploy(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(deploying, "is_recorded", fail)
    assert run(world).failure is None


def test_what_was_made_a_moment_ago_is_not_missing() -> None:
    """An eventually consistent read does not show it yet."""
    world = World()
    world.run()
    world.catalog.stale = {}
    done = run(world)
    assert (done.unmade, done.failure) == ([], None)
    assert all(consistent for *_, consistent in world.catalog.reads)


def unmade(world: World, now: datetime) -> dict[str, bool]:
    """The tables that are in the making, and whether events need them at an instant."""
    world.run()
    for entry in world.catalog.entries("s"):
        world.catalog.items["s", entry.period] = replace(entry, state=State.CREATING)
    world.clock.time = now
    found = deploying._find_unmade(world.begin_run(), world.config.streams["s"], {})
    return {table.table[-10:]: table.needed for table in found}


MIDNIGHT = NOON.replace(hour=0)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("now", "needed"),
    [
        # Late events come for a day, and early ones five minutes ahead. A table is needed an hour before that.
        (MIDNIGHT + DAY - timedelta(microseconds=1), {"2026-03-14", "2026-03-15", "2026-03-16"}),
        (MIDNIGHT + DAY, {"2026-03-15", "2026-03-16"}),
        (MIDNIGHT + DAY - 65 * MINUTE, {"2026-03-14", "2026-03-15", "2026-03-16"}),
        (MIDNIGHT + DAY - 65 * MINUTE - timedelta(microseconds=1), {"2026-03-14", "2026-03-15"}),
    ],
)
def test_events_of_the_window_need_their_tables(now: datetime, needed: set[str]) -> None:
    assert {label for label, is_needed in unmade(World(), now).items() if is_needed} == needed


def test_a_failure_says_what_is_known_of_each_table() -> None:
    """The reason of a refusal, else that another run was under way, else that the table is not active."""
    world = World()
    world.tables.fails = {TODAY}
    refused = run(world, first=True).failure
    assert refused == (
        f"1 tables that events need now could not be made; {TODAY}: LimitExceededException: the account's table limit"
        " is reached"
    )
    assert world.catalog.acquire("lifecycle", "another", world.clock.now(), timedelta(hours=1))
    skipped = run(world, first=True, remaining=lambda: 5.0).failure
    assert skipped is not None
    assert skipped.startswith(f"1 tables that events need now could not be made; {TODAY}: another run is under way;")


def test_a_table_that_was_missing_before_fails_no_update_of_a_stage_that_works() -> None:
    """Unless no table of the stream was ever made, or the deploy itself has recorded the period."""
    world = World()
    world.tables.fails = {TODAY}
    world.run()
    world.clock.sleep(60)
    assert run(world, "shorter").failure is None
    # The same instant is not before.
    held = next(entry for entry in world.catalog.entries("s") if entry.table == TODAY)
    world.catalog.items["s", held.period] = replace(held, created_at=world.clock.now())
    assert TODAY in str(run(world, "b").failure)
    world = World()
    world.tables.create = refuse  # type: ignore[method-assign, assignment]
    world.run()
    world.clock.sleep(60)
    assert TODAY in str(run(world, "c").failure)


def refuse(*_: Any) -> bool:
    raise TableRefused("AccessDeniedException: no", transient=False)


def test_each_configuration_is_remembered_by_its_own_digest() -> None:
    world = World()
    assert run(world, "a", first=True).failure is None
    world.tables.fails = {"tidetable-t.s.2026-03-19"}
    world.clock.sleep(4 * 86_400)
    assert run(world, "b").failure is not None
    assert run(world, "a").failure is None, "a rollback"
    assert run(world, "a", first=True).failure is not None, "not a rollback: the stack is made again"


def test_tables_are_named_in_their_order() -> None:
    some = [Unmade("s", name, False, None) for name in ("b", "c", "a")]
    assert list_unmade_tables(some) == ["a", "b", "c"]
