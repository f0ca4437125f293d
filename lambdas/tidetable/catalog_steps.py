"""Steps on the catalog that several use cases share."""

from __future__ import annotations

from datetime import datetime

from tidetable.catalog import Backfill, Entry, find_entry
from tidetable.periods import Period
from tidetable.ports import Catalog, CatalogReader


def read_entry(catalog: CatalogReader, stream: str, period: Period) -> Entry | None:
    """Read the present entry of a period; None if the catalog has no such period."""
    return find_entry(catalog.entries(stream, period.start, period.start, consistent=True), period)


def list_open_backfills(catalog: CatalogReader, stream: str, now: datetime) -> list[Backfill]:
    """List the stream's backfills that have not ended, oldest first."""
    return [backfill for backfill in catalog.backfills(stream) if backfill.is_open(now)]


def lower_horizon(catalog: Catalog, stream: str, start: datetime) -> None:
    """Move the stream's horizon back to ``start``, so that the lifecycle reads the periods from there on."""
    horizon = catalog.read_horizon(stream)
    if horizon is not None and horizon > start:
        catalog.set_horizon(stream, start)
