"""Messages of the overflow queue: a stream and some of its events, numbers with all their digits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidetable.events import Event
from tidetable.exact import decode_json, encode_json
from tidetable.times import from_text, to_text

_VERSION = 2
_KNOWN = (1, _VERSION)


class Message(NamedTuple):
    """Events that wait, and when they were accepted (epoch milliseconds; 0 if that is not known).

    What is too large for a message is kept in an object, whose key is ``kept``; the object holds a message.
    """

    stream: str
    events: list[Event]
    at: int = 0
    kept: str | None = None


def encode_message(stream: str, events: Sequence[Event], at: int = 0) -> str:
    """The body of a message."""
    rows = [(event.series, to_text(event.time), event.id, event.data) for event in events]
    return _text({"version": _VERSION, "stream": stream, "at": at, "events": rows})


def encode_ticket(stream: str, key: str) -> str:
    """The body of a message whose events are kept in an object."""
    return _text({"version": _VERSION, "stream": stream, "kept": key})


def decode_message(body: str | bytes) -> Message:
    """What a message says; ValueError if it is none of ours."""
    message = decode_json(body)
    if not isinstance(message, dict) or message.get("version") not in _KNOWN:
        raise ValueError("this is no overflow message of a version that is understood")
    rows = message.get("events", ())
    events = [Event(series, from_text(time), id, data) for series, time, id, data in rows]
    return Message(message["stream"], events, message.get("at", 0), message.get("kept"))


def _text(message: object) -> str:
    # AWS: SQS refuses these two characters; every other that JSON leaves as it is may be in a message.
    return encode_json(message).decode().replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
