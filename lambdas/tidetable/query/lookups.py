"""Look up single events in a period's table: the event of a ref, or the latest event of a series."""

from __future__ import annotations

from typing import NamedTuple

from tidetable.catalog import Entry
from tidetable.events import Item
from tidetable.query.session import ReadSession


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
