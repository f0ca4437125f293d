"""What is due, runs, rests and fails in the background, from the records of work."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from tidetable.work.claim import EVERY_STREAM, Pause, WorkItem, WorkRecords
from tidetable.work.kinds import KINDS

# From then on an alarm rings (infra/alarms.toml).
_TOO_LONG = timedelta(hours=1)


class WorkStanding(NamedTuple):
    """The items of a kind of work of a stream: how many are due, wait for a worker, run, and failed last.

    ``oldest`` is how long an item has waited since its first message, and ``problem`` why one failed. ``stream`` is None
    for work of the whole stage. ``paused`` work rests. ``command`` shows more of work that failed or waits for long, or
    lets resting work go on; else it lets the work rest. It is None if there is no such command. ``alarm`` names the section of
    the runbook about work that failed or waits for long.
    """

    kind: str
    stream: str | None
    due: int
    waiting: int
    running: int
    failed: int
    oldest: timedelta
    problem: str | None
    paused: bool
    command: str | None
    alarm: str | None


def list_standings(work: WorkRecords, now: datetime) -> list[WorkStanding]:
    """List the kinds and streams with items that are due or failed, and what rests. It takes a read per kind, and one more."""
    pauses, standings = work.list_pauses(), list[WorkStanding]()
    for kind in KINDS:
        streams: dict[str, list[WorkItem]] = {pause.stream: [] for pause in sorted(pauses) if pause.kind == kind}
        for item in work.list_items(kind):
            streams.setdefault(item.name.partition("#")[0], []).append(item)
        standings += [_sum_items(kind, stream, items, pauses, now) for stream, items in streams.items()]
    return [standing for standing in standings if standing.due or standing.paused]


def _sum_items(
    kind: str, stream: str, items: Sequence[WorkItem], pauses: frozenset[Pause], now: datetime
) -> WorkStanding:
    rules = KINDS[kind]
    # A claim ends the waiting of its item.
    waiting = [now - item.waiting for item in items if item.waiting is not None]
    running = [item for item in items if item.is_claimed(now)]
    problems = [item.problem for item in items if item.problem]
    due = [item for item in items if not item.done and (rules.added or item.waiting or item.problem or item in running)]
    oldest = max(waiting, default=timedelta(0))
    paused = [name for name in (stream, EVERY_STREAM) if Pause(rules.rests_with, name) in pauses]
    alarm = rules.alarm if problems else rules.waits_alarm if oldest >= _TOO_LONG else None
    command: str | None = rules.shown_by.format(stream)
    if alarm is None:
        command = None if rules.of_stage else f"{command} --pause"
    if paused and not rules.of_stage:
        command = f"{rules.shown_by.format(shlex.quote(paused[-1]))} --resume"
    return WorkStanding(
        kind=kind,
        stream=None if rules.of_stage or stream == EVERY_STREAM else stream,
        due=len(due),
        waiting=len(waiting),
        running=len(running),
        failed=len(problems),
        oldest=oldest,
        problem=problems[0] if problems else None,
        paused=bool(paused),
        command=command,
        alarm=alarm,
    )
