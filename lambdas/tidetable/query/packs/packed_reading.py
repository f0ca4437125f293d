"""How packs are read: many events in an item, and large events alone beside them.

The layout says which suffixes of a logical partition may hold copies of the wanted events. All of them are read, and
events are settled in a walk over all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial

import msgspec

from tidetable.catalog import Entry
from tidetable.conditions import ANY, Condition
from tidetable.errors import InvalidRef
from tidetable.events import Item
from tidetable.forms.choose import choose_form
from tidetable.forms.pack_unit import PackUnit
from tidetable.layout import Key, Layout
from tidetable.layout.pack import is_address, parse_address
from tidetable.ports import ItemColumns, Page, RangeRead
from tidetable.problems import refuse_request
from tidetable.query.access_path import AccessPath
from tidetable.query.batches import RowsBatch, TimeUp
from tidetable.query.earlier import make_rows
from tidetable.query.hydrate import match_conditions
from tidetable.query.lookups import Lookup, LookupTable, group_series
from tidetable.query.model import EVERYTHING, Position, Query
from tidetable.query.packs.oldest_first import OldestFirst
from tidetable.query.packs.scan import PackScan, make_damaged_gap, plan_pack_scan
from tidetable.query.packs.unit import PackedUnit
from tidetable.query.packs.walk import PackWalk, find_event_in_pack, find_newest
from tidetable.query.rows import Rows
from tidetable.query.scans import slice_range
from tidetable.query.session import PageKind, ReadPass, ReadSession
from tidetable.query.units import OutOfTime, Patience
from tidetable.query.waves import AT_ONCE, TEXTS_AT_ONCE
from tidetable.times import MOMENT, TEXT_LENGTH

# A search for latest events in packs of many series first reads so far back, and looks at the time after that.
_FIRST_STRETCH = timedelta(hours=1)


class PackedReading:
    """Reads packs."""

    def plan(self, query: Query, path: AccessPath, entry: Entry, start: datetime, end: datetime) -> Iterator[PackScan]:
        """Plan the scan of each slice of the table."""
        for partitions, first, last in slice_range(query, entry.layout, start, end):
            yield plan_pack_scan(query, path, entry, partitions, first, last)

    def begin(self, scan: PackScan, work: ReadPass) -> PackReader:
        """Begin to read a scan in the order of time. Packs are read completely: DynamoDB cannot see the events in them.

        A page of the oldest events is no walk in the order of time. A condition on data is checked on the copy that
        counts, so nobody knows where such a page ends. If there are many ranges, the packs of each wave of reads are
        opened before the next.
        """
        kind = PageKind(count=choose_form(scan.entry.layout).count_events)
        oldest = work.query.ascending and not scan.conditions
        waits = oldest and scan.count > 2 * TEXTS_AT_ONCE
        return PackReader(scan, work, kind, () if waits else scan.make_first_reads(work.demand.count), oldest)

    def begin_unit(
        self, scan: PackScan, query: Query, session: ReadSession, fields: tuple[str, ...], patience: Patience
    ) -> PackedUnit:
        """Begin a whole read of the scan's suffixes: no other suffix has copies of its events."""

        def note_damaged(item: Item) -> None:
            gap = make_damaged_gap(scan, item)
            if gap is not None:
                session.note_gap(gap, scan.entry, item["pk"], item["sk"])

        packs = PackUnit(
            scan.entry.layout,
            choose_form(scan.entry.layout).span,
            scan.low[:TEXT_LENGTH],
            scan.high[:TEXT_LENGTH],
            tuple(dict.fromkeys([*fields, *(condition.field for condition in scan.conditions)])),
            session.reader.unpacker.compressor,
            note_damaged,
            patience.look_at_pack,
            scan.series,
        )
        return PackedUnit(scan, query, session, fields, packs=packs)

    def find_event(self, table: LookupTable, key: Key, names: tuple[datetime, str, str] | None) -> Lookup:
        """Find an event by one GetItem if the pack that its ref names exists and holds the event.

        Otherwise search every pack that can hold a copy of the event, because a restored table has other packs. A
        ``consistent`` read always does this, because it must find the copy that counts.
        """
        entry, session, consistent = table
        layout, reader, lookup = entry.layout, session.reader, Lookup(None, damaged=False)
        if names is None:
            return lookup
        time, series, id = names
        try:
            key = parse_address(key.pk) if is_address(key.pk) else key
        except InvalidRef as error:
            raise refuse_request(400, "bad_ref", str(error)) from error
        place = layout.make_sort_key(time, series, id)
        item = None if consistent else reader.store.get(entry.table, key)
        if item is not None:
            lookup = find_event_in_pack(item, place, layout, reader.unpacker.compressor)
        if lookup.item is not None:
            return lookup
        partitions = [layout.name_partition(time, series)]
        scan = PackScan.of(entry, time, time + MOMENT, partitions, (series,), low=place, high=f"{place}\0")
        try:
            ((_, found),) = find_newest([(scan, (series,))], session, consistent=consistent)
        except OutOfTime:
            detail = "a request has too little time for the packs of one span"
            raise refuse_request(422, "too_much", f"{detail}: ask for events of the series in a range") from None
        # If another pack is damaged, it may have held events of other series only.
        return found._replace(damaged=lookup.damaged or (found.damaged and not session.hides_damage(entry)))

    def is_key_of(self, key: Key, plain_key: Key) -> bool:
        """True if the key names a pack, or is the key of an event that lies alone."""
        return is_address(key.pk) or key == plain_key

    def slice_latest(self, layout: Layout, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Slice the range by buckets, and these into stretches: each is twice as long as all newer ones together."""
        if layout.partition_by == "series":
            yield start, end
            return
        length = _FIRST_STRETCH
        while layout.shard_by == "series" and start < end:
            first = max(start, layout.find_bucket(end - MOMENT), end - length)
            yield first, end
            end, length = first, 2 * length

    def group_latest(self, layout: Layout, series: Sequence[str]) -> Iterator[tuple[Sequence[str], int]]:
        """Group series whose packs are the same: those of a suffix share a walk."""
        if layout.partition_by == "series":
            yield from group_series(layout, series)
            return
        suffixes = layout.list_suffixes(series)
        for at in range(0, len(suffixes), AT_ONCE):
            some = frozenset(suffixes[at : at + AT_ONCE])
            yield [name for name in series if layout.compute_suffix(name, "") in some], len(some)

    def find_latest(
        self, table: LookupTable, series: Sequence[str], start: datetime, end: datetime
    ) -> Iterator[tuple[str, Lookup]]:
        """Find the latest events: the newest packs of each suffix are read, all in parallel."""
        entry, session, consistent = table
        groups: dict[object, list[str]] = {}
        for name in series:
            partition = entry.layout.name_partition(start, name), *entry.layout.list_suffixes((name,))
            groups.setdefault(partition, []).append(name)
        scans = [
            (PackScan.of(entry, start, end, [entry.layout.name_partition(start, names[0])], names), names)
            for names in groups.values()
        ]
        yield from find_newest(scans, session, consistent=consistent)

    def suggest_index(self, stream: str, layout: Layout, conditions: Sequence[Condition]) -> str:  # noqa: ARG002 - see FormReading
        """Suggest another partition: packs have no indexes."""
        return f"a stream that is partitioned by time: an index cannot hold the events in the packs of {stream}"


class PackReader(msgspec.Struct):
    """Reads the events of a scan in the order of time, or a page of its ``oldest`` events."""

    scan: PackScan
    work: ReadPass
    kind: PageKind
    reads: Sequence[RangeRead]
    oldest: bool

    def read(self, pages: Sequence[Page], edge: Position) -> Iterator[RowsBatch | TimeUp]:
        """Yield the events in order. ``pages`` answer the first reads.

        Conditions that DynamoDB would filter by are checked here, after unpacking. If the walk stops before it has
        advanced, the range was read up to ``edge``.
        """
        scan, work = self.scan, self.work
        session, demand = work.session, work.demand
        session.note_source(scan)
        names, names_of = scan.find_names_left(work.query), scan.entry.layout.parse_names
        demand.filtered = names != ANY or bool(scan.conditions)
        walk: PackWalk | OldestFirst
        if self.oldest:
            holds, names = None if names == ANY else names.hold, ANY
            walk, ranges = OldestFirst(scan, session, demand, holds), 0
        else:
            walk, ranges = PackWalk(scan, session, demand, ascending=work.query.ascending), scan.count
        reads = self.reads or scan.make_first_reads(demand.count)
        for columns, reached in walk.read(reads, pages, partial(work.fetch, kind=self.kind, ranges=ranges)):
            if names != ANY:
                columns = columns.where([names.hold(*names_of(*key)[1:]) for key in zip(*columns[:2], strict=True)])
            yield RowsBatch(self._make_rows(columns), reached)
        if walk.stopped:
            yield TimeUp(walk.position or edge)

    def _make_rows(self, columns: ItemColumns) -> Iterable[Rows]:
        """Make the rows of the events that meet all conditions. Texts are shown as they are stored, or decoded."""
        scan, work = self.scan, self.work
        if not columns.are_text or scan.conditions:
            columns = match_conditions(columns, scan, work.session)
        if columns.are_text and work.query.projection == EVERYTHING:
            return [Rows(scan.entry, *columns)]
        return make_rows(columns.items(), scan.entry, work.query.projection, work.session)
