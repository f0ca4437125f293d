"""Measure a stream's workload from its tables, its archives and CloudWatch. All functions here are pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from bill.consumed import SPAN, ConsumedUnits, Traffic
from bill.current_tables import ObservedPeriod
from bill.request_puts import PACKED_SHARE
from bill.workload import Workload, count_ranges, measure_packs
from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.expiry import is_closed

# DynamoDB counts the items and bytes of a table about every six hours.
_COUNTED = timedelta(hours=6)
# The number of newest periods that are measured: a week of daily tables.
_RECENT = 7
_DAY = timedelta(days=1)
# The assumptions if nothing is measured, the same as the defaults of `tidetable cost`.
BATCH, READ_BYTES = 100, 8192


@dataclass(frozen=True)
class Measured:
    """A workload, and a sentence on each of its figures."""

    workload: Workload
    how: tuple[str, ...]


@dataclass(frozen=True)
class StreamFacts:
    """The known facts of a stream.

    ``traffic`` is of the whole stage; ``alone`` is True if the stage has no other stream.
    """

    periods: Sequence[ObservedPeriod]
    entries: Sequence[Entry]
    consumed: Mapping[tuple[str, str], ConsumedUnits]
    traffic: Traffic
    alone: bool


def measure_workload(stream: Stream, facts: StreamFacts, now: datetime, *, by_key: bool) -> Measured | None:
    """Return the stream's workload; None if too little is known, for example if the stream has no events."""
    counted = _count_stored(facts.periods, now)
    per_day, how = _count_events(stream, facts, counted, now)
    if per_day is None or counted is None:
        return None
    batch, how_batch = _measure_batch(facts.traffic)
    event_bytes, packed_bytes, series = counted.bytes / counted.items, None, None
    if stream.pack is not None:
        items, stored = (sum / counted.days / per_day for sum in (counted.items, counted.bytes))
        packed_bytes, event_bytes, series = measure_packs(items, stored, batch, stream.layout)
    units = facts.traffic.read_units / facts.traffic.queries if facts.traffic.queries else 0.0
    # What the ranges of further shards round up are no bytes of events.
    read_pages = max(1, round(2 * units - (count_ranges(stream) - 1) / 2)) if units else READ_BYTES // 4096
    workload = Workload(
        [_round_figure(per_day / 86_400)] * 24,
        max(1, round(event_bytes)),
        0.0,
        read_pages * 4096,
        0.0,
        stream,
        batch,
        index_shares=_share_indexes(stream, facts.periods),
        packed_bytes=None if packed_bytes is None else _round_figure(packed_bytes),
        by_key=by_key,
        series_per_request=series,
    )
    recent, old = _measure_reads(facts, now)
    workload = replace(
        workload,
        reads_per_second=_round_figure(recent / workload.read_units),
        old_reads_per_second=_round_figure(old / workload.read_units),
    )
    size = f"{workload.event_bytes:,} bytes per event: the size of its tables"
    if stream.pack is not None:
        size += f", and packs that take {PACKED_SHARE:.0%} of plain items"
    reads = "queries: the consumed read units of its tables, divided by the units of the stage's average query"
    return Measured(workload, (how, size, how_batch, reads))


@dataclass(frozen=True)
class _Stored:
    items: int
    bytes: int
    days: float
    whole: bool


def _count_stored(periods: Sequence[ObservedPeriod], now: datetime) -> _Stored | None:
    """Sum the items and bytes of the newest whole periods whose tables DynamoDB counted after the period's end."""
    known = [(period.entry, period.main) for period in periods if period.main is not None]
    whole = [
        (entry, table)
        for entry, table in known
        if entry.period.end + _COUNTED <= now and entry.created_at <= entry.period.start and table.item_count
    ]
    if whole:
        newest = sorted(whole, key=lambda pair: pair[0].period, reverse=True)[:_RECENT]
        days = sum((entry.period.end - entry.period.start) / _DAY for entry, _ in newest)
    else:
        # A young stage has no whole period: count its first events over the time for which it has run.
        newest = [(entry, table) for entry, table in known if table.item_count]
        if not newest:
            return None
        start = min(max(entry.created_at, entry.period.start) for entry, _ in newest)
        days = max((now - start) / _DAY, 1 / 24)
    return _Stored(
        sum(table.item_count for _, table in newest), sum(table.size_bytes for _, table in newest), days, bool(whole)
    )


def _count_events(
    stream: Stream, facts: StreamFacts, counted: _Stored | None, now: datetime
) -> tuple[float | None, str]:
    """Return the number of events per day, and a sentence on how they were counted."""
    if stream.pack is None:
        if counted is None:
            return None, ""
        per_day = counted.items / counted.days
        origin = "the items of its newest whole tables" if counted.whole else "the items of the time since it began"
        return per_day, f"{per_day:,.0f} events per day: {origin}"
    archived = [entry for entry in facts.entries if entry.archive is not None and entry.archive.events][-_RECENT:]
    if archived:
        events = sum(entry.archive.events for entry in archived if entry.archive is not None)
        per_day = events / sum((entry.period.end - entry.period.start) / _DAY for entry in archived)
        return (
            per_day,
            f"{per_day:,.0f} events per day: the events of its newest archives, as tables count packs and not events",
        )
    if facts.alone and facts.traffic.events:
        per_day = facts.traffic.events / _measure_span(facts, now) * _DAY.total_seconds()
        return per_day, f"{per_day:,.0f} events per day: the events that the stage accepted"
    return None, ""


def _measure_batch(traffic: Traffic) -> tuple[int, str]:
    if not traffic.requests or not traffic.events:
        return BATCH, f"{BATCH} events per request: assumed, as no request was counted"
    batch = min(max(round(traffic.events / traffic.requests), 1), 10_000)
    return batch, f"{batch:,} events per request: the average of the whole stage in 30 days"


def _measure_reads(facts: StreamFacts, now: datetime) -> tuple[float, float]:
    """Return the consumed read units per second of open tables, and of closed tables."""
    sums = {False: 0.0, True: 0.0}
    for period in facts.periods:
        closed = is_closed(period.entry.period, period.stream, now)
        for name in period.tables:
            sums[closed] += sum(units.read for (table, _), units in facts.consumed.items() if table == name)
    seconds = _measure_span(facts, now)
    return sums[False] / seconds, sums[True] / seconds


def _measure_span(facts: StreamFacts, now: datetime) -> float:
    """Return the seconds of this stream that the metrics cover: 30 days, or the stream's age if it is younger."""
    start = min((entry.created_at for entry in facts.entries), default=now)
    return max(min(SPAN, now - start).total_seconds(), 3600.0)


def _share_indexes(stream: Stream, periods: Sequence[ObservedPeriod]) -> dict[str, float]:
    """Return the share of items in each index, 0 to 1, for the indexes that tables have."""
    shares = {}
    for index in stream.index:
        tables = [table for period in periods if (table := period.main) is not None and index.name in table.index_sizes]
        items = sum(table.item_count for table in tables)
        if items:
            indexed_items = sum(table.index_sizes[index.name][0] for table in tables)
            shares[index.name] = _round_figure(min(indexed_items / items, 1.0))
    return shares


def _round_figure(value: float) -> float:
    """Round to four digits: the figures are not more exact, and they become part of web addresses."""
    return float(f"{value:.4g}")
