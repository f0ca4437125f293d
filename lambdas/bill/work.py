"""The price of work in the background: the workers that seal rollups, late events, and the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from math import ceil

from bill import prices
from bill.amounts import Line
from bill.prices import HOURS, ON_DEMAND
from bill.rolled import NOTED_UNITS, RollupWorkload, count_series, count_units
from bill.workload import Workload
from tidetable.config import Config, Stream, TableClass
from tidetable.rollups.division import SPANS, divide

_UNIT = ON_DEMAND[TableClass.STANDARD]
# The scheduler runs once a minute. It reads the pauses, the records of streams, parts and rebuilds, and the state of each
# stream; and it holds the lease.
_RUNS, _SCHEDULED_READS, _SCHEDULED_WRITES = HOURS * 60, 4, 1
# Units of a worker: it reads pauses, parts, rebuilds and the state, and the state once more per rollup. It holds the lease,
# claims the stream and ends its claim; the scheduler noted its message.
_WORKER_READS, _WORKER_WRITES = 4, 4
# Units of a part without its cells: it is added, noted, claimed, finished and removed; its events are looked up once.
_PART_READS, _PART_WRITES = 3, 5
# Requests to SQS per message: one sends it, one deletes it. The line of the queues has the polls.
_MESSAGE_REQUESTS = 2
# A late event that is added to cells (decision 0280): it is written by a transaction, which takes each unit twice, together
# with its mark; the mark is changed by another one, and removed.
_MARK_WRITES, _DOUBLE = 5, 2
# A bucket that is computed anew waits 5, 10, 20 and 40 minutes, and an hour from then on.
_FIRST_PAUSES, _PAUSE = 4, timedelta(hours=1)


def count_readers(workload: Workload, every: timedelta, workers: int) -> int:
    """Count the workers that read a long bucket of a stream at the same time, if nothing else is due: all.

    If packs are divided by time, the parts are some spans long, but a long bucket has two at least.
    """
    units, _ = count_units(workload)
    pack = workload.stream.pack
    return workers if pack is None or units >= workers else min(workers, max(every // (SPANS * pack.span), 2))


def get_event_seconds(stream: Stream) -> float:
    """Return the seconds of a whole core that sealing takes per event."""
    return prices.SEALED_EVENT_SECONDS if stream.pack is None else prices.SEALED_PACKED_SECONDS


def price_workers(workload: Workload, rollups: Sequence[RollupWorkload]) -> Line:
    """Price the workers that seal the rollups of a stream: their calls, messages, time, and units of the catalog."""
    stream, month = workload.stream, workload.events_per_month
    readers = [rollup for rollup in rollups if not rollup.finer]
    calls = min(max(rollup.workload.events_per_month for rollup in rollups), _RUNS)
    reads, writes = calls * (_WORKER_READS + len(rollups)), calls * _WORKER_WRITES
    cells = sum(_count_cells(rollup, rollups) for rollup in rollups)
    by_unit, by_time = (
        sum(_count_parts(workload, rollup, by_unit=kind) for rollup in readers) for kind in (True, False)
    )
    if parts := by_unit + by_time:
        calls += parts
        # A part stores its cells, which are read, and removed, when the bucket's parts are merged.
        stored = parts * sum(rollup.workload.bucket_bytes for rollup in readers) / len(readers)
        # A part that is a range of time also reads the packs of one span after it. Another part reads the notes of series.
        further = workload.events_per_month / (HOURS * 3600) * _find_span(stream).total_seconds()
        reads += parts * _PART_READS + by_time * further * workload.stored_bytes / 4096 + stored / 4096
        if stream.layout.partition_by == "series":
            reads += by_unit * NOTED_UNITS * count_series(workload)
        writes += parts * _PART_WRITES + 2 * stored / 1024
        cells += parts * sum(rollup.groups for rollup in readers) / len(readers)
    each = get_event_seconds(stream)
    seconds = calls * prices.WORKER_SECONDS + month * len(readers) * each + cells * prices.CELL_SECONDS
    dollars = (calls * prices.CALL_MILLION + calls * _MESSAGE_REQUESTS * prices.SQS_MILLION) / 1e6
    dollars += seconds * prices.WORKER_GB * prices.GB_SECOND + reads * _UNIT.read + writes * _UNIT.write
    how = (
        f"{calls:,.0f} calls, assumed: {prices.WORKER_SECONDS * 1000:.0f} ms each; measured: {each * 1e6:.1f} microseconds per"
        f" event and {prices.CELL_SECONDS * 1e6:.0f} per cell at 1,769 MB; and their messages, reads and writes"
    )
    return Line("workers", dollars, how)


def _count_cells(rollup: RollupWorkload, rollups: Sequence[RollupWorkload]) -> float:
    """Count the cells per month that a rollup's buckets get, and those of the finer rollup that are read for them."""
    read = sum(
        finer.workload.events_per_month * finer.groups
        for finer in rollups
        if finer.workload.stream.name == rollup.finer
    )
    return rollup.workload.events_per_month * rollup.groups + read


def _count_parts(workload: Workload, rollup: RollupWorkload, *, by_unit: bool) -> float:
    """Count the parts per month in which the long buckets of a rollup are read: shares of their units, or ranges of time."""
    buckets, facts = rollup.workload.events_per_day / 24, (_find_span(workload.stream), *count_units(workload))
    events = (round(rate * 3600 / buckets) for rate in workload.events_per_second)
    divisions = [divide(count, rollup.every, *facts) for count in events]
    return sum(buckets * one.number for one in divisions if one.number > 1 and one.by_unit is by_unit) * HOURS / 24


def _find_span(stream: Stream) -> timedelta:
    return timedelta(0) if stream.pack is None else stream.pack.span


def price_late_events(workload: Workload, rollups: Sequence[RollupWorkload]) -> list[Line]:
    """List what late events of a stream with rollups cost besides their own writes."""
    late = workload.events_per_month * workload.late_share
    if not late:
        return []
    cells = [ceil(rollup.workload.bucket_bytes / 4096) for rollup in rollups]
    if workload.stream.pack is None:
        units = workload.event_units + _MARK_WRITES + _DOUBLE * len(rollups)
        reads = late * (ceil(workload.event_bytes / 4096) + sum(cells))
        how = f"{late:,.0f} new late events, {units:g} write units each besides their own: each is added to its cells"
        return [Line("late events", late * units * _UNIT.write + reads * _UNIT.read, how)]
    # A mark per event, at the most, is written and removed.
    dollars, most = late * 2 * _UNIT.write, _FIRST_PAUSES + workload.stream.late / _PAUSE
    buckets = 0.0
    for rollup, units in zip(rollups, cells, strict=True):
        count = rollup.workload.events_per_month
        anew = min(late, count * most)
        events = 0.0 if rollup.finer else workload.events_per_month / count
        read = events * workload.stored_bytes / 4096 + units
        dollars += anew * (read * _UNIT.read + _UNIT.write)
        dollars += anew * events * prices.SEALED_PACKED_SECONDS * prices.WORKER_GB * prices.GB_SECOND
        buckets += anew
    how = f"{late:,.0f} late events in packs: up to {buckets:,.0f} buckets are computed anew, and read once more"
    return [Line("late events", dollars, how)]


def price_scheduler(config: Config) -> list[Line]:
    """List the price of the scheduler of the refresher, which looks every minute what is due, also while nothing happens."""
    streams = len(config.rolled_up) + len(config.listed)
    if not streams:
        return []
    requests = _SCHEDULED_READS + _SCHEDULED_WRITES + streams
    seconds = prices.WORKER_SECONDS + requests * prices.REQUEST_SECONDS
    run = prices.price_call(seconds, prices.WORKER_GB)
    run += (_SCHEDULED_READS + streams) * _UNIT.read + _SCHEDULED_WRITES * _UNIT.write
    how = f"a run per minute of {requests:,} requests, one of them per stream that it looks at; assumed: {seconds * 1000:.0f} ms"
    return [Line("scheduler", _RUNS * run, how)]
