"""One event by its ref."""

from __future__ import annotations

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.errors import InvalidRef, TableMissing
from tidetable.events import Event
from tidetable.keys import Ref
from tidetable.ports import ArchiveRange
from tidetable.problems import refuse
from tidetable.query.run import Reader, find_entry


def get_event(stream: Stream, text: str, reader: Reader) -> Event:
    """The event of a ref, from its table or from the archive; ProblemError 400 or 404 otherwise."""
    try:
        ref = Ref.decode(text)
    except InvalidRef as error:
        raise refuse(400, "bad_ref", str(error)) from error
    if ref.stream != stream.name:
        raise refuse(400, "bad_ref", f"this ref belongs to stream {ref.stream[:64]!r}")
    for consistent in (False, True):
        start = ref.period.start
        entry = find_entry(reader.catalog.entries(stream.name, start, start, consistent=consistent), ref.period.label)
        try:
            event = _read(entry, ref, reader) if entry is not None else None
        except TableMissing:
            continue  # it may just have been archived: the catalog, read anew, knows
        if event is not None:
            return event
        break
    raise refuse(404, "unknown_event", "there is no event of this ref: it was never stored, or its period was deleted")


def _read(entry: Entry, ref: Ref, reader: Reader) -> Event | None:
    if entry.live:
        item = reader.store.get(entry.table, ref.key)
        return entry.layout.event_of(item) if item is not None else None
    if entry.archive is None:
        return None
    keys = ArchiveRange(entry.archive.manifest, ref.key.sk, ref.key.sk)
    page = reader.archive.read(keys, limit=100, ascending=True)
    return next((event for event in page.events if entry.layout.key_of(event) == ref.key), None)
