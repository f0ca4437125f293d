"""The session of an answer: the services that read it, and the cost, the gaps and the sources of all of its reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from math import inf
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import msgspec

from tidetable.catalog import Entry, GapReason
from tidetable.errors import TableMissing
from tidetable.events import Item
from tidetable.ports import FieldPage, ItemColumns, Page, RangeRead
from tidetable.query.merge import Demand
from tidetable.query.model import RESERVE, Cost, Query, Reader
from tidetable.query.scans import Gap, Scan
from tidetable.query.waves import TEXTS_AT_ONCE, cut_reads
from tidetable.remaining import Remaining

_Page = TypeVar("_Page", bound=Page | FieldPage)
_EMPTY = Page(ItemColumns((), (), ()), more=False)


class PageKind(NamedTuple):
    """The form in which a store reads pages: as columns, or as items that are ``texts`` or have only ``fields``.

    Items that are ``decoded`` are objects of Python, which take many times their bytes. Pages that are ``whole`` are not
    shortened to fit into memory beside others. ``count`` counts the events of a page.
    """

    as_columns: bool = False
    texts: bool = False
    fields: tuple[str, ...] = ()
    decoded: bool = False
    whole: bool = False
    count: Callable[[Page], int] = attrgetter("read")


class ReadSession(msgspec.Struct):
    """The reads of one answer. ``remaining`` returns the seconds that are left.

    If the session is ``forgiving``, a missing table is a gap; otherwise TableMissing is raised. A damaged pack is
    always a gap. An event is a gap, too, if its needed data is missing or damaged.
    """

    reader: Reader
    remaining: Remaining = lambda: inf
    forgiving: bool = False
    cost: Cost = msgspec.field(default_factory=Cost)
    # The scans that were read. If a scan is read some series at a time, it is here once.
    sources: dict[tuple[str, datetime, datetime], Scan] = msgspec.field(default_factory=dict)
    # The gaps that were met, each once for its table and the key of its item.
    gaps: list[Gap] = msgspec.field(default_factory=list)
    _noted: set[tuple[Gap, str, str, str]] = msgspec.field(default_factory=set)
    # The losses, for the operator, of gaps that the caller must not see.
    hidden_losses: list[str] = msgspec.field(default_factory=list)

    @property
    def has_time(self) -> bool:
        """True if enough time is left for another read."""
        return self.remaining() >= RESERVE

    def note_source(self, scan: Scan) -> None:
        """Note that a scan is read."""
        self.sources.setdefault((scan.entry.table, scan.start, scan.end), scan)

    def take_page(
        self,
        page: _Page | None,
        entry: Entry,
        start: datetime,
        end: datetime,
        count: Callable[[Any], int] = attrgetter("read"),
    ) -> _Page | Page:
        """Count a page that was read for ``[start, end)``. None is the page of a missing table: it becomes empty.

        ``count`` counts its events.
        """
        self.cost.requests += 1
        if page is not None:
            self.cost.units += page.units
            self.cost.read += count(page)
            return page
        if not self.forgiving:
            raise TableMissing(entry.table)
        self.note_gap(Gap.of_missing(entry, start, end), entry)
        return _EMPTY

    def count_archive(self, scan: Scan, read: int) -> None:
        """Count a page of an archive, for which some events were read."""
        self.note_source(scan)
        self.cost.requests += 1
        self.cost.read += read

    def hides_damage(self, entry: Entry) -> bool:
        """True if the caller must not see that packs are damaged: they may have held events of other tenants only."""
        return bool(self.reader.access.series_prefix) and entry.layout.partition_by == "time"

    def note_gap(self, gap: Gap, entry: Entry, pk: str = "", sk: str = "") -> None:
        """Note a gap once for each table and item.

        Nobody knows which series a damaged pack of several series held. So a caller with a series prefix does not see
        its gap: it would show when other tenants had events. The operator learns of the loss.
        """
        if gap.reason is GapReason.DAMAGED_PACK and self.hides_damage(entry):
            self.hidden_losses += gap.losses
        else:
            met = gap, entry.table, pk, sk
            if met not in self._noted:
                self._noted.add(met)
                self.gaps.append(gap)

    def note_lost(self, entry: Entry, item: Item) -> None:
        """Note an event whose needed data is missing or damaged, as a gap at the event's time."""
        self.note_gap(Gap.of_lost(entry, item), entry, item["pk"], item["sk"])


class ReadPass(msgspec.Struct):
    """One pass over scans in the order of time. ``session`` gets its cost, its gaps and its sources.

    ``demand`` says how many events are still wanted. ``entries`` are those of the scans that have begun, by table.
    ``has_advanced`` says that a scan was read.
    """

    query: Query
    session: ReadSession
    demand: Demand
    entries: dict[str, Entry] = msgspec.field(default_factory=dict)
    has_advanced: bool = False

    def fetch(self, reads: Sequence[RangeRead], kind: PageKind, ranges: int) -> list[Page]:
        """Fetch the pages of some ranges. ``ranges`` is the number of ranges that are merged, also of those that are not
        read now; 0 if the pages must be whole.
        """
        query, session, pages = self.query, self.session, list[Page]()
        store, entries = session.reader.store, self.entries
        waves: Iterable[Sequence[RangeRead]] = [reads]
        if kind.decoded or ranges > 2 * TEXTS_AT_ONCE:
            waves = cut_reads(reads, pages, decoded=kind.decoded, consistent=query.consistent, ranges=ranges)
        for some in waves if reads else ():
            answers = store.query_many(
                some, ascending=query.ascending, consistent=query.consistent, texts=kind.texts, fields=kind.fields
            )
            pages += [
                session.take_page(page, entries[keys.table], query.start, query.end, kind.count)
                for (keys, _), page in zip(some, answers, strict=True)
            ]
        return pages
