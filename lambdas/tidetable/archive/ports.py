"""The ports of archiving, besides the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from tidetable.archive.digest import ItemsDigest
from tidetable.archive.manifest import Bounds
from tidetable.batch import Batch
from tidetable.events import Item
from tidetable.layout import Layout
from tidetable.times import divide_time


@dataclass(frozen=True, slots=True)
class RawPage:
    """A page of a scan. ``items`` is an array in DynamoDB JSON that is not parsed yet.

    ``after`` is the start of the next page, None at the end. The scan read ``count`` items for it, with ``units`` read
    units. If its items are events of packs, ``packs`` counts the packs that end with this page.
    """

    items: bytes
    count: int
    units: float
    after: Mapping[str, Any] | None
    packs: int = 0


class TimeRange(NamedTuple):
    """The times ``start <= time < end`` of one period, which are read slice by slice."""

    start: datetime
    end: datetime
    slices: int = 1

    def list_edges(self) -> list[datetime]:
        """List the edges of the slices."""
        return divide_time(self.start, self.end, self.slices)


class Source(Protocol):
    """Reads a table for its archive, page by page."""

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        """Read the next page of a segment, strongly consistent; TableMissing or TableThrottled if that fails."""
        ...


class TableSource(Source, Protocol):
    """Reads the items of a table. It can also make a source for a table with packs."""

    def partition(
        self,
        table: str,
        pk: str,
        *,
        low: str | None,
        high: str | None = None,
        after: Mapping[str, Any] | None,
        limit: int | None,
    ) -> RawPage:
        """Read the next page of a partition key's items in order, from the sort key ``low`` to ``high``; otherwise as
        ``page``. ``high`` goes with ``low``.
        """
        ...

    def between(self, layout: Layout, range: TimeRange) -> Source:
        """Return a source of the events of a range of time, each once. Its pages are read as one segment.

        Only for a layout by time whose sort keys are ordered by time.
        """
        ...

    def settled(self, layout: Layout) -> Source:
        """Return a source of the events in the table's packs. It reads each event once, as a plain item of the layout.

        A segment is read in one pass. Its pages raise ArchiveFailed for a damaged pack.
        """
        ...


class Objects(Protocol):
    """The bucket of the archives."""

    def put(self, key: str, body: bytes) -> None: ...
    def get(self, key: str) -> bytes: ...
    def find(self, key: str) -> bytes | None:
        """Read the object's bytes, or None if it does not exist."""
        ...

    def sizes(self, prefix: str) -> Mapping[str, int]:
        """List the key and the size in bytes of every object under the prefix."""
        ...

    def clear(self, prefix: str) -> None:
        """Delete every object under the prefix."""
        ...


# Returns the items of a page of a table with all of their data, also with the data that the table keeps elsewhere.
# ArchiveFailed if any data is missing, TableThrottled if the table that keeps it throttles.
Completer = Callable[[bytes, str], bytes]


class PartWriter(Protocol):
    """Writes one part. ``facts`` describe the items so far, ``size`` is the number of bytes of their pages.

    Pages may come in any order, and rows are sorted in runs. So a part is read best if its pages come in the order of time
    or, for a table by series, if the events of a series come together. A part may have as many pages as there are until
    ``is_full``: memory holds only a run, and the bytes of the file.
    """

    facts: ItemsDigest
    size: int

    @property
    def untyped(self) -> Mapping[str, int]:
        """After ``finish``: counts by declared column of the values that the column does not hold."""
        ...

    @property
    def is_full(self) -> bool:
        """True if the part has as many bytes (128 MB) or events (16 million) as a part should have."""
        ...

    def add(self, items: bytes) -> None:
        """Add a page's items; ArchiveFailed if an item is not an event."""
        ...

    def finish(self) -> bytes:
        """Return the part's bytes."""
        ...

    def find_bounds(self) -> Bounds | None:
        """Describe the times and series of the part, after ``finish``; None if the format does not say them."""
        ...


class ArchivedRows(NamedTuple):
    """Rows of a part as a batch.

    ``items`` has the whole items of the rows, by their numbers, that are not a usual event: with data that was compressed
    or outside, with versions, with keys of indexes, or without the time of acceptance. Their data in the batch is empty.
    """

    batch: Batch
    items: Mapping[int, Item]


class Format(Protocol):
    """The file format: writes items as a part, and reads them back."""

    def writer(self, layout: Layout, columns: Mapping[str, str]) -> PartWriter:
        """Make a writer for a new part of a period; ``columns`` are the declared columns with their types."""
        ...

    def facts(self, part: bytes, layout: Layout) -> ItemsDigest:
        """Compute the facts of a finished part from its content."""
        ...

    def page_facts(self, items: bytes) -> ItemsDigest:
        """Compute the facts of a page of a scan."""
        ...

    def rows(self, part: bytes, layout: Layout, start: int) -> Iterable[ArchivedRows]:
        """Read a part's rows from the row with the number ``start`` on, some at a time."""
        ...

    def pages(self, parts: Sequence[bytes], layout: Layout) -> Iterable[bytes]:
        """Read the items of several parts as pages: in the order of time or, of a table by series, part after part."""
        ...
