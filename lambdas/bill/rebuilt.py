"""The price of the rebuild of a rollup, before it begins."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from bill import prices
from bill.prices import ON_DEMAND
from tidetable.catalog import Entry
from tidetable.config import TableClass
from tidetable.ports import Table
from tidetable.times import from_text

# A mark is put before a sealed bucket is computed anew, and removed afterwards.
_MARK_UNITS = 2
_READ_BYTES = 4096


class RebuildPrice(NamedTuple):
    """What a rebuild reads and writes, and its price in dollars. All figures are estimates.

    ``events`` are read from tables (``table_bytes``) and archives (``archive_bytes``); ``seconds`` are those of workers.
    """

    events: int
    table_bytes: int
    archive_bytes: int
    read_units: int
    write_units: int
    seconds: int
    dollars: float


def price_rebuild(
    plan: Mapping[str, Any], entries: Iterable[Entry], describe: Callable[[str], Table | None]
) -> RebuildPrice:
    """Price what the refresher plans. ``entries`` are of the stream, and ``describe`` tells the size of a table.

    Events are taken to be spread evenly over each period. On-demand prices; requests to S3 are not counted.
    """
    estimate, buckets = plan["estimate"], plan["buckets"] + plan["marked"]
    start, end = from_text(estimate["from"]), from_text(estimate["to"])
    events = table_bytes = archive_bytes = 0.0
    for entry in entries if estimate["finer"] is None else ():
        period = entry.period
        share = max((min(end, period.end) - max(start, period.start)) / (period.end - period.start), 0.0)
        table = describe(entry.table) if entry.live else None
        if table is not None:
            events, table_bytes = events + share * table.item_count, table_bytes + share * table.size_bytes
        elif entry.archived is not None:
            events += share * entry.archived.events
            archive_bytes += share * entry.archived.bytes
    # Each bucket's present cells are looked up once.
    reads = buckets * (estimate["read_units"] + 1) + table_bytes / _READ_BYTES
    writes = buckets * estimate["cell_units"] + plan["marked"] * _MARK_UNITS
    seconds = buckets * prices.WORKER_SECONDS + events * prices.SEALED_EVENT_SECONDS
    units = ON_DEMAND[TableClass.STANDARD]
    dollars = reads * units.read + writes * units.write + prices.price_call(seconds, prices.WORKER_GB)
    return RebuildPrice(
        round(events), round(table_bytes), round(archive_bytes), round(reads), round(writes), round(seconds), dollars
    )
