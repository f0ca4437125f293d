"""What every form of a period's events answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, NamedTuple, Protocol

from tidetable.events import Event, Item
from tidetable.ports import Compressor, Page, Put


class Unit(Enum):
    """The unit of settling: the smallest part of a table in which all copies of an event meet."""

    ITEM = "item"
    SUFFIX = "suffix"
    PARTITION = "partition"


class SharedPut(NamedTuple):
    """A put that several events share: the address that replaces the partition key in their refs, and the numbers of
    these events among all events of the call.
    """

    put: Put
    address: str
    members: Sequence[int]


class Puts(NamedTuple):
    """The shared puts, and the numbers of the events that are ``alone``: each of these has a put of its own.

    If an event comes twice, only its last copy is in shared puts.
    """

    shared: Sequence[SharedPut]
    alone: Sequence[int]


class Form(Protocol):
    """How the events of a period lie in its table."""

    @property
    def name(self) -> str:
        """The name by which queries find how the form is read."""
        ...

    @property
    def unit(self) -> Unit:
        """The unit of settling."""
        ...

    @property
    def span(self) -> int:
        """The longest time between two events of an item, in seconds; 0 if an item holds one event."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Describe the form by its members in the API's description of a layout."""
        ...

    def find_key_range(self, start: datetime, end: datetime) -> tuple[str, str]:
        """Find the range of sort keys, ``low <= sk < high``, of all items that may hold an event of ``[start, end)``."""
        ...

    @property
    def keeps_items(self) -> bool:
        """True if an event's item is stored as the layout makes it."""
        ...

    @property
    def reads_columns(self) -> bool:
        """True if a usual request is handled by columns: no event is decoded, or gets an item of its own."""
        ...

    def make_puts(self, items: Sequence[Item], table: str, compressor: Compressor) -> Puts:
        """Make the puts of events of one period, which come as plain items of its layout."""
        ...

    def make_alone(self, item: Item, event: Event) -> Item:
        """Make the item of an event that is alone, from the item that came to ``make_puts``."""
        ...

    def split_items(self, items: Iterator[Item]) -> Iterator[list[Item]]:
        """Split archived items, in order, into lists; the puts of each list are made and written together."""
        ...

    def count_events(self, page: Page) -> int:
        """Count the events that were read for a page."""
        ...
