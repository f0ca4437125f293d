"""Reads of the catalog that several use cases make: a period's entry, and the open backfills of a stream."""

from __future__ import annotations

from datetime import datetime

from tidetable.catalog import Backfill, Entry, find_entry
from tidetable.periods import Period
from tidetable.ports import CatalogReader


def read_entry(catalog: CatalogReader, stream: str, period: Period, *, consistent: bool = True) -> Entry | None:
    """Read the present entry of a period; None if the catalog has no such period."""
    return find_entry(catalog.entries(stream, period.start, period.start, consistent=consistent), period)


def list_open_backfills(catalog: CatalogReader, stream: str, now: datetime) -> list[Backfill]:
    """List the stream's backfills that have not ended, oldest first."""
    return [backfill for backfill in catalog.backfills(stream) if backfill.is_open(now)]
