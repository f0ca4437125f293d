"""What becomes of the tables when the stack is destroyed."""

import msgspec

from tests.lifecycle.world import World
from tidetable.catalog import State
from tidetable.config import Config
from tidetable.config.model import Removal
from tidetable.lifecycle.apply import World as Applied
from tidetable.lifecycle.removal import remove


def removing(world: World, removal: Removal) -> list[str]:
    stream = msgspec.structs.replace(world.config.streams["s"], removal=removal)
    config = Config(streams={"s": stream})
    parts = Applied("t", world.catalog, world.tables, world.scaling, world.archiver, world.clock, lambda: 1000.0)
    return remove(config, parts, world.clock.now(), "owner").tables


def test_tables_are_kept_unless_their_stream_says_otherwise() -> None:
    world = World()
    world.run()
    assert removing(world, "keep") == []
    assert len(world.levels()) == 4


def test_a_stream_that_is_to_go_leaves_no_table_and_may_go_twice() -> None:
    world = World()
    world.run()
    assert len(removing(world, "delete")) == 4
    assert (world.levels(), set(world.states().values())) == ({}, {State.DELETED})
    assert removing(world, "delete") == []
