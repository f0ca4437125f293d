"""The tables of a stack that is destroyed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from strict import Fault, Kind
from tests.fakes.stage import CATALOG, ROLLUPS, STAGE, Killed, Stage
from tests.fakes.threads import SharedClock, side_by_side
from tests.lifecycle.world import World as FakeWorld
from tests.worlds.killed import copier_of
from tidetable.catalog import State
from tidetable.config import TableClass
from tidetable.errors import NotReady, RemovalFailed, TableRefused
from tidetable.lifecycle.removal import Removed, remove
from tidetable.period_tables import make_table_tags
from tidetable.ports import TableSpec

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
CONFIG = """
[lifecycle]
delete_expired = false
stagger = "0s"
[streams.s]
period = "day"
late = "1d"
retention = 3
removal = "delete"
large = { beyond = "chunks" }
[streams.s.key]
partition_by = "series"
[streams.s.table]
deletion_protection = true
[streams.s.capacity]
mode = "provisioned"
ladder = [{ age = 0, write = 10, read = 10 }]
[streams.kept]
period = "day"
late = "1d"
retention = 30
[streams.kept.key]
partition_by = "series"
"""
STRANGER = "tidetable-lapse.s.2026-03-20"


def removing(stage: Stage, seconds: float = 585, owner: str = "destroy") -> Removed:
    end = stage.clock.now() + timedelta(seconds=seconds)

    def remaining() -> float:
        return (end - stage.clock.now()).total_seconds()

    return remove(stage.begin_run(owner, remaining))


def lived(clock: SharedClock | None = None) -> Stage:
    """A stage with tables in every state, and a foreign table."""
    stage = Stage(NOON, CONFIG, clock=clock)
    for _ in range(5):
        stage.run_lifecycle()
        stage.clock.sleep(300)
        stage.run_lifecycle()
        stage.clock.time = stage.clock.time.replace(hour=12, minute=0, second=0) + timedelta(days=1)
    entries = {entry.period.label: entry for entry in stage.catalog.entries("s", consistent=True)}
    assert [entry.state.value for entry in entries.values()] == ["archived"] * 2 + ["closed"] * 2 + ["open"] * 4
    for label, to in (("2026-03-15", State.RESTORING), ("2026-03-16", State.ARCHIVING)):
        stage.catalog.move(entries[label], to, expected=State)
    # A table has lost its tags.
    stage.client.untag_resource(
        ResourceArn=f"arn:aws:dynamodb:us-east-1:000000000000:table/{STRANGER}", TagKeys=["project"]
    )
    return stage


def test_every_table_that_is_there_goes_whatever_its_state_but_no_strangers() -> None:
    stage = lived()
    kept = {entry.table for entry in stage.catalog.entries("kept", consistent=True)}
    # The first table was made after its period, and the second is restored.
    stage.catalog.set_horizon("s", datetime(2026, 3, 16, tzinfo=UTC))
    # The catalog, the state of last periods, and eight periods with a table of parts each.
    assert len(stage.dynamo.account.tables) == 2 + 16 + len(kept)
    begun = stage.clock.now()
    removed = removing(stage)
    stage.dynamo.account.settle()
    left = set(stage.dynamo.account.tables) - {CATALOG, ROLLUPS} - kept
    assert left == {STRANGER}
    assert sorted(removed.tables) == [f"tidetable-lapse.s.2026-03-{day}" for day in (14, 15, 16, 17, 18, 19, 21)]
    assert list(removed.foreign) == [STRANGER]
    assert "not tagged as ours" in removed.foreign[STRANGER]
    states = {
        entry.period.label: (entry.state.value, entry.deleted_at)
        for entry in stage.catalog.entries("s", consistent=True)
    }
    assert states.pop("2026-03-20") == ("open", None)
    assert set(states.values()) == {("deleted", begun)}
    assert len([key for key in stage.bucket.objects if key.endswith("manifest.json")]) == 2, "archives stay"


def test_a_removal_may_be_repeated() -> None:
    stage = lived()
    removing(stage)
    assert removing(stage).tables == []


def test_a_removal_that_was_stopped_after_any_call_is_finished_by_the_next() -> None:
    make = copier_of(lived)
    whole = make()
    whole.client.calls = 0
    removing(whole)
    total = whole.client.calls
    # Every seventh call represents the others: a removal makes the same calls for each of its tables.
    for calls in range(1, total, 7):
        stage = make()
        stage.client.calls, stage.client.allowance = 0, calls
        with pytest.raises(Killed):
            removing(stage)
        stage.client.allowance = None
        removing(stage, owner="again")
        stage.dynamo.account.settle()
        ours = [name for name in stage.dynamo.account.tables if name.startswith("tidetable-lapse.s.")]
        assert ours == [STRANGER], f"stopped after {calls} calls"


def test_a_hundred_tables_go_side_by_side_within_the_functions_time() -> None:
    clock = SharedClock(NOON)
    config = CONFIG.replace(
        'period = "day"\nlate = "1d"\nretention = 3', 'period = "day"\nlate = "97d"\nretention = 99'
    )
    config = config.replace("deletion_protection = true", "").replace('large = { beyond = "chunks" }', "")
    stage = Stage(NOON, config, clock=clock)
    while stage.run_lifecycle().done:
        stage.clock.sleep(300)
    stage.pools = side_by_side(clock)
    began = clock.now()
    assert len(removing(stage).tables) == 100
    assert clock.now() - began < timedelta(seconds=120), "eight seconds each, one after another, would be 800"


def test_a_removal_waits_for_a_run_and_keeps_others_out() -> None:
    stage = lived()
    now = stage.clock.now()
    assert stage.catalog.acquire("lifecycle", "a run", now, timedelta(seconds=200))
    seen: list[Any] = []
    delete = stage.tables.delete

    def meanwhile(name: str) -> None:
        if not seen:
            seen.extend([stage.clock.now() - now, stage.run_lifecycle().skipped])
        delete(name)

    stage.tables.delete = meanwhile  # type: ignore[method-assign]
    removing(stage)
    assert timedelta(seconds=200) <= seen[0] <= timedelta(seconds=230)
    assert seen[1].startswith("another run is under way")
    assert stage.run_lifecycle().skipped is None, "the lease is given back"


def test_a_removal_that_finds_no_time_says_so_and_deletes_nothing() -> None:
    stage = lived()
    before = set(stage.dynamo.account.tables)
    assert stage.catalog.acquire("lifecycle", "a run", stage.clock.now(), timedelta(hours=1))
    begun = stage.clock.now()
    with pytest.raises(NotReady, match="lifecycle is under way; delete the stack again"):
        removing(stage)
    # Ten seconds are left to the function for its answer, of its 585.
    assert timedelta(seconds=570) <= stage.clock.now() - begun <= timedelta(seconds=580)
    assert set(stage.dynamo.account.tables) == before


def test_a_restore_under_way_is_waited_for_as_it_would_make_its_table_again() -> None:
    stage = lived()
    now, table = stage.clock.now(), "tidetable-lapse.s.2026-03-15"
    assert stage.catalog.acquire("archive#s#2026-03-15", "a restore", now, timedelta(seconds=300))
    begun: dict[str, timedelta] = {}
    delete = stage.tables.delete

    def noting(name: str) -> None:
        begun[name] = stage.clock.now() - now
        delete(name)

    stage.tables.delete = noting  # type: ignore[method-assign]
    removed = removing(stage)
    assert table in removed.tables
    assert begun[table] >= timedelta(seconds=300)
    # The tables are deleted one after another, and no earlier deletion waits for the restore.
    assert begun["tidetable-lapse.s.2026-03-14"] < timedelta(seconds=60)


def test_one_table_that_cannot_be_deleted_is_named_and_keeps_no_other() -> None:
    stage = lived()
    name = "tidetable-lapse.s.2026-03-17"
    stage.dynamo.faults.add(Fault(Kind.ACCESS_DENIED, operation="DeleteTable", table=name))
    with pytest.raises(
        RemovalFailed, match=r"1 tables could not be deleted; tidetable-lapse.s.2026-03-17: AccessDenied"
    ):
        removing(stage)
    stage.dynamo.account.settle()
    left = {table for table in stage.dynamo.account.tables if table.startswith("tidetable-lapse.s.")}
    assert left == {name, STRANGER}
    stage.dynamo.faults.clear()
    assert removing(stage).tables == [name]


def test_a_table_of_parts_whose_period_table_is_gone_goes_too() -> None:
    stage = lived()
    stage.tables.set_protection("tidetable-lapse.s.2026-03-17", protected=False)
    stage.clock.sleep(20)
    stage.tables.delete("tidetable-lapse.s.2026-03-17")
    stage.clock.sleep(20)
    removing(stage)
    stage.dynamo.account.settle()
    assert [table for table in stage.dynamo.account.tables if "2026-03-17" in table and ".s." in table] == []


def test_tables_are_kept_unless_their_stream_says_otherwise() -> None:
    stage = Stage(NOON, CONFIG.replace('removal = "delete"', ""))
    stage.run_lifecycle()
    before = set(stage.dynamo.account.tables)
    assert removing(stage).tables == []
    assert set(stage.dynamo.account.tables) == before


def test_a_table_that_is_still_in_the_making_is_waited_for_and_deleted() -> None:
    stage = Stage(NOON, CONFIG)
    stage.run_lifecycle()
    entry = stage.catalog.entries("s", consistent=True)[0]
    stage.clock.sleep(60)
    removing(stage)
    stage.catalog.move(entry, State.CREATING, expected=State)
    tags = make_table_tags(STAGE, "s", entry.period.label)
    assert stage.tables.create(TableSpec(entry.table, 1, 1, TableClass.STANDARD, tags))
    assert removing(stage).tables == [entry.table]
    stage.dynamo.account.settle()
    assert entry.table not in stage.dynamo.account.tables


def test_no_scalable_target_is_left_of_a_table_that_was_removed_while_it_was_scaled() -> None:
    world = FakeWorld(
        more='removal = "delete"',
        capacity="""
        mode = "provisioned"
        autoscaling = { write = { min = 5, max = 100 } }
        ladder = [{ age = 0, write = 10, read = 10 }]
        """,
    )
    world.run()
    world.after(minutes=5)
    assert len(world.scaling.tended) == 2
    assert len(remove(world.begin_run("destroy", lambda: 500.0)).tables) == 4
    assert (world.scaling.tended, world.tables.names) == ({}, set())


def test_no_run_begins_while_a_removal_goes_on_however_long_that_takes() -> None:
    """A lease lasts for five minutes at most; a run in between would make tables again."""
    world = FakeWorld(more='removal = "delete"')
    world.run()
    delete = world.tables.delete
    others: list[bool] = []

    def slowly(name: str) -> None:
        delete(name)
        world.clock.sleep(280)
        others.append(world.catalog.acquire("lifecycle", "a run", world.clock.now(), timedelta(minutes=5)))

    world.tables.delete = slowly  # type: ignore[method-assign]
    acting = world.begin_run("destroy", lambda: 5000.0)
    assert len(remove(acting).tables) == 4
    assert others == [False] * 4
    assert world.catalog.acquire("lifecycle", "a run", world.clock.now(), timedelta(minutes=5)), "it is given back"


def test_of_the_tables_that_could_not_be_deleted_five_are_named() -> None:
    world = FakeWorld(more='removal = "delete"', late="3d")
    world.run()

    def refuse(name: str) -> None:
        raise TableRefused(f"AccessDeniedException: {name[-2:]}", transient=False)

    world.tables.delete = refuse  # type: ignore[method-assign]
    with pytest.raises(RemovalFailed) as failed:
        remove(world.begin_run("owner", lambda: 500.0))
    named = "; ".join(f"tidetable-t.s.2026-03-{day}: AccessDeniedException: {day}" for day in (12, 13, 14, 15, 16))
    assert str(failed.value) == f"6 tables could not be deleted; {named}. Delete the stack again"
