"""The order of an action's steps, and what an action finds that the plan could not know."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from tests.lifecycle.world import INDEXED, NOON, World, outcomes
from tests.worlds.entries import change_entry
from tidetable.catalog import Entry, Opening, State
from tidetable.config import Autoscaling, TableClass, parse
from tidetable.config.capacity import Range
from tidetable.copies.table_copies import Copy, DeleteCopy
from tidetable.errors import ArchiveBusy, NotOurs, NotReady, StaleEntry, TableUnusable
from tidetable.expiry import compute_settling
from tidetable.ladder import compute_level
from tidetable.lifecycle.apply import apply
from tidetable.lifecycle.deployed import take_back
from tidetable.lifecycle.observe import Observation, Observed, remember_copies
from tidetable.lifecycle.removal import remove
from tidetable.period_tables import PeriodTables, make_table_tags
from tidetable.ports import TableSpec
from tidetable.run_streams import RunStreams
from tidetable.table_specs import make_filling_spec, make_table_spec
from tidetable.upkeep.actions import Archive, Create, Delete, Unscale

TODAY = "2026-03-15"
TABLE = f"tidetable-t.s.{TODAY}"
IRELAND, TOKYO = "eu-west-1", "ap-northeast-1"
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


def note(world: World, method: str, what: Callable[[], Any]) -> list[Any]:
    """What is so at the time of each call of a method of the tables."""
    seen: list[Any] = []
    call = getattr(world.tables, method)

    def noting(*members: Any) -> Any:
        seen.append(what())
        return call(*members)

    setattr(world.tables, method, noting)
    return seen


def test_a_table_of_the_name_that_is_a_strangers_is_never_opened() -> None:
    world = World()
    tags = {**make_table_tags("t", "s", TODAY), "tidetable:stage": "other"}
    period = next(action for action in world.run(dry_run=True).done if action.action.entry.period.label == TODAY)
    created = period.action
    assert isinstance(created, Create)
    world.tables.create(replace(created.spec, tags=tags))
    world.clock.sleep(120)
    with pytest.raises(NotOurs, match="not tagged as ours"):
        act(world, created)
    assert entry(world).state is State.CREATING


def test_the_copy_of_the_period_table_waits_for_a_copy_that_is_of_use_beside_it() -> None:
    world = lived(more=COLD)
    held = entry(world, replicas=(IRELAND,))
    show(world, f"{TABLE}.parts", copies={IRELAND: "INACCESSIBLE_ENCRYPTION_CREDENTIALS"})
    with pytest.raises(TableUnusable, match=f"INACCESSIBLE_ENCRYPTION_CREDENTIALS in {IRELAND}"):
        act(world, Copy(held, "", IRELAND))
    assert not [change for change in world.tables.changes if change.startswith("copy")]


@pytest.mark.parametrize("status", ["CREATING", "DELETING"])
def test_no_copy_is_begun_while_one_of_another_region_changes(status: str) -> None:
    """AWS refuses every change of such a table, though it is ACTIVE."""
    world = lived()
    held = entry(world, replicas=(IRELAND, TOKYO))
    show(world, TABLE, copies={TOKYO: status})
    with pytest.raises(NotReady, match=f"is changing: {TOKYO} {status}"):
        act(world, Copy(held, "", IRELAND))
    assert entry(world).copies.begun is None


def test_before_a_copy_goes_no_reader_is_sent_to_it_and_nothing_scales_it() -> None:
    world = lived()
    held = entry(world, replicas=(IRELAND,), active=(IRELAND,), state=State.ARCHIVED, scaled=True)
    show(world, TABLE, copies={IRELAND: "ACTIVE"})
    seen = note(
        world,
        "delete_copy",
        lambda: (entry(world).copies.active, entry(world).capacity.scaled, world.scaling.elsewhere[:]),
    )
    act(world, DeleteCopy(held, "", unarchived=False))
    assert seen == [((), False, [(TABLE, IRELAND)])]


def test_a_copy_of_a_table_that_is_not_ours_is_not_deleted() -> None:
    world = lived()
    held = entry(world, replicas=(IRELAND,), state=State.ARCHIVED)
    show(world, TABLE, copies={IRELAND: "ACTIVE"})
    cast("Any", world.tables).tags = lambda _: {"project": "another"}
    seen = note(world, "delete_copy", lambda: None)
    with pytest.raises(NotOurs):
        act(world, DeleteCopy(held, "", unarchived=False))
    assert seen == []


def test_indexes_leave_auto_scaling_with_their_table() -> None:
    world = lived(capacity=INDEXED)
    policy = Autoscaling(write=Range(min=5, max=100))
    world.scaling.register(TABLE, ["status"], policy)
    act(world, Unscale(entry(world, scaled=True), ""))
    assert (world.scaling.scaled, entry(world).capacity.scaled) == (set(), False)


def test_a_period_that_is_restored_while_its_table_goes_is_not_marked_deleted() -> None:
    world = lived()
    held = entry(world, state=State.ARCHIVED)
    note(world, "delete", lambda: world.catalog.move(entry(world), State.RESTORING, expected=State))
    with pytest.raises(StaleEntry):
        act(world, Delete(held, "", unarchived=False))
    assert entry(world).state is State.RESTORING


def test_an_infrequent_table_stays_so_though_nobody_noted_its_change() -> None:
    """A run may be stopped between the change and its note. To put the table back would be the second change of the two that
    AWS allows in 30 days, and the ladder's own change would be refused as the third.
    """
    world = lived()
    show(world, TABLE, table_class=TableClass.INFREQUENT)
    names = {name for name, _, _ in outcomes(world.after(minutes=5))}
    assert "class" not in names


def test_a_table_that_somebody_else_deletes_meanwhile_is_gone_all_the_same() -> None:
    world = lived()
    held = entry(world, state=State.ARCHIVED)
    note(world, "delete", lambda: world.tables.vanish(TABLE))
    act(world, Delete(held, "", unarchived=False))
    assert entry(world).state is State.DELETED


def test_an_archive_that_another_run_writes_is_waited_for_and_no_failure() -> None:
    world = lived()

    def busy(*_: Any, **__: Any) -> None:
        raise ArchiveBusy("another archive is under way")

    cast("Any", world.archiver).archive = busy
    report = world.after(days=6)
    assert {outcome for name, _, outcome in outcomes(report) if name == "archive"} == {"deferred"}


def test_a_period_whose_state_changes_meanwhile_is_waited_for_and_no_failure() -> None:
    """An archive by hand may begin between the plan and its step."""
    world = lived()
    move = world.catalog.move

    def change_first(held: Entry, to: State, **more: Any) -> Entry:
        if to is State.CLOSED:
            raise StaleEntry("s", held.period.label, list(more["expected"]))
        return move(held, to, **more)

    world.catalog.move = change_first  # type: ignore[method-assign, assignment]
    report = world.after(days=2)
    assert {outcome for name, _, outcome in outcomes(report) if name == "close"} == {"deferred"}
    assert report.healthy


def test_an_archive_waits_half_a_minute_for_a_table_that_becomes_faster() -> None:
    world = lived()
    held = entry(world, state=State.CLOSED)
    show(world, TABLE, status="UPDATING")
    began = world.clock.now()
    with pytest.raises(NotReady, match="a later run archives it"):
        act(world, Archive(held, ""))
    assert world.clock.now() - began == timedelta(seconds=30)


def test_a_removal_deletes_a_table_whose_period_changes_its_state_meanwhile() -> None:
    world = lived(more='removal = "delete"')
    begun: list[Any] = []

    def close_once() -> None:
        if not begun:
            world.catalog.move(entry(world), State.CLOSED, expected=State)
        begun.append(None)

    note(world, "delete", close_once)
    removed = remove(world.begin_run("owner", lambda: 1000.0))
    assert (len(removed.tables), removed.failed) == (4, {})
    assert set(world.states().values()) == {State.DELETED}


def test_a_table_is_deleted_before_its_entry_when_a_stage_is_taken_back() -> None:
    """Without its entry nobody would know whose table it is, if the function ends in between."""
    world = World()
    world.clock.time = NOON - timedelta(seconds=30)
    world.tables.create(
        TableSpec("tidetable-t-catalog", None, None, world.config.streams["s"].capacity.ladder[0].table_class, {})
    )
    # The catalog is as young as its stage's tables, by a clock that is up to a minute ahead.
    world.clock.time = NOON - timedelta(seconds=70)
    world.run()
    seen = note(world, "delete", lambda: len(world.catalog.items))
    world.clock.time = NOON + timedelta(minutes=2)
    assert len(take_back(world.begin_run())) == 4
    assert (seen[0], world.catalog.items) == (4, {})


@pytest.mark.parametrize(
    ("state", "waits"),
    [(State.CREATING, 10), (State.RESTORING, 10), (State.OPEN, 0), (State.ARCHIVED, 0)],
)
def test_a_table_that_may_have_been_made_a_moment_ago_is_waited_for(state: State, waits: int) -> None:
    """A description may lag behind for some seconds; without the wait the table would stay for ever."""
    world = lived()
    held = entry(world, state=state)
    world.tables.vanish(TABLE)
    began = world.clock.now()
    tables = PeriodTables("t", world.tables, world.clock, lambda: 1000.0)
    assert tables.delete(held) is False
    assert (world.clock.now() - began).total_seconds() == waits


def test_nothing_is_deleted_while_a_copy_changes() -> None:
    world = lived()
    held = entry(world, replicas=(IRELAND, TOKYO), state=State.ARCHIVED)
    show(world, TABLE, copies={IRELAND: "DELETING", TOKYO: "ACTIVE"})
    seen = note(world, "delete_copy", lambda: None)
    tables = PeriodTables("t", world.tables, world.clock, lambda: 0.0)
    with pytest.raises(NotReady):
        tables.delete(held)
    assert seen == []


@pytest.mark.parametrize(("hours", "ends"), [(1, 24), (40, 40)])
def test_a_tables_writes_have_settled_a_quarter_of_an_hour_after_window_and_backfill(hours: int, ends: int) -> None:
    """A period of the window may be open for a backfill that ends before the window does."""
    world = lived()
    held = entry(world)
    held = replace(held, opened=Opening(held.period.end + timedelta(hours=hours), None, None))
    assert compute_settling(held, timedelta(days=1)) == held.period.end + timedelta(hours=ends, minutes=15)


def test_copies_are_marked_only_once_the_tags_of_their_table_can_be_seen() -> None:
    world = lived()
    held = entry(world, replicas=(IRELAND,))
    table = world.tables.describe(TABLE)
    assert table is not None
    seen = Observation(
        RunStreams(world.config), {"s": Observed([held], {TABLE: replace(table, copies={IRELAND: "ACTIVE"})})}
    )
    tagged: list[Any] = []
    tables: Any = world.tables
    tables.tag_copy = lambda *members: tagged.append(members)
    tags, tables.tags = tables.tags, lambda _: {}
    remember_copies(world.catalog, world.tables, seen, NOON)
    assert (entry(world).copies.active, tagged, seen.troubles) == ((), [], [])
    tables.tags = tags
    remember_copies(world.catalog, world.tables, seen, NOON)
    assert (entry(world).copies.active, tagged) == ((IRELAND,), [(TABLE, IRELAND, tags(TABLE))])


def test_a_streams_tags_never_replace_those_that_prove_a_table_ours() -> None:
    """The configuration refuses such tags; a table must not depend on that."""
    world = lived()
    stream = world.config.streams["s"]
    tags = {"project": "mine", "team": "sea"}
    stream = msgspec.structs.replace(stream, table=msgspec.structs.replace(stream.table, tags=tags))
    held, own = entry(world), make_table_tags("t", "s", TODAY)
    spec = make_table_spec(held, stream, compute_level(held.period, stream, NOON), own, young=True)
    assert spec.tags == {**own, "team": "sea"}


def test_a_table_that_is_filled_from_its_archive_is_on_demand_with_no_units_of_indexes() -> None:
    world = lived(capacity=INDEXED)
    stream = world.config.streams["s"]
    held = change_entry(entry(world), replicas=(IRELAND,))
    spec = make_filling_spec(held, stream, compute_level(held.period, stream, NOON), {})
    assert (spec.write, spec.read, spec.index_units, spec.copied, spec.warm) == (None, None, {}, False, None)


def test_only_an_on_demand_table_is_made_with_maxima() -> None:
    text = """
    [streams.s]
    period = "day"
    late = "1d"
    retention = 5
    [streams.s.key]
    partition_by = "series"
    [streams.s.capacity]
    mode = "on-demand"
    max = { write = 400, read = 500 }
    ladder = [{ age = 0 }, { age = 1, mode = "provisioned", write = 10, read = 10 }]
    """
    stream = parse(text).streams["s"]
    world = lived()
    held = entry(world)
    made = [
        make_table_spec(held, stream, compute_level(held.period, stream, now), {}, young=False)
        for now in (NOON, held.period.end + timedelta(days=1, minutes=1))
    ]
    assert [(spec.write, spec.most) for spec in made] == [(None, (400, 500)), (10, None)]
