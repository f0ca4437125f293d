"""Messages of the overflow queue: a stream and some of its events, whose numbers keep all their digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Any, NamedTuple

import msgspec

from tidetable.errors import Undrainable
from tidetable.events import Event
from tidetable.exact_json import decode_json, encode_json
from tidetable.groups import group_by_size
from tidetable.layout import Key
from tidetable.ports import Blob, Compressor, Values
from tidetable.times import parse_stamp, to_text

_VERSION = 2
# AWS: a message has at most 1 MiB; the limit here leaves some bytes for the envelope.
MAX_MESSAGE_BYTES = 1_000_000
OVERFLOW_PREFIX = "overflow/"


class OverflowMessage(NamedTuple):
    """Events that wait to be written.

    ``at`` is the time when they were accepted, in epoch milliseconds, or 0 if it is not known. If the events are too
    large for a message, an object holds them as a message: ``kept`` is the object's key.
    """

    stream: str
    events: Sequence[Event]
    at: int = 0
    kept: str | None = None


class _Form(msgspec.Struct):
    """The members of a message besides its version; an event is its series, time, id and data."""

    stream: str
    events: list[tuple[str, str, str, dict[str, Any]]] = []
    at: int = 0
    kept: str | None = None


class _WakeForm(msgspec.Struct):
    wake: str
    part: int
    workers: Annotated[int, msgspec.Meta(ge=1)]
    until: str


class Encoded(NamedTuple):
    """The body of a message, its bytes in UTF-8, and the events in it."""

    body: str
    size: int
    events: list[Event]


class Wake(NamedTuple):
    """A message that wakes a worker for a part of a stream's saved messages. It means nothing after ``until``."""

    stream: str
    part: int
    workers: int
    until: datetime


def encode_wake(wake: Wake) -> str:
    """Encode the body of a message that wakes a worker."""
    return _encode_text({"wake": wake.stream, "part": wake.part, "workers": wake.workers, "until": to_text(wake.until)})


def read_wake(body: str) -> Wake | None:
    """Read a message that wakes a worker; None for any other message."""
    if not body.startswith('{"wake":'):
        return None
    try:
        form = msgspec.json.decode(body, type=_WakeForm)
        return Wake(form.wake, form.part, form.workers, parse_stamp(form.until)[0])
    except ValueError:
        return None


def encode_messages(stream: str, events: Sequence[Event], at: int) -> Iterator[Encoded]:
    """Encode the events as messages near SQS's limit. A larger event has a message of its own. Each event is encoded
    once.
    """
    rows = ((event, _encode_row(event)) for event in events)
    most = MAX_MESSAGE_BYTES - len(_join_rows(stream, [], at).body)
    for group in group_by_size(rows, lambda row: len(row[1].encode()) + 1, most):
        yield _join_rows(stream, group, at)


def encode_message(stream: str, events: Sequence[Event], at: int = 0) -> str:
    """Encode all events as the body of one message of any size."""
    return _join_rows(stream, [(event, _encode_row(event)) for event in events], at).body


def encode_ticket(stream: str, key: str) -> str:
    """Encode the body of a message whose events are kept in an object."""
    return _encode_text({"version": _VERSION, "stream": stream, "kept": key})


def keep_message(stream: str, text: str, first: Event, values: Values, compressor: Compressor, name: str) -> str | None:
    """Keep the text of a message in the bucket, where it expires after the queue's longest retention.

    Return the body of a message that has only the object's key; None if the bucket did not accept the object. ``first``
    is the message's first event, ``name`` a new name.
    """
    key = f"{OVERFLOW_PREFIX}stream={stream}/{name}"
    if not values.put(Blob(key, compressor.compress(text.encode()), Key(first.series, first.id))):
        return None
    return encode_ticket(stream, key)


def decode_message(body: str | bytes) -> OverflowMessage:
    """Read a message; ValueError if it is not a message of the overflow."""
    message = decode_json(body)
    if not isinstance(message, dict) or message.get("version") != _VERSION:
        raise ValueError("this is not an overflow message of a version that is understood")
    form = msgspec.convert(message, _Form)
    events = [Event(series, parse_stamp(time)[0], id, data) for series, time, id, data in form.events]
    if not events and form.kept is None:
        raise ValueError("it holds no event")
    return OverflowMessage(form.stream, events, form.at, form.kept)


def expand_message(body: str, values: Values, compressor: Compressor) -> tuple[str, OverflowMessage]:
    """Return the text of a message with its events, which an object may keep; Undrainable if it cannot be read."""
    try:
        message = decode_message(body)
        if message.kept is None:
            return body, message
        payload = values.get(message.kept)
        if payload is None:
            raise ValueError(f"its events were kept in {message.kept}, which is not there")
        text = compressor.expand(payload).decode()
        kept = decode_message(text)
        if not kept.events:
            raise ValueError(f"{message.kept} is kept in place of its events")
        return text, kept
    except (ValueError, KeyError, TypeError) as error:
        raise Undrainable(f"the message cannot be read: {error}") from error


def _encode_row(event: Event) -> str:
    return _encode_text((event.series, to_text(event.time), event.id, event.data))


def _join_rows(stream: str, rows: Sequence[tuple[Event, str]], at: int) -> Encoded:
    """Make a message of events and their texts."""
    head = _encode_text({"version": _VERSION, "stream": stream, "at": at}).removesuffix("}")
    body = f'{head},"events":[{",".join([text for _, text in rows])}]}}'
    return Encoded(body, len(body.encode()), [event for event, _ in rows])


def _encode_text(value: object) -> str:
    # AWS: SQS refuses these two characters. It accepts all other characters that JSON leaves unescaped.
    return encode_json(value).decode().replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
