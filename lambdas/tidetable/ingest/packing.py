"""Packs on the write side: which events of a request, or of a message, share an item."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidetable.events import Item
from tidetable.keys import Layout
from tidetable.packs import make_packs
from tidetable.ports import Compressor, Put


def pack_items(
    items: Sequence[Item], table: str, layout: Layout, compressor: Compressor
) -> Iterator[tuple[Item, str, Put | None]]:
    """What becomes of events that are given as plain items of one period: for each, in their order, its item, what stands for the
    partition key in its ref, and the put of its pack; no put if it is too large for a pack.

    Of events with one key the last counts, and the others share what becomes of it.
    """
    made = make_packs(items, layout, compressor)
    found: dict[int, tuple[Item, str, Put | None]] = {}
    for pack in made.packs:
        put = Put(table, pack.item)
        for number in pack.members:
            found[number] = items[number], pack.address, put
    for number in made.alone:
        found[number] = items[number], items[number]["pk"], None
    if len(found) < len(items):
        last = {(item["pk"], item["sk"]): number for number, item in enumerate(items)}
        return (found[last[item["pk"], item["sk"]]] for item in items)
    return map(found.__getitem__, range(len(items)))


def pack_puts(
    items: Sequence[Item], table: str, layout: Layout, compressor: Compressor
) -> tuple[list[Put], list[Item]]:
    """The same as the puts of packs, each once, and the items that are too large for a pack."""
    made = make_packs(items, layout, compressor)
    return [Put(table, pack.item) for pack in made.packs], [items[number] for number in made.alone]
