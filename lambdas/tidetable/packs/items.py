"""Write a pack as an item, and read the events of an item, which may be a pack or one event.

``pk``, ``sk``   its key (see ``layout/pack``)
``at``           when its events were accepted, in epoch milliseconds; the latest time, if its body has a time per event
``n``            the number of its events
``oldest``       the time of its oldest event
``format``       the version of the format of its body
``pack``         its body, compressed
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidetable.batch import Batch
from tidetable.events import Item
from tidetable.large.forms import has_all_data
from tidetable.layout import Key, Layout
from tidetable.layout.pack import is_pack, make_address, parse_sort_key
from tidetable.layout.text import escape_all
from tidetable.packs.body import FORMAT, DamagedPack, PackColumns, decode_body
from tidetable.packs.numbers import settle_text
from tidetable.packs.partial import PartialPack
from tidetable.ports import Compressor
from tidetable.times import TEXT_LENGTH


class OpenedItem(NamedTuple):
    """The events of an item, as columns and in the order of their places.

    ``address`` replaces the partition key in their refs. ``places`` are the sort keys that the events have, or would
    have, as plain items. ``values`` are their data as JSON text. For a plain item whose data is compressed or kept
    elsewhere, the value is the item. ``newest`` and ``oldest`` are texts of times, ``hash`` is empty for a plain item.
    ``problem`` says why a damaged pack has no events here.
    """

    address: str
    newest: str
    oldest: str
    hash: str
    at: int
    places: Sequence[str]
    values: Sequence[str | Item]
    ats: Sequence[int] | None = None
    problem: str | None = None


def pack_item(key: Key, at: int, count: int, oldest: str, body: bytes) -> Item:
    """Make the item of a pack; ``body`` is compressed."""
    return {"pk": key.pk, "sk": key.sk, "at": at, "n": count, "oldest": oldest, "format": FORMAT, "pack": body}


def open_item(item: Item, layout: Layout, compressor: Compressor, series: Sequence[str] = ()) -> OpenedItem:
    """Open an item and return its events; of a pack, with ``series``, only the events of these series.

    For a damaged pack, return no events but a ``problem``, so that other packs can be read.
    """
    pk, sk, at = item["pk"], item["sk"], int(item.get("at", 0))
    time = sk[:TEXT_LENGTH]
    if not is_pack(item):
        value = settle_text(item["data"]) if has_all_data(item) else item
        return OpenedItem(pk, time, time, "", at, [sk], [value])
    name = parse_sort_key(sk)
    where = f"the pack {pk}, {sk}"
    if name is None:
        return OpenedItem(pk, time, time, "", at, [], [], problem=f"{where} has the key of a plain item")
    oldest = str(item.get("oldest", name.newest))
    try:
        body, format = compressor.expand(bytes(item["pack"])), int(item.get("format", 0))
        columns = PartialPack(body, format).find_events(series) if series else decode_body(body, format)
    except (DamagedPack, ValueError) as error:
        return OpenedItem(pk, name.newest, oldest, name.hash, at, [], [], problem=f"{where} is damaged: {error}")
    places = list_places(columns, layout)
    return OpenedItem(make_address(pk, name), name.newest, oldest, name.hash, at, places, columns.texts, columns.ats)


def list_places(columns: PackColumns | Batch, layout: Layout) -> list[str]:
    """List the sort keys that events would have as plain items."""
    names = [columns.series, columns.ids] if layout.partition_by == "time" else [columns.ids]
    return list(map("#".join, zip(columns.times, *map(escape_all, names), strict=True)))
