"""The engines that the contract runs on, each with an empty catalog and the means to make tables."""

from collections.abc import Callable
from dataclasses import dataclass

from tidetable.ports import Catalog, EventStore


@dataclass(frozen=True)
class Engine:
    """A catalog and a store. ``create_table`` makes a table and ``no_table`` names one that does not exist."""

    catalog: Catalog
    store: EventStore
    stream: str
    create_table: Callable[[], str]

    def no_table(self) -> str:
        return f"tidetable-t.{self.stream}.2020-01-01"
