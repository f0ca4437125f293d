"""Request bodies: one event, an array, ``{"events": [...]}`` or NDJSON, plain or gzip."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import msgspec

from tidetable.exact import decode_json
from tidetable.problems import refuse

_GZIP = b"\x1f\x8b"
_NDJSON_TYPES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
_JSON_TYPES = frozenset({"application/json", "text/json"})
# Types that do not say what is inside: tried as JSON, then line by line.
_OPAQUE_TYPES = frozenset({"", "application/gzip", "application/x-gzip", "application/octet-stream"})


class Sent(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A candidate that has the types that an event has, and no unusual number; the others are looked at field by field."""

    series: str
    time: str | int | None = None
    id: str | None = None
    data: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line of NDJSON that is no JSON: it gets a verdict of its own, and the other lines are kept."""

    reason: str


def decode_body(body: bytes, content_type: str, *, max_body: int, max_events: int) -> list[Any]:
    """The values that should be events, in order; ProblemError for a body that is refused whole.

    ``max_body`` bounds the bytes after decompression and is enforced while decompressing, so a small bomb stays small.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _NDJSON_TYPES | _JSON_TYPES | _OPAQUE_TYPES:
        raise refuse(
            415,
            "unsupported_media_type",
            f"Content-Type {kind[:64]!r} is not understood: send application/json or application/x-ndjson, plain or gzip",
        )
    text = _plain(body, max_body)
    if not text.strip():
        raise refuse(400, "unparseable", "the body is empty: send one event, an array of events or NDJSON")
    values = _values(text, kind)
    if len(values) > max_events:
        raise refuse(413, "too_large", f"{len(values)} events in one request: send at most {max_events}")
    if not values:
        raise refuse(400, "unparseable", "the body holds no event")
    return values


def _values(text: bytes, kind: str) -> list[Any]:
    typed = _typed(text, kind)
    if typed is not None:
        return typed
    if kind in _NDJSON_TYPES:
        return _lines(text)
    try:
        value = decode_json(text)
    except ValueError as error:
        if kind in _OPAQUE_TYPES and b"\n" in text.strip():
            return _lines(text)
        raise refuse(400, "unparseable", f"the body is no JSON: {error}") from error
    if isinstance(value, list):
        return value
    if isinstance(value, dict):
        # An event has no field called "events"; a body that has one is a batch.
        if "events" not in value:
            return [value]
        if isinstance(value["events"], list) and len(value) == 1:
            return value["events"]
        raise refuse(400, "unparseable", '"events" must be an array and the only field of the body')
    raise refuse(400, "unparseable", "the body must be an event, an array of events or an object with events")


def _typed(text: bytes, kind: str) -> list[Any] | None:
    """The candidates of a body in which each has an event's types; None if one has not, which is then told by its own error."""
    try:
        if kind in _NDJSON_TYPES:
            return _SENT_LINES(text)
        return _SENT_ARRAY(text) if text[:1] == b"[" else None
    except (ValueError, RecursionError):
        return None


def _lines(text: bytes) -> list[Any]:
    return [_line(line) for line in text.splitlines() if line.strip()]


def _line(line: bytes) -> Any:
    try:
        return decode_json(line)
    except ValueError as error:
        return Unreadable(f"this line is no JSON: {error}")


def _plain(body: bytes, max_body: int) -> bytes:
    """The body, decompressed if its first bytes say gzip: gateways and clients disagree on Content-Encoding."""
    if not body.startswith(_GZIP):
        if len(body) > max_body:
            raise _too_large(max_body)
        return body
    plain = bytearray()
    rest = body
    try:
        while rest:  # a gzip file may have several members
            member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
            plain += member.decompress(rest, max_body + 1 - len(plain))
            if len(plain) > max_body:
                raise _too_large(max_body)
            if not member.eof:
                raise refuse(400, "unparseable", "the gzip body is cut short")
            rest = member.unused_data
    except zlib.error as error:
        raise refuse(400, "unparseable", f"the gzip body is damaged: {error}") from error
    return bytes(plain)


def _too_large(max_body: int) -> Exception:
    return refuse(
        413, "too_large", f"the body exceeds {max_body} bytes after decompression: send fewer events a request"
    )


# With so few characters and no exponent a number has neither too many digits nor too great an exponent.
_USUAL = 30


def _usual_number(text: str) -> Decimal:
    if len(text) > _USUAL or "e" in text or "E" in text:
        raise ValueError("not a usual number")
    return Decimal(text)


_SENT_ARRAY = msgspec.json.Decoder(list[Sent], float_hook=_usual_number).decode
_SENT_LINES = msgspec.json.Decoder(Sent, float_hook=_usual_number).decode_lines
