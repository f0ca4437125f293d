"""The use case of the drain: write the events of an overflow message, or fail, so that the message comes again."""

from __future__ import annotations

from typing import NamedTuple

from tidetable.errors import NotDrained, StoreUnavailable, Undrainable
from tidetable.ingest.delivery import Delivery, Drain
from tidetable.ingest.overflow import MAX_MESSAGE_BYTES, OverflowMessage, decode_message, encode_message, keep_message
from tidetable.remaining import Remaining

# The number of times that the queue delivers a message, twelve hours in all.
TRIES = 120


class Drained(NamedTuple):
    """The number of written events of a message and, if any were buried, why they can never be written.

    ``saved`` is the number of events if the message was saved in the bucket instead.
    """

    events: int
    buried: str | None = None
    saved: int = 0


def drain_message(body: str, ports: Drain, remaining: Remaining, *, received: int = 1) -> Drained:
    """Write a message's events, and bury those that no later try can write; NotDrained if the message must come again.

    The message also comes again if events should be buried, but the queue of dead letters did not take them. Writing an
    event again is harmless, but it costs write units. So if the message was ``received`` before, only the events that are
    not in the table yet are written: each try gets further, even if the table has few units. At the last try the whole
    message is buried: SQS would do the same, but without the reason.
    """
    try:
        text = expand_message(body, ports)
    except Undrainable as error:
        if ports.dead_letters.bury(body, str(error)):
            return Drained(0, str(error))
        raise
    except StoreUnavailable as error:
        raise NotDrained(str(error)) from error
    return drain_text(text, decode_message(text), ports, remaining, received=received)


def drain_text(text: str, message: OverflowMessage, ports: Drain, remaining: Remaining, *, received: int) -> Drained:
    """Write the events of a message, whose text holds all of them, as ``drain_message`` does."""
    try:
        return Drained(Delivery(message, ports, remaining).write(repeated=received > 1))
    except (NotDrained, StoreUnavailable) as error:
        if not isinstance(error, Undrainable) and received < TRIES:
            raise NotDrained(str(error)) from error
        buried = error.events if isinstance(error, Undrainable) else message.events
        letter = text if len(buried) == len(message.events) else encode_message(message.stream, buried, message.at)
        if _bury(letter, str(error), message, ports):
            return Drained(len(message.events) - len(buried), str(error))
        raise


def expand_message(body: str, ports: Drain) -> str:
    """Return the text of a message with its events, which an object may keep; Undrainable if it cannot be read."""
    try:
        message = decode_message(body)
        if message.kept is None:
            return body
        payload = ports.large.values.get(message.kept)
        if payload is None:
            raise ValueError(f"its events were kept in {message.kept}, which is not there")
        text = ports.large.compressor.expand(payload).decode()
        if not decode_message(text).events:
            raise ValueError(f"{message.kept} is kept in place of its events")
        return text
    except (ValueError, KeyError, TypeError) as error:
        raise Undrainable(f"the message cannot be read: {error}") from error


def _bury(letter: str, reason: str, message: OverflowMessage, ports: Drain) -> bool:
    """Put a letter into the queue of dead letters; False if it is not certain that it was kept."""
    if len(letter.encode()) > MAX_MESSAGE_BYTES:
        large = ports.large
        ticket = keep_message(message.stream, letter, message.events[0], large.values, large.compressor, large.unique())
        if ticket is None:
            return False
        letter = ticket
    return ports.dead_letters.bury(letter, reason)
