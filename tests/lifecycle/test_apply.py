"""Single actions on a stage that has changed since the plan, or that fail midway."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes import FakeTables
from tests.lifecycle.world import INDEXED, NOON, SCALED, World
from tidetable.catalog import Entry, Opening, State
from tidetable.config import TableClass
from tidetable.errors import NotOurs, NotReady, StaleEntry, TableRefused
from tidetable.ladder import Level
from tidetable.lifecycle import LifecycleRun
from tidetable.lifecycle.apply import apply
from tidetable.period_tables import PeriodTables, make_table_tags
from tidetable.ports import TableSpec
from tidetable.upkeep.actions import Archive, Close, Delete, Reopen, SetCapacity, SetClass

TODAY = "2026-03-15"
TABLE = f"tidetable-t.s.{TODAY}"


def lived(**changes: Any) -> World:
    world = World(**changes)
    world.run()
    world.clock.sleep(60)
    return world


def entry(world: World, label: str = TODAY) -> Entry:
    return next(entry for entry in world.catalog.entries("s") if entry.period.label == label)


def acting(world: World, seconds: float = 1000.0) -> LifecycleRun:
    """The ports of actions, with a number of seconds left of the run."""
    return world.begin_run("owner", lambda: seconds)


def act(world: World, action: Any, seconds: float = 1000.0) -> None:
    apply(action, acting(world, seconds), world.clock.now())


def period_tables(world: World) -> PeriodTables:
    return acting(world).make_period_tables()


@pytest.mark.parametrize("state", [State.ARCHIVING, State.ARCHIVED, State.DELETED, State.RESTORING])
def test_a_period_that_was_archived_since_the_plan_is_not_opened_for_a_backfill(state: State) -> None:
    world = lived()
    closed = world.catalog.move(entry(world), State.CLOSED, expected=State)
    world.catalog.move(closed, state, expected=State)
    opened = Opening(NOON + timedelta(days=1), None, None)
    with pytest.raises(StaleEntry):
        act(world, Reopen(closed, "", opened))
    assert (entry(world).state, entry(world).opened) == (state, None)


@pytest.mark.parametrize("state", [State.ARCHIVING, State.ARCHIVED, State.DELETED, State.RESTORING])
def test_a_period_that_was_archived_since_the_plan_is_not_closed_again(state: State) -> None:
    world = lived()
    planned = entry(world)
    world.catalog.move(planned, state, expected=State)
    with pytest.raises(StaleEntry):
        act(world, Close(planned, ""))
    assert entry(world).state is state


@pytest.mark.parametrize("state", [State.OPEN, State.CLOSED, State.ARCHIVING, State.RESTORING])
def test_a_table_that_is_no_longer_archived_is_not_deleted(state: State) -> None:
    world = lived()
    planned = world.catalog.move(entry(world), State.ARCHIVED, expected=State)
    world.catalog.move(planned, state, expected=State)
    with pytest.raises(NotReady, match=f"period {TODAY} is {state}, not archived"):
        act(world, Delete(planned, "", unarchived=False))
    assert TABLE in world.tables.names
    assert entry(world).state is state


def test_what_may_be_deleted_is_read_consistently() -> None:
    world = lived()
    planned = world.catalog.move(entry(world), State.ARCHIVED, expected=State)
    # A stale read still shows the state archived, although the restore has begun.
    world.catalog.stale = dict(world.catalog.items)
    world.catalog.move(planned, State.RESTORING, expected=State)
    with pytest.raises(NotReady, match="restoring"):
        act(world, Delete(planned, "", unarchived=False))
    assert TABLE in world.tables.names


def test_a_period_is_marked_deleted_only_when_its_table_is_gone() -> None:
    world = lived()
    planned = world.catalog.move(entry(world), State.ARCHIVED, expected=State)

    def refuse(name: str) -> None:
        raise TableRefused("AccessDeniedException: no", transient=False)

    world.tables.delete = refuse  # type: ignore[method-assign]
    with pytest.raises(TableRefused):
        act(world, Delete(planned, "", unarchived=False))
    assert entry(world).state is State.ARCHIVED


def test_a_change_of_class_that_was_made_meanwhile_is_not_repeated() -> None:
    """AWS counts changes of class: two in 30 days."""
    world = lived(more='cold = ["raw"]')
    for _ in range(2):
        act(world, SetClass(entry(world), "", TableClass.INFREQUENT))
        world.clock.sleep(60)
    changes = [change for change in world.tables.changes if change.startswith("class")]
    assert changes == [f"class {TABLE}.parts", f"class {TABLE}"]


def test_a_change_of_units_that_was_made_meanwhile_is_not_repeated() -> None:
    """AWS refuses a change that changes nothing, and the run would report a failure."""
    world = lived()
    level = Level(7, 8, TableClass.STANDARD, "")
    for _ in range(2):
        act(world, SetCapacity(entry(world), "", level))
        world.clock.sleep(60)
    assert [change for change in world.tables.changes if change.startswith("capacity")] == [f"capacity {TABLE}"]
    assert world.levels()[TODAY][:2] == (7, 8)


def test_a_table_that_is_switched_to_on_demand_has_its_maxima_from_the_first_moment() -> None:
    world = lived()
    act(world, SetCapacity(entry(world), "", Level(None, None, TableClass.STANDARD, "", most=(500, 600))))
    world.clock.sleep(60)
    table = world.tables.describe(TABLE)
    assert table is not None
    assert (table.write, table.most) == (None, (500, 600))


def test_a_table_is_noted_as_scaled_before_it_is_and_so_is_taken_back_whatever_happens() -> None:
    world = World(capacity=SCALED)
    world.run()
    noted: list[bool] = []

    def registering(table: str, *given: Any) -> None:
        noted.append(entry(world, table[-10:]).capacity.scaled)
        raise KeyboardInterrupt  # The function ends here.

    world.scaling.register = registering  # type: ignore[method-assign, assignment]
    with pytest.raises(KeyboardInterrupt):
        world.after(minutes=5)
    assert noted
    assert all(noted)


def test_a_table_that_is_deleted_while_it_is_scaled_leaves_no_scalable_target() -> None:
    world = World(capacity=SCALED)
    world.run()
    world.after(minutes=5)
    assert TABLE in world.scaling.tended
    planned = world.catalog.move(entry(world), State.ARCHIVED, expected=State)
    act(world, Delete(planned, "", unarchived=False))
    assert (TABLE in world.tables.names, TABLE in world.scaling.tended) == (False, False)


def test_an_archive_is_not_begun_in_the_last_seconds_of_a_run() -> None:
    world = lived()
    world.catalog.move(entry(world), State.CLOSED, expected=State)
    with pytest.raises(NotReady, match="the time of this run is up"):
        act(world, Archive(entry(world), ""), seconds=19.9)
    assert entry(world).state is State.CLOSED
    act(world, Archive(entry(world), ""), seconds=20.0)
    assert entry(world).state is State.ARCHIVED


def test_an_archive_waits_until_its_table_has_become_faster() -> None:
    world = lived()
    world.catalog.move(entry(world), State.CLOSED, expected=State)
    statuses: list[str] = []
    archive = world.archiver.archive

    def noting(stream: str, label: str, *, within: float, retain: bool = False) -> None:
        table = world.tables.describe(TABLE)
        statuses.append("" if table is None else table.status)
        archive(stream, label, within=within, retain=retain)

    world.archiver.archive = noting  # type: ignore[method-assign]
    world.tables.set_capacity(TABLE, None, None)
    with pytest.raises(NotReady, match="is being made faster for its export"):
        act(world, Archive(entry(world), ""), seconds=19.0)
    assert statuses == []
    act(world, Archive(entry(world), ""))
    assert statuses == ["ACTIVE"]


def test_an_archive_may_take_what_is_left_of_the_run_and_no_more() -> None:
    world = lived()
    pauses: list[float] = []
    world.archiver.archive = lambda *_, within, **_retain: pauses.append(within)  # type: ignore[method-assign]
    act(world, Archive(entry(world), ""), seconds=123.0)
    assert pauses == [123.0]


# The proof that a table is ours


def test_a_table_is_no_table_of_an_entry_that_does_not_name_it_whatever_its_tags() -> None:
    world = lived()
    tags = make_table_tags("t", "s", TODAY)
    for name in (f"{TABLE}.parts", "tidetable-t.s.2026-03-99"):
        world.tables.create(TableSpec(name, None, None, TableClass.STANDARD, tags))
        world.clock.sleep(10)
        with pytest.raises(NotOurs, match=f"table {name} is not a table of period {TODAY} of s"):
            period_tables(world).find_owned(entry(world), name)
    assert period_tables(world).find_owned(entry(world)).name == TABLE


def test_a_table_of_another_stages_name_is_never_ours() -> None:
    world = lived()
    name = f"tidetable-other.s.{TODAY}"
    world.tables.create(TableSpec(name, None, None, TableClass.STANDARD, make_table_tags("t", "s", TODAY)))
    world.clock.sleep(10)
    with pytest.raises(Exception, match="tidetable-other"):
        period_tables(world).delete(replace(entry(world), table=name))
    assert name in world.tables.names


def test_a_deletion_that_is_refused_for_a_moment_is_tried_again_and_one_that_is_refused_for_good_is_not() -> None:
    """A description may lag: the table was still changing, or its protection was just lifted."""
    world = lived()
    delete, later = world.tables.delete, [TableRefused("ResourceInUseException: UPDATING", transient=True)] * 2
    calls: list[str] = []

    def refuse(name: str) -> None:
        calls.append(name)
        if later:
            raise later.pop()
        delete(name)

    world.tables.delete = refuse  # type: ignore[method-assign]
    assert period_tables(world).delete(entry(world)) is True
    assert (calls, TABLE in world.tables.names) == ([TABLE] * 3, False)
    other = entry(world, "2026-03-16")
    later.append(TableRefused("AccessDeniedException: no", transient=False))
    with pytest.raises(TableRefused, match="AccessDenied"):
        period_tables(world).delete(other)
    assert calls[3:] == [other.table]


# Point-in-time recovery


def refusing(tables: FakeTables, *refusals: TableRefused) -> list[str]:
    """Refuse the first calls for recovery; the list notes every call."""
    calls: list[str] = []
    left = list(refusals)

    def enable(name: str) -> None:
        calls.append(name)
        if left:
            raise left.pop(0)

    tables.enable_recovery = enable  # type: ignore[method-assign]
    return calls


def test_recovery_that_is_refused_for_good_is_not_waited_for() -> None:
    world = lived()
    calls = refusing(world.tables, TableRefused("AccessDeniedException: no", transient=False))
    began = world.clock.now()
    with pytest.raises(TableRefused, match="AccessDenied"):
        period_tables(world).make_recoverable(TABLE)
    assert (calls, world.clock.now()) == ([TABLE], began)


def test_recovery_that_is_not_there_yet_is_waited_for() -> None:
    world = lived()
    later = TableRefused("ContinuousBackupsUnavailableException: later", transient=True)
    calls = refusing(world.tables, later, later)
    period_tables(world).make_recoverable(TABLE)
    assert calls == [TABLE] * 3


# The table beside a period table


def test_of_a_table_whose_index_alone_differs_the_tables_own_units_are_not_sent() -> None:
    """AWS refuses an UpdateTable that sets the units that a table has."""
    world = lived(capacity=INDEXED)
    sent: list[Any] = []
    world.tables.set_capacity = lambda _, *units, **more: sent.append((units, more["itself"], more["indexes"]))  # type: ignore[method-assign]
    act(world, SetCapacity(entry(world), "", Level(10, 10, TableClass.STANDARD, "", {"status": (9, 2)})))
    assert sent == [((10, 10), False, {"status": (9, 2)})]


def test_the_tombstone_of_a_period_has_its_time() -> None:
    world = lived()
    planned = world.catalog.move(entry(world), State.ARCHIVED, expected=State)
    now = world.clock.now()
    act(world, Delete(planned, "", unarchived=False))
    (left,) = [entry for entry in world.catalog.entries("s") if entry.period == planned.period]
    assert (left.state, left.deleted_at) == (State.DELETED, now)


def test_a_table_that_leaves_on_demand_mode_is_given_the_units_of_its_indexes() -> None:
    """AWS asks for all of them, however small they are."""
    index = '[[streams.s.index]]\nname = "status"\npartition_by = "status"'
    world = lived(capacity=f'mode = "on-demand"\n{index}')
    sent: list[dict[str, Any]] = []
    world.tables.set_capacity = lambda *_, **more: sent.append(more)  # type: ignore[method-assign]
    act(world, SetCapacity(entry(world), "", Level(1, 1, TableClass.STANDARD, "")))
    assert sent == [{"itself": True, "indexes": {"status": (1, 1)}, "most": None}]
