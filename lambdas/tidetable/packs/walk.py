"""The threshold walk: events in order out of packs in the order of their newest events, each event settled.

An event of time t lies in packs whose newest event is of [t, t + span). So, newest first, everything newer than the next pack's
newest event is settled; oldest first, everything that is at least ``span`` older than it. A walk reads no further than its
caller asks for, as every generator.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple

from tidetable.events import Item
from tidetable.keys.pack import shift_time
from tidetable.packs.items import Opened

# Sorts after the "#" that follows the time in a place, and before every later time.
_AFTER = "$"
_TIME = 27


class Settled(NamedTuple):
    """The copy of an event that counts: when it was accepted, its pack's hash, its address, and its data (see Opened)."""

    at: int
    hash: str
    address: str
    value: str | Item


class Run(NamedTuple):
    """Events in the order of the walk, by columns, and the problems of damaged packs that were met on the way to them."""

    places: Sequence[str]
    copies: Sequence[Settled]
    problems: Sequence[str] = ()


class Walk:
    """The events with ``low <= place < high`` of one logical partition, each once, as the items that hold them come.

    The items are those of all suffixes, merged in the order of their newest times (of equal ones any may come first), in the
    walk's direction. ``pass_to`` says how far they have come, ``take`` hands one over, and ``give`` answers what was settled
    since. Of several copies of an event the one that was accepted last counts, and of these the one in the pack with the
    greatest hash. ``span`` is in seconds.
    """

    def __init__(self, *, span: int, ascending: bool, low: str = "", high: str = "~") -> None:
        self._span = span
        self._ascending = ascending
        self._low = low
        self._high = high
        self._held: dict[str, Settled] = {}
        self._order: list[str] = []
        self._places: list[str] = []
        self._copies: list[Settled] = []
        self._problems: list[str] = []

    @property
    def count(self) -> int:
        """How many events are settled and not yet given."""
        return len(self._places)

    @property
    def unsettled(self) -> int:
        """How many events are held, because a copy of them may still come."""
        return len(self._order)

    def pass_to(self, newest: str) -> str:
        """Settle events, as every item still to come is of this newest time, or beyond it.

        Answers the edge: every event after it is settled, newest first; every event before it, oldest first.
        """
        edge = self.find_edge(newest)
        cut = bisect_left(self._order, edge)
        if self._ascending:
            ready, self._order = self._order[:cut], self._order[cut:]
        else:
            ready, self._order = self._order[cut:][::-1], self._order[:cut]
        self._settle(ready)
        return edge

    def find_edge(self, newest: str) -> str:
        """The place between what is settled and what is not, where items have come to a newest time."""
        return (shift_time(newest, -self._span) if self._ascending else newest) + _AFTER

    def take(self, item: Opened) -> None:
        """Take an item's events in."""
        if item.problem is not None:
            self._problems.append(item.problem)
        self._order = _take(item, self._held, self._order, self._low, self._high)

    def end(self) -> None:
        """Settle everything, as no item is still to come."""
        ready, self._order = self._order if self._ascending else self._order[::-1], []
        self._settle(ready)

    def give(self) -> Run:
        """What was settled since the last time."""
        run = Run(self._places, self._copies, self._problems)
        self._places, self._copies, self._problems = [], [], []
        return run

    def _settle(self, ready: Sequence[str]) -> None:
        if ready:
            self._copies += list(map(self._held.pop, ready))
            self._places += ready


def walk(opened: Iterable[Opened], *, span: int, ascending: bool, low: str = "", high: str = "~") -> Iterator[Run]:
    """The runs of a ``Walk`` over items, which hold everything of ``find_key_range``; no item is read before it is needed."""
    walked = Walk(span=span, ascending=ascending, low=low, high=high)
    for item in opened:
        edge = walked.pass_to(item.newest)
        if walked.count:
            yield walked.give()
        if not ascending and edge <= low:
            # Neither this pack nor any after it holds anything that is wanted.
            break
        walked.take(item)
    walked.end()
    run = walked.give()
    if run.places or run.problems:
        yield run


def _take(item: Opened, settled_places: dict[str, Settled], order: list[str], low: str, high: str) -> list[str]:
    """Take an item's events in; answers all places that are held, in order."""
    start, end = bisect_left(item.places, low), bisect_left(item.places, high)
    if start >= end:
        return order
    places = item.places[start:end]
    ats = item.ats[start:end] if item.ats is not None else repeat(item.at, end - start)
    values = item.values[start:end]
    copies = dict(zip(places, map(Settled, ats, repeat(item.hash), repeat(item.address), values), strict=False))
    if settled_places and (both := settled_places.keys() & copies.keys()):
        for place in both:
            if settled_places[place][:2] > copies[place][:2]:
                del copies[place]
        new = [place for place in places if place not in both]
    else:
        new = list(places)
    settled_places |= copies
    if not order or order[-1] < places[0]:
        return order + new
    order += new
    # Runs that are in order each: merging them is what this sort is good at.
    order.sort()
    return order
