"""Get one event by its ref."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from tidetable.catalog import Entry, find_entry
from tidetable.config import Stream
from tidetable.errors import InvalidRef, TableMissing
from tidetable.events import Item
from tidetable.keys import Key, Ref
from tidetable.keys.pack import is_address, parse_address
from tidetable.large.forms import list_earlier_keys
from tidetable.ports import ArchiveRange, Page, RangeRead
from tidetable.problems import refuse
from tidetable.query.hydrate import complete_rows, take_earlier
from tidetable.query.model import Cost, Projection, Reader
from tidetable.query.page import cut_to_page
from tidetable.query.parse import Parameters, refuse_versions
from tidetable.query.read import read_planned
from tidetable.query.rows import Row, make_archive_rows, read_version, show_rows
from tidetable.query.scans import PackScan
from tidetable.query.settle import Lookup, find_first, find_in, make_first_pack_reads
from tidetable.times import MOMENT, from_text, to_text

KNOWN = frozenset({"fields", "versions", "version", "consistent"})
# At most this many earlier versions are read for one answer.
MAX_VERSIONS = 1_000
MAX_NUMBER = 999_999_999


def get_event(
    stream: Stream, text: str, reader: Reader, parameters: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """Return the document of a ref's event, from its table or its archive.

    With ``version``, it is the version with this number. With ``versions=all`` the document also has the earlier
    versions, the latest first, as many as an answer holds. ``versions_left_out`` counts the versions that the document
    does not have. This is also the number of the latest of them. ProblemError 400 or 404 says what is wrong.
    """
    request = Parameters.read(stream, parameters or {}, KNOWN, where=False)
    projection, version = request.parse_projection(), _parse_version(request)
    try:
        ref = Ref.decode(text)
    except InvalidRef as error:
        raise refuse(400, "bad_ref", str(error)) from error
    if ref.stream != stream.name:
        raise refuse(400, "bad_ref", f"this ref belongs to stream {ref.stream[:64]!r}")
    consistent = request.parse_consistent()

    def read(entries: Sequence[Entry], again: bool) -> Row | None:
        entry = find_entry(entries, ref.period)
        if entry is None:
            return None
        with _refuse_missing(entry, reader, again=again):
            return _read(entry, ref, reader, projection, version, consistent=consistent)

    start = ref.period.start
    try:
        row = read_planned(reader.catalog, stream.name, start, start, read, consistent=consistent)
    except TableMissing:
        row = None
    if row is None:
        detail = "there is no event of this ref: it was never stored, or its period was deleted"
        if version is not None:
            detail = f"there is no version {version} of this event: leave version out for the newest, whose number is the highest"
        raise refuse(404, "unknown_event", detail)
    document, *earlier = show_rows([row], projection)
    if projection.versions:
        document["versions"] = earlier
    return document


@contextmanager
def _refuse_missing(entry: Entry, reader: Reader, *, again: bool) -> Iterator[None]:
    """Raise ProblemError if a reader has no copy of the event's table: the origin may have the event."""
    if reader.copies is None:
        yield
        return
    if not entry.here:
        raise reader.copies.missing(entry)
    try:
        yield
    except TableMissing:
        if not again:
            raise
        raise reader.copies.missing(entry) from None


def _parse_version(request: Parameters) -> int | None:
    """Read the number of the requested version; 1 is the oldest version."""
    if "version" in request.values:
        refuse_versions(request.stream)
    return request.parse_count("version", MAX_NUMBER)


def _read(
    entry: Entry, ref: Ref, reader: Reader, projection: Projection, version: int | None, *, consistent: bool
) -> Row | None:
    if not entry.live:
        return _read_archive(entry, ref, reader, projection, version)
    if entry.layout.pack is not None:
        return _read_packed(entry, ref, reader, projection, consistent=consistent)
    store = reader.store
    item = store.get_many(entry.table, [ref.key]).get(ref.key) if consistent else store.get(entry.table, ref.key)
    if item is None:
        return None
    keys = list_earlier_keys(item) if entry.layout.versioned else []
    if version is not None and version != len(keys) + 1:
        # The keys are latest first: the last key is the key of version 1.
        number = len(keys) - version
        item = store.get_many(entry.table, [keys[number]]).get(keys[number]) if number >= 0 else None
        if item is None:
            return None
        keys = keys[number + 1 :]
    row = _make_whole_row(item, entry, reader, projection)
    if version is not None and row.version is None and entry.layout.versioned:
        row.version = read_version(item)
    if projection.versions:
        take_earlier(row, keys, _read_earlier(row, keys[:MAX_VERSIONS], reader, projection), projection)
    return row


def _read_packed(entry: Entry, ref: Ref, reader: Reader, projection: Projection, *, consistent: bool) -> Row | None:
    """Read an event of a table with packs, by one GetItem if the pack that the ref names exists and holds the event.

    Otherwise it searches every pack that can hold a copy of the event, because a restored table has other packs. A
    ``consistent`` read always does this, because it must find the copy that counts.
    """
    layout, store, compressor = entry.layout, reader.store, reader.unpacker.compressor
    names = _read_names(entry, ref)
    if names is None:
        return None
    (time, series, id), damaged = names, False
    try:
        key = parse_address(ref.key.pk) if is_address(ref.key.pk) else ref.key
    except InvalidRef as error:
        raise refuse(400, "bad_ref", str(error)) from error
    place = layout.sort_key(time, series, id)
    if not consistent:
        item = store.get(entry.table, key)
        lookup = Lookup(None, damaged=False) if item is None else find_in(item, place, layout, compressor)
        if lookup.item is not None:
            return _make_whole_row(lookup.item, entry, reader, projection)
        damaged = lookup.damaged
    scan = PackScan.of(entry, time, time + MOMENT, [layout.logical(time, series)], low=place, high=f"{place}\0")

    def fetch(reads: Sequence[RangeRead]) -> Sequence[Page]:
        pages = store.query_many(reads, ascending=False, consistent=consistent)
        existing = [page for page in pages if page is not None]
        if len(existing) < len(pages):
            raise TableMissing(entry.table)
        return existing

    reads = make_first_pack_reads(scan, 1)
    lookup = find_first(scan, reads, fetch(reads), fetch, compressor)
    if lookup.item is not None:
        return _make_whole_row(lookup.item, entry, reader, projection)
    if damaged or lookup.damaged:
        return Row(entry, {"pk": ref.key.pk, "sk": place, "data": {}}, incomplete=True)
    return None


def _read_names(entry: Entry, ref: Ref) -> tuple[datetime, str, str] | None:
    """Read the time, series and id in a ref; None if no event of the period can have such a key."""
    try:
        stamp, series, id = entry.layout.names(ref.key.pk, ref.key.sk)
        time = from_text(stamp)
    except ValueError:
        return None
    # A key writes its time in one form only. The texts are compared first, because another form may have no zone.
    return (time, series, id) if to_text(time) == stamp and time in entry.period else None


def _make_whole_row(item: Item, entry: Entry, reader: Reader, projection: Projection) -> Row:
    """Make the row of an item with all of its data."""
    row = Row.of(reader.unpacker.inflate_or_keep(item), entry, projection)
    # The answer for one event does not report its cost.
    complete_rows([row], reader.unpacker, projection, Cost())
    return row


def _read_earlier(row: Row, keys: Sequence[Key], reader: Reader, projection: Projection) -> Iterator[Row | None]:
    """Yield the earlier versions with these keys, each completed only when it is used; None for a version that does not
    exist any more.
    """
    items = reader.store.get_many(row.entry.table, keys) if keys else {}
    for key in keys:
        yield _make_whole_row(items[key], row.entry, reader, projection) if key in items else None


def _read_archive(entry: Entry, ref: Ref, reader: Reader, projection: Projection, version: int | None) -> Row | None:
    if entry.archived is None:
        return None
    names = _read_names(entry, ref)
    if names is None:
        return None
    sort_key = entry.layout.across(None).sort_key(*names)
    versions = entry.layout.versioned and (projection.versions or version is not None)
    keys = ArchiveRange(entry.archived.manifest, sort_key, sort_key, versions=versions, version=version)
    page = reader.archive.read(keys, limit=100, ascending=True)
    rows = make_archive_rows(page.events, page.versions, entry)
    # The ref of an event that was in a pack names the pack, so its key is not the key of the archived row.
    packed = entry.layout.pack is not None
    row = next((row for row in rows if (row.item["pk"], row.item["sk"]) == ref.key or packed), None)
    if row is None or (version is not None and _read_number(row) != version):
        return None
    if not projection.versions:
        row.earlier, row.left_out = (), 0
    else:
        cut_to_page(row, projection)
    return row


def _read_number(row: Row) -> int:
    """Read the number of an archived event's version; 1 if the period does not keep versions."""
    return 1 if row.version is None else row.version.number
