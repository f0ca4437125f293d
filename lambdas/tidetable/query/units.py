"""The units of a whole read: what is read of one scan, and how its pages become columns.

A unit settles the copies of its events (``forms/``): two units never hold copies of one event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar

import msgspec

from tidetable.conditions import ANY
from tidetable.events import Item
from tidetable.forms.field_columns import DATA, KINDS, FieldColumns, Row, make_columns
from tidetable.forms.plain import open_page
from tidetable.large.unpack import group_items
from tidetable.layout.hierarchy import skip_levels
from tidetable.layout.period_layout import NEWEST
from tidetable.ports import FieldPage, ItemColumns, Page
from tidetable.query.hydrate import match_conditions, read_base_items
from tidetable.query.index_scans import IndexScan
from tidetable.query.model import EVERYTHING, Query
from tidetable.query.ranges import RangeProgress
from tidetable.query.scans import LiveScan
from tidetable.query.session import PageKind, ReadSession
from tidetable.times import TEXT_LENGTH, from_text, to_text

# The packs that are opened even without time, so that a small read can advance: that needs less than ``RESERVE``.
_OPENED_ANYWAY = 200
# An index's entries whose data is fetched together.
_FETCHED_TOGETHER = 2_000
# AWS: a page ends at 1 MB, so it never has this many items.
_WHOLE_PAGE = 1_000_000
NO_EVENTS = FieldColumns([], [], {}, list)


class OutOfTime(Exception):
    """There is no time for more pages or packs, or memory holds no more packs."""


class Patience(msgspec.Struct):
    """Looks at the time within a whole read. The first pages are always used, so that a read without time advances."""

    session: ReadSession
    waves: int = 0
    opened: int = 0

    def begin_wave(self) -> None:
        """Begin another wave of pages; OutOfTime if there is no time for it."""
        self.waves += 1
        self.look()

    def look(self) -> None:
        """Raise OutOfTime after the first wave, if the time is up."""
        if self.waves > 1 and not self.session.has_time:
            raise OutOfTime

    def look_at_pack(self) -> None:
        """Count a pack that is opened; OutOfTime if the time is up."""
        self.opened += 1
        if self.opened > _OPENED_ANYWAY and not self.session.has_time:
            raise OutOfTime


class ReadUnit(msgspec.Struct):
    """What is read of one scan. ``unread`` counts the ranges that are not read to their end yet."""

    scan: LiveScan
    query: Query
    session: ReadSession
    fields: tuple[str, ...]
    unread: int = 0
    # A store can read the pages of a table as columns.
    as_columns: ClassVar[bool] = True

    @property
    def kind(self) -> PageKind:
        if self.as_columns and DATA not in self.fields:
            return PageKind(as_columns=True)
        return PageKind(texts=self.query.projection == EVERYTHING) if self.is_whole else PageKind(fields=self.fields)

    @property
    def is_whole(self) -> bool:
        """True if the whole data of events is read."""
        return DATA in self.fields or KINDS in self.fields

    def take(self, state: RangeState, page: Page | FieldPage) -> Iterator[FieldColumns]:
        """Take a page of a range, and yield the events that are settled with it."""
        if isinstance(page, FieldPage):
            names, layout = self.scan.find_names_left(self.query), self.scan.entry.layout
            yield open_page(page, state.keys.pk, self.fields, layout).select(names)
            if page.others:
                yield from self.complete(ItemColumns.of(page.others))
        else:
            yield from self.complete(page.columns)

    def settle(self, edge: str | None) -> Iterator[tuple[FieldColumns, datetime | None]]:  # noqa: ARG002
        """Yield events that are settled when all ranges were read up to the time ``edge``; None is the end.

        Plain items are settled by themselves.
        """
        yield from ()

    def find_reached(self, edge: str) -> datetime:
        """Find the instant before which all events were yielded, if all ranges were read up to the time ``edge``."""
        return max(from_text(edge), self.scan.start)

    def complete(self, columns: ItemColumns) -> Iterator[FieldColumns]:
        """Check the conditions that DynamoDB could not check, and complete the needed data."""
        scan, session = self.scan, self.session
        names, names_of = scan.find_names_left(self.query), scan.entry.layout.parse_names
        if names != ANY:
            columns = columns.where([names.hold(*names_of(*key)[1:]) for key in zip(*columns[:2], strict=True)])
        if not columns.are_text:
            columns = match_conditions(columns, scan, session, () if self.is_whole else self.fields)
        if columns.are_text:
            # Text is the whole data of plain events, in the order of their keys.
            pks, sks = columns.pks, columns.sks
            times, series, ids = scan.entry.layout.parse_columns(pks, sks, "#".join(sks)) if sks else ([], [], [])
            yield FieldColumns(times, series, {DATA: columns.contents}, lambda: ids)
            return
        for items in group_items(columns.items()) if self.is_whole else [columns.items()]:
            yield make_columns(self._make_rows(items), (DATA,) if self.is_whole else self.fields)

    def _make_rows(self, items: Sequence[Item]) -> Iterator[Row]:
        entry = self.scan.entry
        if self.is_whole:
            note_lost = partial(self.session.note_lost, entry)
            unpacker = self.session.reader.unpacker
            items = unpacker.complete_searched(items, entry.table, note_lost, self.session.cost)
        for item in items:
            yield (*entry.layout.parse_names(item["pk"], item["sk"]), item.get("data", {}))


class IndexUnit(ReadUnit):
    """What is read of an index. For a moment, an index may hold an event twice: it is taken once."""

    scan: IndexScan
    as_columns: ClassVar[bool] = False
    seen: set[tuple[str, str]] = msgspec.field(default_factory=set)

    def take(self, state: RangeState, page: Page | FieldPage) -> Iterator[FieldColumns]:  # noqa: ARG002 - as of the others
        """Take a page of a range, and yield its events."""
        assert isinstance(page, Page)  # noqa: S101 - an index is not read as columns
        scan = self.scan
        items = [item for item in page.items if scan.has_item(item) and self._is_new(item)]
        if not scan.fetches:
            yield from self.complete(ItemColumns.of(items))
            return
        for first in range(0, len(items), _FETCHED_TOGETHER):
            some = items[first : first + _FETCHED_TOGETHER]
            based = read_base_items(some, scan, self.session, consistent=self.query.consistent)
            yield from self.complete(ItemColumns.of(based))

    def _is_new(self, item: Item) -> bool:
        if len(self.scan.partitions) > 1 or len(self.scan.heads) > 1:
            key = item["pk"], item["sk"]
            if key in self.seen and not self.scan.fetches:
                return False
            self.seen.add(key)
        return True


class RangeState(RangeProgress, kw_only=True):
    """A range of a unit that is being read. All of it before the time ``edge`` was read.

    The edge of a range that is not in the order of time stays at its start.
    """

    unit: ReadUnit

    def advance(self, page: Page | FieldPage) -> None:
        """Continue after a page."""
        reached = self.edge
        super().advance(page)
        self.unit.unread -= not self.more
        if self.unit.scan.in_order and page.last is not None:
            index = self.keys.index
            place = self.edge if index is None else skip_levels(self.edge, len(index.levels))
            reached = max(reached, place.removeprefix(NEWEST)[:TEXT_LENGTH])
        self.edge = reached


def begin_ranges(unit: ReadUnit) -> list[RangeState]:
    """Begin the ranges of a unit."""
    start = to_text(unit.scan.start)
    states = [RangeState(keys, _WHOLE_PAGE, edge=start, unit=unit) for keys in unit.scan.ranges]
    unit.unread = len(states)
    return states
