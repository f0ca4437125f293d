"""The layout of events before they are packed: plain items of their period, but with suffix 0 in the partition key.

Only an event that is too large for a pack needs a computed suffix.
"""

from __future__ import annotations

from msgspec.structs import replace

from tidetable.keys import Layout


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
