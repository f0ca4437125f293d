"""The scheduler: it wakes workers for the items that are due.

A message only wakes a worker. So it may be doubled, late or lost: the record of the item says what is to be done, and the
scheduler sends again after ``RESENT``. A message is sent before it is noted. A scheduler that stops in between, or works
beside another one, sends a message twice, and never none.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple, Protocol

from tidetable.work.claim import ItemName, WorkItem, WorkRecords

# A message waits while all workers are busy, and an item takes five minutes at most.
RESENT = timedelta(minutes=15)


class WorkQueue(Protocol):
    """A queue of messages to the workers of one kind of function."""

    def send(self, names: Sequence[ItemName]) -> Sequence[ItemName]:
        """Send a message for each item; return the items whose messages were accepted."""


class DueItem(NamedTuple):
    """An item that is due: work of a stream. An ``added`` item has a record, and is not due any more without it."""

    item: WorkItem
    stream: str
    added: bool = False

    @property
    def name(self) -> ItemName:
        """The name of the item."""
        return ItemName(self.item.kind, self.item.name)


class WorkReport(NamedTuple):
    """Counts: ``due`` items, due items that a worker has, due items whose last run failed, and messages that were sent.

    ``oldest`` is how long an item has waited for a worker since its first message.
    """

    due: int = 0
    running: int = 0
    failed: int = 0
    sent: int = 0
    oldest: timedelta = timedelta(0)


def wake_workers(
    due: Sequence[DueItem], workers: int, work: WorkRecords, queue: WorkQueue, now: datetime
) -> WorkReport:
    """Send messages for due items. Each kind of work of a stream has an equal share of the workers, one at least.

    What a share does not need goes to the others. Items with a claim, and items whose message may be under way, count as
    part of the share.
    """
    shares: dict[tuple[str, str], list[DueItem]] = {}
    for due_item in due:
        shares.setdefault((due_item.item.kind, due_item.stream), []).append(due_item)
    chosen, left = list[DueItem](), workers
    # The shares that need the fewest workers come first, so the others divide what these leave.
    for number, items in enumerate(sorted(shares.values(), key=len)):
        share = min(max(left // (len(shares) - number), 1), len(items))
        left -= share
        free = [due_item for due_item in items if not (due_item.item.is_claimed(now) or due_item.item.is_sent(now))]
        chosen += free[: max(share - (len(items) - len(free)), 0)]
    accepted = {*queue.send([due_item.name for due_item in chosen])}
    for due_item in chosen:
        if due_item.name in accepted:
            work.mark_sent(due_item.item, now, now + RESENT, added=due_item.added)
    waiting = [due_item.item.waiting for due_item in due if due_item.item.waiting is not None]
    return WorkReport(
        due=len(due),
        running=sum(due_item.item.is_claimed(now) for due_item in due),
        failed=sum(bool(due_item.item.problem) for due_item in due),
        sent=len(accepted),
        oldest=max((now - at for at in waiting), default=timedelta(0)),
    )
