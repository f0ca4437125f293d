"""The costs of tables beside their units and bytes, and the discounts on their units. All functions here are pure."""

from __future__ import annotations

from collections.abc import Iterator

from bill import prices
from bill.amounts import Amounts, Line
from bill.prices import HOURS, PROVISIONED
from tidetable.config import Stream, TableClass

# The functions that use a table: ingest, query, drain, archiver and lifecycle; with rollups the refresher, too.
_KEY_CALLERS = 5
# DynamoDB Developer Guide, "Encryption at rest": DynamoDB keeps a table's key in memory for each caller, and asks KMS
# again if the caller comes back after five minutes.
_KEY_REQUESTS = HOURS * 12
# Target tracking of DynamoDB makes four alarms per policy: AlarmHigh and AlarmLow on the consumed units, and
# ProvisionedCapacityHigh and -Low on changes of the units by somebody else. CloudWatch charges the account for them, by
# the hour.
_SCALING_ALARMS = 4
# A smaller discount is not worth a commitment.
_LEAST = 1.0


class CommittedUnits(Amounts, frozen=True):
    """The dollars of a month's units on demand and provisioned, and the provisioned units that can be reserved.

    AWS reserves units of the class standard, in blocks of 100, and no write units that are copied to other Regions.
    """

    on_demand: float = 0.0
    provisioned: float = 0.0
    write: int = 0
    read: int = 0


def price_scaling(dimensions: float) -> list[Line]:
    """Price the alarms of auto scaling: of so many dimensions (write or read, of a table or an index), on average."""
    if not dimensions:
        return []
    alarms = dimensions * _SCALING_ALARMS
    how = f"{alarms:,.0f} alarms at ${prices.ALARM:.2f}: four per dimension of a table and of an index"
    return [Line("auto scaling, alarms", alarms * prices.ALARM, how)]


def price_key_requests(stream: Stream, tables: float) -> list[Line]:
    """Price the requests to the KMS key of so many tables, at most; no lines with the key that DynamoDB owns."""
    if stream.table.encryption == "aws-owned":
        return []
    callers = _KEY_CALLERS + bool(stream.rollup)
    requests = tables * callers * _KEY_REQUESTS
    how = f"at most {requests:,.0f} requests: {tables:,.0f} tables, {callers} functions, each every five minutes"
    return [Line("KMS, requests", requests * prices.KMS_REQUEST, how)]


def list_discounts(units: CommittedUnits) -> list[Line]:
    """List what commitments to AWS may save per month; each excludes the others for the same units."""
    return [line for line in _price_commitments(units) if line.dollars >= _LEAST]


def _price_commitments(units: CommittedUnits) -> Iterator[Line]:
    on_demand, provisioned = prices.PLAN_ON_DEMAND, prices.PLAN_PROVISIONED
    yield Line(
        "Database Savings Plan, 1 year",
        on_demand * units.on_demand + provisioned * units.provisioned,
        f"{on_demand:.0%} off units on demand, {provisioned:.0%} off provisioned units, for dollars per hour that you commit"
        " to; it follows no table, so it suits rolling tables (not confirmed on a bill)",
    )
    write, read = (count // prices.RESERVED_BLOCK * prices.RESERVED_BLOCK for count in (units.write, units.read))
    full = PROVISIONED[TableClass.STANDARD].price(write, read, 0, HOURS)
    for years, share in prices.RESERVED.items():
        yield Line(
            f"reserved capacity, {years} year{'s' if years > 1 else ''}",
            share * (full.writes + full.reads),
            f"{share:.0%} off {write:,} write units and {read:,} read units of the class standard, which are provisioned at"
            " every hour; a part is paid in advance",
        )
