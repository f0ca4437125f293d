"""Store waiting events as objects of the bucket, where they wait without a limit of time (``saved.py`` writes them)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from tidetable.errors import NotDrained
from tidetable.events import Event
from tidetable.ingest.overflow import OverflowMessage, encode_message, expand_message
from tidetable.ingest.saved_names import SavedMessage
from tidetable.layout import Key
from tidetable.ports import Blob

if TYPE_CHECKING:
    from tidetable.large.shrink import LargeValueServices


class Received(NamedTuple):
    """A message of the queue: its body, when the queue got it, its id, and how often it was delivered."""

    body: str
    sent: datetime
    id: str
    received: int = 1


def save_message(received: Received, large: LargeValueServices, rest: Sequence[Event] = ()) -> int:
    """Save a message of the queue, or the rest of its events, as an object, and return the number of these events. The
    same message is one object.

    NotDrained if it is not certain that the object was stored; Undrainable if the message cannot be read.
    """
    _, message = expand_message(received.body, large.values, large.compressor)
    message = message._replace(events=rest or message.events)
    if store_events(message, received.sent, received.id, large) is None:
        raise NotDrained("the message is old, and could not be saved in the bucket")
    return len(message.events)


def store_events(message: OverflowMessage, sent: datetime, id: str, large: LargeValueServices) -> Blob | None:
    """Store events as the object of this time and id, and return it; None if it is not certain that it was stored."""
    first, name = message.events[0], SavedMessage(sent, message.stream, len(message.events), id)
    text = encode_message(message.stream, message.events, message.at)
    blob = Blob(name.key, large.compressor.compress(text.encode()), Key(first.series, first.id))
    return blob if large.values.put(blob) else None
