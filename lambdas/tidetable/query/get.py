"""One event by its ref."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.errors import InvalidRef, TableMissing
from tidetable.keys import Key, Ref
from tidetable.ports import ArchiveRange
from tidetable.problems import refuse
from tidetable.query.answer import MAX_ANSWER_BYTES
from tidetable.query.params import parse_consistent, parse_shape, single
from tidetable.query.read import Reader
from tidetable.query.rows import Row, Shape, archived_rows, complete, earlier_items, row_of, shown
from tidetable.query.run import find_entry
from tidetable.times import from_text

KNOWN = frozenset({"fields", "versions", "consistent"})


def get_event(
    stream: Stream, text: str, reader: Reader, parameters: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """The document of a ref's event, from its table or from the archive, with ``versions`` the earlier ones beside it.

    ProblemError 400 or 404 says what is wrong.
    """
    given = single(parameters or {}, KNOWN, where=False)
    shape = parse_shape(stream, given)
    try:
        ref = Ref.decode(text)
    except InvalidRef as error:
        raise refuse(400, "bad_ref", str(error)) from error
    if ref.stream != stream.name:
        raise refuse(400, "bad_ref", f"this ref belongs to stream {ref.stream[:64]!r}")
    row = _find(stream, ref, reader, shape, consistent=parse_consistent(given))
    if row is None:
        detail = "there is no event of this ref: it was never stored, or its period was deleted"
        raise refuse(404, "unknown_event", detail)
    if row.size(shape) > MAX_ANSWER_BYTES:
        row.cut_earlier(shape, MAX_ANSWER_BYTES)
    newest, *earlier = shown([row], stream.name, shape)
    document = newest.document()
    if shape.versions:
        document["versions"] = [one.document() for one in earlier]
    return document


def _find(stream: Stream, ref: Ref, reader: Reader, shape: Shape, *, consistent: bool) -> Row | None:
    for anew in (consistent, True):
        start = ref.period.start
        entry = find_entry(reader.catalog.entries(stream.name, start, start, consistent=anew), ref.period.label)
        try:
            return _read(entry, ref, reader, shape, consistent=consistent) if entry is not None else None
        except TableMissing:
            continue  # it may just have been archived: the catalog, read anew, knows
    return None


def _read(entry: Entry, ref: Ref, reader: Reader, shape: Shape, *, consistent: bool) -> Row | None:
    if not entry.live:
        return _read_archive(entry, ref, reader, shape)
    store = reader.store
    item = store.get_many(entry.table, [ref.key]).get(ref.key) if consistent else store.get(entry.table, ref.key)
    if item is None:
        return None
    versioned = shape.versions and entry.layout.versioned
    items = earlier_items([item], entry.table, reader.store) if versioned else {}
    earlier = [reader.unpacker.eased(one) for one in items.get(Key(item["pk"], item["sk"]), ())]
    row = row_of(reader.unpacker.eased(item), entry, shape, earlier)
    complete([row], reader.unpacker, shape)
    return row


def _read_archive(entry: Entry, ref: Ref, reader: Reader, shape: Shape) -> Row | None:
    if entry.archived is None:
        return None
    try:
        time, series, id = entry.layout.names_of({"pk": ref.key.pk, "sk": ref.key.sk})
        place = entry.layout.across(None).sort_key(from_text(time), series, id)
    except ValueError:
        return None  # no event has such a key
    keys = ArchiveRange(entry.archived.manifest, place, place, versions=shape.versions)
    page = reader.archive.read(keys, limit=100, ascending=True)
    rows = archived_rows(page.events, page.versions, entry)
    return next((row for row in rows if entry.layout.key_of(row.event) == ref.key), None)
