"""What is due in the rollups of a stream. One read of their state tells it, so a stream without due work costs no more."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tidetable.config import Stream
from tidetable.ports.rollups import RollupState
from tidetable.rollup_model.bounds import SEALED_AFTER, can_reseal, can_seal, find_due, is_forgotten
from tidetable.rollup_model.cover import DefinitionVersion, list_versions
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.last_periods import is_cover_due
from tidetable.rollups.series_index_upkeep import is_swept, needs_noting


def has_work(definitions: Sequence[Definition], policy: Stream | None, state: RollupState, now: datetime) -> bool:
    """True if a run would change something of a stream, or would try to."""
    if is_cover_due(policy, state, now):
        return True
    if not definitions:
        return False
    if needs_noting(state.noting, now) or not is_swept(state.noting, now):
        return True
    if any(mark.event or can_reseal(mark, now) for mark in state.marks):
        return True
    if any(is_forgotten(mark, now) for mark in state.rested):
        return True
    for definition in definitions:
        versions = list_versions(definition, state)
        if not has_begun(definition, versions) or any(is_due(version, now) for version in versions):
            return True
    return False


def has_begun(definition: Definition, versions: Sequence[DefinitionVersion]) -> bool:
    """True if the newest version of a rollup has the present definition."""
    return bool(versions) and versions[0].edge.definition == definition.text


def is_due(version: DefinitionVersion, now: datetime) -> bool:
    """True if the next bucket of a version can be sealed."""
    end = version.edge.sealed + version.definition.every
    return can_seal(end, now) and (version.limit is None or end <= version.limit)


def measure_lag(definition: Definition, state: RollupState, now: datetime) -> timedelta:
    """Measure for how long the next bucket of a rollup could have been sealed already; zero if it cannot be sealed yet."""
    versions = list_versions(definition, state)
    if not versions:
        return timedelta(0)
    due = versions[0].edge.sealed + versions[0].definition.every + SEALED_AFTER
    return max(now - due, timedelta(0))


def measure_waiting(state: RollupState, now: datetime) -> timedelta:
    """Measure for how long a marked bucket has waited longer than it should; zero if no bucket has."""
    return max([timedelta(0), *(now - find_due(mark) for mark in state.marks)])
