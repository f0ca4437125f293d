"""Look up single events in a period's table: the event of a ref, and the latest events of series."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from tidetable.catalog import Entry
from tidetable.events import Item
from tidetable.layout import Key
from tidetable.ports import KeyRange, RangeRead
from tidetable.query.session import ReadSession
from tidetable.query.waves import AT_ONCE


class Lookup(NamedTuple):
    """The event that was looked up, as an item, or None.

    If ``damaged``, a damaged item may have held the event, or a newer state of it.
    """

    item: Item | None
    damaged: bool


class Finder(Protocol):
    """Looks up events in the table of an entry."""

    def find_event(self, key: Key, names: tuple[datetime, str, str] | None, *, consistent: bool) -> Lookup:
        """Find the event with the key and the names of a ref; the names are None if no event can have this key."""
        ...

    def find_latest(
        self, series: Sequence[str], start: datetime, end: datetime, *, consistent: bool
    ) -> Iterable[tuple[str, Lookup]]:
        """Find the latest event of each of some series in ``[start, end)``."""
        ...


class ItemFinder(NamedTuple):
    """Looks up plain items."""

    entry: Entry
    session: ReadSession

    def find_event(self, key: Key, names: tuple[datetime, str, str] | None, *, consistent: bool) -> Lookup:  # noqa: ARG002 - see Finder
        """Find the item with the key."""
        store, table = self.session.reader.store, self.entry.table
        return Lookup(store.get_many(table, [key]).get(key) if consistent else store.get(table, key), damaged=False)

    def find_latest(
        self, series: Sequence[str], start: datetime, end: datetime, *, consistent: bool
    ) -> Iterator[tuple[str, Lookup]]:
        """Find the latest items: one item per suffix is read, all in parallel."""
        layout, table = self.entry.layout, self.entry.table
        low, high = layout.make_edge(start), layout.make_edge(end)
        ranges = [
            (name, KeyRange(table, layout.make_partition_key(start, name, suffix), low, high))
            for name in series
            for suffix in layout.list_suffixes((name,))
        ]
        best: dict[str, Item] = {}
        # An item of 400 KB may take 5 MB as objects of Python.
        for at in range(0, len(ranges), AT_ONCE):
            some = ranges[at : at + AT_ONCE]
            reads = [RangeRead(keys, 1) for _, keys in some]
            pages = self.session.reader.store.query_many(reads, ascending=False, consistent=consistent)
            for (name, _), page in zip(some, pages, strict=True):
                for item in self.session.take_page(page, self.entry, start, end).items:
                    if name not in best or item["sk"] > best[name]["sk"]:
                        best[name] = item
        yield from ((name, Lookup(item, damaged=False)) for name, item in best.items())
