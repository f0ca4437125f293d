"""The packs of an ascending walk that are read but not opened yet.

An event of a pack can be settled only when the walk has read one ``span`` beyond it. Until then its pack stays as it is
stored: compressed, an event takes some 10 bytes, but 800 bytes as objects of Python.
"""

from __future__ import annotations

from heapq import heappop, heappush

import msgspec

from tidetable.events import Item


class PendingPacks(msgspec.Struct):
    """Packs in the order of their oldest events. ``events`` counts their events, ``bytes`` the bytes of their bodies."""

    events: int = 0
    bytes: int = 0
    _heap: list[tuple[str, int, Item]] = msgspec.field(default_factory=list)
    _count: int = 0

    @property
    def oldest(self) -> str | None:
        """The time of the oldest event in all of the packs; None if there is no pack."""
        return self._heap[0][0] if self._heap else None

    def add(self, item: Item, oldest: str) -> None:
        """Add a pack; ``oldest`` is the time of its oldest event."""
        # The count orders packs with the same time: items cannot be compared.
        heappush(self._heap, (oldest, self._count, item))
        self._count += 1
        self.events += int(item.get("n", 1))
        self.bytes += len(item["pack"])

    def pop(self) -> Item:
        """Remove and return the pack with the oldest event."""
        _, _, item = heappop(self._heap)
        self.events -= int(item.get("n", 1))
        self.bytes -= len(item["pack"])
        return item
