"""The use case of reading an archived period. A reader gets a range of sort keys in order, one page at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from heapq import merge, nlargest, nsmallest
from itertools import accumulate, groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from tidetable.archive.manifest import Manifest, Part
from tidetable.errors import ArchiveFailed
from tidetable.events import Event
from tidetable.exact_json import encode_json
from tidetable.layout import Layout, find_number
from tidetable.ports import ArchivePage, ArchiveRange, EventVersion, Rank
from tidetable.times import EPOCH, to_text

# Half of the largest answer of a Lambda function: wrapping and escaping make the events larger on their way.
MAX_ARCHIVE_PAGE_BYTES = 3_000_000
# A page ends after this number of events was read, even if the conditions exclude most of the events: to read them
# takes a few seconds, which is far less than the function's time limit.
MAX_READ = 250_000

_SORT_KEY = attrgetter("sort_key")
# Sorts after the "#" that follows the time in a sort key, and before every later time.
_AFTER = "$"
# Sorts after every sort key.
_LAST = "\U0010ffff"
# Stands for the events of a part that is not opened yet.
_UNOPENED = Event("", EPOCH, "", {})

# An archived event and, in a period that keeps every version, its version.
ArchivedEvent = tuple[Event, EventVersion | None]


class PartReader(Protocol):
    """Fetches manifests and reads parts."""

    def manifest(self, key: str) -> Manifest:
        """Read a period's manifest; ArchiveFailed if it is missing or damaged."""
        ...

    def events(self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool) -> Iterator[ArchivedEvent]:
        """Read the part's events in the order of their sort keys: at least every event whose time lies within the
        range.

        They may include events outside of the range, and events that do not meet its conditions.
        """
        ...


class _SortedEvent(NamedTuple):
    """An event with its sort key. ``version_rank`` orders the versions of one event: the newest first."""

    sort_key: str
    version_rank: int
    event: Event
    version: EventVersion | None


@dataclass(slots=True)
class _Reads:
    """Counts the events that are read for a page.

    Reading ends after ``MAX_READ`` events, at the next sort key; then ``end`` is the last sort key that was read.
    """

    count: int = 0
    end: str | None = None

    def limit(self, ordered: Iterable[_SortedEvent]) -> Iterator[_SortedEvent]:
        last = ""
        for candidate in ordered:
            if self.count >= MAX_READ and candidate.sort_key != last:
                self.end = last
                return
            self.count += 1
            last = candidate.sort_key
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
            return _make_page(page, keys, reads.count - 1, more=True)
        if earlier and size > MAX_ARCHIVE_PAGE_BYTES:
            if page[0].sort_key != sort_key:
                return _make_page([row for row in page if row.sort_key != sort_key], keys, reads.count, more=True)
            # This event has too many versions for one page. The page omits the oldest; requests by number find them.
            skipped = sort_key
            continue
        page.append(candidate)
    return _make_page(page, keys, reads.count, more=reads.end is not None, reached=reads.end)


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
    return ArchivePage(first[:fitting], more, None, reads.end, cut=cut, read=reads.count)


def _estimate_size(event: Event) -> int:
    return len(encode_json(event.data)) + len(event.series) + len(event.id) + 100


def _read_range(keys: ArchiveRange, reader: PartReader, *, ascending: bool) -> Iterator[_SortedEvent]:
    """Read the events between a range's keys, of every series, in order, without the events of earlier pages."""
    for row in _read_parts(keys, reader, ascending=ascending):
        key, after = row.sort_key, keys.after
        if keys.low <= key <= keys.high and (after is None or (key > after if ascending else key < after)):
            yield row


def _read_parts(keys: ArchiveRange, reader: PartReader, *, ascending: bool) -> Iterable[_SortedEvent]:
    """Read the events of the parts that overlap a range, merged in the order of their sort keys.

    A part is opened only when the merge reaches its first event, or in descending order its last. So a page of a stream
    by time opens few parts, and memory holds only the parts that overlap at one place of the order.
    """
    manifest = reader.manifest(keys.manifest)
    layout = manifest.layout
    across = layout.find_ordering_layout(keys.series)

    # Without the keys that earlier pages have read.
    unread = keys
    if keys.after is not None:
        unread = replace(keys, low=keys.after) if ascending else replace(keys, high=keys.after)
    if keys.versions:
        # An event's newest version decides for all its versions, and those may be in other row groups and parts.
        unread = replace(unread, conditions=())

    def read_part(part: Part) -> Iterator[_SortedEvent]:
        # The merge takes one row of each part before it begins. This one stands for the unopened part.
        yield _SortedEvent(_find_bound(part, size, keys, ascending=ascending), 0, _UNOPENED, None)
        archived = reader.events(part, unread, layout, ascending=ascending)
        events = (
            _add_sort_key(event, version, across)
            for event, version in archived
            if keys.versions or version is None or version.newest
        )
        if keys.versions:
            # A part is sorted by version first, then by time.
            yield from sorted(events, key=_SORT_KEY, reverse=not ascending)
        elif across == layout:
            yield from events
        else:
            # A part sorts events of the same time by id; this order sorts them by series first.
            for _, simultaneous in groupby(events, key=lambda row: row.event.time):
                yield from sorted(simultaneous, key=_SORT_KEY, reverse=not ascending)

    # In every layout a sort key begins with the time, as a text of this length.
    size = len(layout.make_edge(EPOCH))
    bounds = ("", _LAST) if keys.versions else (unread.low, unread.high)
    rows = merge(*map(read_part, manifest.find_parts(*bounds)), key=_SORT_KEY, reverse=not ascending)
    return (row for row in rows if row.event is not _UNOPENED)


def _find_bound(part: Part, size: int, keys: ArchiveRange, *, ascending: bool) -> str:
    """Find a text that sorts before every sort key of a part, in the order of the answer.

    Only the time is compared: the order of several series sorts events of one time by other names than the part does.
    If versions are requested, the part's bounds are of another order, because they begin with a version.
    """
    if keys.versions or not part.last:
        return "" if ascending else _LAST
    return part.first[:size] if ascending else f"{part.last[:size]}{_AFTER}"


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
