"""Decode OTLP's requests in JSON.

Nearly all bodies are decoded at once. If that fails, each point or record is decoded by itself, so that only the bad
ones are refused. Sources: opentelemetry-proto, docs/specification.md, "JSON Protobuf Encoding"; protobuf.dev, "ProtoJSON
Format". Protobuf's JSON also allows null for a field's default, and texts for numbers of 32 bits; few senders write them.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from functools import cache, partial
from types import NoneType
from typing import Any, get_args, get_origin

import msgspec

from doors import otlp_types as types
from tidetable.problems import refuse_request

# These patterns match a field that is null: the first after another field, the second after a brace. They never match
# inside a text, because each quote in a text has a backslash before it.
_NULL = re.compile(rb',\s*"\w+"\s*:\s*null(?=\s*[,}])')
_FIRST_NULL = re.compile(rb'\{\s*"\w+"\s*:\s*null\s*,?')
# The names of fields as protobuf writes them. OTLP does not allow them, but then a receiver would ignore every field, and
# answer that all is well. One of the names of ``_HINTS`` is in every such body that has points or records.
_SNAKE = re.compile(rb'"([a-z]+(?:_[a-z]+)+)"(?=\s*:)')
_HINTS = (b'"resource_metrics"', b'"resource_logs"', b'"scope_metrics"', b'"scope_logs"', b'"time_unix_nano"')
# These messages are decoded part by part; all others, such as points and resources, as a whole.
_CONTAINERS = frozenset(
    {types.ResourceMetrics, types.ScopeMetrics, types.ResourceLogs, types.ScopeLogs, types.Metric}
    | {types.Gauge, types.Sum, types.Histogram, types.ExponentialHistogram, types.Summary}
)
# An escape in a text: a pair of surrogates, half of a pair (the group), or any other. Half of a pair is not a character,
# and the decoder would refuse the whole body. JavaScript's programs send it, if they cut a text within an emoji.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
# A code point that is not a character, in place of the half of a pair.
_HALF = b"\\ufdd0"
_ABSENT = msgspec.Raw(b"null")
_NULL_PART = types.Undecodable("it is null")


def decode_request(kind: type, body: bytes) -> Any:
    """Decode a request in JSON, an ``Export...ServiceRequest`` of this kind; ProblemError for another body."""
    body = body.removeprefix(BOM_UTF8)
    if any(hint in body for hint in _HINTS):
        body = _SNAKE.sub(_write_camel, body)
    try:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.DecodeError:
            body = _ESCAPE.sub(_mark_half, body)
            return _decode_parts(msgspec.json.decode(body, type=_loosen_type(kind)), kind)
    except RecursionError as error:
        raise refuse_request(400, "unparseable", "the body is nested too deeply") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise refuse_request(400, "unparseable", f"the body is not OTLP in JSON: {error}") from error


def _write_camel(match: re.Match[bytes]) -> bytes:
    first, *rest = match[1].split(b"_")
    return b'"' + first + b"".join([word.capitalize() for word in rest]) + b'"'


def _mark_half(match: re.Match[bytes]) -> bytes:
    return _HALF if match[1] else match[0]


@cache
def _loosen_type(kind: type) -> type:
    """Return the type of a container whose parts are not decoded yet; a part may be null or absent."""
    fields: list[Any] = []
    for name, inner, is_list in _list_fields(kind):
        loose: Any = _loosen_type(inner) if inner in _CONTAINERS else msgspec.Raw
        if is_list:
            loose = list[loose]
        fields.append((name, loose, _ABSENT) if loose is msgspec.Raw else (name, loose | None, None))
    return msgspec.defstruct(kind.__name__, fields, rename="camel", gc=False)


@cache
def _list_fields(kind: type) -> Sequence[tuple[str, Any, bool]]:
    """List the fields of a container, those of its own first: the name, the type, and True for a list of that type."""
    fields = []
    for field in msgspec.structs.fields(kind):
        choices, is_list = get_args(field.type), get_origin(field.type) is Sequence
        fields.append((field.name, choices[0] if is_list or NoneType in choices else field.type, is_list))
    return sorted(fields, key=lambda field: field[1] in _CONTAINERS or field[2])


def _decode_parts(container: Any, kind: type, problem: str = "") -> Any:
    """Decode the parts of a container. ``problem`` is the reason why everything in it is refused, or empty.

    A part of its own that cannot be decoded, such as the name of a metric, is the reason for everything in it.
    """
    message = kind()
    for name, inner, is_list in _list_fields(kind):
        part = getattr(container, name)
        if part is None:
            continue
        if inner in _CONTAINERS:
            decode = partial(_decode_parts, kind=inner, problem=problem)
            value = list(map(decode, part)) if is_list else decode(part)
        elif is_list:
            value = [
                types.Undecodable(problem) if problem else _decode_or_explain(raw, inner, _NULL_PART) for raw in part
            ]
        else:
            value = _decode_or_explain(part, inner)
            if isinstance(value, types.Undecodable):
                problem = problem or value.problem
                continue
        if value is not None:
            setattr(message, name, value)
    return message


def _decode_or_explain(raw: msgspec.Raw, kind: Any, absent: Any = None) -> Any:
    """Decode a value; ``Undecodable`` if it is not of this kind, and ``absent`` if it is null."""
    if _HALF in bytes(raw):
        return types.Undecodable("a text has half of a surrogate pair, which is not a character: send both halves")
    try:
        try:
            value = msgspec.json.decode(raw, type=kind | None)
        except msgspec.ValidationError:
            text = _FIRST_NULL.sub(b"{", _NULL.sub(b"", bytes(raw)))
            value = msgspec.json.decode(text, type=kind | None, strict=False)
    except (ValueError, RecursionError) as error:
        return types.Undecodable(f"it cannot be read: {error}")
    return absent if value is None else value
