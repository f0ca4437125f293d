"""Get one event by its ref."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from tidetable.access import forbid_series
from tidetable.catalog import Entry, find_entry
from tidetable.config import Stream
from tidetable.errors import InvalidRef, TableMissing
from tidetable.layout import Key, Ref
from tidetable.problems import refuse_request
from tidetable.query.earlier import VersionChoice, make_archive_rows
from tidetable.query.lookups import LookupTable
from tidetable.query.model import Reader
from tidetable.query.parse import Parameters
from tidetable.query.read import read_again
from tidetable.query.readings import choose_reading
from tidetable.query.rows import Row
from tidetable.query.session import ReadSession
from tidetable.times import from_text, to_text

KNOWN = frozenset({"fields", "versions", "version", "consistent", "tz"})
MAX_NUMBER = 999_999_999


def get_event(
    stream: Stream, text: str, reader: Reader, parameters: Mapping[str, Sequence[str]] | None = None
) -> dict[str, Any]:
    """Return the document of a ref's event, from its table or its archive.

    With ``version``, it is the version with this number; 1 is the oldest. With ``versions=all`` the document also has
    the earlier versions, the latest first, as many as an answer holds. ``versions_left_out`` counts the versions that
    the document does not have. This is also the number of the latest of them. ProblemError 400 or 404 says what is
    wrong.
    """
    request = Parameters.read(stream, parameters or {}, KNOWN, where=False)
    projection, tz = request.parse_projection(), request.tz
    version = request.parse_count("version", MAX_NUMBER)
    choice = VersionChoice.of(stream, projection, version)
    try:
        ref = Ref.decode(text)
    except InvalidRef as error:
        raise refuse_request(400, "bad_ref", str(error)) from error
    if ref.stream != stream.name:
        raise refuse_request(400, "bad_ref", f"this ref belongs to stream {ref.stream[:64]!r}")
    found = _EventReader(ref, ReadSession(reader), choice, request.parse_flag("consistent"))
    start = ref.period.start
    try:
        find_entries = partial(reader.catalog.entries, stream.name, start, start)
        row = read_again(find_entries, found.read, consistent=found.consistent)
    except TableMissing:
        row = None
    if row is None:
        detail = "there is no event of this ref: it was never stored, or its period was deleted"
        if version is not None:
            detail = f"there is no version {version} of this event: leave version out for the newest, whose number is the highest"
        raise refuse_request(404, "unknown_event", detail)
    document = choice.show_row(row)
    if tz:
        from tidetable.query.local import show_document  # imported only when it is needed

        return show_document(document, tz)
    return document


class _EventReader(NamedTuple):
    """Reads the event of a ref, in the version of the ``choice``."""

    ref: Ref
    session: ReadSession
    choice: VersionChoice
    consistent: bool

    def read(self, entries: Sequence[Entry], again: bool) -> Row | None:
        """Read the event from its period's table or archive. ``again`` says that the table was missing before."""
        entry = find_entry(entries, self.ref.period)
        if entry is None:
            return None
        copies, access = self.session.reader.copies, self.session.reader.access
        if access.series_prefix:
            # This is decided before the event is read: the answer must not tell whether another series has the event.
            names = self._read_names(entry)
            if names is None:
                return None
            if not access.covers(names[1]):
                raise forbid_series(access, "this ref is of another series")
        if copies is not None and not entry.copies.here:
            raise copies.refuse_missing(entry)
        try:
            if not entry.live:
                return self._read_archive(entry)
            return self._read_live(entry)
        except TableMissing:
            # If this is a reader, the origin may have the event.
            if copies is None or not again:
                raise
            raise copies.refuse_missing(entry) from None

    def _read_live(self, entry: Entry) -> Row | None:
        key, names = self.ref.key, self._read_names(entry)
        table = LookupTable(entry, self.session, self.consistent)
        item, damaged = choose_reading(entry.layout).find_event(table, key, names)
        if item is not None:
            return self.choice.read_row(item, entry, self.session)
        if not damaged or names is None:
            return None
        item = {"pk": key.pk, "sk": entry.layout.make_sort_key(*names), "data": {}}
        return Row(entry, item, self.choice.projection, incomplete=True)

    def _read_names(self, entry: Entry) -> tuple[datetime, str, str] | None:
        """Read the time, series and id in the ref; None if no event of the period can have such a key."""
        try:
            stamp, series, id = entry.layout.parse_names(*self.ref.key)
            time = from_text(stamp)
        except ValueError:
            return None
        # A key writes its time in one form only. The texts are compared first, because another form may have no zone.
        return (time, series, id) if to_text(time) == stamp and time in entry.period else None

    def _read_archive(self, entry: Entry) -> Row | None:
        names = self._read_names(entry)
        if entry.archived is None or names is None:
            return None
        layout = entry.layout
        sort_key = layout.find_ordering_layout(None).make_sort_key(*names)
        keys = self.choice.make_range(entry, entry.archived.manifest, sort_key)
        page = self.session.reader.archive.read(keys, limit=100, ascending=True)
        rows = make_archive_rows(page, entry, self.choice.projection)
        is_key_of = choose_reading(layout).is_key_of
        row = next((row for row in rows if is_key_of(self.ref.key, Key(row.item["pk"], row.item["sk"]))), None)
        return None if row is None else self.choice.take_archived(row)
