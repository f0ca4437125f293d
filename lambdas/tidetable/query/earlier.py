"""The versions of events in answers: which of them are read from tables and archives, and shown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from typing import Any, NamedTuple

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.events import Item
from tidetable.groups import group_by_size
from tidetable.layout import Key
from tidetable.ports import GET_ITEMS, ArchivePage, ArchiveRange
from tidetable.query.hydrate import fetch_items, make_whole_row
from tidetable.query.model import Projection, Query
from tidetable.query.page import cut_to_page, take_earlier
from tidetable.query.rows import Row, Rows, show_rows
from tidetable.query.session import ReadSession
from tidetable.versions.shown import read_version, refuse_versions

# At most this many earlier versions are read for one answer.
MAX_VERSIONS = 1_000


def make_rows(items: Sequence[Item], entry: Entry, projection: Projection, session: ReadSession) -> Iterator[Rows]:
    """Make the rows of items of a table, with the earlier versions of their events if the projection shows them."""
    if projection.versions and entry.layout.versioned:
        # The rows are made one by one, because a full page must not fetch more versions.
        for row in make_rows_with_versions(items, entry, projection, session):
            yield Rows.of_rows([row], entry)
    else:
        yield Rows.of_rows([Row.of(item, entry, projection) for item in items], entry)


def make_rows_with_versions(
    items: Sequence[Item], entry: Entry, projection: Projection, session: ReadSession
) -> Iterator[Row]:
    """Yield the row of each item, in order, with earlier versions, the latest first.

    ``left_out`` counts the versions that a row lacks. An event may have any number of versions, each with up to 100 KB
    in its item. So versions are fetched in batches, and only as many as an answer holds: when a page is full, no more
    versions are fetched.
    """
    # The earlier versions of a group fit into one batch, unless the group is a single event.
    for group in group_by_size(items, lambda item: int(item.get("version", 1)) - 1, GET_ITEMS):
        keys_of = [entry.layout.list_earlier_keys(item) for item in group]
        versions = _read_versions([key for keys in keys_of for key in keys], entry, projection, session)
        for item, keys in zip(group, keys_of, strict=True):
            row = Row.of(item, entry, projection)
            # The versions of several events are one batch. Those of a single event may be many: no more are fetched
            # than fit.
            take_earlier(row, list(islice(versions, len(keys))) if len(group) > 1 else versions, len(keys))
            yield row


def _read_versions(
    keys: Sequence[Key], entry: Entry, projection: Projection, session: ReadSession
) -> Iterator[Row | None]:
    """Yield the versions with these keys; None for a version that does not exist any more."""
    for start in range(0, len(keys), GET_ITEMS):
        batch = keys[start : start + GET_ITEMS]
        items = fetch_items(session, entry.table, batch)
        for key in batch:
            item = items.get(key)
            yield None if item is None else Row.of(session.reader.unpacker.inflate_or_keep(item), entry, projection)


def make_archive_rows(page: ArchivePage, entry: Entry, projection: Projection) -> list[Row]:
    """Make the rows of a page of an archive.

    In such a page, an event's newest version comes before its earlier versions.
    """
    groups: list[list[Row]] = []
    for event, version in zip(page.events, page.versions or repeat(None), strict=False):
        pk, sk = entry.layout.make_key(event)
        row = Row(entry, {"pk": pk, "sk": sk, "data": event.data}, projection, version)
        if not groups or version is None or version.newest:
            groups.append([row])
        else:
            groups[-1].append(row)
    for newest, *earlier in groups:
        newest.earlier = tuple(earlier)
        # Versions are numbered from 1 without holes. If the page of the archive could not hold all versions, it lacks
        # the oldest.
        oldest = (earlier or [newest])[-1].version
        newest.left_out = 0 if oldest is None else oldest.number - 1
    return [group[0] for group in groups]


def make_archive_range(query: Query, manifest: str, low: str, high: str, after: str | None) -> ArchiveRange:
    """Make the range of an archive that a query reads between two sort keys."""
    versions, names = query.projection.versions, query.names
    return ArchiveRange(manifest, low, high, query.series, after, versions, query.conditions, names=names)


class VersionChoice(NamedTuple):
    """The version of an event to answer: the newest, or the version with this ``number``, from 1 for the oldest.

    If the projection shows versions, the versions before it follow, the latest first.
    """

    projection: Projection
    number: int | None

    @classmethod
    def of(cls, stream: Stream, projection: Projection, number: int | None) -> VersionChoice:
        """Choose a version; ProblemError if the stream keeps no versions."""
        if number is not None:
            refuse_versions(stream)
        return cls(projection, number)

    def read_row(self, item: Item, entry: Entry, session: ReadSession) -> Row | None:
        """Read the chosen version of an event of a table; ``item`` is the newest. None if there is no such version."""
        keys, number = entry.layout.list_earlier_keys(item), self.number
        if number is not None and number != len(keys) + 1:
            # The keys are latest first: the last key is the key of version 1.
            place = len(keys) - number
            found = session.reader.store.get_many(entry.table, [keys[place]]).get(keys[place]) if place >= 0 else None
            if found is None:
                return None
            item, keys = found, keys[place + 1 :]
        row = make_whole_row(item, entry, self.projection, session)
        if number is not None and row.version is None and entry.layout.versioned:
            row.version = read_version(item)
        if self.projection.versions:
            take_earlier(row, self._read_earlier(keys[:MAX_VERSIONS], entry, session), len(keys))
        return row

    def _read_earlier(self, keys: Sequence[Key], entry: Entry, session: ReadSession) -> Iterator[Row | None]:
        """Yield the earlier versions with these keys, each completed only when it is used; None for a version that does
        not exist any more.
        """
        items = session.reader.store.get_many(entry.table, keys) if keys else {}
        for key in keys:
            yield make_whole_row(items[key], entry, self.projection, session) if key in items else None

    def make_range(self, entry: Entry, manifest: str, sort_key: str) -> ArchiveRange:
        """Make the range of an archive that has the event with this sort key."""
        versions = entry.layout.versioned and (self.projection.versions or self.number is not None)
        return ArchiveRange(manifest, sort_key, sort_key, versions=versions, version=self.number)

    def take_archived(self, row: Row) -> Row | None:
        """Take the row of an archive's event; None if the event has no such version."""
        # A period that does not keep versions has only version 1.
        if self.number is not None and self.number != (1 if row.version is None else row.version.number):
            return None
        if self.projection.versions:
            cut_to_page(row)
        else:
            row.earlier, row.left_out = (), 0
        return row

    def show_row(self, row: Row) -> dict[str, Any]:
        """Show the row as a document, with its earlier versions if the projection shows them."""
        document, *earlier = show_rows([row])
        return document | {"versions": earlier} if self.projection.versions else document
