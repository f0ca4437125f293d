"""The throughput of a table or an index. It decides if a number of units is available now."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import md5
from math import ceil
from typing import Literal

from strict.buckets import Peaks, TokenBucket
from strict.rules import Rule

Side = Literal["Write", "Read"]

BURST_SECONDS = 300.0
PARTITION_UNITS: dict[Side, int] = {"Write": 1000, "Read": 3000}
ON_DEMAND_UNITS: dict[Side, int] = {"Write": 4000, "Read": 12_000}
GROWTH_WAIT = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Setting:
    """The setting of the write side or the read side: provisioned units, or None if on demand; warm units; and an
    on-demand maximum, or None.
    """

    provisioned: int | None
    warm: int
    maximum: int | None = None


class Lane:
    """The write side or the read side of a table or an index."""

    def __init__(self, side: Side, resource: str, without: AbstractSet[Rule], now: datetime) -> None:
        self._side = side
        self._kind = "Index" if "/" in resource else "Table"
        self._resource = resource
        self._without = without
        self._setting = Setting(None, 0)
        self._bucket = TokenBucket(1, self._burst, now)
        self._on_demand = TokenBucket(ON_DEMAND_UNITS[side], 1.0, now)
        self._maximum = TokenBucket(1, 1.0, now)
        self._partitions: dict[int, TokenBucket] = {}
        self._peaks = Peaks()

    @property
    def _burst(self) -> float:
        return 1.0 if Rule.BURST in self._without else BURST_SECONDS

    def set(self, setting: Setting, now: datetime) -> None:
        """Change the setting."""
        if self._setting.provisioned is None and setting.provisioned is not None:
            self._bucket = TokenBucket(setting.provisioned, self._burst, now)
        self._setting = setting
        if setting.provisioned is not None:
            self._bucket.set_rate(setting.provisioned, now)
        if setting.maximum is not None:
            self._maximum.set_rate(setting.maximum, now)

    def limit(self, now: datetime) -> float:
        """Return the units per second on demand: the warm throughput or, if larger, twice the peak until half an hour
        ago.
        """
        base = float(max(ON_DEMAND_UNITS[self._side], self._setting.warm))
        if Rule.ON_DEMAND_GROWTH in self._without:
            return base
        return max(base, 2 * self._peaks.find_peak(now - GROWTH_WAIT))

    def find_refusal(self, units: float, partition: int, now: datetime) -> tuple[str, str] | None:
        """Return reason and resource if the units (0 for a read of unknown size) are not available now; otherwise None."""
        # A read of unknown size is admitted while any unit is available, and charged afterwards.
        units = units or 1e-9
        kind = None
        if self._setting.provisioned is not None:
            rule = Rule.PROVISIONED_THROUGHPUT if self._kind == "Table" else Rule.INDEX_THROUGHPUT
            if rule not in self._without and not self._bucket.has(units, now):
                kind = "Provisioned"
        else:
            if (limit := self.limit(now)) > self._on_demand.rate:
                self._on_demand = TokenBucket(limit, 1.0, now)
            has_limit = Rule.ON_DEMAND_THROUGHPUT not in self._without
            has_maximum = self._setting.maximum is not None and Rule.ON_DEMAND_MAXIMUM not in self._without
            if has_maximum and not self._maximum.has(units, now):
                kind = "MaxOnDemand"
            elif has_limit and not self._on_demand.has(units, now):
                kind = "KeyRange"
        if (
            kind is None
            and Rule.PARTITION_THROUGHPUT not in self._without
            and not self._find_partition_bucket(partition, now).has(units, now)
        ):
            kind = "KeyRange"
        return None if kind is None else (f"{self._kind}{self._side}{kind}ThroughputExceeded", self._resource)

    def take(self, units: float, partition: int, now: datetime) -> None:
        """Charge units."""
        self._bucket.take(units)
        self._on_demand.take(units)
        self._maximum.take(units)
        self._find_partition_bucket(partition, now).take(units)
        self._peaks.add(units, now)

    def _find_partition_bucket(self, partition: int, now: datetime) -> TokenBucket:
        if partition not in self._partitions:
            # The bucket saves the units of one second only: even a burst cannot exceed a partition's limit.
            self._partitions[partition] = TokenBucket(PARTITION_UNITS[self._side], 1.0, now)
        return self._partitions[partition]


class Throughput:
    """The write side and the read side of a table or an index, and the physical partitions that both sides share."""

    def __init__(self, resource: str, without: AbstractSet[Rule], now: datetime) -> None:
        self.write = Lane("Write", resource, without, now)
        self.read = Lane("Read", resource, without, now)
        self._partitions = 1

    def set(self, write: Setting, read: Setting, now: datetime) -> None:
        """Change the settings. Partitions split when the throughput needs more of them, and never merge."""
        self.write.set(write, now)
        self.read.set(read, now)
        needed = ceil((write.provisioned or 0) / 1000 + (read.provisioned or 0) / 3000)
        self._split_partitions(max(needed, ceil(write.warm / 1000), ceil(read.warm / 3000)))
        if write.provisioned is None:
            self._split_partitions(ceil(self.write.limit(now) / 1000))

    def find_partition(self, key: str, now: datetime, *, on_demand: bool) -> int:
        """Find the physical partition of a partition key. Each partition has an equal share of the hash's range."""
        if on_demand:
            self._split_partitions(max(ceil(self.write.limit(now) / 1000), ceil(self.read.limit(now) / 3000)))
        if self._partitions == 1:
            return 0
        hashed = int.from_bytes(md5(key.encode(), usedforsecurity=False).digest()[:8])
        return hashed * self._partitions >> 64

    @property
    def partitions(self) -> int:
        """The number of physical partitions."""
        return self._partitions

    def _split_partitions(self, needed: int) -> None:
        self._partitions = max(self._partitions, needed)
