"""The overflow's queue in memory: a message is delivered again until it is drained, or becomes a dead letter. And the event
bus.
"""

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
        """Store a message that cannot be drained as a dead letter."""
        self.dead.append(Message(body, self._now()))
        return True

    def deliver(self, drain: Callable[[str, bool], object]) -> None:
        """Deliver each visible message to the drain once, with a flag for a repeated delivery. A failed message is delivered
        again later.
        """
        for message in [message for message in self.messages if message.visible <= self._now()]:
            message.received += 1
            message.visible = self._now() + VISIBILITY
            try:
                drain(message.body, message.received > 1)
            except Exception:
                if message.received >= RECEIVES:
                    self.messages.remove(message)
                    self.dead.append(message)
            else:
                self.messages.remove(message)
