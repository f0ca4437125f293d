"""Cursors: a cursor is a query and the position where its page ended.

It is sealed: nobody but the stage can read it or make it. The position may be that of an event that the caller may not read,
because names are checked after reading. A cursor is MessagePack, because JSON would write a control character in six bytes.
MessagePack writes each byte of a name as one byte.

The query's edges are instants, so ``-15m`` means the same on every page. A position is an event's own time, series and id (a
ranking adds the number, an aggregate has the start of a step). Each period's layout turns it into keys, so a cursor stays valid
when the configuration changes or a period is archived.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256, sha512, shake_256
from hmac import compare_digest
from hmac import digest as hmac
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from tidetable.errors import InvalidCursor
from tidetable.problems import refuse_parameter

# The first byte of a cursor: its format, and the meaning of the fields in it.
_VERSION = b"\x05"
_TAG_BYTES = 16
# The content is padded to a multiple of this length. So the length of a cursor tells next to nothing of the names in it.
_CLASS_BYTES = 256
_PAD = b"\x80"
# AWS: API Gateway takes at most 10,240 bytes of request line and headers. A cursor takes four thirds of its content
# (Base64), and the position in it up to 1,000 bytes. A query of this size leaves 1.9 KB for the rest of the request.
MAX_QUERY_BYTES = 5_000
_INVALID = "this is not a cursor: use a cursor that the API answered, whole and unchanged"


class Cursor(Protocol):
    """A query of any kind that continues from a position."""

    @property
    def stream(self) -> str: ...


_Kind = TypeVar("_Kind", bound=Cursor)


class Seal(msgspec.Struct, frozen=True):
    """Encrypts cursors with a synthetic IV (SIV: Rogaway and Shrimpton, EUROCRYPT 2006).

    The tag of a content is its HMAC-SHA-256. It is also the nonce of the keystream, SHAKE-256 over a second key and the
    tag. So equal contents give equal cursors, and no random number is needed. ``secret`` is fetched when the first
    cursor is made or read.
    """

    secret: Callable[[], bytes]

    def seal(self, cursor: Cursor) -> str:
        """Write a cursor as URL-safe text."""
        content = msgspec.msgpack.encode(cursor) + _PAD
        content += bytes(-len(content) % _CLASS_BYTES)
        keys = self._derive_keys()
        tag = keys.compute_tag(content)
        return urlsafe_b64encode(_VERSION + tag + keys.encrypt(content, tag)).decode().rstrip("=")

    def open(self, text: str, kind: type[_Kind]) -> _Kind:
        """Read a text that ``seal`` wrote. Raises InvalidCursor for any other text."""
        try:
            raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
            keys, tag = self._derive_keys(), raw[1 : 1 + _TAG_BYTES]
            content = keys.encrypt(raw[1 + _TAG_BYTES :], tag)
            # This refuses a cursor of another version, too.
            if raw[:1] != _VERSION or not compare_digest(tag, keys.compute_tag(content)):
                raise InvalidCursor(_INVALID)
            return msgspec.msgpack.decode(content.rstrip(b"\0").removesuffix(_PAD), type=kind)
        except ValueError as error:
            # This includes a cursor of another kind of query.
            raise InvalidCursor(_INVALID) from error

    def _derive_keys(self) -> _Keys:
        both = hmac(self.secret(), b"tidetable cursor", sha512)
        return _Keys(both[:32], both[32:])


class _Keys(NamedTuple):
    """The keys of the tag and of the keystream. They must differ, so they are derived from the secret."""

    of_tag: bytes
    of_stream: bytes

    def compute_tag(self, content: bytes) -> bytes:
        return hmac(self.of_tag, _VERSION + content, sha256)[:_TAG_BYTES]

    def encrypt(self, content: bytes, tag: bytes) -> bytes:
        """Add the keystream of a tag to a content. The same call decrypts."""
        length = len(content)
        stream = shake_256(self.of_stream + tag).digest(length)
        return (int.from_bytes(content) ^ int.from_bytes(stream)).to_bytes(length)


def refuse_long(cursor: Cursor) -> None:
    """Raise ProblemError if a query's cursors would be too long for the gateway.

    ``cursor`` has a position without series and id.
    """
    size = len(msgspec.msgpack.encode(cursor))
    if size > MAX_QUERY_BYTES:
        more = size - MAX_QUERY_BYTES
        detail = f"names, conditions and fields are {more} bytes too long for one query: query less at once"
        raise refuse_parameter(detail)
