"""AWS's prices from ``prices.toml``, in dollars, and the assumed figures of the bill; a month has 730 hours.

The file is read when this module is imported. Only those who compute a bill import it: ingest and query never do.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from bill.amounts import TableCost
from tidetable.config import TableClass

_LIST: dict[str, Any] = tomllib.loads(Path(__file__).with_name("prices.toml").read_text(encoding="utf-8"))
HOURS = 730
REGION, MONTH = str(_LIST["region"]), str(_LIST["month"])
GB = 1e9


class Rates(NamedTuple):
    """DynamoDB's price of a write unit, of a read unit, and of a byte that is stored for a month.

    A provisioned unit has its price per hour, a unit on demand is paid for once.
    """

    write: float
    read: float
    byte: float

    def price(self, writes: float, reads: float, size: float, hours: float = 1.0) -> TableCost:
        """Price write units and read units, for ``hours`` if they are provisioned, and a size in bytes for a month."""
        return TableCost(writes * self.write * hours, reads * self.read * hours, size * self.byte)


def _read_rates(mode: str, table_class: TableClass, share: float) -> Rates:
    units, byte = _LIST["dynamodb"][mode][table_class.value], _LIST["dynamodb"]["storage"][table_class.value] / GB
    return Rates(units["write"] * share, units["read"] * share, byte)


PROVISIONED = {kind: _read_rates("provisioned", kind, 1.0) for kind in TableClass}
# AWS's list has the price of a million units.
ON_DEMAND = {kind: _read_rates("on-demand", kind, 1e-6) for kind in TableClass}
# Copies in other Regions: in each Region a replicated write unit of a table costs as much as a write unit, and the
# units of indexes are ordinary units (AWS: developer guide, "Understanding billing for global tables"; prices since
# November 2024). DynamoDB reads the change stream for its copies without charge (AWS: DynamoDB pricing).
TRANSFER: float = _LIST["dynamodb"]["others"]["transfer"]
BACKUPS: float = _LIST["dynamodb"]["others"]["backups"]
PLAN_ON_DEMAND: float = _LIST["dynamodb"]["others"]["plan_on_demand"]
PLAN_PROVISIONED: float = _LIST["dynamodb"]["others"]["plan_provisioned"]
# The shares of reserved capacity by the years of the commitment.
RESERVED = {int(years): float(share) for years, share in _LIST["dynamodb"]["others"]["reserved"].items()}
RESERVED_BLOCK: int = _LIST["dynamodb"]["others"]["reserved_block"]
GATEWAY_MILLION: float = _LIST["requests"]["gateway_million"]
CALL_MILLION: float = _LIST["requests"]["call_million"]
GB_SECOND: float = _LIST["requests"]["gb_second"]
S3: dict[str, Any] = _LIST["s3"]
LOGS: float = _LIST["cloudwatch"]["logs"]
LOGS_INFREQUENT: float = _LIST["cloudwatch"]["logs_infrequent"]
METRIC: float = _LIST["cloudwatch"]["metric"]
ALARM: float = _LIST["cloudwatch"]["alarm"]
S3_THOUSAND: float = _LIST["requests"]["s3_thousand"]
KMS_KEY: float = _LIST["kms"]["key"]
KMS_REQUEST: float = _LIST["kms"]["request"]

# What a write unit costs, in read units: the same in both modes.
WRITE_PRICE: float = ON_DEMAND[TableClass.STANDARD].write / ON_DEMAND[TableClass.STANDARD].read


def describe_prices(region: str = REGION) -> dict[str, Any]:
    """Describe the prices that the bill uses. If the stage is in another Region, a note says that its prices differ."""
    note = None
    if region != REGION:
        note = (
            f"the stage is in {region or 'an unknown Region'}, whose prices are not known here: expect up to 60% more"
        )
    return {"region": REGION, "month": MONTH, "hours": HOURS, "note": note}


def price_call(seconds: float, memory: float) -> float:
    """Price a call of a function that takes so many seconds with so many GB of memory."""
    return CALL_MILLION / 1e6 + seconds * memory * GB_SECOND


def price_reads(units_per_second: float, *, on_demand: bool) -> float:
    """Dollars per month of read units in the class standard, if 70 percent of provisioned units are used."""
    if on_demand:
        return units_per_second * HOURS * 3600 * ON_DEMAND[TableClass.STANDARD].read
    return units_per_second / 0.7 * PROVISIONED[TableClass.STANDARD].read * HOURS


# Assumed times of the functions. docs/inside/performance.md measures 8.8 to 10.4 microseconds per event on a whole
# core. 512 MB are 0.29 of a core (AWS: 1,769 MB are a whole core), so 30 microseconds are assumed. The rest of a call
# is the wait for DynamoDB and the share of Powertools, which nobody can measure without an account: 20 ms are assumed,
# that is three round trips of 5 ms and a little.
INGEST_GB, INGEST_SECONDS, INGEST_EVENT_SECONDS = 0.5, 0.020, 0.000030
# A warm call of the authorizer takes 19 microseconds of a whole core (bench/cold.py), so 2 ms are mostly Lambda's own share.
KEYS_GB, KEYS_SECONDS = 0.5, 0.002
QUERY_GB, QUERY_SECONDS = 1.0, 0.030
# A worker of archives: pages of 1 MB, one after another, compared and compressed by a core.
ARCHIVER_GB, ARCHIVER_BYTES_PER_SECOND = 1769 / 1024, 10e6
# A worker of restores: to make requests of the rows of a file and to compare them takes 16 microseconds of a core per event
# (bench/restore.py). With the waits for DynamoDB's answers, 60 are assumed.
RESTORER_GB, RESTORED_EVENT_SECONDS = 3008 / 1024, 60e-6
# Workers of rollups, on a whole core, that is 1,769 MB. A call waits for some answers: 100 ms are assumed, and 5 ms for each
# request of the scheduler. Sealing an event of a plain item or of a pack, and a cell, are measured by bench/seal.py and
# bench/rollups.py, and rounded up (bench/results.json; tests/bill/test_work.py compares them).
WORKER_GB, WORKER_SECONDS, REQUEST_SECONDS = 1769 / 1024, 0.100, 0.005
SEALED_EVENT_SECONDS, SEALED_PACKED_SECONDS, CELL_SECONDS = 2.0e-6, 1.8e-6, 28e-6
# The feed's function makes one or two requests to targets. A new on-demand table has four partitions (AWS: 4,000 write
# units per second), and its change stream has a shard per partition. Lambda polls a shard four times per second.
FEED_GB, FEED_SECONDS, FEED_SHARDS, LAMBDA_POLLS = 0.5, 0.050, 4, 4
# The drain looks every minute for saved messages, by two lists of the bucket, and one more for each stream that has some.
DRAIN_GB, DRAIN_SECONDS, DRAIN_LISTS = 1.0, 0.100, 2
# A queue that calls a function costs without messages, too. Lambda polls it with five long polls at a time: fewer are not
# available to a mapping with a limit of concurrency (https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-scaling.html).
# That each lasts 20 seconds, SQS's longest, is assumed: AWS does not say it.
SQS_MILLION, QUEUE_POLLS = 0.40, 5 * 3600 / 20 * HOURS
# The size of Parquet as a share of the bytes in the table. The examples of this project are between 0.1 and 0.3; a bill
# should be too high rather than too low, so a quarter is assumed.
ARCHIVE_SHARE = 0.25
# The bytes that a request logs: a line of the access log, and the metrics of a function (tests/infra/test_logs.py makes
# such lines). Lambda's START, END and REPORT lines are switched off.
ACCESS_BYTES, METRICS_BYTES = 620, 526
