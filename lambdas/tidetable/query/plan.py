"""The planner: a pure function makes scans, in the order of the answer, from a query and the catalog's entries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from tidetable.catalog import Entry, GapReason
from tidetable.query.access_path import AccessPath, choose_access_path
from tidetable.query.earlier import make_archive_range
from tidetable.query.model import Query
from tidetable.query.readings import choose_reading
from tidetable.query.scans import ArchiveScan, Gap, Plan, Scan, find_edges, is_ahead

# A table that is partitioned by time, if no index can answer a condition.
_TABLE = AccessPath(None, (), ())


class _Scans(msgspec.Struct, frozen=True):
    """The scans of a query. Each is made when it is needed: a long range may have many, and a page needs only a few."""

    query: Query
    segments: Sequence[tuple[Entry, datetime, datetime, AccessPath | None]]

    def __iter__(self) -> Iterator[Scan]:
        query = self.query
        for entry, start, end, path in self.segments if query.ascending else reversed(self.segments):
            if path is not None:
                yield from choose_reading(entry.layout).plan(query, path, entry, start, end)
            elif entry.archived is not None:
                yield from _plan_archive(query, entry, entry.archived.manifest, start, end)


def plan_query(query: Query, entries: Sequence[Entry]) -> Plan:
    """Plan a query: one key range for each suffix of each bucket that overlaps its range of time."""
    gaps: list[Gap] = []
    segments = []
    for entry, start, end in cover_range(query.start, query.end, entries, gaps):
        path = find_access_path(query, entry, start, end) if entry.live else None
        if entry.live and path is None:
            gaps.append(Gap(start, end, GapReason.NO_INDEX))
        elif not entry.live and entry.archived is None:
            gaps.append(Gap(start, end, entry.absence))
        else:
            segments.append((entry, start, end, path))
    gaps.sort(key=lambda gap: gap.start)
    return Plan(_Scans(query, segments), gaps)


def cover_range(
    start: datetime, end: datetime, entries: Sequence[Entry], gaps: list[Gap]
) -> Iterator[tuple[Entry, datetime, datetime]]:
    """Yield the entries whose periods overlap a range, oldest first, with the overlaps.

    Times without an entry become gaps.
    """
    at = start
    for entry in sorted(entries, key=lambda entry: entry.period.start):
        first, last = max(start, entry.period.start), min(end, entry.period.end)
        if first >= last:
            continue
        if at < first:
            gaps.append(Gap(at, first, GapReason.NO_TABLE))
        at = last
        yield entry, first, last
    if at < end:
        gaps.append(Gap(at, end, GapReason.NO_TABLE))


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
