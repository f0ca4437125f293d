"""The overflow's queue in memory, and the event bus. A message is delivered until it is drained or a dead letter."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tidetable.events import Event
from tidetable.ingest.overflow import encode_message

VISIBILITY = timedelta(minutes=6)
RECEIVES = 120


@dataclass
class Message:
    body: str
    visible: datetime
    received: int = 0


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

    def send(self, stream: str, events: Sequence[Event], at: int) -> Sequence[Event]:
        if self.refuses:
            return events
        for start in range(0, len(events), 25):
            self.messages.append(Message(encode_message(stream, events[start : start + 25], at), self._now()))
        return []

    def bury(self, body: str, reason: str) -> bool:
        """Store, as a dead letter, a message that cannot be drained."""
        self.dead.append(Message(body, self._now()))
        return True

    def deliver(self, drain: Callable[[str, int], object]) -> None:
        """Deliver each visible message to the drain once. The second argument counts the deliveries of the message.

        If the drain fails, the message is delivered again later.
        """
        for message in [message for message in self.messages if message.visible <= self._now()]:
            message.received += 1
            message.visible = self._now() + VISIBILITY
            try:
                drain(message.body, message.received)
            except Exception:
                if message.received >= RECEIVES:
                    self.messages.remove(message)
                    self.dead.append(message)
            else:
                self.messages.remove(message)
