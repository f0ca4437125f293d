"""The overflow's queue in memory, and the event bus. A message is delivered until it is drained or a dead letter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidetable.errors import NotDrained, Outage, StoreUnavailable
from tidetable.events import Event
from tidetable.ingest.overflow import encode_messages
from tidetable.ingest.saving import Received
from tidetable.ingest.standstill import Taken

VISIBILITY = timedelta(minutes=6)
RECEIVES = 120


@dataclass
class Message:
    body: str
    visible: datetime
    received: int = 0
    sent: datetime | None = None
    id: str = ""
    reason: str | None = None


class FakeBeats:
    """The record of the drain's last beat; with ``fails`` DynamoDB does not answer."""

    def __init__(self, count: Callable[[], None] = lambda: None) -> None:
        self.beat: datetime | None = None
        self.fails = False
        self.reads = 0
        self._count = count

    def read(self) -> datetime | None:
        self.reads += 1
        self._answer()
        return self.beat

    def write(self, sent: datetime) -> None:
        self._answer()
        self.beat = sent
        self._count()

    def _answer(self) -> None:
        if self.fails:
            raise StoreUnavailable(Outage.NO_ANSWER, "DynamoDB does not answer")


class FakeMessages:
    """The messages of a queue, for a receiver who deletes them. The first of them come first."""

    def __init__(self, messages: list[Message], now: Callable[[], datetime], count: Callable[[], None]) -> None:
        self._messages, self._now, self._count = messages, now, count
        self.fails = False

    def receive(self) -> Sequence[Taken]:
        if self.fails:
            raise StoreUnavailable(Outage.OTHER, "SQS did not answer")
        visible = [message for message in self._messages if message.visible <= self._now()][:10]
        for message in visible:
            message.visible = self._now() + timedelta(minutes=2)
        return [Taken(Received(own.body, own.sent or self._now(), own.id), own.id, own.reason) for own in visible]

    def delete(self, taken: Taken) -> None:
        self._messages[:] = [message for message in self._messages if message.id != taken.receipt]
        self._count()


class FakeBus:
    """An event bus that accepts every notice."""

    def publish(self, notices: Sequence[object]) -> int:
        return 0


class FakeQueue:
    """A queue with dead letters; with ``refuses`` it is unreachable."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self.messages: list[Message] = []
        self.dead: list[Message] = []
        self.refuses = False
        self._count = 0

    def send(self, stream: str, events: Sequence[Event], at: int) -> Sequence[Event]:
        if self.refuses:
            return events
        for message in encode_messages(stream, events, at):
            self.push(message.body)
        return []

    def wake(self, stream: str, bodies: Sequence[str]) -> bool:
        for body in () if self.refuses else bodies:
            self.push(body)
        return not self.refuses

    def push(self, body: str) -> None:
        """Send a message of any body."""
        self._count += 1
        self.messages.append(Message(body, self._now(), sent=self._now(), id=f"m{self._count}"))

    def bury(self, body: str, reason: str) -> bool:
        """Store, as a dead letter, a message that cannot be drained."""
        self._count += 1
        self.dead.append(Message(body, self._now(), sent=self._now(), id=f"m{self._count}", reason=reason))
        return True

    def deliver(self, drain: Callable[[Sequence[Received]], Sequence[object]]) -> None:
        """Deliver each visible message to the drain once, ten at a time. A message is delivered again later if the drain
        answers NotDrained in its place, or fails.
        """
        visible = [message for message in self.messages if message.visible <= self._now()]
        for start in range(0, len(visible), 10):
            batch = visible[start : start + 10]
            for message in batch:
                message.received += 1
                message.visible = self._now() + VISIBILITY
            received = [Received(own.body, own.sent or self._now(), own.id, own.received) for own in batch]
            for message, outcome in zip(batch, drain(received), strict=True):
                if not isinstance(outcome, NotDrained):
                    self.messages.remove(message)
                elif message.received >= RECEIVES:
                    self.messages.remove(message)
                    self.dead.append(message)
