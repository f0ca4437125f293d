"""OTLP's metrics and logs as events: one event per data point or log record.

Every attribute in which two points or two records may differ is part of an event's id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import msgspec

from tidetable.config.stream import OtlpPolicy
from tidetable.dialects import otlp_types as types
from tidetable.dialects.otlp_values import (
    Attributes,
    list_points,
    read_attributes,
    read_exemplar,
    read_value,
    read_values,
    read_whole,
)
from tidetable.dialects.reading import (
    GROWTH,
    Limits,
    Reading,
    fit_name,
    make_id,
    nest_attributes,
    refuse_too_many,
    set_value,
    split_nanos,
)
from tidetable.events import JsonObject
from tidetable.exact import encode_json, show_text
from tidetable.ingest.bodies import Sent
from tidetable.ingest.unreadable import Unreadable
from tidetable.problems import refuse_request

# Attributes with this prefix identify the SDK, not the source: an update of the SDK must not begin new series.
_NOT_SERIES = "telemetry."
_NAME = itemgetter(0)


@dataclass(slots=True)
class _Budget:
    """Counts points and shared bytes while a request is read. A resource is sent once, but is part of each event."""

    limits: Limits
    points: int = 0
    shared: int = 0

    def spend(self, size: int) -> None:
        """Count an event and the bytes that it shares with others; ProblemError if a request has too many of them."""
        self.points += 1
        self.shared += size
        if self.points > self.limits.most:
            raise refuse_too_many(self.limits.most)
        if self.shared > GROWTH * self.limits.max_body:
            detail = "the attributes of resources and scopes, repeated in each event, exceed the limit: send fewer points at once"
            raise refuse_request(413, "too_large", detail)


@dataclass(slots=True)
class _Source:
    """The resource and the scope of points.

    ``resource`` has the attributes of the resource by name, and ``labels`` is their text, the series of log records.
    Each event repeats ``data``; both have ``size`` bytes.
    """

    resource: Attributes
    scope: Sequence[Any]
    data: JsonObject
    size: int
    labels: str


def decode_request(kind: type, body: bytes) -> Any:
    """Decode a request in JSON, an ``Export...ServiceRequest`` of this kind; ProblemError for another body."""
    try:
        try:
            return msgspec.json.decode(body, type=kind)
        except msgspec.ValidationError:
            # Protobuf's JSON also allows null for a field's default, and texts for numbers of 32 bits. Few senders write them.
            text = _FIRST_NULL.sub(b"{", _NULL.sub(b"", body))
            return msgspec.json.decode(text, type=kind, strict=False)
    except RecursionError as error:
        raise refuse_request(400, "unparseable", "the body is nested too deeply") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise refuse_request(400, "unparseable", f"the body is not OTLP in JSON: {error}") from error


def _read_metrics(request: types.ExportMetricsServiceRequest, policy: OtlpPolicy, limits: Limits) -> Reading:
    reading, budget = Reading(), _Budget(limits)
    for number, (source, common, size, point) in enumerate(_walk_metrics(request)):
        budget.spend(size)
        try:
            reading.add(_read_point(point, common, source, policy), number)
        except (ValueError, RecursionError) as error:
            reading.add(Unreadable(f"metric {common['metric'][:64]!r}: {error}"), number)
    return reading


def _read_logs(request: types.ExportLogsServiceRequest, policy: OtlpPolicy, limits: Limits) -> Reading:
    reading, budget = Reading(), _Budget(limits)
    counts: dict[tuple[str, str | int | None, str | None], int] = {}
    for number, (source, record) in enumerate(_walk_logs(request)):
        budget.spend(source.size)
        try:
            event = _read_record(record, source, policy)
        except (ValueError, RecursionError) as error:
            reading.add(Unreadable(f"log record: {error}"), number)
            continue
        # Equal records in one request are different events: a retry would send the copy in another request.
        key = event.series, event.time, event.id
        count = counts[key] = counts.get(key, 0) + 1
        if count > 1:
            event.id = f"{event.id}-{count}"
        reading.add(event, number)
    return reading


def _read_source(resource: types.Resource | None, scope: types.InstrumentationScope | None) -> _Source:
    """Read the source of points; ProblemError if an attribute cannot be read."""
    data: JsonObject = {}
    identity: list[Any] = []
    try:
        attributes = sorted(read_attributes(resource.attributes), key=_NAME) if resource is not None else ()
        if attributes:
            data["resource"] = nest_attributes(attributes)
        if scope is not None:
            own = read_attributes(scope.attributes)
            identity = [scope.name, scope.version, own]
            fields = {"name": scope.name, "version": scope.version, "attributes": nest_attributes(own)}
            if members := {name: value for name, value in fields.items() if value}:
                data["scope"] = members
        return _Source(
            attributes, identity, data, len(encode_json([attributes, data])), _make_labels((), attributes, ())
        )
    except (ValueError, RecursionError) as error:
        detail = f"the attributes of a resource or scope cannot be read: {error}"
        raise refuse_request(400, "unparseable", detail) from error


def _walk_metrics(request: types.ExportMetricsServiceRequest) -> Iterator[tuple[_Source, JsonObject, int, types.Point]]:
    """Yield each data point with its source, the data that its metric adds, and the bytes of the source and that data.

    Source and data are made only for metrics with points, so that a body full of empty metrics costs little.
    """
    for owner in request.resource_metrics:
        for scoped in owner.scope_metrics:
            source = None
            for metric in scoped.metrics:
                for kind, more, points in list_points(metric):
                    if not points:
                        continue
                    source = source or _read_source(owner.resource, scoped.scope)
                    unit = {"unit": metric.unit} if metric.unit else {}
                    common = {"metric": metric.name, "type": kind, **unit, **more}
                    size = source.size + len(encode_json(common))
                    for point in points:
                        yield source, common, size, point


def _walk_logs(request: types.ExportLogsServiceRequest) -> Iterator[tuple[_Source, types.LogRecord]]:
    """Yield each record with its source."""
    for owner in request.resource_logs:
        for scoped in owner.scope_logs:
            if scoped.log_records:
                source = _read_source(owner.resource, scoped.scope)
                for record in scoped.log_records:
                    yield source, record


def _read_point(point: types.Point, common: JsonObject, source: _Source, policy: OtlpPolicy) -> Sent:
    attributes = sorted(read_attributes(point.attributes), key=_NAME)
    nanos, start = read_whole(point.time_unix_nano), read_whole(point.start_time_unix_nano)
    if not nanos:
        raise ValueError("timeUnixNano is missing")
    time, rest = split_nanos(nanos)
    data = common | read_values(point)
    if start:
        data["start"] = split_nanos(start)[0]
    if point.flags:
        data["flags"] = point.flags
    if not isinstance(point, types.SummaryDataPoint) and point.exemplars:
        data["exemplars"] = [read_exemplar(exemplar) for exemplar in point.exemplars]
    if attributes:
        data["attributes"] = nest_attributes(attributes)
    data |= source.data
    labels = _make_labels(policy.series, source.resource, attributes)
    series = f"{common['metric']}{{{labels}}}" if labels else common["metric"]
    identity = [common, start, source.scope, source.resource, attributes]
    return Sent(fit_name(series), time, make_id(identity, rest), data)


def _read_record(record: types.LogRecord, source: _Source, policy: OtlpPolicy) -> Sent:
    attributes = read_attributes(record.attributes)
    observed = read_whole(record.observed_time_unix_nano)
    nanos = read_whole(record.time_unix_nano) or observed
    time, rest = split_nanos(nanos) if nanos else (None, 0)
    data: JsonObject = {}
    for name, value in (
        ("severity", record.severity_number),
        ("severity_text", record.severity_text),
        ("event", record.event_name),
        ("trace_id", record.trace_id.lower()),
        ("span_id", record.span_id.lower()),
    ):
        if value:
            data[name] = value
    if record.body is not None:
        set_value(data, "body", read_value(record.body))
    for name, count in (("flags", record.flags), ("dropped_attributes", record.dropped_attributes_count)):
        if count:
            data[name] = count
    if attributes:
        data["attributes"] = nest_attributes(attributes)
    data |= source.data
    # The time of observation is not part of a record's identity: two collectors may have seen the same record.
    id = make_id([time, rest, data, source.scope], rest)
    if observed and observed != nanos:
        data["observed"] = split_nanos(observed)[0]
    series = _make_labels(policy.series, source.resource, attributes) if policy.series else source.labels
    return Sent(fit_name(series or "unknown"), time, id, data)


def _make_labels(chosen: Sequence[str], resource: Attributes, attributes: Attributes) -> str:
    """Return a series' attributes as text, sorted: the chosen attributes, or all except the SDK's own."""
    if chosen:
        values = {name: value for name, value in [*resource, *attributes] if name in chosen}
    else:
        values = dict([pair for pair in resource if not pair[0].startswith(_NOT_SERIES)]) | dict(attributes)
    return ",".join(f"{name}={show_text(values[name])}" for name in sorted(values))


# These patterns match a field that is null: the first after another field, the second after a brace. They never match
# inside a text, because each quote in a text has a backslash before it.
_NULL = re.compile(rb',\s*"\w+"\s*:\s*null(?=\s*[,}])')
_FIRST_NULL = re.compile(rb'\{\s*"\w+"\s*:\s*null\s*,?')


@dataclass(frozen=True, slots=True)
class Signal:
    """One of OTLP's signals: the type of its requests, the function that reads them, and what a request is a list of.

    ``read`` returns the points or records of a decoded request, in order; their places count from 0. ProblemError if
    they exceed the limits.
    """

    request: type
    read: Callable[[Any, OtlpPolicy, Limits], Reading]
    unit: str

    def describe_success(self, rejected: int, message: str) -> JsonObject:
        """Return the answer in JSON to a request whose accepted events are durable."""
        # A whole number of 64 bits is a text in protobuf's JSON.
        return {"partialSuccess": {f"rejected{self.unit}": str(rejected), "errorMessage": message}} if message else {}


METRICS = Signal(types.ExportMetricsServiceRequest, _read_metrics, "DataPoints")
LOGS = Signal(types.ExportLogsServiceRequest, _read_logs, "LogRecords")
