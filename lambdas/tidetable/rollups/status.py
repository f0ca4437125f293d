"""The facts for an operator: the state of a stream's rollups, and the size of a rebuild before it runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from tidetable.durations import Duration
from tidetable.ports.rollups import RollupState
from tidetable.rollups.cover import list_versions
from tidetable.rollups.definition import Definition
from tidetable.rollups.refresh import measure_lag
from tidetable.times import to_text

# At most this many buckets with too many groups are named; the count has all of them.
_NAMED = 20


def describe_rollups(definitions: Sequence[Definition], state: RollupState, now: datetime) -> list[dict[str, Any]]:
    """Describe each rollup of a stream: the time up to which it is sealed, and the buckets that are read from the
    events.
    """
    return [_describe(definition, state, now) for definition in definitions]


def _describe(definition: Definition, state: RollupState, now: datetime) -> dict[str, Any]:
    versions = list_versions(definition, state)
    over = [bucket for rollup, bucket in state.over if rollup == definition.name]
    return {
        "rollup": definition.name,
        "stream": definition.stream,
        "every": str(Duration(seconds=int(definition.every.total_seconds()))),
        "by": list(definition.by),
        "fields": list(definition.fields),
        "stats": list(definition.stats),
        "start": to_text(versions[-1].start) if versions else None,
        "sealed": to_text(versions[0].end) if versions else None,
        "lag_seconds": int(measure_lag(definition, state, now).total_seconds()),
        "marks": len(state.marks),
        "overfull": [to_text(bucket) for bucket in over[:_NAMED]],
        "overfull_count": len(over),
        "versions": [
            {
                "start": to_text(version.start),
                "sealed": to_text(version.end),
                "present": version.edge.definition == definition.text,
            }
            for version in versions
        ],
    }


def plan_rebuild(definition: Definition, state: RollupState, start: datetime, end: datetime) -> dict[str, Any]:
    """Count the buckets that a rebuild of a range would compute, and the sealed buckets that it would mark."""
    versions = list_versions(definition, state)
    if not versions or versions[0].edge.definition != definition.text:
        return {"buckets": 0, "marked": 0, "problem": "the rollup has not begun: wait for the refresher's next run"}
    newest, first = versions[0], definition.floor(start)
    begin, last = max(first, newest.start), min(definition.ceil(end), newest.end)
    return {
        "buckets": max((newest.start - first) // definition.every, 0),
        "marked": max((last - begin) // definition.every, 0),
        "problem": None,
    }
