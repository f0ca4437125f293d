"""A stage that never stood is deleted again; a stage that stands is protected and keeps its tables."""

from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from tests.lifecycle.world import NOON, World
from tests.worlds.standing import CATALOG, deployed
from tidetable.catalog import State
from tidetable.config import Config, TableClass
from tidetable.errors import NotReady, TableRefused
from tidetable.lifecycle import LifecycleRun
from tidetable.lifecycle.deployed import finish_stage, protect, take_back
from tidetable.period_tables import make_table_tags
from tidetable.ports import TableSpec


def applied(world: World) -> LifecycleRun:
    return world.begin_run("owner", lambda: 1000.0)


def taken(world: World) -> list[str]:
    return take_back(applied(world))


def test_a_stage_that_never_stood_leaves_no_table_and_no_entry() -> None:
    world = deployed()
    assert sorted(taken(world)) == [
        "tidetable-t.s.2026-03-14",
        "tidetable-t.s.2026-03-15",
        "tidetable-t.s.2026-03-16",
        "tidetable-t.s.2026-03-17",
    ]
    assert world.tables.names == {CATALOG}
    assert world.catalog.items == {}
    assert taken(world) == []


def test_after_that_the_same_stage_can_be_made() -> None:
    world = deployed()
    taken(world)
    world.run()
    assert len(world.tables.names) == 5


def test_tables_beside_the_tables_go_too() -> None:
    world = deployed(more='cold = ["raw"]')
    assert "tidetable-t.s.2026-03-15.parts" in world.tables.names
    taken(world)
    assert world.tables.names == {CATALOG}


def test_a_stage_that_stands_keeps_its_tables() -> None:
    world = deployed()
    finish_stage(applied(world), protected=True)
    assert taken(world) == []
    assert len(world.tables.names) == 5


def test_tables_that_are_older_than_the_catalog_may_hold_events_and_stay() -> None:
    world = World()
    world.run()
    world.catalog.items.clear()
    world.clock.sleep(3600)
    world.tables.create(TableSpec(CATALOG, None, None, TableClass.STANDARD, {}))
    world.clock.sleep(10)
    world.run()
    assert taken(world) == []
    assert len(world.tables.names) == 5


@pytest.mark.parametrize(("seconds", "count"), [(60, 4), (60.000001, 3)])
def test_a_table_that_another_clock_made_a_minute_before_the_catalog_is_taken_back(seconds: float, count: int) -> None:
    world = deployed()
    world.clock.sleep(10)
    describe, today = world.tables.describe, "tidetable-t.s.2026-03-15"
    # The catalog was made at noon.
    made = NOON - timedelta(seconds=seconds)

    def describe_older(name: str) -> Any:
        table = describe(name)
        return replace(table, created=made) if table is not None and name == today else table

    cast("Any", world.tables).describe = describe_older
    assert len(taken(world)) == count


def test_a_table_of_parts_that_is_older_than_the_catalog_stays_with_its_period_table() -> None:
    world = World(more='cold = ["raw"]')
    today = "tidetable-t.s.2026-03-15"
    tags = make_table_tags("t", "s", "2026-03-15")
    world.tables.create(TableSpec(f"{today}.parts", None, None, TableClass.STANDARD, tags))
    world.clock.sleep(3600)
    world.tables.create(TableSpec(CATALOG, None, None, TableClass.STANDARD, {}))
    world.clock.sleep(10)
    world.run()
    assert len(taken(world)) == 3
    assert world.tables.names == {CATALOG, today, f"{today}.parts"}


def test_a_stage_with_a_history_is_left_alone_even_if_nobody_wrote_down_that_it_stands() -> None:
    world = deployed(late="1h", retention=1)
    world.at(NOON + timedelta(days=3))
    assert any(state.value in ("archiving", "archived", "deleted") for state in world.states().values())
    before = world.tables.names
    assert taken(world) == []
    assert world.tables.names == before


def test_a_table_that_cannot_be_deleted_stops_no_other_and_is_an_error() -> None:
    world = deployed()
    real = world.tables.delete

    def delete(name: str) -> None:
        if name.endswith("-15"):
            raise TableRefused("no", transient=False)
        real(name)

    world.tables.delete = delete  # type: ignore[method-assign]
    with pytest.raises(TableRefused):
        taken(world)
    assert world.tables.names == {CATALOG, "tidetable-t.s.2026-03-15"}


def test_the_catalog_is_protected_once_the_stage_stands() -> None:
    world = deployed()
    for _ in range(2):
        finish_stage(applied(world), protected=True)
        table = world.tables.describe(CATALOG)
        assert table is not None
        assert (table.protected, world.catalog.is_deployed()) == (True, True)


def test_a_catalog_that_goes_with_its_stack_is_not_protected() -> None:
    world = deployed()
    finish_stage(applied(world), protected=True)
    world.clock.sleep(60)
    finish_stage(applied(world), protected=False)
    table = world.tables.describe(CATALOG)
    assert table is not None
    assert (table.protected, world.catalog.is_deployed()) == (False, True)


def test_a_stage_that_could_not_be_recorded_as_standing_is_not_protected_either() -> None:
    world = deployed()

    def mark() -> None:
        raise ConnectionError("no answer")

    world.catalog.mark_deployed = mark  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        finish_stage(applied(world), protected=True)
    table = world.tables.describe(CATALOG)
    assert table is not None
    assert not table.protected


def test_protection_that_was_changed_a_moment_ago_is_waited_for() -> None:
    world = deployed()
    real, refusals = world.tables.set_protection, iter([True, True, False])

    def refuse(name: str, protected: bool) -> None:
        if next(refusals, False):
            raise TableRefused("ThrottlingException: protection changed less than 15 s ago", transient=True)
        real(name, protected)

    world.tables.set_protection = refuse  # type: ignore[method-assign]
    protect(applied(world), protected=True)
    table = world.tables.describe(CATALOG)
    assert table is not None
    assert table.protected


def test_a_stage_without_streams_of_its_catalog_is_no_trouble() -> None:
    world = deployed()
    other = Config(streams={"x": msgspec.structs.replace(world.config.streams["s"], name="x")})
    assert take_back(world.begin_run(config=other)) == []


def test_the_tables_of_every_stream_are_taken_back() -> None:
    world = World()
    other = msgspec.structs.replace(world.config.streams["s"], name="other")
    world.config = msgspec.structs.replace(world.config, streams={**world.config.streams, "other": other})
    world.tables.create(TableSpec(CATALOG, None, None, TableClass.STANDARD, {}))
    world.run()
    assert {name.split(".")[1] for name in take_back(applied(world))} == {"s", "other"}
    assert world.tables.names == {CATALOG}


def test_a_stage_whose_catalog_could_not_be_protected_does_not_stand() -> None:
    world = deployed()

    def refuse(*_: object, **__: object) -> None:
        raise TableRefused("AccessDeniedException: no", transient=False)

    world.tables.set_protection = refuse  # type: ignore[method-assign]
    with pytest.raises(TableRefused):
        finish_stage(applied(world), protected=True)
    assert not world.catalog.is_deployed()
    assert len(taken(world)) == 4, "and can be taken back"


def test_a_stage_that_stands_stays_protected_though_a_later_deployment_fails() -> None:
    world = deployed()
    finish_stage(applied(world), protected=True)

    def mark() -> None:
        raise ConnectionError("no answer")

    world.catalog.mark_deployed = mark  # type: ignore[method-assign]
    with pytest.raises(ConnectionError):
        finish_stage(applied(world), protected=True)
    table = world.tables.describe(CATALOG)
    assert table is not None
    assert table.protected


def test_a_catalog_that_does_not_become_active_in_time_is_left_as_it_is() -> None:
    world = deployed()
    world.tables.set_class(CATALOG, TableClass.INFREQUENT)
    hurried = world.begin_run("owner", lambda: 0.5)
    with pytest.raises(NotReady, match=f"table {CATALOG} is UPDATING"):
        protect(hurried, protected=True)
    with pytest.raises(NotReady, match="table nothing is not there"):
        protect(world.begin_run("owner", lambda: 0.5, catalog_table="nothing"), protected=True)
    world.clock.sleep(60)
    table = world.tables.describe(CATALOG)
    assert table is not None
    assert not table.protected


def test_tables_that_were_recorded_a_moment_ago_are_taken_back_too() -> None:
    """An eventually consistent read does not show their entries yet."""
    world = deployed()
    world.catalog.stale = {}
    assert len(taken(world)) == 4
    assert world.tables.names == {CATALOG}


def test_a_closed_table_of_a_stage_that_never_stood_is_taken_back_too() -> None:
    """A stream may have a short window, and a deployment takes minutes."""
    world = deployed()
    entry = world.catalog.entries("s")[0]
    world.catalog.move(entry, State.CLOSED, expected=[State.OPEN])
    assert len(taken(world)) == 4


@pytest.mark.parametrize("gone", [True, False])
def test_without_the_age_of_the_catalog_no_table_is_taken_back(*, gone: bool) -> None:
    world = deployed()
    describe = world.tables.describe

    def described(name: str) -> Any:
        table = describe(name)
        if name != CATALOG or table is None:
            return table
        return None if gone else replace(table, created=None)

    cast("Any", world.tables).describe = described
    assert taken(world) == []
    assert len([name for name in world.tables.names if name != CATALOG]) == 4


def test_protection_waits_until_the_catalog_is_active() -> None:
    world = deployed()
    calls: list[str] = []
    set_protection = world.tables.set_protection

    def note(name: str, protected: bool) -> None:
        calls.append(name)
        set_protection(name, protected)

    world.tables.set_protection = note  # type: ignore[method-assign]
    world.tables.set_class(CATALOG, TableClass.INFREQUENT)
    protect(applied(world), protected=True)
    assert calls == [CATALOG]
