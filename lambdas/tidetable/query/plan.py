"""The planner makes scans, in the order of the answer, from a query and the catalog's entries.

A page of events walks over the entries: it reads only those of its own part of the range.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from tidetable.catalog import Entry, GapReason
from tidetable.ports import CatalogReader
from tidetable.query.access_path import AccessPath, choose_access_path
from tidetable.query.earlier import make_archive_range
from tidetable.query.model import Query
from tidetable.query.readings import choose_reading
from tidetable.query.scans import ArchiveScan, Gap, Plan, Scan, find_edges, is_ahead

# A table that is partitioned by time, if no index can answer a condition.
_TABLE = AccessPath(None, (), ())


# An entry, its overlap with a query's range, and the way to read it; None for an archive.
_Segment = tuple[Entry, datetime, datetime, AccessPath | None]
# A page of events looks at this many entries at the most. They take about 150 read units.
MAX_LOOKED = 2_000


class _Scans(msgspec.Struct, frozen=True):
    """The scans of a query. Each is made when it is needed: a long range may have many, and a page needs only a few."""

    query: Query
    segments: Iterable[_Segment]

    def __iter__(self) -> Iterator[Scan]:
        query = self.query
        for entry, start, end, path in self.segments:
            if path is not None:
                yield from choose_reading(entry.layout).plan(query, path, entry, start, end)
            elif entry.archived is not None:
                yield from _plan_archive(query, entry, entry.archived.manifest, start, end)


class PagePlan(Plan, frozen=True):
    """The plan of a page. Its scans can be iterated once; meanwhile ``gaps`` gets the gaps that they pass.

    If the scans end before the range ends, ``stops`` gets the instant at which the next page begins.
    """

    stops: Sequence[datetime] = ()


def plan_query(query: Query, entries: Sequence[Entry]) -> Plan:
    """Plan a query: one key range for each suffix of each bucket that overlaps its range of time."""
    gaps: list[Gap] = []
    ordered = sorted(entries, key=lambda entry: entry.period.start, reverse=not query.ascending)
    segments = list(_find_segments(query, ordered, gaps, None))
    gaps.sort(key=lambda gap: gap.start)
    return Plan(_Scans(query, segments), gaps)


def plan_page(catalog: CatalogReader, query: Query, *, consistent: bool) -> PagePlan:
    """Plan a page of a query: walk over the entries of the part of its range that is left."""
    gaps, stops, start, end = list[Gap](), list[datetime](), query.start, query.end
    if query.after is not None:
        start, end = (query.after.time, end) if query.ascending else (start, query.after.time)
    walk = catalog.walk(query.stream, start, end, ascending=query.ascending, consistent=consistent)
    return PagePlan(_Scans(query, _find_segments(query, walk, gaps, stops)), gaps, stops)


def _find_segments(
    query: Query, entries: Iterable[Entry], gaps: list[Gap], stops: list[datetime] | None
) -> Iterator[_Segment]:
    """Find the segments of a query, in the order of the entries. With ``stops``, they end after some entries."""
    after = None if stops is None or query.after is None else query.after.time
    overlaps = cover_range(query.start, query.end, entries, gaps, ascending=query.ascending, after=after)
    for number, (entry, start, end) in enumerate(overlaps):
        if stops is not None and number == MAX_LOOKED:
            stops.append(start if query.ascending else end)
            return
        path = find_access_path(query, entry, start, end) if entry.live else None
        if entry.live and path is None:
            gaps.append(Gap(start, end, GapReason.NO_INDEX))
        elif not entry.live and entry.archived is None:
            gaps.append(Gap(start, end, entry.absence))
        else:
            yield entry, start, end, path


def cover_range(
    start: datetime,
    end: datetime,
    entries: Iterable[Entry],
    gaps: list[Gap],
    *,
    ascending: bool = True,
    after: datetime | None = None,
) -> Iterator[tuple[Entry, datetime, datetime]]:
    """Yield the entries whose periods overlap a range, in the order in which they come, with the overlaps.

    Times without an entry become gaps. An earlier page may have covered the range up to ``after``.
    """
    at = after or (start if ascending else end)
    for entry in entries:
        first, last = max(start, entry.period.start), min(end, entry.period.end)
        if first >= last:
            continue
        left, right = (at, first) if ascending else (last, at)
        if left < right:
            gaps.append(Gap(left, right, GapReason.NO_TABLE))
        at = last if ascending else first
        yield entry, first, last
    left, right = (at, end) if ascending else (start, at)
    if left < right:
        gaps.append(Gap(left, right, GapReason.NO_TABLE))


def find_access_path(query: Query, entry: Entry, start: datetime, end: datetime) -> AccessPath | None:
    """Find the way in which a query reads ``[start, end)`` of a period; None if there is no way without a scan."""
    layout = entry.layout
    if layout.partition_by == "time" and not (query.conditions or query.low_priority):
        return _TABLE
    whole = timedelta(seconds=layout.bucket) if layout.bucket else entry.period.end - entry.period.start
    options = {"consistent": query.consistent, "low": query.low_priority}
    return choose_access_path(layout, query.names, query.conditions, share=(end - start) / whole, **options)


def _plan_archive(query: Query, entry: Entry, manifest: str, start: datetime, end: datetime) -> Iterator[Scan]:
    """Plan the scan of a period's archive, if it may hold events after the query's position."""
    if is_ahead(query, start, end):
        edges = find_edges(query, entry.layout.find_ordering_layout(query.series), start, end)
        yield ArchiveScan(entry=entry, start=start, end=end, keys=make_archive_range(query, manifest, *edges))
