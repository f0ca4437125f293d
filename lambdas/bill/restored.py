"""The price of a restore, before it begins."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from math import ceil
from typing import NamedTuple

from bill import prices
from bill.prices import ARCHIVE_SHARE, ON_DEMAND
from tidetable.catalog import Entry
from tidetable.config import Stream, TableClass
from tidetable.forms.choose import choose_form
from tidetable.ladder import choose_level

# An item with a number, its keys and an id has 139 bytes.
_ITEM_BYTES = 139
_WRITE_BYTES, _READ_BYTES = 1024, 4096
_MONTH_DAYS = prices.HOURS / 24


class RestorePrice(NamedTuple):
    """What a restore writes and reads, and its price in dollars. All figures are estimates.

    ``seconds`` are those of workers, ``storage`` is the price of keeping the tables, and is part of ``dollars``.
    """

    events: int
    table_bytes: int
    write_units: int
    read_units: int
    seconds: int
    storage: float
    dollars: float


def price_restore(entries: Iterable[Entry], stream: Stream | None, keep_days: int, now: datetime) -> RestorePrice:
    """Price the restore of archived periods, whose tables are kept for some days. On-demand prices.

    The sizes of items are estimated from those of the files. Requests to S3 and change streams are not counted.
    """
    events = size = writes = reads = seconds = storage = requests = 0.0
    for entry in entries:
        if entry.archive is None:
            continue
        count, bytes = entry.archive.events, entry.archive.bytes / ARCHIVE_SHARE
        if not choose_form(entry.layout).span:
            bytes = max(bytes, count * _ITEM_BYTES)
            copies = 1 + len(entry.layout.indexes)
            units, scans = count * ceil(bytes / max(count, 1) / _WRITE_BYTES) * copies, 1
        else:
            # The comparison reads each pack twice.
            units, scans = ceil(bytes / _WRITE_BYTES), 2
        table_class = choose_level(entry, stream, now).table_class if stream is not None else TableClass.STANDARD
        rates, scanned = ON_DEMAND[table_class], scans * bytes / _READ_BYTES
        events, size, writes, reads = events + count, size + bytes, writes + units, reads + scanned
        requests += units * rates.write + scanned * rates.read
        storage += bytes * rates.byte * keep_days / _MONTH_DAYS
    seconds = events * prices.RESTORED_EVENT_SECONDS
    dollars = requests + storage + prices.price_call(seconds, prices.RESTORER_GB)
    return RestorePrice(round(events), round(size), round(writes), round(reads), round(seconds), storage, dollars)
