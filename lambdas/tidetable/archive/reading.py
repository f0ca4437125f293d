"""The use case of reading an archived period: a range of sort keys, in order, a page at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import groupby
from typing import NamedTuple, Protocol

from tidetable.archive.manifest import Manifest, Part
from tidetable.errors import ArchiveFailed
from tidetable.events import Event
from tidetable.exact import encode_json
from tidetable.keys import Layout
from tidetable.ports import ArchivePage, ArchiveRange, Version

# Half of what a function may answer: the events are wrapped and escaped on their way.
MAX_PAGE_BYTES = 3_000_000
# Where conditions leave out most of what is read, a page ends here: in seconds, well before the function's time is up.
MAX_READ = 250_000


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
    manifest = reader.manifest(keys.manifest)
    layout = manifest.layout.layout()
    read = 0

    def placed(part: Part) -> Iterator[_Placed]:
        kept = reader.events(part, _shortened(keys, ascending=ascending), layout, ascending=ascending)
        if not keys.versions:
            return (_place(*one, layout) for one in kept if one[1] is None or one[1].newest)
        # In the part versions come one after the other, each with all events.
        found = (_place(*one, layout) for one in kept)
        return iter(sorted(found, key=lambda one: one.place, reverse=not ascending))

    parts = [part for part in manifest.parts if keys.versions or (part.first <= keys.high and keys.low <= part.last)]
    ordered: Iterable[_Placed] = merge(*map(placed, parts), key=lambda one: one.place, reverse=not ascending)
    page: list[_Placed] = []
    size = 0
    for one in _by_rank(ordered) if keys.versions else ordered:
        if not _within(one.place, keys, ascending=ascending):
            continue
        read += 1
        earlier = bool(page) and one.place == page[-1].place
        if not earlier and not _wanted(one, keys):
            if read >= MAX_READ:
                return _page(page, keys, more=True, reached=one.place)
            continue
        event = _cut(one.event, keys.fields)
        size += len(encode_json(event.data)) + len(event.series) + len(event.id) + 100
        full = len(page) >= limit or (page and size > MAX_PAGE_BYTES)
        if full and not earlier:
            return _page(page, keys, more=True)
        page.append(one._replace(event=event))
    return _page(page, keys, more=False)


def _shortened(keys: ArchiveRange, *, ascending: bool) -> ArchiveRange:
    """The range from where an earlier page ended."""
    if keys.after is None:
        return keys
    return replace(keys, low=keys.after) if ascending else replace(keys, high=keys.after)


def _wanted(one: _Placed, keys: ArchiveRange) -> bool:
    """Whether the newest version of an event is of the series and meets the conditions."""
    return keys.series in (None, one.event.series) and all(kept.holds(one.event.data) for kept in keys.conditions)


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
