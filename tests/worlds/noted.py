"""Worlds with a rollup of a stream that is partitioned by series. It finds the events through notes of series."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from tests.worlds.rolled import MINUTES, SERIES, START, World, reading
from tidetable.periods import Kind
from tidetable.ports import NotePage, RangeRead

MINUTE = timedelta(minutes=1)
BY_DAY = replace(MINUTES, period=Kind.DAY, ahead=timedelta(minutes=5))


def make_noting_world(*definitions: Any) -> World:
    return World(definitions or (BY_DAY,), SERIES)


def begin_noting() -> World:
    """A world whose rollup began at 00:10 and has events of five series; it is 01:40 and nothing is sealed."""
    world = make_noting_world()
    world.refresh()
    for minute in range(10, 100, 4):
        world.time = START + minute * MINUTE
        world.write(reading(minute, minute, "abcde"[minute % 5]))
    world.time = START + 100 * MINUTE
    return world


def list_pages(*series: str) -> list[NotePage]:
    """A page of its own for each series."""
    return [NotePage(0, None, [name]) for name in series]


class CountedStore:
    """A store that counts the ranges that are read of a table, and checks whether all are strongly consistent."""

    def __init__(self, world: World, table: str) -> None:
        self.count, self.strong = 0, True
        self._query = world.store.query_many
        self._table = table
        world.store.query_many = self  # type: ignore[method-assign]

    def __call__(self, reads: Sequence[RangeRead], **options: Any) -> Any:
        mine = [read for read in reads if read.keys.table == self._table]
        self.count += len(mine)
        self.strong = self.strong and (not mine or options["consistent"])
        return self._query(reads, **options)
