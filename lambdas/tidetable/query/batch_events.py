"""All events of a range, as aggregates, listings and the refresher read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from tidetable.conditions import ANY, NameConditions
from tidetable.events import Item
from tidetable.query.batches import ArchiveBatch, EventRow, LiveBatch, list_events
from tidetable.query.model import Query, Reader
from tidetable.query.scans import Gap


def make_query(stream: str, start: datetime, end: datetime, names: NameConditions = ANY) -> Query:
    """Make a strongly consistent query for all events of a stream in a range, in order."""
    return Query(stream, start, end, names, ascending=True, limit=0, consistent=True)


def read_batch_events(
    batch: LiveBatch | ArchiveBatch, reader: Reader, note_lost: Callable[[Gap], None] = lambda _: None
) -> Iterator[EventRow]:
    """Read the events of a batch, each with its time as text, its series, its id and its data.

    ``note_lost`` is called with the gap of each event whose data is missing or damaged.
    """
    entry = batch.scan.entry
    items: Sequence[Item] = () if isinstance(batch, ArchiveBatch) else batch.columns.items()
    items = reader.unpacker.complete_searched(items, entry.table, lambda item: note_lost(Gap.of_lost(entry, item)))
    return list_events(batch, items)
