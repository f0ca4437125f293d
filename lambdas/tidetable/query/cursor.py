"""Cursors: where an answer ended, bound to its query and signed, so that only what was answered is accepted again.

A cursor is MessagePack and not JSON, which would write a control character in six bytes: a name of any characters takes no more
room in it than it has bytes.

A position is an event's own time, series and id. Keys are calculated from it by whatever layout a period has, so that a
cursor outlives changes of the configuration and the archiving of the period that it stands in.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac
from typing import NamedTuple, TypeVar

import msgspec

from tidetable.conditions import Condition, Names
from tidetable.errors import InvalidCursor
from tidetable.problems import refuse
from tidetable.times import from_micros

_VERSION = 3
_MAC_BYTES = 16
# AWS: API Gateway takes 10,240 bytes of request line and headers. A cursor takes four thirds of its content, and a position in it
# up to 1,000 bytes: so much of a query leaves 2 KB for the rest of the request.
MAX_QUERY_BYTES = 5_000
_NONE = "this is no cursor: use one that the API answered, whole and unchanged"

_Kind = TypeVar("_Kind", bound=msgspec.Struct)


class Position(NamedTuple):
    """A place in the order of events. Without series and id it is the bare instant: before every event of that time."""

    time: datetime
    series: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Seal:
    """Signs cursors with HMAC-SHA-256. ``secret`` is asked for when the first one is made or read."""

    secret: Callable[[], bytes]

    def seal(self, cursor: msgspec.Struct) -> str:
        """A cursor as URL-safe text."""
        payload = msgspec.msgpack.encode(cursor)
        return urlsafe_b64encode(self._mac(payload) + payload).decode().rstrip("=")

    def open(self, text: str, kind: type[_Kind]) -> _Kind:
        """Read what ``seal`` wrote; InvalidCursor if it is anything else."""
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            if not compare_digest(raw[:_MAC_BYTES], self._mac(raw[_MAC_BYTES:])):
                raise InvalidCursor(_NONE)
            return msgspec.msgpack.decode(raw[_MAC_BYTES:], type=kind)
        except ValueError as error:
            # Also one that another version of this code signed.
            raise InvalidCursor(_NONE) from error

    def _mac(self, payload: bytes) -> bytes:
        # The version is signed, too: what another version means by its fields is no business of this one.
        return hmac(self.secret(), bytes([_VERSION]) + payload, sha256)[:_MAC_BYTES]


def refuse_long(cursor: msgspec.Struct) -> None:
    """ProblemError for a query whose cursors the gateway would not take; ``cursor`` is of its beginning."""
    size = len(msgspec.msgpack.encode(cursor))
    if size > MAX_QUERY_BYTES:
        more = size - MAX_QUERY_BYTES
        detail = f"names, conditions and fields are {more} bytes too long for one query: query less at once"
        raise refuse(400, "bad_parameter", detail)


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The query, its edges resolved to microseconds so that ``-15m`` does not wander, and the position reached."""

    stream: str
    names: Names
    ascending: bool
    start: int
    end: int
    time: int
    at_series: str
    at_id: str
    conditions: tuple[Condition, ...] = ()
    fields: tuple[str, ...] = ()
    versions: bool = False
    consistent: bool = False
    low_priority: bool = False

    @property
    def position(self) -> Position:
        """Where to go on."""
        return Position(from_micros(self.time), self.at_series, self.at_id)
