"""A removal on fakes: its answer, its leases, and the settings of the tables that it may meet."""

from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from tests.lifecycle.world import NOON, World
from tests.worlds.entries import change_entry
from tidetable.catalog import Entry, RecordedPolicy, State
from tidetable.config import TableClass, parse
from tidetable.errors import RemovalFailed
from tidetable.ladder import Level
from tidetable.lifecycle.removal import Removed, remove
from tidetable.ports import TableSpec
from tidetable.table_specs import make_filling_spec, make_table_spec

GOING = 'removal = "delete"'
TODAY = "tidetable-t.s.2026-03-15"


def lived() -> World:
    world = World(more=GOING)
    world.run()
    world.clock.sleep(60)
    return world


def change(world: World, **changes: Any) -> Entry:
    held = next(entry for entry in world.catalog.entries("s") if entry.table == TODAY)
    world.catalog.items["s", held.period] = change_entry(held, **changes)
    return world.catalog.items["s", held.period]


def take(world: World, seconds: float = 500.0) -> Removed:
    return remove(world.begin_run("owner", lambda: seconds))


def note_leases(world: World) -> list[tuple[str, timedelta]]:
    noted: list[tuple[str, timedelta]] = []
    acquire = world.catalog.acquire

    def note(lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        noted.append((lease, length))
        return acquire(lease, owner, now, length)

    world.catalog.acquire = note  # type: ignore[method-assign]
    return noted


@pytest.mark.parametrize(("seconds", "length"), [(500.0, 300), (120.0, 120), (-1.0, 0)])
def test_the_lease_of_a_removal_is_no_longer_than_its_time_and_that_of_a_run(seconds: float, length: int) -> None:
    world = lived()
    world.catalog.items.clear()
    noted = note_leases(world)
    take(world, seconds)
    assert noted == [("lifecycle", timedelta(seconds=length))]


@pytest.mark.parametrize("state", list(State))
def test_only_a_restore_under_way_is_waited_for(state: State) -> None:
    """A deleted table has none to wait for. The lease of the lifecycle is renewed for each other table."""
    world = lived()
    held = change(world, state=state)
    world.catalog.items = {key: entry for key, entry in world.catalog.items.items() if entry == held}
    noted = note_leases(world)
    now = world.clock.now()
    removed = take(world)
    leases = [lease for lease, _ in noted]
    restored = ["archive#s#2026-03-15"] if state is State.RESTORING else []
    assert leases == (["lifecycle"] if state is State.DELETED else ["lifecycle", "lifecycle", *restored])
    assert removed.tables == ([] if state is State.DELETED else [TODAY])
    left = world.catalog.entries("s")[0]
    assert (left.state, left.deleted_at) == (State.DELETED, None if state is State.DELETED else now)


def test_a_table_that_was_gone_before_is_marked_and_not_told() -> None:
    world = lived()
    world.tables.vanish(TODAY)
    assert sorted(take(world).tables) == [f"tidetable-t.s.2026-03-{day}" for day in (14, 16, 17)]
    assert set(world.states().values()) == {State.DELETED}


def test_tables_that_could_not_be_deleted_are_told_in_their_order_whatever_the_error_is() -> None:
    world = lived()

    def fail(name: str) -> None:
        raise ConnectionError(f"no answer for {name[-2:]}")

    cast("Any", world.tables).delete = fail
    world.catalog.items = dict(reversed(world.catalog.items.items()))
    entries = world.catalog.entries
    cast("Any", world.catalog).entries = lambda *given, **named: entries(*given, **named)[::-1]
    with pytest.raises(RemovalFailed) as failed:
        take(world)
    named = [f"tidetable-t.s.2026-03-{day}: ConnectionError: no answer for {day}" for day in (14, 15, 16, 17)]
    assert str(failed.value) == f"4 tables could not be deleted; {'; '.join(named)}. Delete the stack again"


def test_a_table_that_was_recorded_a_moment_ago_goes_too() -> None:
    world = lived()
    world.catalog.stale = {}
    assert len(take(world).tables) == 4


def test_a_removed_stream_whose_policy_cannot_be_read_keeps_no_other_table() -> None:
    world = lived()
    world.catalog.put_policy(RecordedPolicy("gone", '{"period": "fortnight"}', NOON))
    assert len(take(world).tables) == 4


TEXT = """
[streams.s]
period = "day"
late = "1d"
retention = 5
key = { partition_by = "series" }
feed = { targets = ["arn:aws:sqs:eu-central-1:123456789012:changes"] }
table = { tags = { team = "sea" }, deletion_protection = true, encryption = "aws-managed", stream = "none" }
capacity = { mode = "on-demand", warm = { write = 8000, read = 13000 }, max = { write = 9000, read = 14000 } }
"""
TAGS = {"project": "tidetable", "team": "sea"}


def test_a_table_is_made_with_all_that_its_stream_says() -> None:
    stream = parse(TEXT).streams["s"]
    entry = replace(lived().catalog.entries("s")[0], layout=stream.layout)
    level = Level(None, None, TableClass.INFREQUENT, "")
    expected = TableSpec(
        entry.table, None, None, TableClass.INFREQUENT, TAGS, (), True, {}, (8000, 13_000), (9000, 14_000),
        "aws-managed", "new-image",
    )  # fmt: skip
    own = {"project": "tidetable"}
    assert make_table_spec(entry, stream, level, own, young=True) == expected
    assert make_table_spec(entry, stream, level, own, young=False) == replace(expected, warm=None)
    # A configuration that names a Region holds for tables that are recorded from now on.
    copied = msgspec.structs.replace(stream, replicas=("eu-west-1",))
    assert not make_table_spec(entry, copied, level, own, young=True).copied
    assert make_table_spec(change_entry(entry, replicas=("eu-west-1",)), stream, level, own, young=True).copied
    units = Level(5, 6, TableClass.STANDARD, "", {"i": (7, 8)})
    provisioned = make_table_spec(entry, stream, units, own, young=False)
    assert (provisioned.write, provisioned.read, provisioned.index_units, provisioned.most) == (
        5,
        6,
        {"i": (7, 8)},
        None,
    )
    filled = make_filling_spec(change_entry(entry, replicas=("eu-west-1",)), stream, units, own)
    assert (filled.write, filled.read, filled.index_units, filled.stream, filled.copied) == (
        None,
        None,
        {},
        "none",
        False,
    )
