"""Messages of the overflow queue: a stream and some of its events, numbers with all their digits."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tidetable.events import Event
from tidetable.ingest.bodies import decode_json
from tidetable.times import from_text, to_text

_ENCODER = msgspec.json.Encoder(decimal_format="number")
_VERSION = 1


def encode_message(stream: str, events: Sequence[Event]) -> str:
    """The body of a message."""
    rows = [(event.series, to_text(event.time), event.id, event.data) for event in events]
    return _ENCODER.encode({"version": _VERSION, "stream": stream, "events": rows}).decode()


def decode_message(body: str) -> tuple[str, list[Event]]:
    """The stream and events of a message; ValueError if it is none of ours."""
    message = decode_json(body)
    if not isinstance(message, dict) or message.get("version") != _VERSION:
        raise ValueError("this is no overflow message of a version that is understood")
    return message["stream"], [Event(series, from_text(time), id, data) for series, time, id, data in message["events"]]
