"""The workload that the commands price: incoming events, and queries."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path

from tidetable.config import Config, Stream, load
from tidetable.config.model import IndexPolicy
from tidetable.periods import Period, containing

# The hours of `--night`, in UTC.
NIGHT = frozenset({23, 0, 1, 2, 3, 4, 5, 6})
# The bytes of an event in an index of keys alone: the keys of table and index, and their names.
KEYS_BYTES = 200


@dataclass(frozen=True)
class Workload:
    """Events and queries by the hour of the day, in UTC.

    ``index_shares`` is the share of events in an index, 0 to 1.
    """

    events_per_second: list[float]
    event_bytes: int
    reads_per_second: float
    read_bytes: int
    old_reads_per_second: float
    stream: Stream
    batch: int = 100
    archive_days: int = 365
    index_shares: Mapping[str, float] = field(default_factory=dict)

    @property
    def event_units(self) -> int:
        """Write units of an event in the table."""
        return ceil(self.event_bytes / 1024)

    @property
    def read_units(self) -> float:
        """Read units of a query, eventually consistent."""
        return ceil(self.read_bytes / 4096) / 2

    @property
    def events_per_day(self) -> float:
        """Events of a day."""
        return sum(self.events_per_second) * 3600

    @property
    def index_units(self) -> float:
        """Write units of an event in all indexes, on average."""
        return sum(self.units_in(index) for index in self.stream.index)

    @property
    def index_bytes(self) -> float:
        """Bytes of an event in all indexes, on average."""
        return sum(self.share_of(index) * self.bytes_in(index) for index in self.stream.index)

    def units_in(self, index: IndexPolicy) -> float:
        """Write units of an event in an index, on average."""
        return self.share_of(index) * ceil(self.bytes_in(index) / 1024)

    def share_of(self, index: IndexPolicy) -> float:
        """The share of events that are in an index, 0 to 1."""
        return self.index_shares.get(index.name, 1.0)

    def bytes_in(self, index: IndexPolicy) -> int:
        """Bytes of an event in an index; an index of some fields counts as the whole event."""
        return min(self.event_bytes, KEYS_BYTES) if index.project == "keys" else self.event_bytes

    def count_events(self, period: Period, now: datetime) -> float:
        """The number of events in a period's table, which fills by the hour."""
        end = min(now, period.end)
        days = max(0, (end - period.start) // timedelta(days=1))
        hour, count = period.start + timedelta(days=days), days * self.events_per_day
        while hour < end:
            count += self.events_per_second[hour.hour] * min((end - hour).total_seconds(), 3600)
            hour += timedelta(hours=1)
        return count

    @property
    def period_days(self) -> float:
        """Length of a period in days; a month counts as June."""
        period = containing(datetime(2026, 6, 1, tzinfo=UTC), self.stream.period)
        return (period.end - period.start) / timedelta(days=1)

    @property
    def kept_days(self) -> float:
        """The number of days for which an event is kept in a table."""
        return self.stream.retention * self.period_days


def read(folder: Path) -> Workload:
    """Read a folder's workload.toml, and the only stream of its tidetable.toml."""
    stream = choose_stream(load(folder / "tidetable.toml"), None)
    return Workload(stream=stream, **tomllib.loads((folder / "workload.toml").read_text()))


def choose_stream(config: Config, name: str | None) -> Stream:
    """The named stream, or the only stream; ValueError names the existing streams."""
    names = ", ".join(config.streams)
    if name is None and len(config.streams) > 1:
        raise ValueError(f"the configuration has several streams: add --stream with one of {names}")
    stream = config.streams.get(name) if name is not None else next(iter(config.streams.values()))
    if stream is None:
        raise ValueError(f"there is no stream {name!r}; there are: {names}")
    return stream


def by_hour(rate: float, night: float | None) -> list[float]:
    """Events per second of each hour of the day."""
    return [night if night is not None and hour in NIGHT else rate for hour in range(24)]


def read_shares(stream: Stream, words: list[str]) -> dict[str, float]:
    """Shares of events by index, from words such as ``by_error=0.01``; ValueError describes a wrong word."""
    names = [index.name for index in stream.index]
    shares = {}
    for word in words:
        name, _, text = word.partition("=")
        if name not in names:
            raise ValueError(f"--in-index {word}: there is no index {name!r}; there are: {', '.join(names) or 'none'}")
        try:
            share = float(text)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            raise ValueError(f"--in-index {word}: write the share of the events that are in it, such as {name}=0.01")
        shares[name] = share
    return shares
