"""The results of reading a scan: some events of a table, a page of an archive, or the message that the time is up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidetable.events import Item, JsonObject
from tidetable.ports import ArchivePage, ItemColumns
from tidetable.query.model import Position
from tidetable.query.scans import ArchiveScan, LiveScan
from tidetable.times import to_text


class LiveBatch(NamedTuple):
    """Some events of a table or an index, in order.

    The scan was read up to ``reached``, which is None at the scan's end.
    """

    scan: LiveScan
    columns: ItemColumns
    reached: Position | None


class ArchiveBatch(NamedTuple):
    """A page of an archive. The scan was read up to ``reached``, which is None at the scan's end."""

    scan: ArchiveScan
    page: ArchivePage
    reached: Position | None


class TimeUp(NamedTuple):
    """The time was up before the end of the range. The range was read up to ``reached``."""

    reached: Position | None


Batch = LiveBatch | ArchiveBatch | TimeUp
# An event: its time as text, its series, its id and its data.
EventRow = tuple[str, str, str, JsonObject]


def list_events(batch: LiveBatch | ArchiveBatch, items: Sequence[Item] | None = None) -> Iterator[EventRow]:
    """List the events of a batch, with the part of their data that was read.

    ``items`` may be the completed items of the batch.
    """
    if isinstance(batch, ArchiveBatch):
        yield from ((to_text(event.time), event.series, event.id, event.data) for event in batch.page.events)
        return
    names_of = batch.scan.entry.layout.parse_names
    for item in batch.columns.items() if items is None else items:
        time, series, id = names_of(item["pk"], item["sk"])
        yield time, series, id, item.get("data", {})
