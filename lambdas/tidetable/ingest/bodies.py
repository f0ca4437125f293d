"""Request bodies: one event, an array, ``{"events": [...]}`` or NDJSON, plain or gzip."""

from __future__ import annotations

import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Callable
from itertools import islice
from typing import Any, NamedTuple, NoReturn, TypeVar

import msgspec

from tidetable.exact_json import decode_json, parse_exact_number
from tidetable.ingest.unreadable import Unreadable, find_lone_surrogate, read_elements, read_line
from tidetable.problems import refuse_request

_Usual = TypeVar("_Usual")
_GZIP = b"\x1f\x8b"
_ENCODINGS = frozenset({"", "identity", "gzip", "x-gzip", "deflate"})
# The first bytes of a zlib stream.
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_NDJSON_TYPES = frozenset(
    {"application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"}
)
_JSON_TYPES = frozenset({"application/json", "text/json"})
# These types do not name the content's format: the content is decoded as JSON or, if that fails, line by line.
_OPAQUE_TYPES = frozenset({"", "application/gzip", "application/x-gzip", "application/octet-stream"})


class Sent(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A value whose fields have an event's types. Other values are checked field by field.

    The values in ``data`` are valid JSON, and nothing more is known about them. Doors send decoded values instead.
    """

    series: str
    time: str | int | None = None
    id: str | None = None
    data: dict[str, msgspec.Raw] = {}


class Body(NamedTuple):
    """A request's body after decompression, and its type without parameters."""

    text: bytes
    kind: str


def read_body(body: bytes, content_type: str, *, max_body: int, encoding: str = "") -> Body:
    """Return the text of a body; ProblemError for a body that cannot be read.

    ``max_body`` limits the bytes after decompression. It is enforced during decompression: a gzip bomb cannot fill the
    memory.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _NDJSON_TYPES | _JSON_TYPES | _OPAQUE_TYPES:
        raise refuse_request(
            415,
            "unsupported_media_type",
            f"Content-Type {kind[:64]!r} is not understood: send application/json or application/x-ndjson, plain or gzip",
        )
    # RFC 8259, section 8.1: a parser may ignore a byte order mark, and some programs of Windows write one.
    text = inflate_body(body, max_body, encoding).removeprefix(BOM_UTF8)
    if not text or text.isspace():
        raise refuse_request(400, "unparseable", "the body is empty: send one event, an array of events or NDJSON")
    return Body(text, kind)


def decode_body(body: Body, *, max_events: int) -> list[Any]:
    """Return the values that should be events, in order; ProblemError if the whole body is refused.

    ``max_events`` is enforced before and during the decoding, so that a million small values cannot fill the memory.
    """
    text, kind = body
    if kind in _NDJSON_TYPES:
        values = _read_lines(text, max_events)
    else:
        first = text.lstrip(_SPACE)[:1]
        try:
            if first not in (b"[", b"{"):
                decode_json(text)
                detail = "the body must be an event, an array of events or an object with events"
                raise refuse_request(400, "unparseable", detail)
            values = _read_array(text, max_events) if first == b"[" else _read_object(text, max_events)
        except ValueError as error:
            if kind not in _OPAQUE_TYPES or b"\n" not in text.strip():
                raise refuse_request(400, "unparseable", f"the body is not JSON: {error}") from error
            values = _read_lines(text, max_events)
    if not values:
        raise refuse_request(400, "unparseable", "the body holds no event")
    return values


def _read_object(text: bytes, max_events: int) -> list[Any]:
    """Return one event, or the events of a batch: an event has no field "events", and a batch has only this field."""
    array = _find_array(text)
    if array is not None:
        try:
            return _read_array(array, max_events)
        except ValueError:
            pass  # below, the body is decoded as one value: then the error has a name
    event = _try_usual(_SENT, text, max_events)
    if event is not None:
        return [event]
    try:
        value = decode_json(text)
    except ValueError:
        reason = find_lone_surrogate(text)
        if reason is None:
            raise
        return [Unreadable(reason)]
    if "events" in value:
        raise refuse_request(400, "unparseable", '"events" must be an array and the only field of the body')
    return [value]


def _find_array(text: bytes) -> bytes | None:
    """Find the array in a body that looks like ``{"events": [...]}``; None for any other body."""
    begin, whole = _EVENTS.match(text), text.rstrip(_SPACE)
    return whole[begin.end() : -1] if begin is not None and whole.endswith(b"}") else None


def _read_array(text: bytes, max_events: int) -> list[Any]:
    """Return the elements of an array; ValueError if the text is not an array.

    First decode them as events of usual types. If that fails, decode them as any values.
    If one of them cannot be decoded, decode the elements one by one.
    """
    events = _try_usual(_SENT_ARRAY, text, max_events)
    if events is not None:
        if len(events) > max_events:
            _refuse_many(max_events)
        return events
    count = 0

    def count_element(_: type, value: Any) -> _Element:
        nonlocal count
        count += 1
        if count > max_events:
            _refuse_many(max_events)
        return _Element(value)

    try:
        decoder = msgspec.json.Decoder(list[_Element], dec_hook=count_element, float_hook=parse_exact_number)
        elements = decoder.decode(text)
    except (msgspec.DecodeError, RecursionError):
        values = list(islice(read_elements(text.decode()), max_events + 1))
        if len(values) > max_events:
            _refuse_many(max_events)
        return values
    return [element.value for element in elements]


def _read_lines(text: bytes, max_events: int) -> list[Any]:
    """Return the values of all lines that are not blank.

    The lines are counted before any is decoded: even a bad line of two bytes costs more than its two bytes to decode.
    """
    lines = [match.group() for match in islice(_LINE.finditer(text), max_events + 1)]
    if len(lines) > max_events:
        _refuse_many(max_events)
    events = _try_usual(_SENT_LINES, text, max_events)
    # This decoder accepts two values in a line, or a value over two lines; no other reader of NDJSON does.
    if events is not None and len(events) == len(lines):
        return events
    return [_try_usual(_SENT, line, max_events) or read_line(line.removeprefix(BOM_UTF8)) for line in lines]


def _try_usual(decode: Callable[[bytes], _Usual], text: bytes, max_events: int) -> _Usual | None:
    """Decode events of usual types; None for events of unusual types, for other values, and if so many events might fill
    the memory.
    """
    if len(text) > _SURELY_LIGHT and text.count(_SERIES) > max_events:
        return None
    try:
        text.decode()  # checks the UTF-8: the decoder does not check values that stay raw
        return decode(text)
    except (ValueError, RecursionError):
        return None


def _refuse_many(max_events: int) -> NoReturn:
    detail = f"more than {max_events} events in one request: send at most {max_events}"
    raise refuse_request(413, "too_many_events", detail)


def inflate_body(body: bytes, max_body: int, encoding: str = "") -> bytes:
    """Return the body, decompressed if it begins like gzip, because gateways and clients disagree on Content-Encoding.
    With the ``encoding`` deflate, it is decompressed if it begins like zlib: API Gateway decompresses a body itself, and
    a header may stay. ProblemError if the encoding is not known, or if the body is damaged, or has more than
    ``max_body`` bytes; the size is checked during decompression.
    """
    if encoding:
        body = _decode_deflate(body, encoding.strip().lower(), max_body)
    if not body.startswith(_GZIP):
        if len(body) > max_body:
            raise _refuse_large(max_body)
        return body
    plain = bytearray()
    view, at = memoryview(body), 0
    try:
        for _ in range(_MOST_MEMBERS):  # a gzip file may have several members
            member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
            while not member.eof:
                # Small pieces: zlib copies the bytes of the piece that follow the end of a member.
                piece = view[at : at + _PIECE]
                if not piece:
                    raise refuse_request(400, "unparseable", "the gzip body is cut short")
                plain += member.decompress(piece, max_body + 1 - len(plain))
                if len(plain) > max_body:
                    raise _refuse_large(max_body)
                at += len(piece) - len(member.unused_data)
            if at == len(body):
                return bytes(plain)
    except zlib.error as error:
        raise refuse_request(400, "unparseable", f"the gzip body is damaged: {error}") from error
    raise refuse_request(400, "unparseable", f"the gzip body has more than {_MOST_MEMBERS} members: compress it as one")


def _decode_deflate(body: bytes, encoding: str, max_body: int) -> bytes:
    """Return the body, decompressed if it is deflate; if it is too large, only ``max_body`` + 1 bytes, which the caller
    refuses.
    """
    if encoding not in _ENCODINGS:
        raise refuse_request(
            415, "unsupported_media_type", f"Content-Encoding {encoding[:32]!r} is not understood: send gzip, or none"
        )
    if encoding != "deflate" or not body.startswith(_ZLIB):
        return body
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(body, max_body + 1)
    except zlib.error as error:
        raise refuse_request(400, "unparseable", f"the body is damaged: {error}") from error
    if len(plain) <= max_body and (not stream.eof or stream.unused_data):
        problem = "the body is cut short" if not stream.eof else "something follows the compressed body"
        raise refuse_request(400, "unparseable", problem)
    return plain


def _refuse_large(max_body: int) -> Exception:
    return refuse_request(
        413, "too_large", f"the body exceeds {max_body} bytes after decompression: send fewer events a request"
    )


# A gzip body has at most this many members: even an empty member costs work, and no sender needs more than one per
# event.
_MOST_MEMBERS = 1_000
_PIECE = 65_536


class _Element:
    """An element of an array, with a value of any type. This type has a decoding hook, which counts the elements."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


# Every event of usual types contains this text, so a body has at most as many events as occurrences of it. (Events
# that write this name with JSON escapes are counted after decoding.) To look for it takes a third of the time of decoding,
# and the events of a short body cannot fill the memory: an event has 14 bytes at least, and takes some 120 when decoded.
_SERIES, _SURELY_LIGHT = b'"series"', 1_000_000
_SPACE = b" \t\r\n"
_EVENTS = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"events"[ \t\r\n]*:[ \t\r\n]*(?=\[)')
# The lines that bytes.splitlines finds, without blank lines.
_LINE = re.compile(rb"[^\s][^\r\n]*")
_SENT = msgspec.json.Decoder(Sent).decode
_SENT_ARRAY = msgspec.json.Decoder(list[Sent]).decode
_SENT_LINES = msgspec.json.Decoder(Sent).decode_lines
