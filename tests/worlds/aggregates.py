"""Aggregates of a stage in memory, and the same aggregates, calculated from events without the code under test."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from tests.fakes.stage import Stage
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.aggregates.find import Aggregate
from tidetable.times import to_text

# Rows by their step and group; the value of a row is its statistics.
Rows = dict[tuple[str, tuple[Any, ...]], dict[str, Any]]
STATS = "count,sum,min,max,first,last"


def ask_aggregate(stage: Stage, stream: str, start: datetime, end: datetime, **parameters: str) -> Aggregate:
    """Ask for an aggregate of a range, as `/aggregate` does; strongly consistent unless a parameter says otherwise."""
    asked = {"from": to_text(start), "to": to_text(end), "consistent": "true"} | parameters
    now, policy = stage.clock.now(), stage.config.streams[stream]
    query = parse_aggregation(policy, {name: [value] for name, value in asked.items()}, now, stage.seal)
    found = find_aggregate(query, policy, stage.reader(), now, lambda: 1000.0)
    assert found.next is None
    return found


def rows_of(found: Aggregate, stats: str = STATS) -> Rows:
    """The rows of an answer by step and group."""
    return {
        (row["start"], tuple(row.get("group", {}).values())): {stat: row[stat] for stat in stats.split(",")}
        for row in found.rows
    }


def rollups_of(found: Aggregate) -> set[str]:
    """The names of the rollups from which an answer was read."""
    return {scan.entry.stream for scan in found.sources} - {found.stream}


def tally(events: Iterable[Mapping[str, Any]], step: timedelta, by: Iterable[str], field: str | None = "n") -> Rows:
    """Calculate the rows of an aggregate that begins at a step.

    In a field of ``by``, a value that is no text counts as missing.
    """
    groups: dict[tuple[str, tuple[Any, ...]], list[tuple[str, str, str, Any]]] = defaultdict(list)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    for event in events:
        time = datetime.fromisoformat(event["time"])
        start = epoch + (time - epoch) // step * step
        named = {"series": event["series"], **event["data"]}
        group = tuple(named.get(name) if isinstance(named.get(name), str) else None for name in by)
        value = event["data"].get(field)
        if field is None or value is not None:
            groups[to_text(start), group].append((event["time"], event["series"], event["id"], value))
    found: Rows = {}
    for key, members in groups.items():
        values = [value for *_, value in sorted(members)]
        found[key] = {"count": len(values)}
        if field is not None:
            found[key] |= {"sum": sum(map(Decimal, values)), "min": min(values), "max": max(values)}
            found[key] |= {"first": values[0], "last": values[-1]}
    return found
