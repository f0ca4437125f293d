"""The names of saved messages in the bucket, and what the names say of a backlog."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from tidetable.large.sweep_ports import Stored
from tidetable.times import EPOCH, to_micros

SAVED_PREFIX = "saved/"
OF_STREAM = f"{SAVED_PREFIX}stream="


class SavedMessage(NamedTuple):
    """The name of a saved message: when the queue got it, its stream, the number of its events, and its id in SQS.

    In the list of a stream's keys, the oldest is the first.
    """

    sent: datetime
    stream: str
    events: int
    id: str

    @property
    def key(self) -> str:
        millis = to_micros(self.sent) // 1000
        return f"{OF_STREAM}{self.stream}/{millis:013}/events={self.events}/{self.id}"

    @classmethod
    def of(cls, key: str) -> SavedMessage:
        """Read the key of an object; ValueError if it is not the key of a saved message."""
        stream, millis, events, id = key.removeprefix(SAVED_PREFIX).split("/")
        if millis.startswith("stream="):
            # Earlier versions began the key with the time.
            stream, millis = millis, stream
        sent = EPOCH + timedelta(milliseconds=int(millis))
        return cls(sent, stream.removeprefix("stream="), int(events.removeprefix("events=")), id)


class Backlog(NamedTuple):
    """The saved messages: their number, events and bytes, and the time of the oldest; None if there are none."""

    messages: int = 0
    events: int = 0
    bytes: int = 0
    oldest: datetime | None = None


def read_stream(key: str) -> str:
    """Read the stream of a saved message from its key; "?" if it is not the key of a saved message."""
    try:
        return SavedMessage.of(key).stream
    except ValueError:
        return "?"


def count_backlog(stored: Iterable[Stored]) -> Backlog:
    """Count saved messages by their keys. An object with another key counts as a message without events."""
    backlog = Backlog()
    for key, size, _ in stored:
        messages, events, total, oldest = backlog
        try:
            message = SavedMessage.of(key)
            events, oldest = events + message.events, min(oldest or message.sent, message.sent)
        except ValueError:
            pass
        backlog = Backlog(messages + 1, events, total + size, oldest)
    return backlog
