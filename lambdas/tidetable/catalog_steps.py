"""Steps on the catalog that several use cases share."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from tidetable.catalog import Backfill, Entry, Horizon, find_entry
from tidetable.periods import LONGEST, Kind, Period
from tidetable.ports import Catalog, CatalogReader


def read_entry(catalog: CatalogReader, stream: str, period: Period) -> Entry | None:
    """Read the present entry of a period; None if the catalog has no such period."""
    return find_entry(catalog.entries(stream, period.start, period.start, consistent=True), period)


def read_entries_in(
    catalog: CatalogReader,
    stream: str,
    spans: Iterable[tuple[datetime, datetime]],
    *,
    near: timedelta = timedelta(days=1),
    consistent: bool = True,
) -> list[Entry]:
    """Read the entries of the periods that overlap some spans, oldest first.

    Spans that are ``near`` each other are read by one Query, with the entries between them.
    """
    entries, joined = dict[datetime, Entry](), list[tuple[datetime, datetime]]()
    for start, end in sorted(spans):
        if joined and start - joined[-1][1] <= near:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    for start, end in joined:
        entries |= {entry.period.start: entry for entry in catalog.entries(stream, start, end, consistent=consistent)}
    return list(entries.values())


def read_entries_at(
    catalog: CatalogReader, stream: str, times: Iterable[datetime], *, consistent: bool = True
) -> list[Entry]:
    """Read the entries of the periods that hold some times. Entries between distant times are not read."""
    spans = ((time, time) for time in times)
    return read_entries_in(catalog, stream, spans, near=LONGEST[Kind.MONTH], consistent=consistent)


def read_kept_entries(
    catalog: Catalog, stream: str, horizon: Horizon, spans: Iterable[tuple[datetime, datetime]] = ()
) -> list[Entry]:
    """Read the present entries of all periods of a stream that are not deleted, oldest first, and all those of the spans.

    Some other entries of deleted periods are among them.
    """
    if horizon.at is None:
        return list(catalog.entries(stream, consistent=True))
    early = [*spans, *((period.start, period.start) for period in horizon.far)]
    before = read_entries_in(catalog, stream, (span for span in early if span[0] < horizon.at))
    near = catalog.entries_from(stream, horizon.at)
    return list({entry.period.start: entry for entry in [*before, *near]}.values())


def list_open_backfills(catalog: CatalogReader, stream: str, now: datetime) -> list[Backfill]:
    """List the stream's backfills that have not ended, oldest first."""
    return [backfill for backfill in catalog.backfills(stream) if backfill.is_open(now)]
