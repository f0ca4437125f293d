"""Actions that an earlier run has done in part, or whose table or period has changed since the plan."""

from typing import Any, cast

import pytest
from msgspec.structs import replace

from tests.lifecycle.world import INDEXED, World
from tests.worlds.entries import change_entry
from tidetable.catalog import Entry, State
from tidetable.config import Autoscaling, Range, TableClass
from tidetable.copies.table_copies import Copy, DeleteCopy
from tidetable.errors import NotOurs, NotReady, StaleEntry
from tidetable.ladder import Level
from tidetable.lifecycle.apply import apply
from tidetable.upkeep.actions import Archive, Close, Delete, Open, Scale, SetCapacity, SetClass, Unscale

TODAY = "2026-03-15"
TABLE = f"tidetable-t.s.{TODAY}"
IRELAND = "eu-west-1"
COLD = 'cold = ["raw"]'


def lived(**changes: Any) -> World:
    world = World(**changes)
    world.run()
    world.clock.sleep(60)
    return world


def entry(world: World, **changes: Any) -> Entry:
    """Today's entry; with changes, as the catalog holds it from now on."""
    held = next(entry for entry in world.catalog.entries("s") if entry.period.label == TODAY)
    if changes:
        held = change_entry(held, **changes)
        world.catalog.items["s", held.period] = held
    return held


def act(world: World, action: Any) -> None:
    apply(action, world.begin_run("owner", lambda: 1000.0), world.clock.now())


def show(world: World, name: str, **changes: Any) -> None:
    """Describe a table with these changes."""
    describe = world.tables.describe

    def described(asked: str) -> Any:
        table = describe(asked)
        return replace(table, **changes) if table is not None and asked == name else table

    cast("Any", world.tables).describe = described


def test_a_period_is_opened_and_closed_only_from_the_states_before() -> None:
    """An archive or a restore may have begun since the plan. What an earlier run has done is done again."""
    world = lived()
    taken: dict[str, set[State]] = {"open": set(), "close": set()}
    for state in State:
        for action, to in ((Open(entry(world), ""), State.OPEN), (Close(entry(world), ""), State.CLOSED)):
            entry(world, state=state)
            try:
                act(world, action)
            except StaleEntry:
                assert entry(world).state is state
            else:
                taken[action.name].add(state)
                assert entry(world).state is to
    assert taken == {
        "open": {State.CREATING, State.OPEN},
        "close": {State.CREATING, State.OPEN, State.CLOSED},
    }


@pytest.mark.parametrize(("state", "opened"), [(State.OPEN, True), (State.ARCHIVING, False)])
def test_a_table_is_made_again_only_for_a_period_that_is_not_archived(state: State, *, opened: bool) -> None:
    """Two runs may plan its creation, if the lease of the first ran out."""
    world = World()
    created = next(done.action for done in world.run(dry_run=True).done if done.action.entry.period.label == TODAY)
    world.run()
    entry(world, state=state)
    world.clock.sleep(60)
    if opened:
        act(world, created)
    else:
        with pytest.raises(StaleEntry):
            act(world, created)
    assert entry(world).state is state


def test_the_class_of_a_period_stays_if_the_table_of_parts_is_a_strangers() -> None:
    world = lived(more=COLD)
    world.tables._states[f"{TABLE}.parts"].tags = {"owner": "somebody else"}
    with pytest.raises(NotOurs):
        act(world, SetClass(entry(world), "", TableClass.INFREQUENT))
    assert not [change for change in world.tables.changes if change.startswith("class")]


def test_an_action_waits_a_minute_and_no_longer_than_all_actions_of_its_rank_may() -> None:
    world = World().begin_run("owner", lambda: 1000.0)
    assert world.make_period_tables().remaining() == 60
    world.patience = lambda: 40.0
    assert world.make_period_tables().remaining() == 40


@pytest.mark.parametrize("status", ["ACTIVE", "UPDATING"])
def test_a_copy_of_the_period_table_follows_a_copy_of_use_beside_it(status: str) -> None:
    world = lived(more=COLD)
    held = entry(world, replicas=(IRELAND,))
    show(world, f"{TABLE}.parts", copies={IRELAND: status})
    began = world.clock.now()
    noted: list[Any] = []
    create_copy = world.tables.create_copy

    def note(name: str, region: str) -> None:
        noted.append((name, region, entry(world).copies.begun))
        create_copy(name, region)

    cast("Any", world.tables).create_copy = note
    act(world, Copy(held, "", IRELAND))
    # The catalog knows of the copy before it is begun: a copy is not listed for some seconds.
    assert noted == [(TABLE, IRELAND, (IRELAND, began))]


def test_one_copy_is_begun_at_a_time_and_that_of_the_table_of_parts_first() -> None:
    world = lived(more=COLD)
    act(world, Copy(entry(world, replicas=(IRELAND,)), "", IRELAND))
    assert [change for change in world.tables.changes if change.startswith("copy")] == [f"copy {TABLE}.parts {IRELAND}"]


def test_a_table_whose_scaling_could_not_be_ended_is_still_noted_as_scaled() -> None:
    """Its target would outlive it, if nobody tried again."""
    world = lived()
    held = entry(world, scaled=True)

    def fail(*_: Any) -> None:
        raise ConnectionError("no answer")

    world.scaling.deregister = fail  # type: ignore[method-assign, assignment]
    with pytest.raises(ConnectionError):
        act(world, Unscale(held, ""))
    assert entry(world).capacity.scaled


def test_a_deletion_of_a_table_without_copies_writes_the_tombstone_alone() -> None:
    """Each write costs a unit."""
    world = lived()
    held = entry(world, state=State.ARCHIVED)
    marked: list[Any] = []
    cast("Any", world.catalog).mark_copies = lambda *given: marked.append(given)
    cast("Any", world.catalog).mark_scaled = lambda *given, **_: marked.append(given)
    act(world, Delete(held, "", unarchived=False))
    assert (marked, entry(world).state) == ([], State.DELETED)


def test_a_copy_is_not_deleted_once_its_period_is_no_longer_archived() -> None:
    world = lived()
    planned = entry(world, replicas=(IRELAND,), active=(IRELAND,), state=State.ARCHIVED)
    show(world, TABLE, copies={IRELAND: "ACTIVE"})
    entry(world, state=State.RESTORING)
    with pytest.raises(NotReady, match=f"period {TODAY} is restoring, not archived"):
        act(world, DeleteCopy(planned, "", unarchived=False))
    assert entry(world).copies.active == (IRELAND,)
    assert not [change for change in world.tables.changes if change.startswith("delete")]


def test_before_a_table_goes_no_reader_is_sent_to_its_copies() -> None:
    world = lived()
    held = entry(world, replicas=(IRELAND,), active=(IRELAND,), state=State.ARCHIVED)
    act(world, Delete(held, "", unarchived=False))
    assert (entry(world).state, entry(world).copies.active) == (State.DELETED, ())


def test_an_archive_does_not_wait_for_a_table_that_is_gone() -> None:
    """The archiver says what is wrong."""
    world = lived()
    held = entry(world, state=State.CLOSED)
    world.tables.vanish(TABLE)
    called: list[Any] = []
    cast("Any", world.archiver).archive = lambda *given, **_: called.append(given)
    began = world.clock.now()
    act(world, Archive(held, ""))
    assert (called, world.clock.now()) == ([("s", TODAY)], began)


def test_units_that_a_table_has_are_not_sent_again_and_its_maxima_neither() -> None:
    world = lived()
    act(world, SetCapacity(entry(world), "", Level(10, 10, TableClass.STANDARD, "")))
    assert not [change for change in world.tables.changes if not change.startswith("create")]


def test_another_policy_takes_the_targets_of_indexes_back_too() -> None:
    world = lived(capacity=INDEXED)
    taken: list[Any] = []
    cast("Any", world.scaling).deregister = lambda *given: taken.append(given)
    policy = Autoscaling(write=Range(min=5, max=50))
    act(world, Scale(entry(world, scaled=True, policy="another", replicas=(IRELAND,)), "", policy))
    assert taken == [(TABLE, ["status"], (IRELAND,))]
    assert (entry(world).capacity.scaled, entry(world).capacity.policy) == (True, policy.text)
