"""Make packs of items, for tests and benchmarks that have items before they have packs."""

from __future__ import annotations

from collections.abc import Sequence

from tidetable.batch import Batch
from tidetable.events import Item
from tidetable.layout import Layout
from tidetable.packs import PackSet, pack_batch
from tidetable.ports import Compressor


def make_packs(items: Sequence[Item], layout: Layout, compressor: Compressor) -> PackSet:
    """Make packs of events of one period. The events come as plain items of the layout.

    ``at`` may differ from item to item. Of several items with the same key, the last counts.
    """
    names = [layout.read_names(item) for item in items]
    times, series, ids = ([name[column] for name in names] for column in range(3))
    ats = [int(item.get("at", 0)) for item in items]
    return pack_batch(Batch(times, series, ids, [item["data"] for item in items], ats), layout, compressor)
