"""The watch over the drain, in each run of the lifecycle: it sends a beat, and saves what waits while the drain stands still.

SQS deletes a message 14 days after it was sent. So while the last beat is old, the messages of the overflow queue become
objects of the bucket, as the drain would save them. So do the dead letters that have no reason: SQS itself moved them,
because the drain died at each of their deliveries. A message is deleted only after its object is stored, and the same
message is the same object: the watch may stop anywhere, run twice, and run beside a drain that is alive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple, Protocol

from tidetable.errors import NotDrained, StoreUnavailable
from tidetable.ingest.beat import STANDSTILL, Beats, send_beat
from tidetable.ingest.overflow import read_wake
from tidetable.ingest.saving import Received, save_message
from tidetable.large.shrink import LargeValueServices
from tidetable.ports import Clock, Overflow, Pools
from tidetable.remaining import Remaining

# AWS: a request receives ten messages. Four are saved at the same time: a message of one large event is 4 MB of JSON, which
# takes some 40 MB while it is saved, and the function has 512.
BATCH, _AT_ONCE = 10, 4
# A run receives no further messages with less time.
_BATCH_SECONDS = 20.0


class Taken(NamedTuple):
    """A message of a queue, the receipt by which it is deleted, and the reason if it is a dead letter with a reason."""

    message: Received
    receipt: str
    reason: str | None = None


class WaitingMessages(Protocol):
    """A queue of messages that wait. Both methods may raise StoreUnavailable."""

    def receive(self) -> Sequence[Taken]:
        """Receive up to ten messages, which others do not receive for two minutes; none if no message is visible."""

    def delete(self, taken: Taken) -> None: ...


@dataclass(slots=True)
class Watch:
    """The ports that the watch needs; ``letters`` are the dead letters of the overflow."""

    beats: Beats
    overflow: Overflow
    waiting: WaitingMessages
    letters: WaitingMessages
    large: LargeValueServices
    clock: Clock
    pools: Pools


class WatchReport(NamedTuple):
    """The age of the last beat, the number of saved events, and why messages are left."""

    silence: timedelta
    saved: int = 0
    problems: Sequence[str] = ()

    @property
    def stands_still(self) -> bool:
        return self.silence >= STANDSTILL


def watch_drain(ports: Watch, remaining: Remaining) -> WatchReport:
    """Save the messages that wait if the drain stands still, and send a beat. StoreUnavailable or TableMissing if the last
    beat is not known.
    """
    now = ports.clock.now()
    beat = ports.beats.read()
    if beat is None:
        # In a new stage the drain gets time for its first beat.
        ports.beats.write(beat := now)
    report = WatchReport(now - beat)
    if report.stands_still:
        saved, problems = 0, list[str]()
        for queue in (ports.waiting, ports.letters):
            saved += _save_messages(queue, ports, remaining, problems)
        report = report._replace(saved=saved, problems=tuple(dict.fromkeys(problems)))
    if not send_beat(ports.overflow, ports.clock.now()):
        report = report._replace(problems=(*report.problems, "the queue did not take the beat"))
    return report


def _save_messages(queue: WaitingMessages, ports: Watch, remaining: Remaining, problems: list[str]) -> int:
    """Save messages until no more are received; return the number of their events, and add why messages are left."""
    saved = 0
    with ports.pools(_AT_ONCE) as pool:
        try:
            while remaining() >= _BATCH_SECONDS and (batch := queue.receive()):
                save = partial(_save_taken, queue=queue, ports=ports, now=ports.clock.now(), problems=problems)
                saved += sum(pool.map(save, batch))
        except StoreUnavailable as error:
            problems.append(str(error))
    return saved


def _save_taken(taken: Taken, queue: WaitingMessages, ports: Watch, now: datetime, problems: list[str]) -> int:
    """Save one message, then delete it. A dead letter that has a reason stays, and so does a message that nobody can read,
    and a wake or a beat until its time is over.
    """
    wake, saved = read_wake(taken.message.body), 0
    if taken.reason is not None or (wake is not None and now < wake.until):
        return 0
    try:
        if wake is None:
            saved = save_message(taken.message, ports.large)
        queue.delete(taken)
    except (NotDrained, StoreUnavailable) as error:
        problems.append(str(error))
    return saved
