"""Packs hold many events in one item. This package makes and reads packs, and decides which copy of an event counts.

Ingest and query import this package when they meet the first pack: most cold starts do not need it. The keys of packs
are in ``layout/pack.py``.
"""

from tidetable.packs.body import DamagedPack, PackColumns, decode_body, encode_body
from tidetable.packs.first import FirstEvents
from tidetable.packs.items import OpenedItem, open_item
from tidetable.packs.making import PackSet, pack_batch
from tidetable.packs.walk import Settled, Walk, WalkedRun, walk_packs

__all__ = [
    "PackColumns",
    "DamagedPack",
    "FirstEvents",
    "OpenedItem",
    "PackSet",
    "WalkedRun",
    "Settled",
    "Walk",
    "decode_body",
    "encode_body",
    "open_item",
    "pack_batch",
    "walk_packs",
]
