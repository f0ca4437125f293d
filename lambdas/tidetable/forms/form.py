"""What every form of a period's events answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

from tidetable.batch import Batch
from tidetable.events import Event, Item
from tidetable.layout import Layout
from tidetable.ports import Compressor, Page, Put, Slot

# A source of a table's items.
Source = TypeVar("Source")


class Puts(NamedTuple):
    """The puts of events, one per slot; ``members`` has the numbers of each put's events.

    If an event comes several times, its last copy is written, and the others are members of the same put. ``pks`` and
    ``sks`` are the keys in the refs of the members, in order. ``packs`` are the slots of packs. ``too_large`` are the
    numbers of the events that no put can hold. ``refined`` says that some puts are perhaps versions, or have data
    outside.
    """

    puts: list[Put]
    members: list[Sequence[int]]
    pks: list[str]
    sks: list[str]
    too_large: Sequence[int] = ()
    packs: Collection[Slot] = ()
    refined: bool = False

    def join(self, other: Puts) -> Puts:
        """Return these puts and others."""
        return Puts(
            self.puts + other.puts,
            self.members + other.members,
            self.pks + other.pks,
            self.sks + other.sks,
            [*self.too_large, *other.too_large],
            self.packs,
            self.refined or other.refined,
        )

    def add_copies(self, identities: Mapping[int, Hashable]) -> Puts:
        """Add the numbers of the earlier copies of events, which share the fate of the last copy.

        ``identities`` are of all events, by their numbers; equal for the copies of an event.
        """
        copies: dict[Hashable, list[int]] = {}
        for number, identity in identities.items():
            copies.setdefault(identity, []).append(number)
        rows = iter(zip(self.pks, self.sks, strict=True))
        members: list[Sequence[int]] = []
        pks, sks = list[str](), list[str]()
        for numbers in self.members:
            whole = list[int]()
            for number in numbers:
                same, (pk, sk) = copies[identities[number]], next(rows)
                whole += same
                pks += [pk] * len(same)
                sks += [sk] * len(same)
            members.append(whole)
        too_large = [copy for number in self.too_large for copy in copies[identities[number]]]
        return self._replace(members=members, pks=pks, sks=sks, too_large=too_large)


# Makes the put of a whole item that may be too large, or larger than wanted; None if no put can hold it.
Shrink = Callable[[Item], Put | None]


class UnitNames(NamedTuple):
    """The names in the keys of a table that say in which unit of settling an event is: its series, and its suffix.

    All copies of an event have these in common. With neither, a unit is all suffixes of a logical partition.
    """

    series: bool
    suffix: bool


class Form(Protocol):
    """How the events of a period lie in its table.

    The head of its module says which unit settles copies: the smallest part of a table in which all copies of an event
    meet.
    """

    @property
    def name(self) -> str:
        """The name by which queries find how the form is read."""
        ...

    @property
    def unit(self) -> UnitNames:
        """What says in which unit of settling an event is, within a range of time."""
        ...

    @property
    def span(self) -> int:
        """The longest time between two events of an item, in seconds; 0 if an item holds one event."""
        ...

    @property
    def together(self) -> int:
        """The number of archived events whose puts are made and written together."""
        ...

    @property
    def proves_new(self) -> bool:
        """True if an event is new if the table has no item of its put's key: no other item can hold a copy of it."""
        ...

    def describe(self) -> Mapping[str, Any]:
        """Describe the form by its members in the API's description of a layout."""
        ...

    def make_sequence(self, at: int, begun: int, number: str, hash: str = "") -> str:
        """Make the sequence of a state of an event, which grows with the states that count.

        ``at`` is when it was accepted, ``begun`` when the table's change stream was turned on, both in epoch milliseconds.
        ``number`` is DynamoDB's sequence number of the change, ``hash`` that of the pack.
        """
        ...

    def settle_source(self, source: Source, settle: Callable[[Layout], Source]) -> Source:
        """Return a source in which each event is once: the items of a table, or what ``settle`` makes of them."""
        ...

    def find_key_range(self, start: datetime, end: datetime) -> tuple[str, str]:
        """Find the range of sort keys, ``low <= sk < high``, of all items that may hold an event of ``[start, end)``."""
        ...

    def make_puts(
        self, batch: Batch, numbers: Sequence[int], table: str, compressor: Compressor, shrink: Shrink
    ) -> Puts:
        """Make the puts of the events with these ascending numbers, which are of one period."""
        ...

    def measure(self, event: Event, at: int) -> int:
        """Count the bytes that the event, which was accepted at ``at``, takes as an item of its own."""
        ...

    def count_events(self, page: Page) -> int:
        """Count the events that were read for a page."""
        ...
