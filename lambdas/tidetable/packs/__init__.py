"""Packs: many events in one item. How they are made, what they hold, and what several copies of one event mean."""

from tidetable.packs.body import Columns, DamagedPack, decode_body, derive_ids, encode_body
from tidetable.packs.items import Opened, is_pack, open_item, opened_event, pack_item, places_of
from tidetable.packs.making import Made, PackedItem, Rows, make_packs, pack_rows
from tidetable.packs.names import PackName, address, is_address, key_range, parse_address
from tidetable.packs.walk import Run, Settled, Walk, walk

__all__ = [
    "Columns",
    "DamagedPack",
    "Made",
    "Rows",
    "Opened",
    "PackName",
    "PackedItem",
    "Run",
    "Settled",
    "Walk",
    "address",
    "decode_body",
    "derive_ids",
    "encode_body",
    "is_address",
    "is_pack",
    "key_range",
    "make_packs",
    "open_item",
    "opened_event",
    "pack_item",
    "pack_rows",
    "parse_address",
    "places_of",
    "walk",
]
