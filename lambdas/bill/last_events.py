"""The price of the last periods of series, which the refresher keeps, and of the searches for latest events."""

from __future__ import annotations

from math import ceil

from bill import prices
from bill.amounts import Line
from bill.prices import HOURS, ON_DEMAND
from bill.workload import Workload
from tidetable.config import TableClass
from tidetable.query.latest import MAX_REQUESTS, MAX_SERIES
from tidetable.rollup_model.last_periods import choose_slots

_UNIT = ON_DEMAND[TableClass.STANDARD]
# Bytes of a pair, and of the key and the attributes of a slot; read units of a series in its notes (bench/notes.py).
_PAIR_BYTES, _SLOT_BYTES, _NOTE_READS = 12, 60, 0.0048
# A table by series is read in pages of ten items, one per series and shard at the most (``aws.dynamodb.partition_scan``).
_PAGE_ITEMS = 10
# Without a rollup, a worker looks at a stream once per hour, and once more per period. A look reads the pauses, parts,
# rebuilds, the state and the horizon, and writes the lease, the claim, its end, the note of its message and the record.
# If late events come, it looks once more, reads the table again, and removes the mark that a request has put.
_LOOK_READS, _LOOK_WRITES, _MARK_WRITES = 5, 5, 2
# Read units of a request for latest events besides those of tables and slots: the catalog, the lease, the marks, the record.
_KNOWN_READS = 5
# Tables that may have the latest events: those of the present period, and of the one before or after it. Without a rollup,
# those with late events, too.
_LAST_TABLES = 2


def price_last_periods(workload: Workload) -> list[Line]:
    """List the line of the last periods of a stream's series; no line if none are kept."""
    stream = workload.stream
    if not _are_kept(workload):
        return []
    series = min(workload.groups, max(ceil(workload.events_per_day * workload.period_days), 1))
    periods, slots, calls = HOURS / 24 / workload.period_days, choose_slots(series), 0.0
    # Of each period all slots are read, and written anew, and the record.
    writes = slots * ceil((series / slots * _PAIR_BYTES + _SLOT_BYTES) / 1024) + 1
    again = not stream.rollup and workload.late_share > 0
    own, what = _measure_reading(workload, series)
    reads = slots + own * (1 + again)
    if not stream.rollup:
        calls, writes = HOURS + (1 + again) * periods, writes + again * _MARK_WRITES
    dollars = periods * (writes * _UNIT.write + reads * _UNIT.read)
    dollars += calls * (prices.price_call(prices.WORKER_SECONDS, prices.WORKER_GB))
    dollars += calls * (_LOOK_READS * _UNIT.read + _LOOK_WRITES * _UNIT.write)
    how = (
        f"{periods:,.1f} periods per month of {series:,} series: {writes:,} write units, and {reads:,.0f} read units of {what},"
        f" each; {calls:,.0f} calls"
    )
    return [Line("last periods", dollars, how)]


def price_latest(workload: Workload) -> list[Line]:
    """List the line of the requests for the latest events of 100 series, as if all of these were silent."""
    stream, requests = workload.stream, workload.latest * HOURS * 3600
    if not requests:
        return []
    series, in_packs = min(MAX_SERIES, workload.groups), stream.layout.partition_by == "time"
    # Packs of the series of a shard are read together, to the beginning of the period.
    ranges = min(series, stream.key.shards) if in_packs else series * stream.key.shards
    shard_bytes = workload.events_per_day * workload.period_days * workload.stored_bytes / stream.key.shards
    each = max(shard_bytes / 8192, 0.5) if in_packs else 0.5
    tables = 2 + ceil(stream.late.total_seconds() / 86_400 / workload.period_days)
    known = _KNOWN_READS + series if _are_kept(workload) else 0
    if not known:
        tables += stream.retention
    elif stream.rollup or not workload.late_share:
        tables = _LAST_TABLES
    tables = max(min(tables, MAX_REQUESTS // ranges), 1)
    units = tables * ranges * each if stream.capacity.begins_on_demand else 0.0
    call = prices.GATEWAY_MILLION / 1e6 + prices.price_call(prices.QUERY_SECONDS, prices.QUERY_GB)
    how = (
        f"{requests / 1e6:,.2f} M requests for {series} silent series: {tables} tables with {tables * ranges:,} requests,"
        f" {units + known:,.1f} read units, and the call"
    )
    return [Line("latest", requests * (call + (units + known) * _UNIT.read), how)]


def _are_kept(workload: Workload) -> bool:
    stream = workload.stream
    return stream.lists_series or (bool(stream.rollup) and stream.layout.partition_by == "series")


def _measure_reading(workload: Workload, series: int) -> tuple[float, str]:
    """Measure the read units with which the series of a period are read, and name what is read."""
    stream = workload.stream
    if stream.rollup and stream.layout.partition_by == "series":
        return series * _NOTE_READS, "notes and slots"
    if not stream.capacity.begins_on_demand:
        return 0.0, "slots, the table by its provisioned units,"
    whole = workload.events_per_day * workload.period_days * workload.stored_bytes / 4096
    if stream.layout.partition_by == "time":
        return whole, "the table and slots"
    pages = series * stream.key.shards * ceil(_PAGE_ITEMS * workload.event_bytes / 4096)
    return min(pages, whole), "the table and slots"
