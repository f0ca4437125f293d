"""The price of archives: S3 by the rules of ``[archive]``, the reads of an export, and the archiver's work."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from math import ceil

from bill import prices
from bill.amounts import Line
from bill.prices import GB, HOURS, ON_DEMAND, PROVISIONED
from bill.workload import Workload
from tidetable.archive.exporter import AT_ONCE_BYTES
from tidetable.archive.turn import is_read_by_time
from tidetable.config.stream import Keeping

_MONTH_DAYS = HOURS / 24
# Amazon S3 Intelligent-Tiering lowers an object that nobody reads after 30 and after 90 days in this class.
_TIERS = (0, 30, 90)


def find_price(keeping: Keeping, age: float) -> float:
    """Find the price of a GB-month of an archive that was written ``age`` days ago."""
    if keeping.storage_class == "standard" or age < keeping.storage_class_after.days:
        return float(prices.S3["standard"])
    price = prices.S3[keeping.storage_class]
    if keeping.storage_class != "intelligent-tiering":
        return float(price)
    since = age - keeping.storage_class_after.days
    return float(max(zip(_TIERS, price, strict=True), key=lambda tier: (tier[0] <= since, tier[0]))[1])


def price_stored(keeping: Keeping, gb_per_month: float, days: int) -> float:
    """Price a month of archives that are written evenly and kept for ``days``, in a steady state."""
    starts = sorted(set(_list_changes(keeping, days)))
    spans = zip(starts, [*starts[1:], days], strict=True)
    return sum((end - start) / _MONTH_DAYS * gb_per_month * find_price(keeping, start) for start, end in spans)


def _list_changes(keeping: Keeping, days: int) -> Iterator[int]:
    """Yield the ages, in days, at which the price of an archive changes."""
    yield 0
    for tier in _TIERS if keeping.storage_class == "intelligent-tiering" else (0,):
        if keeping.storage_class != "standard" and keeping.storage_class_after.days + tier < days:
            yield keeping.storage_class_after.days + tier


def price_archive(workload: Workload) -> list[Line]:
    """List the lines of a stream's archives; no lines if it has none."""
    if workload.stream.on_expiry != "archive":
        return []
    stored = workload.events_per_month * workload.event_bytes
    read = workload.events_per_month * workload.stored_bytes * _count_reads(workload)
    month_gb = stored * prices.ARCHIVE_SHARE / GB
    seconds = stored / prices.ARCHIVER_BYTES_PER_SECOND
    dollars = price_stored(workload.keeping, month_gb, workload.kept_archive_days)
    return [
        Line("archive, S3", dollars, _describe_stored(workload, month_gb)),
        Line("archive, reads", _price_export(workload, read), "every table once, strongly consistent"),
        Line(
            "archive, functions",
            seconds * prices.ARCHIVER_GB * prices.GB_SECOND,
            "assumed: 10 MB per second at 1,769 MB",
        ),
    ]


def _count_reads(workload: Workload) -> int:
    """Count how often an export reads an item. Packs that are scanned are read twice: to find their partitions, and in order."""
    stream, length = workload.stream, timedelta(days=workload.period_days)
    size = workload.events_per_month * workload.stored_bytes * workload.period_days / _MONTH_DAYS
    by_time = size > AT_ONCE_BYTES and is_read_by_time(stream.layout, length, size)
    return 1 if stream.pack is None or by_time else 2


def _describe_stored(workload: Workload, month_gb: float) -> str:
    days, keeping = workload.kept_archive_days, workload.keeping
    how = (
        f"{month_gb * days / _MONTH_DAYS:,.1f} GB: Parquet of {days:,} days, assumed at {prices.ARCHIVE_SHARE:.0%} of the"
        " bytes"
    )
    if workload.archive_days is None and not keeping.expire_after:
        how += "; archives are kept for ever, and each further year costs as much again at the last price"
    if keeping.storage_class != "standard" and keeping.storage_class_after.days < days:
        how += f"; {keeping.storage_class} after {keeping.storage_class_after.days} days"
    if keeping.storage_class == "intelligent-tiering":
        how += ", if nobody reads them"
    return how


def _price_export(workload: Workload, size: float) -> float:
    """Dollars of reading a month's tables, ``size`` bytes. Read units that the ladder provides anyway are free here."""
    stream = workload.stream
    step = stream.capacity.step_at(1 if stream.archive_at == "close" else max(1, stream.retention))
    if stream.capacity.on_demand(step):
        return size / 4096 * ON_DEMAND[step.table_class].read
    raised = stream.archive.read_units
    if raised is None or step.read is None or raised <= step.read:
        return 0.0
    tables = _MONTH_DAYS / workload.period_days
    hours = ceil(size / tables / (raised * stream.archive.read_share * 4096) / 3600)
    return tables * hours * (raised - step.read) * PROVISIONED[step.table_class].read
