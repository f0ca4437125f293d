"""What every form of a period's events answers. It is chosen once for a period: nobody else asks which form it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

from tidetable.events import Item
from tidetable.layout import Layout
from tidetable.ports import Compressor, Page, Put


class Unit(Enum):
    """The unit of settling: the smallest part of a table in which all copies of an event meet."""

    ITEM = "item"
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
    def unit(self) -> Unit:
        """The unit of settling."""
        ...

    @property
    def span(self) -> int:
        """The longest time between two events of an item, in seconds; 0 if an item holds one event."""
        ...

    def make_puts(self, items: Sequence[Item], table: str, compressor: Compressor) -> Puts:
        """Make the puts of events of one period, which come as plain items of its layout."""
        ...

    def split_items(self, items: Iterator[Item]) -> Iterator[list[Item]]:
        """Split archived items, in order, into lists; the puts of each list are made and written together."""
        ...

    def count_events(self, page: Page) -> int:
        """Count the events that were read for a page."""
        ...


def choose_form(layout: Layout) -> Form:
    """Choose the form of a period by the period's own layout."""
    # Each form is imported when it is met first: most cold starts need the plain form alone.
    if layout.pack is not None:
        from tidetable.forms.packed import PackedForm

        return PackedForm(layout, layout.pack)
    from tidetable.forms.plain import PLAIN

    return PLAIN
