"""The use case of reading an archived period: a range of sort keys, in order, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Protocol

import msgspec

from tidetable.archive.manifest import Manifest, Part
from tidetable.errors import ArchiveFailed
from tidetable.events import Event
from tidetable.keys import Layout
from tidetable.ports import ArchivePage, ArchiveRange

# Half of what a function may answer: the events are wrapped and escaped on their way.
MAX_PAGE_BYTES = 3_000_000
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class PartReader(Protocol):
    """Fetches manifests and reads parts."""

    def manifest(self, key: str) -> Manifest:
        """A period's manifest; ArchiveFailed if it is missing or damaged."""
        ...

    def events(self, part: Part, low: str, high: str, layout: Layout) -> Sequence[Event]:
        """The part's events in order, at least those whose time text lies within ``low`` and ``high``."""
        ...


def read_archive(keys: ArchiveRange, reader: PartReader, *, limit: int, ascending: bool) -> ArchivePage:
    """The first events of a range, no more than an answer can hold."""
    manifest = reader.manifest(keys.manifest)
    layout = manifest.layout.layout()

    def wanted(part: Part) -> Iterator[tuple[str, Event]]:
        events = reader.events(part, keys.low, keys.high, layout)
        for event in events if ascending else reversed(events):
            place = layout.sort_key(event.time, event.series, event.id)
            if _within(place, keys, ascending=ascending) and keys.series in (None, event.series):
                yield place, event

    parts = [part for part in manifest.parts if part.first <= keys.high and keys.low <= part.last]
    ordered = merge(*(wanted(part) for part in parts), key=lambda one: one[0], reverse=not ascending)
    page: list[Event] = []
    size = 0
    for _, event in ordered:
        size += len(_ENCODER.encode(event.data)) + len(event.series) + len(event.id) + 100
        if len(page) == limit or (page and size > MAX_PAGE_BYTES):
            return ArchivePage(page, more=True)
        page.append(event)
    return ArchivePage(page, more=False)


def _within(place: str, keys: ArchiveRange, *, ascending: bool) -> bool:
    if not keys.low <= place <= keys.high:
        return False
    return keys.after is None or (place > keys.after if ascending else place < keys.after)


def damaged(key: str, error: Exception) -> ArchiveFailed:
    """The error for an object of the archive that cannot be read."""
    return ArchiveFailed(f"the archive's object {key} is missing or damaged: {error}")
