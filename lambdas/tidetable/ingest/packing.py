"""Make packs for writing: decide which events of a request, or of a message, share an item.

Events come as plain items of their period, but with suffix 0 in the partition key: only an event that is too large for
a pack needs a computed suffix.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from tidetable.events import Item
from tidetable.keys import Layout
from tidetable.ports import Compressor, Put


class Members(NamedTuple):
    """A pack's put, the address of its events, and the events' numbers. If an event comes again later in the request,
    its earlier numbers belong to the pack, too.
    """

    put: Put
    address: str
    numbers: Sequence[int]


class Packed(NamedTuple):
    """Packs, and the events that are too large for a pack.

    ``alone`` has two numbers per such event: its own number, and the number of the last event with the same key. Only
    that last event is written.
    """

    packs: list[Members]
    alone: list[tuple[int, int]]


def unspread(layout: Layout) -> Layout:
    """Return the layout of events before they are packed. It has no shards, because a suffix costs a hash per event.

    A pack has a suffix of its own.
    """
    return layout if layout.pack is None else replace(layout, shards=1)


def is_same(layout: Layout, other: Layout) -> bool:
    """True if an event has the same item in both layouts.

    If ``layout`` has packs, this means the item before it is packed.
    """
    if layout.pack is None:
        return layout == other
    return replace(layout, shards=1, pack=None) == replace(other, shards=1, pack=None)


def pack_events(items: Sequence[Item], table: str, layout: Layout, compressor: Compressor) -> Packed:
    """Pack events of one period. Of several events with the same key the last is written; the others share its fate."""
    from tidetable.packs import make_packs

    pack_set = make_packs(items, layout, compressor)
    packs = [Members(Put(table, pack.item), pack.address, pack.members) for pack in pack_set.packs]
    alone = [(number, number) for number in pack_set.alone]
    if sum(len(pack.numbers) for pack in packs) + len(alone) < len(items):
        earlier = _find_repeated(items)
        packs = [pack._replace(numbers=list(_add_earlier(earlier, pack.numbers))) for pack in packs]
        alone = [(number, last) for last in pack_set.alone for number in _add_earlier(earlier, [last])]
    return Packed(packs, alone)


def _find_repeated(items: Sequence[Item]) -> Mapping[int, Sequence[int]]:
    """Map the number of the last event of a key to the numbers of the earlier events with the same key."""
    numbers: dict[tuple[str, str], list[int]] = {}
    for number, item in enumerate(items):
        numbers.setdefault((item["pk"], item["sk"]), []).append(number)
    return {repeated[-1]: repeated[:-1] for repeated in numbers.values() if len(repeated) > 1}


def _add_earlier(earlier: Mapping[int, Sequence[int]], numbers: Sequence[int]) -> Iterator[int]:
    for number in numbers:
        yield from earlier.get(number, ())
        yield number
