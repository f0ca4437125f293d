"""The use case of reading an archived period: a range of sort keys, in order, a page at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
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


# An archived event and, in a period that keeps them, which version of it this is.
Kept = tuple[Event, Version | None]


class PartReader(Protocol):
    """Fetches manifests and reads parts."""

    def manifest(self, key: str) -> Manifest:
        """A period's manifest; ArchiveFailed if it is missing or damaged."""
        ...

    def events(self, part: Part, low: str, high: str, layout: Layout) -> Sequence[Kept]:
        """The part's events in the order of their sort keys, at least those whose time text lies within ``low`` and ``high``."""
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

    def wanted(part: Part) -> Iterator[_Placed]:
        placed = _placed(reader.events(part, keys.low, keys.high, layout), layout, versions=keys.versions)
        if keys.versions:
            # In the part versions come one after the other, each with all events.
            placed = sorted(placed, key=lambda one: one.place, reverse=not ascending)
        elif not ascending:
            placed = placed[::-1]
        for one in placed:
            if _within(one.place, keys, ascending=ascending) and keys.series in (None, one.event.series):
                yield one

    parts = [part for part in manifest.parts if keys.versions or (part.first <= keys.high and keys.low <= part.last)]
    ordered = merge(*(wanted(part) for part in parts), key=lambda one: one.place, reverse=not ascending)
    page: list[_Placed] = []
    size = 0
    for one in _by_rank(ordered) if keys.versions else ordered:
        size += len(encode_json(one.event.data)) + len(one.event.series) + len(one.event.id) + 100
        full = len(page) >= limit or (page and size > MAX_PAGE_BYTES)
        if full and one.place != page[-1].place:
            return _page(page, keys, more=True)
        page.append(one)
    return _page(page, keys, more=False)


def _placed(kept: Sequence[Kept], layout: Layout, *, versions: bool) -> list[_Placed]:
    return [
        _Placed(
            layout.sort_key(event.time, event.series, event.id),
            0 if version is None or version.newest else -version.number,
            event,
            version,
        )
        for event, version in kept
        if versions or version is None or version.newest
    ]


def _by_rank(ordered: Iterable[_Placed]) -> Iterator[_Placed]:
    """The same, with the versions of each event in order though they come from several parts."""
    for _, versions in groupby(ordered, key=lambda one: one.place):
        newest, *earlier = sorted(versions, key=lambda one: (one.rank != 0, one.rank))
        yield newest
        yield from earlier


def _page(page: Sequence[_Placed], keys: ArchiveRange, *, more: bool) -> ArchivePage:
    versions = [one.version for one in page if one.version is not None] if keys.versions else None
    known = versions if versions is not None and len(versions) == len(page) else None
    return ArchivePage([one.event for one in page], more, known)


def _within(place: str, keys: ArchiveRange, *, ascending: bool) -> bool:
    if not keys.low <= place <= keys.high:
        return False
    return keys.after is None or (place > keys.after if ascending else place < keys.after)


def damaged(key: str, error: Exception) -> ArchiveFailed:
    """The error for an object of the archive that cannot be read."""
    return ArchiveFailed(f"the archive's object {key} is missing or damaged: {error}")
