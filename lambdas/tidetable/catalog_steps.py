"""Steps on the catalog that several use cases share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from tidetable.catalog import Backfill, Entry, find_entry
from tidetable.periods import LONGEST, Kind, Period
from tidetable.ports import Catalog, CatalogReader


def read_entry(catalog: CatalogReader, stream: str, period: Period) -> Entry | None:
    """Read the present entry of a period; None if the catalog has no such period."""
    return find_entry(catalog.entries(stream, period.start, period.start, consistent=True), period)


def read_entries_at(catalog: CatalogReader, stream: str, times: Iterable[datetime]) -> list[Entry]:
    """Read the present entries of the periods that hold some times. Entries between distant times are not read."""
    entries, spans = list[Entry](), list[tuple[datetime, datetime]]()
    for time in sorted(times):
        if spans and time - spans[-1][1] <= LONGEST[Kind.MONTH]:
            spans[-1] = spans[-1][0], time
        else:
            spans.append((time, time))
    for first, last in spans:
        entries += catalog.entries(stream, first, last, consistent=True)
    return entries


def list_open_backfills(catalog: CatalogReader, stream: str, now: datetime) -> list[Backfill]:
    """List the stream's backfills that have not ended, oldest first."""
    return [backfill for backfill in catalog.backfills(stream) if backfill.is_open(now)]


def lower_horizon(catalog: Catalog, stream: str, start: datetime) -> None:
    """Move the stream's horizon back, so that the lifecycle reads the periods of ``start`` and later.

    The lifecycle reads the periods that begin after the horizon, so the horizon lies a month before: the longest period
    that holds ``start`` begins after it.
    """
    horizon, lowered = catalog.read_horizon(stream), start - LONGEST[Kind.MONTH]
    if horizon is not None and horizon > lowered:
        catalog.set_horizon(stream, lowered)
