"""The whole bill, line by line: DynamoDB with rolling tables, and the other services.

It also lists the costs that it omits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bill import prices
from bill.amounts import Bill, Line, list_lines
from bill.archived import price_archive
from bill.copied import list_copies, name_unpriced_copies
from bill.extras import CommittedUnits, list_discounts, price_key_requests, price_scaling
from bill.fixed import price_fixed
from bill.last_events import price_last_periods, price_latest
from bill.prices import GB, describe_prices
from bill.rolled import list_rollups, price_feed, price_rollups
from bill.table_bill import PLANS, survey_tables
from bill.walls import Wall, list_walls
from bill.work import price_late_events, price_workers
from bill.workload import Workload
from tidetable.config import Config
from tidetable.config.demand import COLLECTION_BYTES


class WholeBill(NamedTuple):
    """The lines of rolling tables, DynamoDB's bill of each plan, the costs without a line, and advice.

    ``fixed`` are the costs of the stage that its other streams share. ``discounts`` say what commitments
    may save. ``walls`` are the limits of the load, the lowest first.
    """

    lines: list[Line]
    plans: dict[str, Bill]
    unpriced: list[str]
    advice: list[str]
    fixed: Sequence[Line] = ()
    discounts: Sequence[Line] = ()
    walls: Sequence[Wall] = ()

    @property
    def dollars(self) -> float:
        """The sum of the stream's own lines."""
        return sum(line.dollars for line in self.lines)

    @property
    def fixed_dollars(self) -> float:
        """The sum of the stage's fixed lines."""
        return sum(line.dollars for line in self.fixed)

    @property
    def is_impossible(self) -> bool:
        """True if the load meets a wall."""
        return self.wall is not None and self.wall.met

    @property
    def wall(self) -> Wall | None:
        """The first wall."""
        return next(iter(self.walls), None)

    def document(self) -> dict[str, Any]:
        """Return the bill as JSON."""
        return {
            **{name: plan.document() for name, plan in self.plans.items()},
            "lines": [line._asdict() for line in self.lines],
            "fixed": {"dollars": self.fixed_dollars, "lines": [line._asdict() for line in self.fixed]},
            "discounts": [line._asdict() for line in self.discounts],
            "wall": None if self.wall is None else self.wall.document(),
            "prices": describe_prices(),
            "not_priced": self.unpriced,
            "advice": self.advice,
        }


def compute_whole_bill(workload: Workload, config: Config | None = None) -> WholeBill:
    """Return the whole bill of a workload. The fixed lines and the stage's walls need the configuration."""
    plans = {name: price(workload) for name, price in PLANS.items()}
    ours = next(iter(plans.values()))
    lines, discounts = price_lines(workload, ours), price_discounts(workload, ours)
    fixed = [] if config is None else price_fixed(config, busy=workload.is_busy)
    walls = list_walls(workload, config)
    return WholeBill(lines, plans, name_unpriced(workload), advise(workload, plans), fixed, discounts, walls)


def price_lines(workload: Workload, bill: Bill) -> list[Line]:
    """List the lines of rolling tables, copies, the gateway, the functions, the archive, the rollups and the feed."""
    rollups = list_rollups(workload)
    work = [price_workers(workload, rollups), *price_late_events(workload, rollups)] if rollups else []
    return [
        *_list_tables(workload, bill),
        *list_copies(bill, workload.stream.replicas),
        *_price_requests(workload),
        *price_archive(workload),
        *price_rollups(workload, rollups),
        *work,
        *price_last_periods(workload),
        *price_latest(workload),
        *price_feed(workload),
        *_price_extras(workload),
    ]


def name_unpriced(workload: Workload) -> list[str]:
    """Name the costs of this workload that no line prices."""
    stream = workload.stream
    depending = (
        (stream.writes_further_items, "versions and cold fields: each is one more item, at a write unit per KB begun"),
        (stream.large.beyond == "s3", "large values in S3"),
        (stream.capacity.warm, "warm throughput, which is charged once per table"),
        (stream.capacity.autoscaling, "the units that auto scaling adds or takes: the ladder's units are priced"),
        (
            stream.rollup,
            "the rollups' archives (cents), and late events that overwrite others: their bucket is read once more",
        ),
        (stream.feed, "the targets of the feed: what their services charge per change"),
        (stream.table.encryption.startswith("arn:"), "the KMS key itself, $1.00 per month if nothing else uses it"),
    )
    return [
        "data that leaves AWS, the storage of logs ($0.03 per GB-month), retries",
        "the runs of the lifecycle and of the sweep (cents)",
        "free tiers and discounts for volume",
        *(text for setting, text in depending if setting),
        *name_unpriced_copies(stream.replicas),
    ]


def advise(workload: Workload, plans: Mapping[str, Bill]) -> list[str]:
    """Name what would be cheaper, or is impossible, and is no setting of the stream."""
    ours, provisioned, on_demand = (bill.total for bill in plans.values())
    advice = []
    best, price = min((("provisioned", provisioned), ("on-demand", on_demand)), key=lambda pair: pair[1])
    if price < 0.95 * ours:
        advice.append(
            f"one plain {best} table would be cheaper: ${price:,.2f} per month. It deletes by time to live, has no archive, and "
            "one capacity for new and old events"
        )
    gateway, *_ = _price_requests(workload)
    if workload.batch < 10 and gateway.dollars > ours:
        advice.append(f"send batches: at {workload.batch} events per request the gateway costs more than the tables")
    size = workload.collection_bytes
    if size is not None and size > COLLECTION_BYTES:
        advice.append(
            f"a suffix of a bucket of {workload.stream.key.bucket} gets {size / 1024**3:,.1f} GB at the busiest hour, with its"
            " local indexes, and DynamoDB takes 10 GB: choose a shorter bucket or more shards"
        )
    return advice


def price_discounts(workload: Workload, bill: Bill) -> list[Line]:
    """List the discounts on the units of the stream's own Region; ``bill`` is that of its rolling tables."""
    survey = survey_tables(workload.stream)
    whole = bill.tables + bill.indexes
    on_demand = max(whole.writes + whole.reads - survey.provisioned, 0.0)
    return list_discounts(CommittedUnits(on_demand, survey.provisioned, survey.write, survey.read))


def _list_tables(workload: Workload, bill: Bill) -> list[Line]:
    stream = workload.stream
    count, packed = workload.request_puts.items, ""
    if stream.pack is not None:
        packed = f", in {count:,} pack{'s' if count > 1 else ''} of a request's {workload.batch:,} events"
    lines = list_lines(
        "tables",
        bill.tables,
        f"{workload.event_units:g} write units per event{packed}",
        f"{workload.read_units:g} read units per query",
        f"{workload.stored_bytes:g} bytes per event, {workload.kept_days:g} days",
    )
    if stream.index:
        lines += list_lines(
            "indexes",
            bill.indexes,
            f"{workload.index_units:g} write units per event: {', '.join(index.name for index in stream.index)}",
            "provisioned units; on demand, the line of the tables has the price of all queries",
            f"{workload.index_bytes:g} bytes per event",
        )
    if stream.table.point_in_time_recovery:
        stored = workload.kept_events * (workload.stored_bytes + workload.index_bytes)
        lines.append(price_backups(stored))
    return lines


def price_backups(size: float) -> Line:
    """Price point-in-time recovery of tables and indexes with ``size`` bytes."""
    return Line("backups", size / GB * prices.BACKUPS, "point-in-time recovery of the bytes in the tables")


def _price_extras(workload: Workload) -> list[Line]:
    """Price the alarms of auto scaling, and the requests to the KMS key of the stream's tables and of its rollups'."""
    stream = workload.stream
    lines = price_scaling(survey_tables(stream).dimensions) if stream.capacity.autoscaling is not None else []
    if stream.table.encryption != "aws-owned":
        streams = [stream, *(rollup.workload.stream for rollup in list_rollups(workload))]
        lines += price_key_requests(stream, sum(survey_tables(own).tables for own in streams))
    return lines


def _price_requests(workload: Workload) -> list[Line]:
    requests = workload.events_per_month / workload.batch
    return price_requests(requests, workload.batch, workload.queries_per_month, by_key=workload.by_key)


def price_requests(requests: float, batch: float, queries: float, *, by_key: bool) -> list[Line]:
    """Price a month's requests, with ``batch`` events per request, and its queries: the gateway and the functions."""
    calls, seconds = requests + queries, prices.INGEST_SECONDS + batch * prices.INGEST_EVENT_SECONDS
    used = requests * seconds * prices.INGEST_GB + queries * prices.QUERY_SECONDS * prices.QUERY_GB
    lines = [
        Line(
            "API Gateway",
            calls * prices.GATEWAY_MILLION / 1e6,
            f"{requests / 1e6:,.2f} M requests of {batch:,.0f} events, {queries / 1e6:,.2f} M queries",
        ),
        Line("functions, calls", calls * prices.CALL_MILLION / 1e6, "one call per request"),
        Line(
            "functions, time",
            used * prices.GB_SECOND,
            f"assumed: {seconds * 1000:.0f} ms at 512 MB per request, {prices.QUERY_SECONDS * 1000:.0f} ms at 1,024 MB per query",
        ),
    ]
    log = calls * (prices.ACCESS_BYTES * prices.LOGS_INFREQUENT + prices.METRICS_BYTES * prices.LOGS) / GB
    how_logged = (
        f"per request {prices.ACCESS_BYTES} bytes of access log at ${prices.LOGS_INFREQUENT:.2f} per GB, and"
        f" {prices.METRICS_BYTES} of metrics at ${prices.LOGS:.2f}"
    )
    lines.append(Line("logs", log, how_logged))
    if by_key:
        check = prices.price_call(prices.KEYS_SECONDS, prices.KEYS_GB)
        how = f"a call per request; assumed: {prices.KEYS_SECONDS * 1000:.0f} ms at 512 MB"
        lines.append(Line("functions, authorizer", calls * check, how))
    return lines
