"""One run: its lease, the work of one stream, and a stream whose policy could not be recorded."""

from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.fakes.stage import Stage
from tests.lifecycle.world import NOON, World, outcomes
from tests.worlds.copied import text
from tidetable.config import TableClass, parse
from tidetable.errors import TableRefused
from tidetable.lifecycle import reconcile
from tidetable.ports import TableSpec

DAY = timedelta(days=1)


def test_a_run_as_at_another_time_takes_its_lease_now() -> None:
    """A lease from the future would keep every other run out until then."""
    world = World()
    taken: list[tuple[datetime, timedelta]] = []
    acquire = world.catalog.acquire

    def note(lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        taken.append((now, length))
        return acquire(lease, owner, now, length)

    world.catalog.acquire = note  # type: ignore[method-assign]
    report = reconcile(world.begin_run("owner", lambda: 80.0), at=NOON + 30 * DAY)
    assert (report.now, taken) == (NOON + 30 * DAY, [(NOON, timedelta(seconds=90))])


def test_a_stream_whose_policy_cannot_be_recorded_gets_no_table_and_its_tables_go_on() -> None:
    world = World()
    world.run()
    world.catalog.recorded.clear()

    def refuse(_: Any) -> None:
        raise ConnectionError("try later")

    cast("Any", world.catalog).put_policy = refuse
    actions = {name for name, _, outcome in outcomes(world.after(days=2)) if outcome == "done"}
    assert actions == {"capacity", "close"}


def test_a_deletion_has_its_time_though_the_creations_before_it_waited_for_all_of_theirs() -> None:
    world = World(on_expiry="delete", retention=2)
    world.run()
    before, describe = world.tables.names, world.tables.describe

    def hang(name: str) -> Any:
        table = describe(name)
        return table if table is None or name in before else replace(table, status="CREATING")

    cast("Any", world.tables).describe = hang
    report = world.after(days=3)
    assert [outcome for name, _, outcome in outcomes(report) if name == "create"] == ["deferred"] * 3
    assert [outcome for name, _, outcome in outcomes(report) if name == "delete"] == ["done"] * 2
    # The creations waited for two minutes in all.
    assert world.clock.now() - (NOON + 3 * DAY) >= timedelta(seconds=120)


def test_a_run_for_one_stream_leaves_the_catalogs_copies_to_the_next() -> None:
    world = World()
    world.config = parse(text("eu-west-1"))
    world.catalog.deployed = True
    world.tables.create(TableSpec("tidetable-t-catalog", None, None, TableClass.STANDARD, {}))
    world.clock.sleep(60)
    run = world.begin_run("owner", lambda: 100.0)
    assert reconcile(run, only="s", dry_run=True).catalog_copies == []
    (step,) = reconcile(run, dry_run=True).catalog_copies
    assert (step.region, step.outcome) == ("eu-west-1", "planned")


@pytest.mark.parametrize(("crowded", "tries"), [(True, 121 + 3), (False, 4)])
def test_creations_that_are_too_many_at_once_are_tried_every_second_for_two_minutes(
    *, crowded: bool, tries: int
) -> None:
    """All four tables wait together: the first takes the time, the others have one attempt each."""
    world = World()
    asked: list[str] = []

    def refuse(spec: TableSpec) -> bool:
        asked.append(spec.name)
        raise TableRefused("LimitExceededException: too many simultaneously", transient=True, crowded=crowded)

    cast("Any", world.tables).create = refuse
    began = world.clock.now()
    report = world.run()
    assert {outcome for _, _, outcome in outcomes(report)} == {"deferred"}
    assert (len(report.done), len(asked), len(set(asked))) == (4, tries, 4)
    assert world.clock.now() - began == timedelta(seconds=tries - 4)


def test_tables_of_many_streams_are_begun_before_any_is_waited_for() -> None:
    """The service takes six CreateTables per second here, and makes a table in six seconds. All wait at the same time."""
    policy = 'period = "day"\nlate = "1d"\nretention = 5\nkey = {{ partition_by = "series" }}\n'
    text = "".join(f"[streams.n{number}]\n{policy}".format() for number in range(30))
    stage = Stage(NOON, text)
    began = stage.clock.now()
    report = stage.run_lifecycle()
    assert (report.count("done"), report.count("deferred"), report.tables) == (120, 0, 120)
    # 120 tables begin within 20 seconds, and the last is ACTIVE six seconds later.
    assert timedelta(seconds=20) <= stage.clock.now() - began <= timedelta(seconds=30)


def test_a_change_that_is_refused_as_one_of_too_many_is_left_to_the_next_run() -> None:
    world = World()
    world.run()
    tried: list[str] = []

    def refuse(name: str, *_: Any, **__: Any) -> None:
        tried.append(name)
        raise TableRefused("ThrottlingException: rate", transient=True, crowded=True)

    cast("Any", world.tables).set_capacity = refuse
    world.at(NOON + timedelta(hours=11, minutes=50))
    assert tried == ["tidetable-t.s.2026-03-16"]


def test_a_table_that_is_lost_says_so_in_its_detail() -> None:
    world = World()
    world.run()
    world.tables.vanish("tidetable-t.s.2026-03-15")
    (lost,) = world.after(minutes=5).done
    assert lost.detail == "the catalog says open, but there is no such table; see the runbook"


def test_a_report_counts_the_tables_of_parts_that_were_made() -> None:
    assert World(more='cold = ["raw"]').run().tables == 8
