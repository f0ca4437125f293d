"""One event by its ref."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.errors import InvalidRef, TableMissing
from tidetable.events import Item
from tidetable.keys import Key, Ref
from tidetable.large.forms import earlier_keys
from tidetable.ports import ArchiveRange
from tidetable.problems import refuse
from tidetable.query.answer import MAX_ANSWER_BYTES
from tidetable.query.params import parse_consistent, parse_shape, refuse_versions, single
from tidetable.query.read import Reader
from tidetable.query.rows import Row, Shape, archived_rows, complete, row_of, shown, version_of
from tidetable.query.run import find_entry
from tidetable.times import from_text

KNOWN = frozenset({"fields", "versions", "version", "consistent"})
# So many earlier versions are read for one answer.
MAX_VERSIONS = 1_000
_MOST_DIGITS = 9


def get_event(
    stream: Stream, text: str, reader: Reader, parameters: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """The document of a ref's event, from its table or from the archive, or of its ``version`` of that number.

    With ``versions`` those before it are beside it, latest first, as many as an answer holds; ``versions_left_out`` counts the
    others, and so is the number of the latest of them. ProblemError 400 or 404 says what is wrong.
    """
    given = single(parameters or {}, KNOWN, where=False)
    shape, version = parse_shape(stream, given), _version(stream, given)
    try:
        ref = Ref.decode(text)
    except InvalidRef as error:
        raise refuse(400, "bad_ref", str(error)) from error
    if ref.stream != stream.name:
        raise refuse(400, "bad_ref", f"this ref belongs to stream {ref.stream[:64]!r}")
    row = _find(stream, ref, reader, shape, version, consistent=parse_consistent(given))
    if row is None:
        detail = "there is no event of this ref: it was never stored, or its period was deleted"
        if version is not None:
            detail = f"there is no version {version} of this event: leave version out for the newest, whose number is the highest"
        raise refuse(404, "unknown_event", detail)
    first, *earlier = shown([row], stream.name, shape)
    document = first.document()
    if shape.versions:
        document["versions"] = [one.document() for one in earlier]
    return document


def _version(stream: Stream, given: Mapping[str, str]) -> int | None:
    text = given.get("version")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS and int(text) > 0):
        raise refuse(400, "bad_parameter", "version must be a whole number from 1, the oldest")
    refuse_versions(stream)
    return int(text)


def _find(
    stream: Stream, ref: Ref, reader: Reader, shape: Shape, version: int | None, *, consistent: bool
) -> Row | None:
    for anew in (consistent, True):
        start = ref.period.start
        entry = find_entry(reader.catalog.entries(stream.name, start, start, consistent=anew), ref.period.label)
        try:
            return None if entry is None else _read(entry, ref, reader, shape, version, consistent=consistent)
        except TableMissing:
            continue  # it may just have been archived: the catalog, read anew, knows
    return None


def _read(entry: Entry, ref: Ref, reader: Reader, shape: Shape, version: int | None, *, consistent: bool) -> Row | None:
    if not entry.live:
        return _read_archive(entry, ref, reader, shape, version)
    store = reader.store
    item = store.get_many(entry.table, [ref.key]).get(ref.key) if consistent else store.get(entry.table, ref.key)
    if item is None:
        return None
    keys = earlier_keys(item) if entry.layout.versioned else []
    if version is not None and version != len(keys) + 1:
        # Latest first: the last key is that of version 1.
        at = len(keys) - version
        found = store.get_many(entry.table, [keys[at]]).get(keys[at]) if at >= 0 else None
        if found is None:
            return None
        item, keys = found, keys[at + 1 :]
    row = _whole(item, entry, reader, shape, numbered=version is not None)
    if shape.versions:
        _take_earlier(row, keys, reader, shape)
    return row


def _whole(item: Item, entry: Entry, reader: Reader, shape: Shape, *, numbered: bool = False) -> Row:
    """The row of an item with all of its data, and its number if versions are asked for."""
    row = row_of(reader.unpacker.eased(item), entry, shape)
    if numbered and row.version is None and entry.layout.versioned:
        row.version = version_of(item)
    complete([row], reader.unpacker, shape)
    return row


def _take_earlier(row: Row, keys: Sequence[Key], reader: Reader, shape: Shape) -> None:
    """Give a row as many of its earlier versions as an answer holds; no more of them than those are fetched whole."""
    found = reader.store.get_many(row.entry.table, keys[:MAX_VERSIONS]) if keys else {}
    size, earlier = row.own_size(shape), []
    row.left_out = max(len(keys) - MAX_VERSIONS, 0)
    for number, key in enumerate(keys[:MAX_VERSIONS]):
        if key not in found:
            continue
        one = _whole(found[key], row.entry, reader, shape)
        size += one.own_size(shape)
        if size > MAX_ANSWER_BYTES:
            row.left_out = len(keys) - number
            break
        earlier.append(one)
    row.earlier = tuple(earlier)


def _read_archive(entry: Entry, ref: Ref, reader: Reader, shape: Shape, version: int | None) -> Row | None:
    if entry.archived is None:
        return None
    try:
        time, series, id = entry.layout.names_of({"pk": ref.key.pk, "sk": ref.key.sk})
        place = entry.layout.across(None).sort_key(from_text(time), series, id)
    except ValueError:
        return None  # no event has such a key
    versions = entry.layout.versioned and (shape.versions or version is not None)
    keys = ArchiveRange(entry.archived.manifest, place, place, versions=versions, version=version)
    page = reader.archive.read(keys, limit=100, ascending=True)
    rows = archived_rows(page.events, page.versions, entry)
    row = next((row for row in rows if entry.layout.key_of(row.event) == ref.key), None)
    if row is None or (version is not None and _number(row) != version):
        return None
    if not shape.versions:
        row.earlier, row.left_out = (), 0
    elif row.size(shape) > MAX_ANSWER_BYTES:
        row.cut_earlier(shape, MAX_ANSWER_BYTES)
    return row


def _number(row: Row) -> int:
    """An archived event's version; an event of a period that keeps none has one alone."""
    return 1 if row.version is None else row.version.number
