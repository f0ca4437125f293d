"""The use case of the drain: write the events of an overflow message, or fail, so that the message comes again."""

from __future__ import annotations

from typing import NamedTuple

from tidetable.errors import NotDrained, StoreUnavailable, Undrainable
from tidetable.ingest.delivery import Delivery, Drain
from tidetable.ingest.overflow import Message, decode_message, encode_message
from tidetable.remaining import Remaining

# The number of times that the queue delivers a message, twelve hours in all.
TRIES = 120


class Drained(NamedTuple):
    """The number of written events of a message and, if any were buried, why they can never be written."""

    events: int
    buried: str | None = None


def drain_message(body: str, ports: Drain, remaining: Remaining, *, received: int = 1) -> Drained:
    """Write a message's events, and bury those that no later try can write; NotDrained if the message must come again.

    The message also comes again if events should be buried, but the queue of dead letters did not take them. Writing an
    event again is harmless, but it costs write units. So if the message was ``received`` before, only the events that are
    not in the table yet are written: each try gets further, even if the table has few units. At the last try the whole
    message is buried: SQS would do the same, but without the reason.
    """
    message: Message | None = None
    try:
        message = _read_message(body, ports)
        return Drained(Delivery(message, ports, remaining).write(repeated=received > 1))
    except (NotDrained, StoreUnavailable) as error:
        if not isinstance(error, Undrainable) and received < TRIES:
            raise NotDrained(str(error)) from error
        buried = error.events if isinstance(error, Undrainable) else ()
        if message is None or not buried or message.kept is not None:
            letter, written = body, 0
        else:
            letter = encode_message(message.stream, buried, message.at)
            written = len(message.events) - len(buried)
        if ports.dead_letters.bury(letter, str(error)):
            return Drained(written, str(error))
        raise


def _read_message(body: str, ports: Drain) -> Message:
    try:
        message = decode_message(body)
        if message.kept is None:
            return message
        payload = ports.large.values.get(message.kept)
        if payload is None:
            raise ValueError(f"its events were kept in {message.kept}, which is not there")
        whole = decode_message(ports.large.compressor.expand(payload))
        if not whole.events:
            raise ValueError(f"{whole.kept} is kept in place of its events")
        return whole._replace(kept=message.kept)
    except (ValueError, KeyError, TypeError) as error:
        raise Undrainable(f"the message cannot be read: {error}") from error
