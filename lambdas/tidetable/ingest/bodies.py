"""Request bodies: one event, an array, ``{"events": [...]}`` or NDJSON, plain or gzip."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from json import JSONDecoder, dumps
from typing import Any, NamedTuple, NoReturn

import msgspec

from tidetable.exact import decode_json, exact_number
from tidetable.ingest.inflate import inflate
from tidetable.problems import refuse

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
    """A line of NDJSON, or an element of an array, that cannot be decoded: its verdict is its own, and the others are kept."""

    reason: str


class SentRaw(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """The same with the values of its fields as they were sent: their syntax is right, and nothing more is known."""

    series: str
    time: str | int | None = None
    id: str | None = None
    data: dict[str, msgspec.Raw] = {}


class Body(NamedTuple):
    """A request's body after decompression, and its type without parameters."""

    text: bytes
    kind: str


def read_body(body: bytes, content_type: str, *, max_body: int) -> Body:
    """The text of a body; ProblemError for a body that cannot be read.

    ``max_body`` bounds the bytes after decompression and is enforced while decompressing, so a small bomb stays small.
    """
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _NDJSON_TYPES | _JSON_TYPES | _OPAQUE_TYPES:
        raise refuse(
            415,
            "unsupported_media_type",
            f"Content-Type {kind[:64]!r} is not understood: send application/json or application/x-ndjson, plain or gzip",
        )
    # RFC 8259, section 8.1: a parser may ignore a byte order mark, and some programs of Windows write one.
    text = inflate(body, max_body).removeprefix(BOM_UTF8)
    if not text or text.isspace():
        raise refuse(400, "unparseable", "the body is empty: send one event, an array of events or NDJSON")
    return Body(text, kind)


def decode_body(body: Body, *, max_events: int) -> list[Any]:
    """The values that should be events, in order; ProblemError for a body that is refused whole.

    ``max_events`` is enforced before and while values are decoded, so a body of a million small values stays small.
    """
    text, kind = body
    values = _lines(text, max_events) if kind in _NDJSON_TYPES else _json(text, kind, max_events)
    if not values:
        raise refuse(400, "unparseable", "the body holds no event")
    return values


def decode_raw(body: Body, *, max_events: int) -> list[SentRaw]:
    """The events of a batch, if all have the usual types; none otherwise, and for a single event."""
    text, kind = body
    if text.count(_SERIES) > max_events:
        return []
    try:
        text.decode()  # the decoder does not look into values that it leaves as they are
        if kind in _NDJSON_TYPES:
            events = _RAW_LINES(text)
            return events if len(events) == sum(1 for _ in _LINE.finditer(text)) <= max_events else []
        begin, whole = _EVENTS.match(text), text.rstrip(_SPACE)
        events = _RAW_ARRAY(whole if begin is None else whole[begin.end() : -1] if whole.endswith(b"}") else b"")
        return events if len(events) <= max_events else []
    except (ValueError, RecursionError):
        return []


def _json(text: bytes, kind: str, max_events: int) -> list[Any]:
    """The candidates of a body that is one event, an array, or an object with events."""
    try:
        first = text.lstrip(_SPACE)[:1]
        if first == b"[":
            return _array(text, max_events)
        if first != b"{":
            decode_json(text)
            raise refuse(400, "unparseable", "the body must be an event, an array of events or an object with events")
        return _object(text, max_events)
    except ValueError as error:
        if kind in _OPAQUE_TYPES and b"\n" in text.strip():
            return _lines(text, max_events)
        raise refuse(400, "unparseable", f"the body is no JSON: {error}") from error


def _object(text: bytes, max_events: int) -> list[Any]:
    """One event, or the events of a batch: an event has no field called "events", and a batch has no other."""
    begin, whole = _EVENTS.match(text), text.rstrip(_SPACE)
    if begin is not None and whole.endswith(b"}"):
        try:
            return _array(whole[begin.end() : -1], max_events)
        except ValueError:
            pass  # the body as one value says what is wrong with it
    try:
        value = decode_json(text)
    except ValueError:
        reason = _lone_surrogate(text)
        if reason is None:
            raise
        return [Unreadable(reason)]
    if "events" in value:
        raise refuse(400, "unparseable", '"events" must be an array and the only field of the body')
    return [value]


def _array(text: bytes, max_events: int) -> list[Any]:
    """The elements of an array; ValueError if it is none.

    First as events of usual types, if there cannot be too many; then as any values, and where one cannot be decoded, one by one.
    """
    if text.count(_SERIES) <= max_events:
        try:
            events = _SENT_ARRAY(text)
        except (ValueError, RecursionError):
            pass
        else:
            if len(events) > max_events:
                _refuse_many(max_events)
            return events
    count = 0

    def counted(_: type, value: Any) -> _Element:
        nonlocal count
        count += 1
        if count > max_events:
            _refuse_many(max_events)
        return _Element(value)

    try:
        elements = msgspec.json.Decoder(list[_Element], dec_hook=counted, float_hook=exact_number).decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _one_by_one(text.decode(), max_events)
    return [element.value for element in elements]


def _one_by_one(text: str, max_events: int) -> list[Any]:
    """The elements of an array of which one cannot be decoded: its verdict is its own. ValueError if the array is no JSON."""
    values: list[Any] = []
    at = _after_space(text, text.index("[") + 1)
    try:
        while text[at : at + 1] != "]":
            _, end = _SCANNER.raw_decode(text, at)
            if len(values) == max_events:
                _refuse_many(max_events)
            values.append(_element(text[at:end]))
            at = _after_space(text, end)
            if text[at : at + 1] == ",":
                at = _after_space(text, at + 1)
                if text[at : at + 1] == "]":
                    raise ValueError(f"a comma before the end of the array (character {at})")
            elif text[at : at + 1] != "]":
                raise ValueError(f"expected a comma or the end of the array (character {at})")
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if _after_space(text, at + 1) < len(text):
        raise ValueError(f"something follows the array (character {at + 1})")
    return values


def _element(text: str) -> Any:
    try:
        return decode_json(text)
    except ValueError as error:
        return Unreadable(_lone_surrogate(text) or f"this element of the array cannot be read: {error}")


def _after_space(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks is not None else at


def _lines(text: bytes, max_events: int) -> list[Any]:
    """Each line that is not blank. They are counted before any is decoded: a bad line costs more than its two bytes."""
    lines = [match.group() for match in islice(_LINE.finditer(text), max_events + 1)]
    if len(lines) > max_events:
        _refuse_many(max_events)
    if text.count(_SERIES) <= max_events:
        try:
            events = _SENT_LINES(text)
        except (ValueError, RecursionError):
            pass
        else:
            # The decoder takes two values of a line, or a value of two lines, which no other reader of NDJSON does.
            if len(events) == len(lines):
                return events
    return [_sent_line(line) for line in lines]


def _sent_line(line: bytes) -> Any:
    try:
        return _SENT(line)
    except (ValueError, RecursionError):
        return _line(line)


def _line(line: bytes) -> Any:
    try:
        return decode_json(line)
    except ValueError as error:
        return Unreadable(_lone_surrogate(line) or f"this line is no JSON: {error}")


def _lone_surrogate(text: bytes | str) -> str | None:
    """The reason, if what keeps a text from being decoded is half of a surrogate pair, which is no character.

    It is grammatical JSON (RFC 8259, section 8.2), and what a program sends that cuts texts in the middle of an emoji.
    """
    try:
        surrogate = _SURROGATE.search(
            dumps(_SCANNER.decode(text if isinstance(text, str) else text.decode()), ensure_ascii=False)
        )
    except (ValueError, RecursionError):
        return None
    if surrogate is None:
        return None
    return f"\\u{ord(surrogate.group()):04x} is half of a surrogate pair, and no character by itself: send both halves"


def _refuse_many(max_events: int) -> NoReturn:
    raise refuse(413, "too_many_events", f"more than {max_events} events in one request: send at most {max_events}")


# With so few characters and no exponent a number has neither too many digits nor too great an exponent.
_USUAL = 30


def _usual_number(text: str) -> Decimal:
    if len(text) > _USUAL or "e" in text or "E" in text:
        raise ValueError("not a usual number")
    return Decimal(text)


class _Element:
    """An element of an array, whatever it is: of a type of our own, so that each is counted when it is decoded."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# Every event of usual types has this text in it, so there are no more of them. (One whose name is escaped is counted afterwards.)
_SERIES = b'"series"'
_SPACE = b" \t\r\n"
_EVENTS = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"events"[ \t\r\n]*:[ \t\r\n]*(?=\[)')
_BLANKS = re.compile(r"[ \t\r\n]*")
# What bytes.splitlines takes for lines, without those that are blank.
_LINE = re.compile(rb"[^\s][^\r\n]*")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# Python's own decoder takes lone surrogates, and decodes a value where it stands. Its numbers are not looked at.
_SCANNER = JSONDecoder(parse_float=str, parse_int=str, parse_constant=_no_constant)
_SENT = msgspec.json.Decoder(Sent, float_hook=_usual_number).decode
_RAW_ARRAY = msgspec.json.Decoder(list[SentRaw]).decode
_RAW_LINES = msgspec.json.Decoder(SentRaw).decode_lines
_SENT_ARRAY = msgspec.json.Decoder(list[Sent], float_hook=_usual_number).decode
_SENT_LINES = msgspec.json.Decoder(Sent, float_hook=_usual_number).decode_lines
