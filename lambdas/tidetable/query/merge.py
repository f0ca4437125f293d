"""The sorted lazy merge: partitions' pages into one order, reading no further than what is taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge

from tidetable.query.rows import Row

# A row with its place in the order: its sort key.
Placed = tuple[str, Row]


def merge_sorted(sources: Iterable[Iterator[Placed]], *, ascending: bool) -> Iterator[Placed]:
    """Merge sources that are each in order. A source is asked for more only when all that it gave is used up."""
    return merge(*sources, key=lambda placed: placed[0], reverse=not ascending)
