"""Readings: how queries read the events of a period, a ``FormReading`` per form, which is chosen once per layout.

Nobody else asks which form a period has. A reading plans the scans of a period's table, reads a scan in the order of
time or whole, and looks up single events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol

from tidetable.catalog import Entry
from tidetable.conditions import Condition
from tidetable.forms.choose import choose_form
from tidetable.layout import Key, Layout
from tidetable.ports import Page, RangeRead
from tidetable.query.access_path import AccessPath
from tidetable.query.batches import RowsBatch, TimeUp
from tidetable.query.lookups import Lookup, LookupTable
from tidetable.query.model import Position, Query
from tidetable.query.plain.plain_reading import PlainReading
from tidetable.query.scans import LiveScan
from tidetable.query.session import PageKind, ReadPass, ReadSession
from tidetable.query.units import Patience, ReadUnit


class ScanReader(Protocol):
    """Reads a scan in the order of time. Its first pages are read together with those of other scans."""

    @property
    def reads(self) -> Sequence[RangeRead]:
        """The reads of the first pages."""
        ...

    @property
    def kind(self) -> PageKind:
        """The kind of pages."""
        ...

    def read(self, pages: Sequence[Page], edge: Position) -> Iterator[RowsBatch | TimeUp]:
        """Yield the events in order. ``pages`` answer ``reads``.

        If the time is up before any event is known, the range was read up to ``edge``.
        """
        ...


class FormReading(Protocol):
    """How the tables of one form are read. A scan that it gets is one of its own scans."""

    def plan(self, query: Query, path: AccessPath, entry: Entry, start: datetime, end: datetime) -> Iterator[LiveScan]:
        """Plan the scans of ``[start, end)`` of a period that may hold events after the query's position, in the order
        of the answer.
        """
        ...

    def begin(self, scan: Any, work: ReadPass) -> ScanReader:
        """Begin to read a scan in the order of time."""
        ...

    def begin_unit(
        self, scan: Any, query: Query, session: ReadSession, fields: tuple[str, ...], patience: Patience
    ) -> ReadUnit:
        """Begin a whole read of a scan: pages become columns, and the copies of each event are settled.

        A unit of settling is never in two scans. A scan may have several: the ReadUnit settles each of them by itself.
        """
        ...

    def find_event(self, table: LookupTable, key: Key, names: tuple[datetime, str, str] | None) -> Lookup:
        """Find the event with the key and the names of a ref; the names are None if no event can have this key."""
        ...

    def is_key_of(self, key: Key, plain_key: Key) -> bool:
        """True if the key of a ref is of the event that has this key as a plain item, among those with its names."""
        ...

    def slice_latest(self, layout: Layout, start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
        """Slice a period's ``[start, end)`` into those that a search for latest events reads one after the other, the
        newest first.

        There are no slices if only a scan would find the latest event of a series.
        """
        ...

    def group_latest(self, layout: Layout, series: Sequence[str]) -> Iterator[tuple[Sequence[str], int]]:
        """Group series that are searched together, each group with the number of key ranges that it reads."""
        ...

    def find_latest(
        self, table: LookupTable, series: Sequence[str], start: datetime, end: datetime
    ) -> Iterable[tuple[str, Lookup]]:
        """Find the latest event of each of some series in ``[start, end)``, a slice of ``slice_latest``.

        Raises OutOfTime if the time is up before every event is known.
        """
        ...

    def suggest_index(self, stream: str, layout: Layout, conditions: Sequence[Condition]) -> str:
        """Suggest a setting with which a stream by series can answer a query without series."""
        ...


def _make_packed() -> FormReading:
    from tidetable.query.packs.packed_reading import PackedReading  # most cold starts meet no packs

    return PackedReading()


# The reading of each form, by the form's name.
_READINGS: Mapping[str, Callable[[], FormReading]] = {"plain": PlainReading, "packed": _make_packed}


@lru_cache(256)
def choose_reading(layout: Layout) -> FormReading:
    """Choose the reading of a period by the form of its layout. A reading has no state, so periods share it."""
    return _READINGS[choose_form(layout).name]()
