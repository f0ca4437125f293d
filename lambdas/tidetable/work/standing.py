"""What waits, runs and fails in the background, from the records of work."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from tidetable.work.claim import WorkItem, WorkRecords


class WorkStanding(NamedTuple):
    """The items of a kind of work of a stream: how many wait for a worker, run, and failed last.

    ``oldest`` is how long an item has waited since its first message, and ``problem`` why one failed. ``stream`` is None
    for work of the whole stage.
    """

    kind: str
    stream: str | None
    waiting: int
    running: int
    failed: int
    oldest: timedelta
    problem: str | None


def list_standings(work: WorkRecords, kinds: Iterable[str], now: datetime) -> list[WorkStanding]:
    """List the kinds and streams with items that wait, run or failed; each kind takes one read."""
    standings = list[WorkStanding]()
    for kind in kinds:
        streams: dict[str, list[WorkItem]] = {}
        for item in work.list_items(kind):
            streams.setdefault(item.name.partition("#")[0], []).append(item)
        standings += [_sum_items(kind, stream, items, now) for stream, items in streams.items()]
    return [standing for standing in standings if standing.waiting or standing.running or standing.failed]


def _sum_items(kind: str, stream: str, items: Sequence[WorkItem], now: datetime) -> WorkStanding:
    # A claim ends the waiting of its item.
    waiting = [now - item.waiting for item in items if item.waiting is not None]
    problems = [item.problem for item in items if item.problem]
    return WorkStanding(
        kind,
        # The sweep is the work of no stream.
        None if kind == "sweep" else stream,
        len(waiting),
        sum(item.is_claimed(now) for item in items),
        len(problems),
        max(waiting, default=timedelta(0)),
        problems[0] if problems else None,
    )
