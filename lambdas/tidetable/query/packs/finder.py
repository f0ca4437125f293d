"""Look up single events in a table of packs, and choose who looks up events in a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from tidetable.catalog import Entry
from tidetable.errors import InvalidRef
from tidetable.layout import Key
from tidetable.layout.pack import is_address, parse_address
from tidetable.problems import refuse_request
from tidetable.query.lookups import Finder, ItemFinder, Lookup
from tidetable.query.packs.scan import PackScan
from tidetable.query.packs.walk import find_event_in_pack, find_newest
from tidetable.query.session import ReadSession
from tidetable.times import MOMENT


class PackFinder(NamedTuple):
    """Looks up events in packs."""

    entry: Entry
    session: ReadSession

    def find_event(self, key: Key, names: tuple[datetime, str, str] | None, *, consistent: bool) -> Lookup:
        """Find an event by one GetItem if the pack that its ref names exists and holds the event.

        Otherwise search every pack that can hold a copy of the event, because a restored table has other packs. A
        ``consistent`` read always does this, because it must find the copy that counts.
        """
        layout, reader, lookup = self.entry.layout, self.session.reader, Lookup(None, damaged=False)
        if names is None:
            return lookup
        time, series, id = names
        try:
            key = parse_address(key.pk) if is_address(key.pk) else key
        except InvalidRef as error:
            raise refuse_request(400, "bad_ref", str(error)) from error
        place = layout.make_sort_key(time, series, id)
        item = None if consistent else reader.store.get(self.entry.table, key)
        if item is not None:
            lookup = find_event_in_pack(item, place, layout, reader.unpacker.compressor)
        if lookup.item is not None:
            return lookup
        partitions = [layout.name_partition(time, series)]
        scan = PackScan.of(self.entry, time, time + MOMENT, partitions, (series,), low=place, high=f"{place}\0")
        (found,) = find_newest([scan], self.session, consistent=consistent)
        # If another pack is damaged, it may have held events of other series only.
        mixed = bool(reader.access.series_prefix) and layout.partition_by == "time"
        return found._replace(damaged=lookup.damaged or (found.damaged and not mixed))

    def find_latest(
        self, series: Sequence[str], start: datetime, end: datetime, *, consistent: bool
    ) -> Iterator[tuple[str, Lookup]]:
        """Find the latest events: the newest packs of each suffix are read, all in parallel."""
        layout = self.entry.layout
        scans = [PackScan.of(self.entry, start, end, [layout.name_partition(start, name)], (name,)) for name in series]
        yield from zip(series, find_newest(scans, self.session, consistent=consistent), strict=True)


def choose_finder(entry: Entry, session: ReadSession) -> Finder:
    """Choose who looks up events in the table of an entry."""
    return ItemFinder(entry, session) if entry.layout.pack is None else PackFinder(entry, session)
