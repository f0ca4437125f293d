"""The present bill of a stage: the monthly price of its tables by stream and period, and each table's next change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tidetable.bill.consumed import ConsumedUnits, Meters, Traffic
from tidetable.bill.copies import list_copies, name_unpriced_copies
from tidetable.bill.measured import Facts, measure_workload
from tidetable.bill.next_step import NextStep, find_next_step
from tidetable.bill.prices import BACKUPS, GB, HOURS, MONTH, REGION, S3_STORAGE
from tidetable.bill.standing import ObservedPeriod, compute_bill, describe_entries
from tidetable.bill.tables import Bill
from tidetable.bill.whole import Line, price_requests
from tidetable.bill.workload import Workload
from tidetable.catalog import Entry, State
from tidetable.config import Config, Stream
from tidetable.errors import StoreUnavailable
from tidetable.lifecycle.known import Known, find_known_streams
from tidetable.ports import Catalog, Pools, Table, Tables
from tidetable.problems import refuse_unknown_stream
from tidetable.remaining import Remaining
from tidetable.times import to_text

# The greatest number of tables in one answer. A DescribeTable takes 20 ms and a function describes 16 tables at once,
# so an answer takes 2 to 5 seconds.
MAX_TABLES = 1_000
# One answer reads at most this many metrics, at $0.01 per 1,000. These are four calls of GetMetricData.
MAX_METRICS = 2_000
# Seconds that are reserved for CloudWatch and for the answer.
_RESERVE = 8.0
_UNPRICED = (
    "CloudWatch, data that leaves AWS, keys of KMS; the runs of the lifecycle, the archiver, the refresher and the feed",
    "the catalog, queues and large values in S3; S3's requests, and archives in another class than Standard cost less",
    "free tiers and discounts for volume",
)


@dataclass(frozen=True)
class Sources:
    """The sources of the figures. ``remaining`` returns the seconds that are left for the answer."""

    catalog: Catalog
    tables: Tables
    meters: Meters
    pools: Pools
    region: str
    remaining: Remaining


@dataclass
class _Account:
    """The data that was read of one stream. ``left_out`` counts its periods whose tables were not described."""

    stream: Stream
    entries: Sequence[Entry]
    periods: list[ObservedPeriod]
    removed: datetime | None
    left_out: int = 0


def present_bill(
    config: Config, sources: Sources, now: datetime, sees: Callable[[str], bool], only: str | None = None
) -> dict[str, Any]:
    """Return the bill as JSON: per stream its lines, its periods with price and next step, and its measured workload.

    ``sees`` says which streams the caller may see, ``only`` names one stream. ProblemError 404 if it is unknown.
    """
    known, notes = find_known_streams(config, sources.catalog, now), list[str]()
    if only is not None and only not in known.config.streams:
        raise refuse_unknown_stream(only, {name: None for name in known.config.streams if sees(name)})
    accounts = _read_accounts(
        known, sources, [name for name in known.config.streams if sees(name) and only in (None, name)], notes
    )
    consumed, traffic = _read_meters(accounts, sources, now, notes)
    streams = [_describe_stream(account, consumed, traffic, config, now) for account in accounts]
    shared = []
    if only is None and all(map(sees, known.config.streams)):
        batch = traffic.events / traffic.requests if traffic.requests else 0.0
        shared = price_requests(traffic.requests, batch, traffic.queries, by_key=config.api.by_key)
    else:
        notes.append("API Gateway and the functions: they are those of all streams")
    stage = sum(line.dollars for line in shared)
    return {
        "at": to_text(now),
        "currency": "USD",
        "dollars": stage + sum(stream["dollars"] for stream in streams),
        "streams": streams,
        "stage": {"dollars": stage, "lines": [line.document() for line in shared]},
        "prices": describe_prices(sources.region),
        "incomplete": notes,
        "not_priced": [*_UNPRICED, *name_unpriced_copies(_list_regions(accounts))],
    }


def describe_prices(region: str) -> dict[str, Any]:
    """Describe the prices that the bill uses. If the stage is in another Region, a note says that its prices differ."""
    note = None
    if region != REGION:
        note = (
            f"the stage is in {region or 'an unknown Region'}, whose prices are not known here: expect up to 60% more"
        )
    return {"region": REGION, "month": MONTH, "hours": HOURS, "note": note}


def _read_accounts(known: Known, sources: Sources, names: Sequence[str], notes: list[str]) -> list[_Account]:
    """Read the entries and tables of each stream, the newest first, within the limits of one answer."""
    notes += known.troubles
    share = MAX_TABLES // max(len(names), 1)
    accounts = []
    for name in names:
        stream = known.config.streams[name]
        entries = sources.catalog.entries(name)
        present = [entry for entry in entries if entry.state is not State.DELETED][::-1]
        most = max(share // len(present[0].tables), 1) if present else 0
        account = _Account(stream, entries, [], known.removed.get(name), max(len(present) - most, 0))
        account.periods = describe_entries(present[:most], stream, _make_describer(sources, account), sources.pools)
        if account.left_out:
            notes.append(f"{name}: {account.left_out} tables are not counted: price this stream alone, stream={name}")
        accounts.append(account)
    return accounts


def _make_describer(sources: Sources, account: _Account) -> Callable[[str], Table | None]:
    """Return a function that describes a table; if little time is left, it returns None instead."""

    def describe(name: str) -> Table | None:
        if sources.remaining() < _RESERVE:
            account.left_out += 1
            return None
        return sources.tables.describe(name)

    return describe


def _read_meters(
    accounts: Sequence[_Account], sources: Sources, now: datetime, notes: list[str]
) -> tuple[Mapping[tuple[str, str], ConsumedUnits], Traffic]:
    """Read the units of as many tables as one answer may measure, on-demand tables first; and the stage's traffic."""
    tables: dict[str, list[str]] = {}
    metrics, left_out = 0, 0
    for _, name, indexes, on_demand in sorted(_list_tables(accounts), key=lambda row: (not row[3], row[0])):
        needed = 2 * (1 + len(indexes))
        if metrics + needed > MAX_METRICS:
            left_out += on_demand
            continue
        tables[name] = indexes
        metrics += needed
    if left_out:
        notes.append(f"the consumed units of {left_out} on-demand tables are not counted: price one stream alone")
    try:
        consumed, traffic = sources.meters.consumed(tables, now), sources.meters.traffic(now)
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


def _list_tables(accounts: Sequence[_Account]) -> Iterator[tuple[int, str, list[str], bool]]:
    """Yield the age in periods, the name, the indexes with units of their own, and the mode of each table."""
    for account in accounts:
        for age, period in enumerate(account.periods):
            indexes = [index.name for index in period.entry.layout.global_indexes]
            for name, table in period.tables.items():
                yield age, name, indexes if name == period.entry.table else [], table.on_demand


def _describe_stream(
    account: _Account,
    consumed: Mapping[tuple[str, str], ConsumedUnits],
    traffic: Traffic,
    config: Config,
    now: datetime,
) -> dict[str, Any]:
    stream = account.stream
    bills = [compute_bill(period, consumed) for period in account.periods]
    lines = list(_price_stream(account, sum(bills, Bill())))
    measured = None
    if account.removed is None and not stream.source:
        alone = sum(not other.source for other in config.streams.values()) == 1
        facts = Facts(account.periods, account.entries, consumed, traffic, alone)
        measured = measure_workload(stream, facts, now, by_key=config.api.by_key)
    stagger = config.lifecycle.stagger
    return {
        "stream": stream.name,
        "source": stream.source or None,
        "removed_since": None if account.removed is None else to_text(account.removed),
        "dollars": sum(line.dollars for line in lines),
        "lines": [line.document() for line in lines],
        "periods": [
            {
                "period": period.entry.period.label,
                "dollars": bill.total,
                **bill.document(),
                "next": _describe_step(find_next_step(period.entry, stream, now, stagger)),
            }
            for period, bill in zip(account.periods, bills, strict=True)
        ],
        "workload": None if measured is None else describe_workload(measured.workload) | {"how": list(measured.how)},
    }


def _price_stream(account: _Account, bill: Bill) -> Iterator[Line]:
    """Make the bill's lines of a stream: tables, indexes, copies, backups and archives."""
    tables = [table for period in account.periods for table in period.tables.values()]
    on_demand = [table for table in tables if table.on_demand]
    counts = (
        (len(tables) - len(on_demand), "provisioned, by their units"),
        (len(on_demand), "on demand, by their units of 30 days"),
    )
    units = "; ".join(f"{count:,} tables {how}" for count, how in counts if count) or "no tables"
    yield Line("tables, writes", bill.table_writes, units)
    yield Line("tables, reads", bill.table_reads, units)
    size = sum(table.size_bytes for table in tables)
    yield Line("tables, storage", bill.table_storage, f"{_show_size(size)}, by the class of each")
    index_bytes = sum(size for table in tables for _, size in table.index_sizes.values())
    if any(period.entry.layout.indexes for period in account.periods):
        yield Line("indexes, writes", bill.index_writes, "as the tables'")
        yield Line("indexes, reads", bill.index_reads, "as the tables'")
        yield Line("indexes, storage", bill.index_storage, _show_size(index_bytes))
    yield from (Line(*line) for line in list_copies(bill, _list_regions([account])))
    if account.stream.table.point_in_time_recovery:
        yield Line("backups", (size + index_bytes) / GB * BACKUPS, "point-in-time recovery of the bytes in the tables")
    archives = [entry.archived for entry in account.entries if entry.archived is not None]
    if archives:
        stored = sum(archive.bytes for archive in archives)
        yield Line(
            "archive, S3", stored / GB * S3_STORAGE, f"{len(archives):,} archives, {_show_size(stored)} of Parquet"
        )


def _list_regions(accounts: Sequence[_Account]) -> set[str]:
    """List the other Regions in which tables have copies."""
    return {region for account in accounts for period in account.periods for region in period.entry.copies}


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
        "reads": workload.reads_per_second,
        "read_bytes": workload.read_bytes,
        "old_reads": workload.old_reads_per_second,
        "in_index": [f"{name}:{share:g}" for name, share in workload.index_shares.items()],
    }
