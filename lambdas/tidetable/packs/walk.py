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
from tidetable.packs.items import Opened
from tidetable.packs.names import shifted

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


def walk(opened: Iterable[Opened], *, span: int, ascending: bool, low: str = "", high: str = "~") -> Iterator[Run]:
    """The events with ``low <= place < high`` of one logical partition, each once.

    The items are those of all suffixes, merged in the order of their newest times (of equal ones any may come first), in the
    walk's direction, and hold everything of ``key_range``. Of several copies of an event the one that was accepted last counts,
    and of these the one in the pack with the greatest hash. ``span`` is in seconds.
    """
    held: dict[str, Settled] = {}
    order: list[str] = []
    problems: list[str] = []
    for one in opened:
        if ascending:
            edge = shifted(one.newest, -span) + _AFTER
            cut = bisect_left(order, edge)
            ready, order = order[:cut], order[cut:]
        else:
            edge = one.newest + _AFTER
            cut = bisect_left(order, edge)
            ready, order = order[cut:][::-1], order[:cut]
        if ready:
            yield Run(ready, [held.pop(place) for place in ready], problems)
            problems = []
        if not ascending and edge <= low:
            # Neither this pack nor any after it holds anything that is wanted.
            break
        if one.problem is not None:
            problems.append(one.problem)
        order = _take(one, held, order, low, high)
    if order or problems:
        ready = order if ascending else order[::-1]
        yield Run(ready, [held[place] for place in ready], problems)


def _take(one: Opened, held: dict[str, Settled], order: list[str], low: str, high: str) -> list[str]:
    """Take an item's events in; answers all places that are held, in order."""
    start, end = bisect_left(one.places, low), bisect_left(one.places, high)
    if start >= end:
        return order
    places = one.places[start:end]
    ats = one.ats[start:end] if one.ats is not None else repeat(one.at, end - start)
    values = one.values[start:end]
    copies = dict(zip(places, map(Settled, ats, repeat(one.hash), repeat(one.address), values), strict=False))
    if held and (both := held.keys() & copies.keys()):
        for place in both:
            if held[place][:2] > copies[place][:2]:
                del copies[place]
        new = [place for place in places if place not in both]
    else:
        new = list(places)
    held |= copies
    if not order or order[-1] < places[0]:
        return order + new
    order += new
    # Runs that are in order each: merging them is what this sort is good at.
    order.sort()
    return order
