"""The use case of reading an archived period. A reader gets a range of sort keys in order, one page at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from heapq import merge, nlargest, nsmallest
from itertools import accumulate, chain, groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from tidetable.archive.manifest import Manifest, Part, Span
from tidetable.errors import ArchiveFailed
from tidetable.events import Event
from tidetable.exact_json import encode_json
from tidetable.layout import Layout, find_number
from tidetable.ports import ArchivePage, ArchiveRange, EventVersion, Rank
from tidetable.times import EPOCH, from_micros, from_text, to_micros, to_text

# Half of the largest answer of a Lambda function: wrapping and escaping make the events larger on their way.
MAX_ARCHIVE_PAGE_BYTES = 3_000_000
# A page ends after this number of events was read, even if the conditions exclude most of the events: to read them
# takes a few seconds, which is far less than the function's time limit.
MAX_READ = 250_000

_SORT_KEY = attrgetter("sort_key")
# So many rows that do not meet the conditions take as long as an event that does: they do not become objects.
_ROWS_PER_EVENT = 20
# Sorts after the "#" that follows the time in a sort key, and before every later time.
_AFTER = "$"
# Sorts after every sort key.
_LAST = "\U0010ffff"
# Stands for what is no event: a part that is not opened yet, or skipped rows.
_NO_EVENT = Event("", EPOCH, "", {})
_FIRST_TIME, _LAST_TIME = (from_text(text) for text in ("0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z"))

# An archived event and, in a period that keeps every version, its version.
ArchivedEvent = tuple[Event, EventVersion | None]


class Skipped(NamedTuple):
    """A number of rows that were looked at, and do not meet the conditions. All events of the part that come before the
    time ``edge`` in the order of the answer were yielded; in descending order, all events at this time or after it.
    """

    rows: int
    edge: datetime


class PartReader(Protocol):
    """Fetches manifests and reads parts."""

    def manifest(self, key: str) -> Manifest:
        """Read a period's manifest; ArchiveFailed if it is missing or damaged."""
        ...

    def events(
        self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool, together: int
    ) -> Iterator[ArchivedEvent | Skipped]:
        """Read the part's events in the order of the answer: at least every event of the range that meets its conditions.

        At one place of the order, up to ``together`` parts are read, and share the memory.

        The order is that of the sort keys of ``layout.find_ordering_layout(keys.series)``; all versions of an event come
        together. There may be other events, and numbers of skipped rows.
        """
        ...


class _SortedEvent(NamedTuple):
    """An event with its sort key. ``version_rank`` orders the versions of one event: the newest first.

    It may be no event, but a number of ``skipped`` rows.
    """

    sort_key: str
    version_rank: int
    event: Event
    version: EventVersion | None
    skipped: int = 0


@dataclass(slots=True)
class _Reads:
    """Counts the events that are read for a page.

    Reading ends after ``MAX_READ`` events, at the next sort key; then ``end`` is the last sort key that was read.
    ``skipped`` counts the rows that did not become events. They count less, because they take less time.
    """

    count: int = 0
    skipped: int = 0
    end: str | None = None

    @property
    def looked(self) -> int:
        """The number of events that were read, whether they became objects or not."""
        return self.count + self.skipped

    def limit(self, ordered: Iterable[_SortedEvent]) -> Iterator[_SortedEvent]:
        last = ""
        for candidate in ordered:
            if self.count + self.skipped // _ROWS_PER_EVENT >= MAX_READ and candidate.sort_key != last:
                self.end = last
                return
            last = candidate.sort_key
            if candidate.event is _NO_EVENT:
                self.skipped += candidate.skipped
                continue
            self.count += 1
            yield candidate


def read_archive(keys: ArchiveRange, reader: PartReader, *, limit: int, ascending: bool) -> ArchivePage:
    """Read the first events of a range, as many as fit into an answer. A page has all versions of an event, or none."""
    if keys.rank is not None:
        return _read_ranked(keys, keys.rank, reader, limit=limit, ascending=ascending)
    ordered = _read_range(keys, reader, ascending=ascending)
    reads = _Reads()
    page: list[_SortedEvent] = []
    size = 0
    skipped: str | None = None
    for candidate in reads.limit(_sort_versions(ordered) if keys.versions else ordered):
        sort_key = candidate.sort_key
        if not _is_of_series(candidate, keys):
            continue
        earlier = bool(page) and sort_key == page[-1].sort_key
        if keys.version is not None and candidate.version is not None and candidate.version.number > keys.version:
            continue
        # The newest version of an event decides for all of its versions.
        if sort_key == skipped or (not earlier and not _meets_range(candidate, keys)):
            skipped = sort_key
            continue
        size += _estimate_size(candidate.event)
        full = len(page) >= limit or (page and size > MAX_ARCHIVE_PAGE_BYTES)
        if full and not earlier:
            # The next page begins with this event.
            return _make_page(page, keys, reads.looked - 1, more=True)
        if earlier and size > MAX_ARCHIVE_PAGE_BYTES:
            if page[0].sort_key != sort_key:
                return _make_page([row for row in page if row.sort_key != sort_key], keys, reads.looked, more=True)
            # This event has too many versions for one page. The page omits the oldest; requests by number find them.
            skipped = sort_key
            continue
        page.append(candidate)
    return _make_page(page, keys, reads.looked, more=reads.end is not None, reached=reads.end)


def _read_ranked(keys: ArchiveRange, rank: Rank, reader: PartReader, *, limit: int, ascending: bool) -> ArchivePage:
    """Rank the events of a range by a number and return the first events.

    ``reached`` is the last sort key that was read, if reading ended before the end of the range.
    """
    after = None if rank.after is None else (Decimal(rank.after[0]), *rank.after[1:])
    reads = _Reads()

    def rank_events() -> Iterator[tuple[tuple[Any, ...], Event]]:
        for candidate in reads.limit(_read_range(keys, reader, ascending=True)):
            number = find_number(candidate.event.data, rank.field)
            if number is not None and _is_of_series(candidate, keys) and _meets_range(candidate, keys):
                event = candidate.event
                position = (Decimal(number), to_text(event.time), event.series, event.id)
                if after is None or (position > after if ascending else position < after):
                    yield position, event

    choose = nsmallest if ascending else nlargest
    first = [event for _, event in choose(limit, rank_events(), key=itemgetter(0))]
    sizes = accumulate(map(_estimate_size, first))
    fitting = max(1, sum(size <= MAX_ARCHIVE_PAGE_BYTES for size in sizes))
    more, cut = reads.end is not None, fitting < len(first)
    return ArchivePage(first[:fitting], more, None, reads.end, cut=cut, read=reads.looked)


def _estimate_size(event: Event) -> int:
    return len(encode_json(event.data)) + len(event.series) + len(event.id) + 100


def _read_range(keys: ArchiveRange, reader: PartReader, *, ascending: bool) -> Iterator[_SortedEvent]:
    """Read the events between a range's keys, of every series, in order, without the events of earlier pages."""
    for row in _read_parts(keys, reader, ascending=ascending):
        key, after = row.sort_key, keys.after
        if row.event is _NO_EVENT or (
            keys.low <= key <= keys.high and (after is None or (key > after if ascending else key < after))
        ):
            yield row


def _read_parts(keys: ArchiveRange, reader: PartReader, *, ascending: bool) -> Iterable[_SortedEvent]:
    """Read the events of the parts that overlap a range, merged in the order of their sort keys.

    A part is opened only when the merge reaches its first event, or in descending order its last. So a page of a stream
    by time opens few parts, and memory holds only the parts that overlap at one place of the order.
    """
    names = keys.find_names()
    if names is None:
        return iter(())
    manifest = reader.manifest(keys.manifest)
    layout = manifest.layout
    across = layout.find_ordering_layout(keys.series)

    # Without the keys that earlier pages have read.
    unread = keys
    if keys.after is not None:
        unread = replace(keys, low=keys.after) if ascending else replace(keys, high=keys.after)
    if keys.versions:
        # An event's newest version decides for all its versions, and those may be in other parts.
        unread = replace(unread, conditions=())
    low, high = find_times(unread, layout)

    def read_part(part: Part, span: Span) -> Iterator[_SortedEvent]:
        # The merge takes one row of each part before it begins. This one stands for the unopened part.
        yield _SortedEvent(_find_bound(span, across, ascending=ascending), 0, _NO_EVENT, None)
        for row in reader.events(part, unread, layout, ascending=ascending, together=together):
            if isinstance(row, Skipped):
                yield _SortedEvent(across.make_edge(row.edge), 0, _NO_EVENT, None, row.rows)
            elif keys.versions or row[1] is None or row[1].newest:
                yield _add_sort_key(*row, across)

    found = manifest.find_parts(low, high, names.series, names.series_prefix)
    together = _count_together([span for _, span in found])
    parts = [read_part(part, span) for part, span in found]
    return merge(*parts, key=_SORT_KEY, reverse=not ascending)


def _count_together(spans: Sequence[Span]) -> int:
    """Count the parts that have the same time, at the time that most parts have; at least one."""
    edges = chain.from_iterable(((first, 1), (last + 1, -1)) for first, last in spans)
    return max(accumulate(step for _, step in sorted(edges)), default=1)


def find_times(keys: ArchiveRange, layout: Layout) -> tuple[int, int]:
    """Find the times ``[low, high)`` between two sort keys, in microseconds. A sort key begins with 27 characters of time;
    an edge of the range may be shorter.
    """
    low, high = layout.find_place(keys.low), layout.find_place(keys.high)
    first = from_text(low[:27]) if len(low) >= 27 else _FIRST_TIME
    last = from_text(high[:27]) if len(high) >= 27 else _LAST_TIME
    return to_micros(first), to_micros(last) + 1


def _find_bound(span: Span, layout: Layout, *, ascending: bool) -> str:
    """Find a text that sorts before every sort key of a part, in the order of the answer."""
    first, last = span
    if first <= to_micros(_FIRST_TIME):
        return "" if ascending else _LAST
    return layout.make_edge(from_micros(first)) if ascending else f"{layout.make_edge(from_micros(last))}{_AFTER}"


def _is_of_series(candidate: _SortedEvent, keys: ArchiveRange) -> bool:
    # In a layout by series, events of several series may have the same sort key.
    return keys.series in (None, candidate.event.series)


def _meets_range(candidate: _SortedEvent, keys: ArchiveRange) -> bool:
    event = candidate.event
    return keys.names.hold(event.series, event.id) and all(condition.holds(event.data) for condition in keys.conditions)


def _add_sort_key(event: Event, version: EventVersion | None, layout: Layout) -> _SortedEvent:
    rank = 0 if version is None or version.newest else -version.number
    return _SortedEvent(layout.make_sort_key(event.time, event.series, event.id), rank, event, version)


def _sort_versions(ordered: Iterable[_SortedEvent]) -> Iterator[_SortedEvent]:
    """Put the versions of each event in order, although they come from several parts."""
    for _, versions in groupby(ordered, key=_SORT_KEY):
        yield from sorted(versions, key=lambda row: (row.event.series, row.version_rank != 0, row.version_rank))


def _make_page(
    page: Sequence[_SortedEvent], keys: ArchiveRange, read: int, *, more: bool, reached: str | None = None
) -> ArchivePage:
    versions = [row.version for row in page if row.version is not None] if keys.versions else None
    complete = versions if versions is not None and len(versions) == len(page) else None
    if more and reached is None:
        reached = page[-1].sort_key
    return ArchivePage([row.event for row in page], more, complete, reached, read=read)


def describe_damage(key: str, error: Exception) -> ArchiveFailed:
    """Make the error for an object of the archive that cannot be read."""
    return ArchiveFailed(f"the archive's object {key} is missing or damaged: {error}")
