"""The verdict on each candidate: an event that may be written, or a rejection with a stable code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any, Literal

import msgspec

from tidetable.config import Stream
from tidetable.errors import InvalidTime
from tidetable.events import Event, Item, JsonObject
from tidetable.exact import canonical_json
from tidetable.ingest.bodies import Sent, Unreadable
from tidetable.keys import MAX_NAME_BYTES, Layout, escape
from tidetable.times import parse_stamp, to_text
from tidetable.values import MAX_ITEM_BYTES, is_plain, item_bytes

Code = Literal["invalid", "too_old", "too_new", "too_large"]

# Escaped and in UTF-8 a character takes four bytes at the most.
_SURELY_SHORT = MAX_NAME_BYTES // 4
# The path of a field, which may be as long as a body, is part of some details.
_LONGEST_DETAIL = 300
_FIELDS = frozenset({"series", "time", "id", "data"})


@dataclass(frozen=True, slots=True)
class Window:
    """The writable window: events of ``oldest <= time <= newest`` are taken."""

    oldest: datetime
    newest: datetime

    @classmethod
    def of(cls, stream: Stream, now: datetime) -> Window:
        """The stream's window at an instant."""
        return cls(now - stream.late, now + stream.ahead)


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why the candidate at ``index`` is refused; ``id`` is its own, where it has one that can be told."""

    index: int
    id: str | None
    code: Code
    detail: str

    @classmethod
    def of(cls, index: int, candidate: Any, code: Code, detail: str) -> Rejection:
        """The rejection of a candidate, with the candidate's id if it has one."""
        own = (
            candidate.id
            if isinstance(candidate, Sent)
            else candidate.get("id")
            if isinstance(candidate, dict)
            else None
        )
        # No event has a longer id; an answer must not give back megabytes of what it refuses.
        known = isinstance(own, str) and len(own) <= MAX_NAME_BYTES
        return cls(index, own if known else None, code, detail[:_LONGEST_DETAIL])


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """An event that may be written, and its item in the stream's present layout, with its bytes (0 if they are surely few)."""

    event: Event
    item: Item
    size: int = 0


@dataclass(slots=True)
class Judge:
    """What is the same for all candidates of a request. ``imported`` tells whether a backfill takes a time before the window.

    ``at`` is ``now`` in epoch milliseconds. ``small`` says that the request is too small to hold an event beyond DynamoDB's
    limit, so that none needs be measured, and ``packs`` that the stream has remedies for those that are.
    """

    stream: Stream
    layout: Layout
    window: Window
    now: datetime
    imported: Callable[[datetime], bool] = lambda _: False
    small: bool = False
    packs: bool = False
    at: int = 0

    def __call__(self, index: int, candidate: Any) -> Candidate | Rejection:
        """Decide on one candidate. An absent time is the time of arrival; an absent id a hash of what was sent."""
        try:
            event, stamp = _event(candidate, self.now)
            item = self.layout.item_of(event, stamp, self.at)
            # What has an event's types and numbers need be measured only if there is room for too much of it.
            sure = self.small and type(candidate) is Sent and is_plain(event.data)
            size = 0 if sure else item_bytes(item)
        except ValueError as error:
            return Rejection.of(index, candidate, "invalid", str(error))
        for one in self.layout.indexes:
            if (problem := one.problem(event)) is not None:
                return Rejection.of(index, candidate, "invalid", problem)
        if size > MAX_ITEM_BYTES and not self.packs:
            detail = f"the event takes {size} bytes as an item; DynamoDB holds at most {MAX_ITEM_BYTES}"
            return Rejection.of(index, candidate, "too_large", detail)
        oldest, newest = self.window.oldest, self.window.newest
        if event.time < oldest and not self.imported(event.time):
            late = f"this stream takes events up to {self.stream.late} late; to import history, open its time with"
            late += f" `tidetable backfill {self.stream.name} FROM TO`"
            detail = f"{to_text(event.time)} is before {to_text(oldest)}: {late}"
            return Rejection.of(index, candidate, "too_old", detail)
        if event.time > newest:
            detail = f"{to_text(event.time)} is after {to_text(newest)}: check the sender's clock"
            return Rejection.of(index, candidate, "too_new", detail)
        return Candidate(event, item, size)


def _event(candidate: Any, now: datetime) -> tuple[Event, str]:
    """The candidate as an event, and the text of its time; ValueError says what is wrong with it."""
    if not isinstance(candidate, Sent):
        candidate = _sent(candidate)
    series = candidate.series
    if not (type(series) is str and 0 < len(series) <= _SURELY_SHORT):
        series = _name(series, "series")
    sent = candidate.time
    try:
        time, stamp = (now, to_text(now)) if sent is None else parse_stamp(sent)
    except InvalidTime as error:
        raise ValueError(f"time: {error}") from error
    own, data = candidate.id, candidate.data
    if own is None:
        id = _content_id(series, None if sent is None else time, data)
    else:
        id = own if type(own) is str and 0 < len(own) <= _SURELY_SHORT else _name(own, "id")
    return Event(series, time, id, data), stamp


def _sent(candidate: Any) -> Sent:
    """A candidate of which nothing is known yet."""
    if isinstance(candidate, Unreadable):
        raise ValueError(candidate.reason)
    if not isinstance(candidate, dict):
        raise ValueError("an event is a JSON object with series, and optionally time, id and data")
    unknown = candidate.keys() - _FIELDS
    if unknown:
        raise ValueError(
            f"unknown field {min(unknown)[:64]!r}: an event has series, time, id and data; put the rest into data"
        )
    if "series" not in candidate:
        raise ValueError("series is missing: say what the event is about, such as a device or a user")
    data = candidate.get("data", {})
    if not isinstance(data, dict):
        raise ValueError("data must be a JSON object")
    return Sent(candidate["series"], candidate.get("time"), candidate.get("id"), data)


def _name(value: Any, field: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{field} must be a text of at least one character")
    if len(value) <= _SURELY_SHORT:
        return value
    if len(value) > MAX_NAME_BYTES or len(escape(value).encode()) > MAX_NAME_BYTES:
        raise ValueError(f"{field} is too long: at most {MAX_NAME_BYTES} bytes of UTF-8, # and % counting three each")
    return value


def _content_id(series: str, time: datetime | None, data: JsonObject) -> str:
    """A hash of what was sent, so that sending it again is harmless; 128 bits as 32 hexadecimal digits."""
    content = (series, None if time is None else to_text(time), data)
    return sha256(canonical_json(content)).hexdigest()[:32]
