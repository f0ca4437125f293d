"""The use case of reading an archived period: a range of sort keys, in order, a page at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from heapq import merge, nlargest, nsmallest
from itertools import accumulate, groupby
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Protocol

from tidetable.archive.manifest import Manifest, Part
from tidetable.errors import ArchiveFailed
from tidetable.events import Event
from tidetable.exact import encode_json
from tidetable.keys import Layout, number_at
from tidetable.ports import ArchivePage, ArchiveRange, Rank, Version
from tidetable.times import EPOCH, to_text

# Half of what a function may answer: the events are wrapped and escaped on their way.
MAX_PAGE_BYTES = 3_000_000
# Where conditions leave out most of what is read, a page ends here: in seconds, well before the function's time is up.
MAX_READ = 250_000


_PLACE = attrgetter("place")


# An archived event and, in a period that keeps them, which version of it this is.
Kept = tuple[Event, Version | None]


class PartReader(Protocol):
    """Fetches manifests and reads parts."""

    def manifest(self, key: str) -> Manifest:
        """A period's manifest; ArchiveFailed if it is missing or damaged."""
        ...

    def events(self, part: Part, keys: ArchiveRange, layout: Layout, *, ascending: bool) -> Iterator[Kept]:
        """The part's events in that order of their sort keys, at least those whose time text lies within the range.

        Events that do not meet the range's conditions may be among them or not.
        """
        ...


class _Placed(NamedTuple):
    """An event with its place in the order, and the version's in that of its event: the newest first, then backwards."""

    place: str
    rank: int
    event: Event
    version: Version | None


def read_archive(keys: ArchiveRange, reader: PartReader, *, limit: int, ascending: bool) -> ArchivePage:
    """The first events of a range, no more than an answer can hold; an event is never parted from its earlier versions."""
    if keys.rank is not None:
        return _read_ranked(keys, keys.rank, reader, limit=limit, ascending=ascending)
    ordered = _ordered(keys, reader, ascending=ascending)
    read = 0
    page: list[_Placed] = []
    size = 0
    skipped: str | None = None
    for one in _by_rank(ordered) if keys.versions else ordered:
        if not _within(one.place, keys, ascending=ascending):
            continue
        read += 1
        earlier = bool(page) and one.place == page[-1].place
        if keys.version is not None and one.version is not None and one.version.number > keys.version:
            continue
        # What the newest version of an event is decides for all of them.
        if one.place == skipped or (not earlier and not _wanted(one, keys)):
            skipped = one.place
            if read >= MAX_READ:
                return _page(page, keys, more=True, reached=one.place)
            continue
        event = _cut(one.event, keys.fields)
        size += _size(event)
        full = len(page) >= limit or (page and size > MAX_PAGE_BYTES)
        if full and not earlier:
            return _page(page, keys, more=True)
        if earlier and size > MAX_PAGE_BYTES:
            if page[0].place != one.place:
                return _page([held for held in page if held.place != one.place], keys, more=True)
            # No page holds all versions of this event: the oldest are left out, and can be read by their numbers.
            skipped = one.place
            continue
        page.append(one._replace(event=event))
    return _page(page, keys, more=False)


def _read_ranked(keys: ArchiveRange, rank: Rank, reader: PartReader, *, limit: int, ascending: bool) -> ArchivePage:
    """The first events by a number, of so many as are read at a time."""
    after = None if rank.after is None else (Decimal(rank.after[0]), *rank.after[1:])
    reached: list[str] = []

    def ranked() -> Iterator[tuple[tuple[Any, ...], Event]]:
        read = 0
        for one in _ordered(keys, reader, ascending=True):
            if not _within(one.place, keys, ascending=True):
                continue
            read += 1
            number = number_at(one.event.data, rank.field)
            if number is not None and _wanted(one, keys):
                event = one.event
                place = (Decimal(number), to_text(event.time), event.series, event.id)
                if after is None or (place > after if ascending else place < after):
                    yield place, event
            if read >= MAX_READ:
                reached.append(one.place)
                return

    choose = nsmallest if ascending else nlargest
    first = [event for _, event in choose(limit, ranked(), key=itemgetter(0))]
    sizes = accumulate(map(_size, first))
    fitting = max(1, sum(size <= MAX_PAGE_BYTES for size in sizes))
    more = reached[0] if reached else None
    return ArchivePage(first[:fitting], bool(reached), None, more, cut=fitting < len(first))


def _size(event: Event) -> int:
    """About how many bytes an event takes in a page."""
    return len(encode_json(event.data)) + len(event.series) + len(event.id) + 100


def _ordered(keys: ArchiveRange, reader: PartReader, *, ascending: bool) -> Iterable[_Placed]:
    """The events of the parts that a range meets, in order."""
    manifest = reader.manifest(keys.manifest)
    layout = manifest.layout.layout()
    across = layout.across(keys.series)

    def placed(part: Part) -> Iterator[_Placed]:
        kept = reader.events(part, _shortened(keys, ascending=ascending), layout, ascending=ascending)
        found = (_place(*one, across) for one in kept if keys.versions or one[1] is None or one[1].newest)
        if keys.versions:
            # In the part versions come one after the other, each with all events.
            yield from sorted(found, key=_PLACE, reverse=not ascending)
        elif across == layout:
            yield from found
        else:
            # In the part the ids decide among events of one time, here their series.
            for _, some in groupby(found, key=lambda one: one.event.time):
                yield from sorted(some, key=_PLACE, reverse=not ascending)

    # So far a sort key says the time, in whatever layout.
    size = len(layout.edge(EPOCH))
    first, last = keys.low[:size], keys.high[:size]
    parts = [
        part for part in manifest.parts if keys.versions or (part.first[:size] <= last and first <= part.last[:size])
    ]
    return merge(*map(placed, parts), key=_PLACE, reverse=not ascending)


def _shortened(keys: ArchiveRange, *, ascending: bool) -> ArchiveRange:
    """The range from where an earlier page ended."""
    if keys.after is None:
        return keys
    return replace(keys, low=keys.after) if ascending else replace(keys, high=keys.after)


def _wanted(one: _Placed, keys: ArchiveRange) -> bool:
    """Whether the newest version of an event is of the series and meets the conditions."""
    event = one.event
    named = keys.series in (None, event.series) and keys.names.hold(event.series, event.id)
    return named and all(kept.holds(event.data) for kept in keys.conditions)


def _cut(event: Event, fields: Sequence[str]) -> Event:
    if not fields:
        return event
    names = {field.partition(".")[0] for field in fields}
    return Event(
        event.series, event.time, event.id, {name: value for name, value in event.data.items() if name in names}
    )


def _place(event: Event, version: Version | None, layout: Layout) -> _Placed:
    rank = 0 if version is None or version.newest else -version.number
    return _Placed(layout.sort_key(event.time, event.series, event.id), rank, event, version)


def _by_rank(ordered: Iterable[_Placed]) -> Iterator[_Placed]:
    """The same, with the versions of each event in order though they come from several parts."""
    for _, versions in groupby(ordered, key=lambda one: one.place):
        newest, *earlier = sorted(versions, key=lambda one: (one.rank != 0, one.rank))
        yield newest
        yield from earlier


def _page(page: Sequence[_Placed], keys: ArchiveRange, *, more: bool, reached: str | None = None) -> ArchivePage:
    versions = [one.version for one in page if one.version is not None] if keys.versions else None
    known = versions if versions is not None and len(versions) == len(page) else None
    return ArchivePage([one.event for one in page], more, known, reached)


def _within(place: str, keys: ArchiveRange, *, ascending: bool) -> bool:
    if not keys.low <= place <= keys.high:
        return False
    return keys.after is None or (place > keys.after if ascending else place < keys.after)


def damaged(key: str, error: Exception) -> ArchiveFailed:
    """The error for an object of the archive that cannot be read."""
    return ArchiveFailed(f"the archive's object {key} is missing or damaged: {error}")
