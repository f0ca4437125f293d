"""The work of the next time, for an operator: what is due in the rollups of each stream, and what a deploy would change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from tidetable.ports.rollups import RollupState
from tidetable.rollup_model.bounds import SEALED_AFTER, can_reseal
from tidetable.rollup_model.cover import list_versions
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.claims import SEAL
from tidetable.rollups.due import has_begun
from tidetable.rollups.services import Services
from tidetable.rollups.worker import describe_failure
from tidetable.work.claim import WorkRecords, rests
from tidetable.work.standing import list_standings

# How far the outlook goes.
_AHEAD = timedelta(hours=1)


class PendingWork(NamedTuple):
    """Work of a stream, or of the stage (None). ``outcome`` says when it is done: "due" now, "planned" within the hour,
    "rests", or "unknown". ``reason`` counts what is to be done, or says why it is not known.
    """

    kind: str
    stream: str | None
    outcome: str
    reason: str


def list_pending(definitions: Mapping[str, Sequence[Definition]], services: Services) -> list[PendingWork]:
    """List the work that is due now and within the hour. It takes a read per stream, one per kind of work, and two more."""
    now, pauses, pending = services.clock.now(), services.work.list_pauses(), list[PendingWork]()
    for source, rollups in definitions.items():
        try:
            state = services.rollups.read_at_once(source)
            due, later = (_count_work(rollups, state, at) for at in (now, now + _AHEAD))
        except Exception as error:  # the other streams are shown all the same
            pending.append(PendingWork(SEAL, source, "unknown", describe_failure(error)))
            continue
        added = {name: count - due[name] for name, count in later.items()}
        for outcome, counts in (("due", due), ("planned", added)):
            if any(counts.values()):
                rest = rests(SEAL, source, pauses)
                pending.append(PendingWork(SEAL, source, "rests" if rest else outcome, _describe_counts(counts)))
    return pending + list_due_items(services.work, now)


def list_due_items(work: WorkRecords, now: datetime) -> list[PendingWork]:
    """List the work that is due by its records, all but sealing. It takes a read per kind of work, and one more."""
    return [
        PendingWork(
            one.kind, one.stream, "rests" if one.paused else "due", f"{one.due:,} item{'s' if one.due > 1 else ''}"
        )
        for one in list_standings(work, now)
        if one.kind != SEAL and one.due
    ]


def _count_work(rollups: Sequence[Definition], state: RollupState, now: datetime) -> dict[str, int]:
    """Count what a run at ``now`` would do, if no run came before and no event came late."""
    sealable = 0
    for definition in rollups:
        for version in list_versions(definition, state):
            last = now - SEALED_AFTER if version.limit is None else min(now - SEALED_AFTER, version.limit)
            sealable += max((last - version.edge.sealed) // version.definition.every, 0)
    return {
        "rollup to begin": sum(not has_begun(rollup, list_versions(rollup, state)) for rollup in rollups),
        "bucket to seal": sealable,
        "marked bucket to compute anew": sum(can_reseal(mark, now) for mark in state.marks),
        "late event to add": sum(bool(mark.event) for mark in state.marks),
    }


def _describe_counts(counts: Mapping[str, int]) -> str:
    texts = []
    for name, count in counts.items():
        noun, *rest = name.split(" to ")
        texts.append(f"{count:,} {noun}{'s' if count > 1 else ''} to {rest[0]}" if count else "")
    return ", ".join(filter(None, texts))


def compare_definitions(
    present: Mapping[str, Mapping[str, str]], wanted: Mapping[str, Iterable[Definition]]
) -> Iterator[PendingWork]:
    """Say what a deploy changes in rollups. ``present`` has the texts of the definitions by stream and rollup.

    A deploy computes no past bucket anew: only a rebuild does.
    """
    for source in {**present, **wanted}:
        before, after = present.get(source, {}), {rollup.name: rollup.text for rollup in wanted.get(source, ())}
        for name in {**before, **after}:
            rebuild = f"bin/tidetable rollup {source} --name {name} --rebuild computes past buckets"
            if name not in after:
                reason = f"{name} leaves: its buckets are not sealed any more"
            elif name not in before:
                reason = f"{name} is new, and begins after the deploy; {rebuild}"
            elif before[name] != after[name]:
                reason = f"{name} has another definition from a bucket after the deploy on; {rebuild}"
            else:
                continue
            yield PendingWork(SEAL, source, "at a deploy", reason)
