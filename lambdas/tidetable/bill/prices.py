"""AWS's prices in us-east-1, November 2026, in dollars; a month has 730 hours."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tidetable.config import TableClass

HOURS = 730
REGION, MONTH = "us-east-1", "2026-11"
GB = 1e9


class Cost(msgspec.Struct, frozen=True):
    """Dollars of writes, of reads and of storage at DynamoDB."""

    writes: float = 0.0
    reads: float = 0.0
    storage: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.writes + other.writes, self.reads + other.reads, self.storage + other.storage)

    def scale(self, factor: float) -> Cost:
        """Multiply all amounts by a factor."""
        return Cost(self.writes * factor, self.reads * factor, self.storage * factor)

    def drop_reads(self) -> Cost:
        """Return the cost of a copy on demand: the queries at a copy depend on the readers in its Region."""
        return Cost(self.writes, storage=self.storage)


class Rates(NamedTuple):
    """DynamoDB's price of a write unit, of a read unit, and of a byte that is stored for a month.

    A provisioned unit has its price per hour, a unit on demand is paid for once.
    """

    write: float
    read: float
    byte: float

    def price(self, writes: float, reads: float, size: float, hours: float = 1.0) -> Cost:
        """Price write units and read units, for ``hours`` if they are provisioned, and a size in bytes for a month."""
        return Cost(writes * self.write * hours, reads * self.read * hours, size * self.byte)


# We assume that provisioned units of the class infrequent-access cost a quarter more, as its units on demand do.
PROVISIONED = {
    TableClass.STANDARD: Rates(0.00065, 0.00013, 0.25 / GB),
    TableClass.INFREQUENT: Rates(0.00065 * 1.25, 0.00013 * 1.25, 0.10 / GB),
}
# AWS's list has the price of a million units.
ON_DEMAND = {
    TableClass.STANDARD: Rates(0.625 / 1e6, 0.125 / 1e6, 0.25 / GB),
    TableClass.INFREQUENT: Rates(0.78 / 1e6, 0.155 / 1e6, 0.10 / GB),
}
# Copies in other Regions: in each Region a replicated write unit of a table costs as much as a write unit, and the
# units of indexes are ordinary units (AWS: developer guide, "Understanding billing for global tables"; prices since
# November 2024). Transfer is priced per GB from us-east-1 to another Region. The price comes from published bills
# ("USE1-EU-AWS-Out-Bytes" $0.02; from Tokyo, "APN1-USE1", $0.09), as AWS's own price list was not at hand. DynamoDB
# reads the change stream for its copies without charge (AWS: DynamoDB pricing).
TRANSFER = 0.02
BACKUPS = 0.20  # point-in-time recovery, per GB-month
GATEWAY_MILLION = 3.50  # API Gateway REST, per million requests
CALL_MILLION = 0.20  # Lambda, per million requests
GB_SECOND = 0.0000133334  # Lambda on arm64
S3_STORAGE = 0.023  # S3 Standard, per GB-month


def price_call(seconds: float, memory: float) -> float:
    """Price a call of a function that takes so many seconds with so many GB of memory."""
    return CALL_MILLION / 1e6 + seconds * memory * GB_SECOND


# Assumed times of the functions. docs/inside/performance.md measures 8.8 to 10.4 microseconds per event on a whole
# core. 512 MB are 0.29 of a core (AWS: 1,769 MB are a whole core), so 30 microseconds are assumed. The rest of a call
# is the wait for DynamoDB and the share of Powertools, which nobody can measure without an account: 20 ms are assumed,
# that is three round trips of 5 ms and a little.
INGEST_GB, INGEST_SECONDS, INGEST_EVENT_SECONDS = 0.5, 0.020, 0.000030
# A warm call of the authorizer takes 19 microseconds of a whole core (bench/cold.py), so 2 ms are mostly Lambda's own share.
KEYS_GB, KEYS_SECONDS = 0.5, 0.002
QUERY_GB, QUERY_SECONDS = 1.0, 0.030
# The archiver: pages of 1 MB from four segments at once, compared and compressed by two cores.
ARCHIVER_GB, ARCHIVER_BYTES_PER_SECOND = 3008 / 1024, 10e6
# The refresher: a run without work waits for some answers. Computing cells takes 6 to 7 microseconds per event on a
# whole core, that is 1,769 MB (measured by bench/rollups.py); receiving the events takes about as long.
REFRESHER_GB, REFRESHER_SECONDS, REFRESHER_EVENT_SECONDS = 1769 / 1024, 0.100, 0.000015
# The feed's function makes one or two requests to targets. A new on-demand table has four partitions (AWS: 4,000 write
# units per second), and its change stream has a shard per partition. Lambda polls a shard four times per second.
FEED_GB, FEED_SECONDS, FEED_SHARDS, LAMBDA_POLLS = 0.5, 0.050, 4, 4
# The size of Parquet as a share of the bytes in the table: the examples of this project are between 0.1 and 0.3.
ARCHIVE_SHARE = 0.25
