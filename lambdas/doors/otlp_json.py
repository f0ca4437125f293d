"""Decode OTLP's requests in JSON.

Nearly all bodies are decoded at once. If that fails, each point or record is decoded by itself, so that only the bad
ones are refused. Sources: opentelemetry-proto, docs/specification.md, "JSON Protobuf Encoding"; protobuf.dev, "ProtoJSON
Format". Protobuf's JSON also allows null for a field's default, and texts for numbers of 32 bits; few senders write them.
"""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from collections.abc import Sequence
from typing import Any

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
_KINDS: dict[str, tuple[type, type]] = {
    "gauge": (types.Gauge, types.NumberDataPoint),
    "sum": (types.Sum, types.NumberDataPoint),
    "histogram": (types.Histogram, types.HistogramDataPoint),
    "exponential_histogram": (types.ExponentialHistogram, types.ExponentialHistogramDataPoint),
    "summary": (types.Summary, types.SummaryDataPoint),
}
# An escape in a text: a pair of surrogates, half of a pair (the group), or any other. Half of a pair is not a character,
# and the decoder would refuse the whole body. JavaScript's programs send it, if they cut a text within an emoji.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
# A code point that is not a character, in place of the half of a pair.
_HALF = b"\\ufdd0"
_ABSENT = msgspec.Raw(b"null")


class _Part(msgspec.Struct, rename="camel", gc=False):
    """A part of a request whose values are not decoded yet."""


class _Points(_Part):
    data_points: list[msgspec.Raw] | None = None
    aggregation_temporality: msgspec.Raw = _ABSENT
    is_monotonic: msgspec.Raw = _ABSENT


class _Metric(_Part):
    name: msgspec.Raw = _ABSENT
    unit: msgspec.Raw = _ABSENT
    gauge: _Points | None = None
    sum: _Points | None = None
    histogram: _Points | None = None
    exponential_histogram: _Points | None = None
    summary: _Points | None = None


class _Scope(_Part):
    scope: msgspec.Raw = _ABSENT
    metrics: list[_Metric] | None = None
    log_records: list[msgspec.Raw] | None = None


class _Owner(_Part):
    resource: msgspec.Raw = _ABSENT
    scope_metrics: list[_Scope] | None = None
    scope_logs: list[_Scope] | None = None


class _Request(_Part):
    resource_metrics: list[_Owner] | None = None
    resource_logs: list[_Owner] | None = None


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
            return _decode_parts(msgspec.json.decode(body, type=_Request), kind)
    except RecursionError as error:
        raise refuse_request(400, "unparseable", "the body is nested too deeply") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise refuse_request(400, "unparseable", f"the body is not OTLP in JSON: {error}") from error


def _write_camel(match: re.Match[bytes]) -> bytes:
    first, *rest = match[1].split(b"_")
    return b'"' + first + b"".join([word.capitalize() for word in rest]) + b'"'


def _mark_half(match: re.Match[bytes]) -> bytes:
    return _HALF if match[1] else match[0]


def _decode_parts(request: _Request, kind: type) -> Any:
    if kind is types.ExportMetricsServiceRequest:
        return kind([_decode_owner(owner, types.ResourceMetrics) for owner in request.resource_metrics or ()])
    return kind([_decode_owner(owner, types.ResourceLogs) for owner in request.resource_logs or ()])


def _decode_owner(owner: _Owner, kind: type) -> Any:
    resource = _decode_or_explain(owner.resource, types.Resource)
    problem = resource.problem if isinstance(resource, types.Undecodable) else ""
    scopes = owner.scope_metrics if kind is types.ResourceMetrics else owner.scope_logs
    return kind(None if problem else resource, [_decode_scope(scope, kind, problem) for scope in scopes or ()])


def _decode_scope(part: _Scope, kind: type, problem: str) -> Any:
    """Decode a scope. ``problem`` is the reason why everything in it is refused, or empty."""
    scope = _decode_or_explain(part.scope, types.InstrumentationScope)
    if isinstance(scope, types.Undecodable):
        problem, scope = problem or scope.problem, None
    if kind is types.ResourceMetrics:
        return types.ScopeMetrics(scope, [_decode_metric(metric, problem) for metric in part.metrics or ()])
    return types.ScopeLogs(scope, _decode_all(part.log_records, types.LogRecord, problem))


def _decode_metric(part: _Metric, problem: str) -> types.Metric:
    name, unit = _decode_or_explain(part.name, str), _decode_or_explain(part.unit, str)
    for value in (name, unit):
        if isinstance(value, types.Undecodable):
            problem = problem or value.problem
    metric = types.Metric("" if isinstance(name, types.Undecodable) else name or "", "" if problem else unit or "")
    for field, (kind, point) in _KINDS.items():
        measured: _Points | None = getattr(part, field)
        if measured is not None:
            setattr(metric, field, _decode_measured(measured, kind, point, problem))
    return metric


def _decode_measured(part: _Points, kind: type, point: type, problem: str) -> Any:
    measured = kind()
    for name, field in (("aggregation_temporality", part.aggregation_temporality), ("is_monotonic", part.is_monotonic)):
        if hasattr(measured, name) and field is not _ABSENT:
            value = _decode_or_explain(field, bool if name == "is_monotonic" else types.Enum)
            if isinstance(value, types.Undecodable):
                problem = problem or value.problem
            elif value is not None:
                setattr(measured, name, value)
    measured.data_points = _decode_all(part.data_points, point, problem)
    return measured


def _decode_all(raws: Sequence[msgspec.Raw] | None, kind: type, problem: str) -> list[Any]:
    absent = types.Undecodable("it is null")
    return [types.Undecodable(problem) if problem else _decode_or_explain(raw, kind, absent) for raw in raws or ()]


def _decode_or_explain(raw: msgspec.Raw, kind: Any, absent: Any = None) -> Any:
    """Decode a value; ``Refused`` if it is not of this kind, and ``absent`` if it is null."""
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
