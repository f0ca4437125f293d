"""The facts for an operator: the state of a stream's rollups, and the size of a rebuild before it runs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from tidetable.durations import Duration
from tidetable.ports.rollups import RollupState
from tidetable.rollup_model.cover import find_present, list_versions
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.due import measure_lag, measure_waiting
from tidetable.rollups.rebuild import Rebuild, choose_range, describe_rebuild, find_obstacle
from tidetable.times import to_text

# At most this many buckets with too many groups are named; the count has all of them.
_NAMED = 20


def describe_rollup(
    definition: Definition, state: RollupState, now: datetime, rebuild: Rebuild | None = None
) -> dict[str, Any]:
    """Describe a rollup: the time up to which it is sealed, and the buckets that are read from the events."""
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
        "lag_seconds": int(max(measure_lag(definition, state, now), measure_waiting(state, now)).total_seconds()),
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
        "rebuild": describe_rebuild(definition, rebuild, now),
    }


def plan_rebuild(
    definition: Definition, state: RollupState, start: datetime, end: datetime, now: datetime
) -> dict[str, Any]:
    """Count the buckets that a rebuild of a range would compute, and the sealed buckets that it would mark.

    ``problem`` says why it would compute none yet.
    """
    newest, problem = find_present(definition, state), find_obstacle(definition, state, now)
    if newest is None or problem is not None:
        return {"buckets": 0, "marked": 0, "problem": problem}
    first, last = choose_range(newest, start, end)
    before = max((newest.start - first) // definition.every, 0)
    return {"buckets": before, "marked": (last - first) // definition.every - before, "problem": None}
