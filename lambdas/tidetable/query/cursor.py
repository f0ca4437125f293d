"""Cursors: a cursor is a query and the position where its page ended.

It is signed, so only a cursor of an answer is accepted. A cursor is MessagePack, because JSON would write a control
character in six bytes. MessagePack writes each byte of a name as one byte.

The query's edges are instants, so ``-15m`` means the same on every page. A position is an event's own time, series and id (a
ranking adds the number, an aggregate has the start of a step). Each period's layout turns it into keys, so a cursor stays valid
when the configuration changes or a period is archived.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from hmac import digest as hmac
from typing import Protocol, TypeVar

import msgspec

from tidetable.errors import InvalidCursor
from tidetable.problems import refuse_parameter

_VERSION = 4
_MAC_BYTES = 16
# AWS: API Gateway takes at most 10,240 bytes of request line and headers. A cursor takes four thirds of its content
# (Base64), and the position in it up to 1,000 bytes. A query of this size leaves 2 KB for the rest of the request.
MAX_QUERY_BYTES = 5_000
_INVALID = "this is not a cursor: use a cursor that the API answered, whole and unchanged"


class Cursor(Protocol):
    """A query of any kind that continues from a position."""

    @property
    def stream(self) -> str: ...


_Kind = TypeVar("_Kind", bound=Cursor)


class Seal(msgspec.Struct, frozen=True):
    """Signs cursors with HMAC-SHA-256. ``secret`` is fetched when the first cursor is made or read."""

    secret: Callable[[], bytes]

    def seal(self, cursor: Cursor) -> str:
        """Write a cursor as URL-safe text."""
        payload = msgspec.msgpack.encode(cursor)
        return urlsafe_b64encode(self._compute_mac(payload) + payload).decode().rstrip("=")

    def open(self, text: str, kind: type[_Kind]) -> _Kind:
        """Read a text that ``seal`` wrote. Raises InvalidCursor for any other text."""
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            if not compare_digest(raw[:_MAC_BYTES], self._compute_mac(raw[_MAC_BYTES:])):
                raise InvalidCursor(_INVALID)
            return msgspec.msgpack.decode(raw[_MAC_BYTES:], type=kind)
        except ValueError as error:
            # This includes a cursor that another version of this code signed.
            raise InvalidCursor(_INVALID) from error

    def _compute_mac(self, payload: bytes) -> bytes:
        # The version is signed, too: another version may mean something else by the same fields.
        return hmac(self.secret(), bytes([_VERSION]) + payload, sha256)[:_MAC_BYTES]


def refuse_long(cursor: Cursor) -> None:
    """Raise ProblemError if a query's cursors would be too long for the gateway.

    ``cursor`` has a position without series and id.
    """
    size = len(msgspec.msgpack.encode(cursor))
    if size > MAX_QUERY_BYTES:
        more = size - MAX_QUERY_BYTES
        detail = f"names, conditions and fields are {more} bytes too long for one query: query less at once"
        raise refuse_parameter(detail)
