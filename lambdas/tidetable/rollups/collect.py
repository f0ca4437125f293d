"""Collecting buckets: the cells of a range, from the events or from finer cells. Every read is strongly consistent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from tidetable.catalog import Entry, State
from tidetable.conditions import ANY, Names
from tidetable.errors import TableMissing
from tidetable.events import Event, JsonObject
from tidetable.keys import escape
from tidetable.large.whole import is_partial
from tidetable.ports.rollups import Span
from tidetable.query.model import Query, Reader, Remaining
from tidetable.query.plan import plan_query
from tidetable.query.read import ArchiveBatch, LiveBatch, Scanner, TimeUp
from tidetable.rollups.cells import Bucket, parse_cell, parse_names
from tidetable.rollups.cover import Segment
from tidetable.rollups.definition import Definition
from tidetable.rollups.services import BucketBlocked, Services, Unfinished
from tidetable.times import from_text, to_text

# Events, or cells, that are read at a time.
_AT_ONCE = 5_000
# A gap of this kind is a period that never had a table, so it never had an event.
_NEVER = "no table"
# Gaps of these kinds never close, unless somebody restores them.
_GONE = ("deleted", "archive expired")


def make_query(stream: str, start: datetime, end: datetime, names: Names = ANY) -> Query:
    """A strongly consistent query of all of a stream's events in a range, in order."""
    return Query(stream, start, end, names, ascending=True, limit=0, consistent=True)


def batch_events(batch: LiveBatch | ArchiveBatch, reader: Reader) -> Iterator[tuple[str, str, str, JsonObject]]:
    """The text of the time, the series, the id and the data of a batch's events."""
    if isinstance(batch, ArchiveBatch):
        yield from ((to_text(event.time), event.series, event.id, event.data) for event in batch.page.events)
        return
    names_of, items = batch.scan.entry.layout.names, batch.columns.items()
    if any(is_partial(item, cold=False) for item in items):
        items = list(reader.unpacker.whole(items, batch.scan.entry.table, cold=False).items)
    for item in items:
        time, series, id = names_of(item["pk"], item["sk"])
        yield time, series, id, item.get("data", {})


def _read(
    query: Query, entries: Sequence[Entry], reader: Reader, remaining: Remaining, *, never: bool
) -> Iterator[tuple[str, str, str, JsonObject]]:
    """All events of a query, or BucketBlocked; with ``never``, periods that never had a table have none."""
    plan = plan_query(query, entries)
    gone = [gap for gap in plan.gaps if not (never and gap.reason == _NEVER)]
    if gone:
        raise BucketBlocked(f"{query.stream} cannot be read from {to_text(gone[0].start)} on: {gone[0].reason}")
    scanner = Scanner(query, reader, remaining, count=_AT_ONCE)
    try:
        for batch in scanner.read(plan.scans):
            if isinstance(batch, TimeUp):
                raise Unfinished("the time is up")
            yield from batch_events(batch, reader)
    except TableMissing as error:
        raise BucketBlocked(f"{query.stream} cannot be read from {to_text(query.start)} on: {error}") from error
    for gap in scanner.damaged.values():
        raise BucketBlocked(f"{query.stream} cannot be read from {to_text(gap.start)} on: {gap.reason}")


def find_end_of_gone(stream: str, start: datetime, end: datetime, services: Services) -> datetime | None:
    """Where the events begin again of which a bucket was deleted before it was sealed; None if none of it was deleted."""
    now = max(services.clock.now(), end)
    gaps = plan_query(
        make_query(stream, start, now), services.catalog.entries(stream, start, now, consistent=True)
    ).gaps
    gone = [gap for gap in gaps if gap.reason in _GONE]
    return max(gap.end for gap in gone) if any(gap.start < end for gap in gone) else None


def list_gone(stream: str, start: datetime, end: datetime, services: Services) -> list[Span]:
    """The periods of a range of which neither a table nor an archive is left: their events are gone for ever.

    A period that is being restored is none of them, nor one whose table is still to be deleted.
    """
    entries = services.catalog.entries(stream, start, end, consistent=True)
    return [
        (one.period.start, one.period.end) for one in entries if one.state is State.DELETED and one.archived is None
    ]


def collect(definition: Definition, segments: Iterable[Segment], services: Services) -> Bucket:
    """The bucket that some segments are, from their events or cells. It stops where there are too many groups.

    BucketBlocked if it cannot be read whole, Unfinished if the time is up.
    """
    reader, remaining = services.reader, services.remaining
    bucket = Bucket(definition, reader.sketches)
    for start, end, finer in segments:
        stream = definition.source if finer is None else finer.stream
        entries = services.catalog.entries(stream, start, end, consistent=True)
        query = make_query(stream, start, end)
        for time, series, id, data in _read(query, entries, reader, remaining, never=finer is None):
            if finer is None:
                bucket.add(series, f"{time}#{escape(series)}#{escape(id)}", data)
            else:
                event = Event(series, from_text(time), id, data)
                bucket.merge_names(parse_names(finer, event))
                cell = parse_cell(finer, event, reader.sketches, definition.fields)
                if cell is not None:
                    bucket.merge(cell)
            if bucket.is_over:
                return bucket
    return bucket
