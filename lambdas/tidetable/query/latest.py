"""Find the latest event of each named series without a scan: search from the newest table backwards until all are
found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.errors import TableMissing
from tidetable.events import Item
from tidetable.keys import MAX_NAME_BYTES
from tidetable.periods import find_containing
from tidetable.ports import Columns, KeyRange, Page, RangeRead
from tidetable.problems import refuse, refuse_parameter
from tidetable.query.hydrate import complete_rows
from tidetable.query.model import RESERVE, Cost, Projection, Reader
from tidetable.query.page import Room
from tidetable.query.parse import Parameters
from tidetable.query.rows import Row, show_rows
from tidetable.query.scans import DAMAGED, PackScan
from tidetable.query.settle import count_events, find_first, make_first_pack_reads
from tidetable.remaining import Remaining
from tidetable.times import to_text

KNOWN = ("series", "fields", "consistent")
MAX_SERIES = 100


class Latest(msgspec.Struct):
    """The latest events, by series. Tables were searched back to ``searched``; None if no table was searched.

    For each series in ``damaged``, a damaged pack may have held a later event.
    """

    series: Sequence[str]
    events: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    damaged: set[str] = msgspec.field(default_factory=set)
    searched: datetime | None = None
    cost: Cost = msgspec.field(default_factory=Cost)
    room: Room = msgspec.field(default_factory=Room)
    losses: list[str] = msgspec.field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return the body of the answer, in the order of the series in the request."""
        return {
            "latest": [
                {"series": name, "event": self.events.get(name)}
                | ({"incomplete": True} if name in self.damaged else {})
                for name in self.series
            ],
            "searched_back_to": None if self.searched is None else to_text(self.searched),
        }


def find_latest(
    stream: Stream,
    parameters: Mapping[str, Sequence[str]],
    reader: Reader,
    now: datetime,
    remaining: Remaining,
) -> Latest:
    """Find the latest event of each series of the request, up to ``ahead`` from now. Archives are not searched.

    ProblemError says what to change.
    """
    series = _parse_series(parameters)
    options = {name: values for name, values in parameters.items() if name != "series"}
    request = Parameters.read(stream, options, KNOWN, where=False)
    projection, consistent = request.parse_projection(), request.parse_consistent()
    if stream.key.partition_by != "series":
        detail = f"{stream.name} is partitioned by time, so only a scan would find a series' latest event: query a range instead"
        raise refuse(400, "needs_series", detail)
    latest = Latest(series)
    for entry in _walk_backwards(stream, reader, now, consistent=consistent):
        missing = [name for name in series if name not in latest.events]
        if missing and not entry.here and reader.copies is not None:
            # This table has no copy here, and an older table might answer an event that is not the latest.
            raise reader.copies.missing(entry)
        if not missing or not entry.live or entry.layout.partition_by != "series" or remaining() < RESERVE:
            break
        rows = _search(entry, missing, latest, projection, reader, consistent=consistent)
        latest.searched = entry.period.start
        for row, event in zip(rows, show_rows(rows, projection), strict=True):
            latest.events[row.names[1]] = event
    return latest


def _walk_backwards(stream: Stream, reader: Reader, now: datetime, *, consistent: bool) -> Iterator[Entry]:
    """Yield the stream's entries, newest first.

    Periods beyond the retention are listed only if the search gets that far.
    """
    newest = now + stream.ahead
    edge = find_containing(now, stream.period).shift(-stream.retention - 1).start
    table_names: set[str] = set()
    for start in (edge, None):
        entries = reader.catalog.entries(stream.name, start, newest, consistent=consistent)
        for entry in sorted(entries, key=lambda entry: entry.period.start, reverse=True):
            if entry.table not in table_names:
                table_names.add(entry.table)
                yield entry


def _parse_series(parameters: Mapping[str, Sequence[str]]) -> list[str]:
    names = list(dict.fromkeys(parameters.get("series", ())))
    if not 1 <= len(names) <= MAX_SERIES or not all(0 < len(name.encode()) <= MAX_NAME_BYTES for name in names):
        raise refuse_parameter(
            f"give series= for each of 1 to {MAX_SERIES} series, which have 1 to {MAX_NAME_BYTES} bytes"
        )
    return names


def _search(
    entry: Entry, names: Sequence[str], latest: Latest, projection: Projection, reader: Reader, *, consistent: bool
) -> list[Row]:
    """Find the latest event of each of some series in a period."""
    find = _find if entry.layout.pack is None else _find_packed
    items = find(entry, names, latest, reader, consistent=consistent)
    rows = [Row.of(reader.unpacker.inflate_or_keep(item), entry, projection) for item in items]
    if not latest.room.take_all(sum(row.size(projection) for row in rows), len(rows)):
        raise refuse(422, "too_much", "these events are larger than an answer may be: ask for fewer series or fields")
    try:
        latest.losses += complete_rows(rows, reader.unpacker, projection, latest.cost)
    except TableMissing:
        _pass_gone(entry, reader)
        return []
    return rows


def _pass_gone(entry: Entry, reader: Reader) -> None:
    """Accept that a table was just deleted with its events.

    In a reader, raise ProblemError: the origin may have the table.
    """
    if reader.copies is not None:
        raise reader.copies.missing(entry)


def _find(entry: Entry, names: Sequence[str], latest: Latest, reader: Reader, *, consistent: bool) -> list[Item]:
    """Find the latest items of some series: one item per suffix is read, all in parallel."""
    layout, period = entry.layout, entry.period
    low, high = layout.edge(period.start), layout.edge(period.end)
    ranges = [
        (name, KeyRange(entry.table, layout.partition(period.start, name, suffix), low, high))
        for name in names
        for suffix in layout.suffixes(name)
    ]
    pages = reader.store.query_many([RangeRead(keys, 1) for _, keys in ranges], ascending=False, consistent=consistent)
    best: dict[str, Any] = {}
    for (name, _), page in zip(ranges, pages, strict=True):
        latest.cost.add_page(page)
        if page is None:
            _pass_gone(entry, reader)
        for item in () if page is None else page.items:
            if name not in best or item["sk"] > best[name]["sk"]:
                best[name] = item
    return list(best.values())


def _find_packed(
    entry: Entry, names: Sequence[str], latest: Latest, reader: Reader, *, consistent: bool
) -> Iterator[Item]:
    """Find the latest events of some series in packs: the newest packs of each suffix are read, all in parallel."""
    start, end = entry.period.start, entry.period.end
    scans = [PackScan.of(entry, start, end, [entry.layout.logical(start, name)]) for name in names]

    def fetch(reads: Sequence[RangeRead]) -> list[Page]:
        pages: list[Page] = []
        for page in reader.store.query_many(reads, ascending=False, consistent=consistent):
            latest.cost.add_page(page)
            if page is None:
                _pass_gone(entry, reader)
            pages.append(Page(Columns((), (), ()), more=False) if page is None else page)
            latest.cost.read += count_events(pages[-1]) - pages[-1].read
        return pages

    reads = [make_first_pack_reads(scan, 1) for scan in scans]
    pages = iter(fetch([read for series_reads in reads for read in series_reads]))
    for name, scan, series_reads in zip(names, scans, reads, strict=True):
        lookup = find_first(scan, series_reads, [next(pages) for _ in series_reads], fetch, reader.unpacker.compressor)
        if lookup.damaged:
            latest.damaged.add(name)
            latest.losses.append(f"{DAMAGED} in {entry.table}, which may hold a later event of series {name}")
        if lookup.item is not None:
            yield lookup.item
