"""Look up single events in a period's table: the event of a ref, or the latest event of a series."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidetable.catalog import Entry
from tidetable.events import Item
from tidetable.layout import Layout
from tidetable.query.session import ReadSession
from tidetable.query.waves import AT_ONCE

# At most this many ranges are read between two looks at the time.
_RANGES = 500


class Lookup(NamedTuple):
    """The event that was looked up, as an item, or None.

    If ``damaged``, a damaged item may have held the event, or a newer state of it.
    """

    item: Item | None
    damaged: bool


class LookupTable(NamedTuple):
    """The table of an entry, and how it is read."""

    entry: Entry
    session: ReadSession
    consistent: bool


def group_series(layout: Layout, series: Sequence[str]) -> Iterator[tuple[Sequence[str], int]]:
    """Group series that have ranges of their own; each group comes with the number of its ranges."""
    suffixes = len(layout.list_suffixes(series[:1]))
    size = max(min(_RANGES // suffixes, AT_ONCE), 1)
    for at in range(0, len(series), size):
        some = series[at : at + size]
        yield some, len(some) * suffixes
