"""The present bill of a stage: the monthly price of its tables by stream and period, and each table's next change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from bill.accounts import Account, BillSources, read_account
from bill.amounts import Bill, Line, list_lines
from bill.archived import find_price
from bill.consumed import Consumed, Meters, Traffic
from bill.copied import list_copies, name_unpriced_copies
from bill.current_tables import compute_bill, count_dimensions, measure_units
from bill.extras import CommittedUnits, list_discounts, price_key_requests, price_scaling
from bill.fixed import price_fixed
from bill.measured import StreamFacts, measure_workload
from bill.next_step import NextStep, find_next_step
from bill.prices import GB, describe_prices
from bill.walls import list_walls
from bill.workload import Workload
from bill.workload_bill import price_backups, price_requests
from tidetable.config import Config
from tidetable.config.stream import Keeping
from tidetable.errors import StoreUnavailable
from tidetable.ports import Table
from tidetable.problems import refuse_unknown_stream
from tidetable.run_streams import find_run_streams
from tidetable.times import to_text

# One answer reads at most this many metrics, at $0.01 per 1,000. These are four calls of GetMetricData.
MAX_METRICS = 2_000
_UNPRICED = (
    "the storage of logs, data that leaves AWS",
    "the runs of the lifecycle, the archiver, the workers and the feed",
    "the catalog, queues and large values in S3, S3's requests",
    "free tiers and discounts for volume",
)


def present_bill(
    config: Config,
    sources: BillSources,
    now: datetime,
    sees: Callable[[str], bool],
    only: str | None = None,
    before: datetime | None = None,
) -> dict[str, Any]:
    """Return the bill as JSON: per stream its lines, its periods with price and next step, and its measured workload.

    ``sees`` says which streams the caller may see, ``only`` names one stream. ProblemError 404 if it is unknown. With
    ``before`` the bill is a page of the stream: of its periods that begin earlier, without its workload.
    """
    known = find_run_streams(config, sources.catalog, now)
    seen = [name for name in known.config.streams if sees(name)]
    if only is not None and only not in known.config.streams:
        raise refuse_unknown_stream(only, dict.fromkeys(seen))
    hidden = {trouble for name, troubles in known.unreadable.items() if not sees(name) for trouble in troubles}
    notes = [trouble for trouble in known.troubles if trouble not in hidden]
    names = [name for name in seen if only in (None, name)]
    accounts = [read_account(known, sources, name, before, share=1 if only else len(names)) for name in names]
    notes += [
        f"the periods of {account.stream.name} before {to_text(account.next)} are not counted:"
        f" ask with stream={account.stream.name} and before={to_text(account.next)}"
        for account in accounts
        if account.next is not None
    ]
    notes += [
        f"{account.stream.name}: {account.left_out} tables are not counted: price this stream alone,"
        f" stream={account.stream.name}"
        for account in accounts
        if account.left_out
    ]
    consumed, traffic = _read_meters(accounts, sources.meters, now, notes)
    sees_all = len(seen) == len(known.config.streams)
    # The traffic is that of the whole stage. A key of some streams must not learn it from their workloads.
    measured = traffic if sees_all else Traffic()
    streams = [
        _describe_stream(account, consumed, measured, config, now, paged=before is not None) for account in accounts
    ]
    shared: list[Line] = []
    fixed: list[Line] = []
    if only is None and sees_all:
        batch = traffic.events / traffic.requests if traffic.requests else 0.0
        shared = price_requests(traffic.requests, batch, traffic.queries, by_key=config.api.by_key)
        fixed = price_fixed(config, busy=traffic.requests + traffic.queries > 0)
    else:
        notes.append("API Gateway, the functions, metrics and alarms: they are those of all streams")
    stage, standing = _describe_lines(shared), _describe_lines(fixed)
    # The present units of all these tables, without their copies.
    units = (measure_units(period, consumed) for account in accounts for period in account.periods)
    regions = {region for account in accounts for region in account.regions}
    return {
        "at": to_text(now),
        "currency": "USD",
        "dollars": stage["dollars"] + standing["dollars"] + sum(stream["dollars"] for stream in streams),
        "streams": streams,
        "stage": stage,
        "fixed": standing,
        "discounts": [line._asdict() for line in list_discounts(sum(units, CommittedUnits()))],
        "prices": describe_prices(sources.region),
        "incomplete": notes,
        "not_priced": [*_UNPRICED, *name_unpriced_copies(regions)],
    }


def _describe_lines(lines: Sequence[Line]) -> dict[str, Any]:
    return {"dollars": sum(line.dollars for line in lines), "lines": [line._asdict() for line in lines]}


def _read_meters(
    accounts: Sequence[Account], meters: Meters, now: datetime, notes: list[str]
) -> tuple[Consumed, Traffic]:
    """Read the units of as many tables as one answer may measure, on-demand tables first; and the stage's traffic.

    Add to the ``notes`` what could not be read.
    """
    tables: dict[str, list[str]] = {}
    metrics, left_out = 0, 0
    resources = [
        (age, name, indexes, period.tables[name].on_demand)
        for account in accounts
        for age, period in enumerate(account.periods)
        for name, indexes in period.resources.items()
    ]
    for _, name, indexes, on_demand in sorted(resources, key=lambda row: (not row[3], row[0])):
        needed = 2 * (1 + len(indexes))
        if metrics + needed > MAX_METRICS:
            left_out += on_demand
            continue
        tables[name] = indexes
        metrics += needed
    if left_out:
        notes.append(f"the consumed units of {left_out} on-demand tables are not counted: price one stream alone")
    try:
        consumed, traffic = meters.consumed(tables, now), meters.traffic(now)
    except StoreUnavailable:
        notes.append(
            "CloudWatch did not answer: on-demand tables are priced by their storage alone, requests are missing; load it again"
        )
        return {}, Traffic()
    if tables and not any(units.write or units.read for units in consumed.values()):
        notes.append(
            "CloudWatch has no consumed units of these tables yet: they appear some minutes after the first events; until then "
            "on-demand tables are priced by their storage alone"
        )
    return consumed, traffic


def _describe_stream(
    account: Account, consumed: Consumed, traffic: Traffic, config: Config, now: datetime, *, paged: bool
) -> dict[str, Any]:
    stream = account.stream
    bills = [compute_bill(period, consumed) for period in account.periods]
    workload = None
    if account.removed is None and not stream.source and not paged:
        alone = sum(not other.source for other in config.streams.values()) == 1
        facts = StreamFacts(account.periods, account.entries, consumed, traffic, alone)
        measured = measure_workload(stream, facts, now, by_key=config.api.by_key)
        if measured is not None:
            wall = next(iter(list_walls(measured.workload, config)))
            workload = describe_workload(measured.workload) | {"how": list(measured.how), "wall": wall.document()}
    stagger = config.lifecycle.stagger
    return {
        "stream": stream.name,
        "source": stream.source or None,
        "removed_since": None if account.removed is None else to_text(account.removed),
        **_describe_lines(_list_lines(account, sum(bills, Bill()), config.find_keeping(stream.name), now)),
        "periods": [
            {
                "period": period.entry.period.label,
                "dollars": bill.total,
                **bill.document(),
                "next": _describe_step(find_next_step(period.entry, stream, now, stagger)),
            }
            for period, bill in zip(account.periods, bills, strict=True)
        ],
        "next": None if account.next is None else to_text(account.next),
        "workload": workload,
    }


def _list_lines(account: Account, bill: Bill, keeping: Keeping, now: datetime) -> list[Line]:
    tables = [table for period in account.periods for table in period.tables.values()]
    size, index_size = sum(table.size_bytes for table in tables), sum(table.index_bytes for table in tables)
    units = _describe_units(tables)
    lines = list_lines("tables", bill.tables, units, units, f"{_show_size(size)}, by the class of each")
    if any(period.entry.layout.indexes for period in account.periods):
        lines += list_lines("indexes", bill.indexes, "as the tables'", "as the tables'", _show_size(index_size))
    lines += list_copies(bill, account.regions)
    if account.stream.table.point_in_time_recovery:
        lines.append(price_backups(size + index_size))
    lines += price_scaling(sum(map(count_dimensions, account.periods)))
    if tables:
        lines += price_key_requests(account.stream, len(tables))
    archives = [entry.archived for entry in account.entries if entry.archived is not None]
    if archives:
        stored = sum(archive.bytes for archive in archives)
        how = f"{len(archives):,} archives, {_show_size(stored)} of Parquet"
        ages = [(archive, (now - archive.at) / timedelta(days=1)) for archive in archives]
        dollars = sum(archive.bytes / GB * find_price(keeping, age) for archive, age in ages)
        if keeping.storage_class != "standard":
            how += f", in {keeping.storage_class} from {keeping.storage_class_after.days} days after their export on"
        lines.append(Line("archive, S3", dollars, how))
    return lines


def _describe_units(tables: Sequence[Table]) -> str:
    on_demand = sum(table.on_demand for table in tables)
    counts = (
        (len(tables) - on_demand, "provisioned, by their units"),
        (on_demand, "on demand, by their units of 30 days"),
    )
    return "; ".join(f"{count:,} tables {how}" for count, how in counts if count) or "no tables"


def _show_size(size: float) -> str:
    """Return a number of bytes as text, in GB or MB."""
    return f"{size / GB:,.2f} GB" if size >= GB else f"{size / 1e6:,.2f} MB"


def _describe_step(step: NextStep | None) -> dict[str, Any] | None:
    if step is None:
        return None
    if step.level is None:
        return {"at": to_text(step.at), "change": step.end}
    level = step.level
    units = "on demand" if level.write is None else f"{level.write:,} write, {level.read:,} read units"
    return {"at": to_text(step.at), "change": f"{units}, {level.table_class.value}"}


def describe_workload(workload: Workload) -> dict[str, Any]:
    """Return a workload as the parameters of a simulation."""
    return {
        "rate": workload.events_per_second[12],
        "bytes": workload.event_bytes,
        "packed_bytes": workload.packed_bytes,
        "batch": workload.batch,
        "series_per_request": workload.series_per_request or 0,
        "seconds_per_request": workload.seconds_per_request,
        "reads": workload.reads_per_second,
        "read_bytes": workload.read_bytes,
        "old_reads": workload.old_reads_per_second,
        "in_index": [f"{name}:{share:g}" for name, share in workload.index_shares.items()],
    }
