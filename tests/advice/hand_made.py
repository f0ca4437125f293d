"""Histories of one stream that are written by hand: the same hour again and again."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from cli.advising.finding import Finding
from cli.advising.history import History, Hour, Resource, Use
from cli.advising.measured import Measured
from tests.worlds.advised import BY_KIND, stream
from tidetable.config import Stream, parse
from tidetable.periods import find_containing

# A Monday.
END = datetime(2026, 6, 15, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = 86_400
# 14 days are 1,209,600 seconds, and a month has 730 hours: what a unit on demand in that time costs per month.
PER_UNIT = 0.125 * 730 * 3600 / 1_209_600 / 1e6
PROVISIONED = "{ age = 0, write = 143, read = 5 }, { age = 1, mode = 'on-demand' }"
M = 1_000_000


def hour(at: datetime, units: float = 0.0, reads: float = 0.0, **throttles: float) -> Hour:
    """An hour of so many units per second; ``Write_AccountLimit=5`` are five throttled events."""
    counts: Any = {tuple(name.split("_")): float(count) for name, count in throttles.items()}
    return Hour(at, units * 3600, reads * 3600, units, reads, counts)


def history(
    text: str,
    units: float,
    *,
    days: int = 14,
    reads: float = 0.0,
    throttles: Mapping[str, float] | None = None,
    late: Hour | None = None,
    indexes: Mapping[str, Hour] | None = None,
    size: int = 500,
    uses: tuple[Use, ...] | None = (),
    **known: Any,
) -> History:
    """Days of a stream, each with its table, and with the hours of ``indexes`` at the time of those of the table.

    ``late`` is an hour of each table after its end. ``known`` are the further fields of the history.
    """
    policy = next(iter(parse(text).streams.values()))
    resources = []
    for day in range(days):
        start = END - timedelta(days=days - day)
        period = find_containing(start, policy.period)
        table = [hour(start + HOUR * number, units, reads, **(throttles or {})) for number in range(24)]
        table += [replace(late, start=start + HOUR * 25)] if late is not None else []
        items = round(units * DAY)
        resources.append(Resource(period, "", policy.key.shards, tuple(table), items, items * size))
        for index in policy.index:
            own = (indexes or {}).get(index.name, Hour(start))
            hours = tuple(replace(own, start=start + HOUR * number) for number in range(24))
            resources.append(Resource(period, index.name, index.shards, hours))
    return History(policy, END - timedelta(days=days), END, tuple(resources), uses=uses, **known)


def plain(units: float = 10.0, **known: Any) -> Measured:
    """Days of a stream with one index, by the bucket of a day."""
    return Measured(history(stream(tail=BY_KIND), units, **known))


def set_prices(patch: pytest.MonkeyPatch, now: float, then: float | Callable[[Stream], float]) -> None:
    """Let a stream cost ``now`` dollars per month, and ``then`` with any other policy."""
    patch.setattr(Measured, "dollars", now)
    patch.setattr(Measured, "price_stream", lambda _, policy: then(policy) if callable(then) else then)


def use(queries: float, requests: float, units: float, share: float = 1.0, *conditions: str) -> Use:
    """Queries and requests in millions, the units of each request, and the share of what is read that is shown."""
    return Use("events", conditions, int(queries * M), int(requests * M), units * requests * M, 10**6, int(share * M))


def read(finding: Finding) -> Any:
    """The lines of a finding, as they are read in a file."""
    return tomllib.loads(finding.toml)["streams"]["s"]
