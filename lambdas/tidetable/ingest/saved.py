"""Messages of the overflow that are saved in the bucket, because the queue would delete them after 14 days.

A message that has waited for ten days becomes an object, and leaves the queue only after that. The list of the objects
is the truth: a scheduled run writes their events, the oldest first, and deletes an object only after its events are
written. So a run that stops, or a schedule that is lost, loses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from tidetable.errors import NotDrained, StoreUnavailable, Undrainable
from tidetable.ingest.delivery import Drain
from tidetable.ingest.drain import TRIES, Drained, drain_message, drain_text, expand_message
from tidetable.ingest.overflow import decode_message
from tidetable.ingest.pace import SAVED_SHARE, Pace
from tidetable.large.sweep_ports import Stored
from tidetable.layout import Key
from tidetable.ports import Blob
from tidetable.remaining import Remaining
from tidetable.times import EPOCH, to_micros

SAVED_PREFIX = "saved/"
# AWS: a queue keeps a message for 14 days at most. The other four days are for the saving.
SAVE_AFTER = timedelta(days=10)
# A scheduled run begins no further object with less time.
_OBJECT_SECONDS = 5.0
# After so many failures a run leaves the other messages of a stream alone: its table is throttled or missing. A message
# that still fails two days after it was saved becomes a dead letter, so that it does not delay its stream for ever.
_FAILURES = 3
_GIVE_UP_AFTER = timedelta(days=2)


class SavedMessage(NamedTuple):
    """The name of a saved message: when the queue got it, its stream, the number of its events, and its id in SQS.

    The key of its object begins with the time, so that a list of keys is in order of time.
    """

    sent: datetime
    stream: str
    events: int
    id: str

    @property
    def key(self) -> str:
        millis = to_micros(self.sent) // 1000
        return f"{SAVED_PREFIX}{millis:013}/stream={self.stream}/events={self.events}/{self.id}"

    @classmethod
    def of(cls, key: str) -> SavedMessage:
        """Read the key of an object; ValueError if it is not the key of a saved message."""
        millis, stream, events, id = key.removeprefix(SAVED_PREFIX).split("/")
        sent = EPOCH + timedelta(milliseconds=int(millis))
        return cls(sent, stream.removeprefix("stream="), int(events.removeprefix("events=")), id)


class Backlog(NamedTuple):
    """The saved messages: their number, events and bytes, and the time of the oldest; None if there are none."""

    messages: int = 0
    events: int = 0
    bytes: int = 0
    oldest: datetime | None = None


class SavedRun(NamedTuple):
    """The result of a scheduled run: the backlog at its start, the written events, and why objects are left."""

    backlog: Backlog
    events: int
    reasons: list[str]


def take_message(
    body: str, sent: datetime, id: str, ports: Drain, remaining: Remaining, *, received: int = 1
) -> Drained:
    """Handle a message of the queue, which got it at ``sent``: write its events or, if it is old, save it.

    If this returns, the message may be deleted. NotDrained if the message must come again.
    """
    if ports.clock.now() - sent >= SAVE_AFTER:
        try:
            return Drained(0, saved=save_message(body, sent, id, ports))
        except Undrainable:
            pass  # it is buried below, with the reason
        except StoreUnavailable as error:
            raise NotDrained(str(error)) from error
    return drain_message(body, ports, remaining, received=received)


def save_message(body: str, sent: datetime, id: str, ports: Drain) -> int:
    """Save a message of the queue as an object, and return the number of its events. The same message is one object.

    NotDrained if it is not certain that the object was stored; Undrainable if the message cannot be read.
    """
    text = expand_message(body, ports)
    message = decode_message(text)
    first, saved = message.events[0], SavedMessage(sent, message.stream, len(message.events), id)
    blob = Blob(saved.key, ports.large.compressor.compress(text.encode()), Key(first.series, first.id))
    if not ports.large.values.put(blob):
        raise NotDrained("the message is old, and could not be saved in the bucket")
    return saved.events


def drain_saved(ports: Drain, remaining: Remaining) -> SavedRun:
    """Write the events of saved messages, the oldest first, and delete each object after its events are written.

    A message that cannot be written yet waits for the next run.
    """
    stored, now = list(ports.saved.stored(SAVED_PREFIX)), ports.clock.now()
    ports = replace(ports, pace=Pace(ports.clock, SAVED_SHARE))
    events, reasons, failures = 0, list[str](), Counter[str]()
    for key, _, written in stored:
        if remaining() < _OBJECT_SECONDS:
            break
        try:
            stream = SavedMessage.of(key).stream
        except ValueError:
            reasons.append(f"{key} is not the key of a saved message")
            continue
        if failures[stream] >= _FAILURES:
            continue
        try:
            received = TRIES if now - written >= _GIVE_UP_AFTER else 2
            events += _drain_object(key, ports, remaining, received=received)
        except (NotDrained, StoreUnavailable) as error:
            failures[stream] += 1
            reasons.append(str(error))
    return SavedRun(count_backlog(stored), events, list(dict.fromkeys(reasons)))


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


def _drain_object(key: str, ports: Drain, remaining: Remaining, *, received: int) -> int:
    """Write the events of an object, or bury those that can never be written; then delete the object."""
    payload = ports.large.values.get(key)
    if payload is None:
        # Another run was faster.
        return 0
    try:
        text = ports.large.compressor.expand(payload).decode()
        message = decode_message(text)
    except (ValueError, KeyError, TypeError) as error:
        raise NotDrained(f"{key} cannot be read: {error}") from error
    drained = drain_text(text, message, ports, remaining, received=received)
    ports.saved.delete([key])
    return drained.events
