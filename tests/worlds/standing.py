"""A stage that was just deployed, on fakes."""

from typing import Any

from tests.lifecycle.world import World
from tidetable.config import TableClass
from tidetable.ports import TableSpec

CATALOG = "tidetable-t-catalog"


def deployed(**changes: Any) -> World:
    """Make a world whose catalog was made just before the first run of the lifecycle."""
    world = World(**changes)
    world.tables.create(TableSpec(CATALOG, None, None, TableClass.STANDARD, {}))
    world.clock.sleep(10)
    world.run()
    return world
