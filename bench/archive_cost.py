"""The cost of archiving a table: the reads, the function and the requests.

Prices of us-east-1 as published in November 2026. Lambda on arm64: $0.0000133334 per GB-second, $0.20 per million
calls. DynamoDB: on demand $0.125 per million read units ($0.155 in the class infrequent-access), provisioned $0.00013
per read unit and hour (a quarter more). S3: $0.005 per thousand writes, $0.0004 per thousand reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from tidetable.archive.pacing import BURST_SECONDS, ON_DEMAND_UNITS, WORTH_WAITING, count_readers
from tidetable.config import ArchivePolicy, TableClass

# A unit of a strongly consistent read is 4 KB.
_UNIT_BYTES = 4096
_ON_DEMAND = {TableClass.STANDARD: 0.125e-6, TableClass.INFREQUENT: 0.155e-6}
_PROVISIONED_HOUR = {TableClass.STANDARD: 0.00013, TableClass.INFREQUENT: 0.00013 * 1.25}
_GB_SECOND, _INVOCATION = 0.0000133334, 0.2e-6
_WRITE, _READ = 5e-6, 0.4e-6
# The memory of a worker, the seconds of its start (it imports pyarrow), and the seconds in which it reads.
FUNCTION_GB, START_SECONDS, RUN_SECONDS = 1769 / 1024, 4.0, 240.0
# Table bytes per second that a worker reads, writes and reads back: `make bench` measures more than 19 MB per second and
# core. A worker reads one page ahead, but a table may be slower, so 10 MB are assumed.
BYTES_PER_SECOND = 10e6
# The bytes of a segment, which usually is one file.
_SEGMENT_BYTES = 1e9


@dataclass(frozen=True, slots=True)
class ArchiveCost:
    """The dollars of archiving a table once, and its duration: ``hours`` in all, ``busy`` seconds of all workers."""

    reads: float
    function: float
    requests: float
    hours: float
    busy: float

    @property
    def total(self) -> float:
        return self.reads + self.function + self.requests

    @property
    def over_reads(self) -> float:
        """The total cost divided by the cost of the reads."""
        return self.total / self.reads if self.reads else 0.0


def price_archive(
    size: float,
    policy: ArchivePolicy,
    *,
    table_class: TableClass = TableClass.STANDARD,
    provisioned: int | None = None,
    maximum: int | None = None,
) -> ArchiveCost:
    """The cost of archiving ``size`` bytes of a table with a stream's ``[archive]`` settings.

    ``provisioned`` are the read units that the ladder gives the table anyway (None: on demand). The cost does not
    include them. ``maximum`` is the limit of the table's read units on demand.
    """
    units = size / _UNIT_BYTES
    raised = max(policy.read_units, provisioned) if policy.read_units is not None and provisioned is not None else None
    rate = policy.read_share * (raised if raised is not None else min(ON_DEMAND_UNITS, maximum or ON_DEMAND_UNITS))
    segments = max(ceil(size / _SEGMENT_BYTES), 1)
    workers = min(count_readers(rate, policy), segments)
    work = size / BYTES_PER_SECOND
    hours = max(units / rate, work / workers) / 3600
    if rate >= WORTH_WAITING:
        # If the table is slower than the workers, they wait for it.
        busy = max(work, units / rate * workers)
        runs = max(1, ceil(busy / RUN_SECONDS))
    else:
        # Every five minutes a run uses up the capacity that the table has saved, and ends.
        busy = work
        runs = max(1, ceil(units / (rate * BURST_SECONDS)))
    busy += runs * START_SECONDS
    if raised is None:
        reads = units * _ON_DEMAND[table_class]
    else:
        # AWS bills a whole hour for each hour that has begun.
        reads = ceil(hours) * (raised - (provisioned or 0)) * _PROVISIONED_HOUR[table_class]
    requests = (2 * segments + 4) * _WRITE + (segments + 4) * _READ
    return ArchiveCost(reads, busy * FUNCTION_GB * _GB_SECOND + runs * _INVOCATION, requests, hours, busy)
