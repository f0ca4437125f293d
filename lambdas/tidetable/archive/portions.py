"""An archive's items in portions for a table: a list for one write each, and its puts, packed if the table has packs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidetable.catalog import Entry
from tidetable.events import Item
from tidetable.large.shrink import Shrinker
from tidetable.packs import make_packs
from tidetable.ports import Put
from tidetable.values import count_item_bytes

_PUTS = 400
# A list of events that are packed together ends after this many events, or after this many bytes.
_PACKED_EVENTS, _PACKED_BYTES = 20_000, 16_000_000


def split_items(items: Iterator[Item], *, packed: bool) -> Iterator[list[Item]]:
    """Split items, in order, into lists; each list is for one write.

    Lists for packs are longer: more events make larger packs.
    """
    most = _PACKED_EVENTS if packed else _PUTS
    size, portion = 0, list[Item]()
    for item in items:
        portion.append(item)
        if packed:
            size += count_item_bytes({name: value for name, value in item.items() if name != "packed"})
        if len(portion) == most or size > _PACKED_BYTES:
            yield portion
            size, portion = 0, []
    if portion:
        yield portion


def make_puts(items: Sequence[Item], entry: Entry, shrinker: Shrinker) -> list[Put]:
    """Make the puts of an archive's items, as packs if the period's table has packs.

    The same items always give the same puts.
    """
    if entry.layout.pack is None:
        return [shrinker.shrink_archived_item(item, entry) for item in items]
    bare = [
        {name: value for name, value in item.items() if name != "packed"} for item in items if not item.get("packed")
    ]
    packing = make_packs(bare, entry.layout, shrinker.compressor)
    alone = [bare[number] for number in packing.alone] + [item for item in items if item.get("packed")]
    return [Put(entry.table, pack.item) for pack in packing.packs] + [
        shrinker.shrink_archived_item(item, entry) for item in alone
    ]
