"""OTLP's metrics and logs as events: a data point or a log record each. Every attribute that may tell two apart is in the id."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from tidetable.config.model import OtlpPolicy
from tidetable.dialects import otlp_types as types
from tidetable.dialects.reading import (
    GROWTH,
    Reading,
    exact,
    fit_name,
    make_id,
    nest,
    set_number,
    split_nanos,
    too_many,
)
from tidetable.events import JsonObject
from tidetable.exact import encode_json
from tidetable.ingest.bodies import Sent, Unreadable
from tidetable.problems import refuse

# What identifies the SDK and no source: an update of the SDK must not begin new series.
_NOT_SERIES = "telemetry."
_TEMPORALITY = {1: "delta", 2: "cumulative"}
_LONGEST_WHOLE = 21
_Attributes = Sequence[tuple[str, Any]]


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much a request may hold: ``most`` points, and ``max_body`` bytes, which bounds what shared attributes may grow to."""

    most: int
    max_body: int


@dataclass(slots=True)
class _Budget:
    """What is left of the bounds while a request is read. A resource is sent once, and is part of each of its events."""

    bounds: Bounds
    points: int = 0
    shared: int = 0

    def spend(self, size: int) -> None:
        """Count an event with so many bytes of what it shares; ProblemError if there are too many of either."""
        self.points += 1
        self.shared += size
        if self.points > self.bounds.most:
            raise too_many(self.bounds.most)
        if self.shared > GROWTH * self.bounds.max_body:
            detail = "the attributes of resources and scopes, repeated in each event, exceed the limit: send fewer points at once"
            raise refuse(413, "too_large", detail)


@dataclass(slots=True)
class _Source:
    """The resource and the scope of points: their attributes, what each event's data has of them, and its size in bytes."""

    resource: _Attributes
    scope: Sequence[Any]
    data: JsonObject
    size: int = 0

    @classmethod
    def of(cls, resource: types.Resource | None, scope: types.Scope | None) -> _Source:
        """The source of points; ProblemError if an attribute cannot be read."""
        try:
            return cls._read(resource, scope)
        except (ValueError, RecursionError) as error:
            raise refuse(
                400, "unparseable", f"the attributes of a resource or scope cannot be read: {error}"
            ) from error

    @classmethod
    def _read(cls, resource: types.Resource | None, scope: types.Scope | None) -> _Source:
        attributes = _read_attributes(resource.attributes) if resource is not None else ()
        data: JsonObject = {}
        if attributes:
            data["resource"] = nest(attributes)
        identity: list[Any] = []
        if scope is not None:
            own = _read_attributes(scope.attributes)
            identity = [scope.name, scope.version, own]
            fields = {"name": scope.name, "version": scope.version, "attributes": nest(own)}
            if kept := {name: value for name, value in fields.items() if value}:
                data["scope"] = kept
        return cls(attributes, identity, data, len(encode_json([attributes, data])))


def decode_metrics(body: bytes) -> types.MetricsRequest:
    """A request for metrics in JSON; ProblemError if it is not."""
    request: types.MetricsRequest = _decode(_METRICS, body)
    return request


def decode_logs(body: bytes) -> types.LogsRequest:
    """A request for logs in JSON; ProblemError if it is not."""
    request: types.LogsRequest = _decode(_LOGS, body)
    return request


def _decode(decoder: msgspec.json.Decoder[Any], body: bytes) -> Any:
    try:
        return decoder.decode(body)
    except RecursionError as error:
        raise refuse(400, "unparseable", "the body is nested too deeply") from error
    except (msgspec.DecodeError, ValueError) as error:
        raise refuse(400, "unparseable", f"the body is not OTLP in JSON: {error}") from error


def read_metrics(request: types.MetricsRequest, policy: OtlpPolicy, bounds: Bounds) -> Reading:
    """The data points of a request in its order; the places are their numbers, from 0. ProblemError if they exceed the bounds."""
    reading, budget = Reading(), _Budget(bounds)
    for number, (source, common, size, point) in enumerate(_walk_metrics(request)):
        budget.spend(size)
        try:
            reading.add(_read_point(point, common, source, policy), number)
        except (ValueError, RecursionError) as error:
            reading.add(Unreadable(f"metric {common['metric'][:64]!r}: {error}"), number)
    return reading


def read_logs(request: types.LogsRequest, policy: OtlpPolicy, bounds: Bounds) -> Reading:
    """The records of a request in its order; the places are their numbers, from 0. ProblemError if they exceed the bounds."""
    reading, budget = Reading(), _Budget(bounds)
    seen: dict[tuple[str, str | int | None, str | None], int] = {}
    for number, (source, record) in enumerate(_walk_logs(request)):
        budget.spend(source.size)
        try:
            event = _read_record(record, source, policy)
        except (ValueError, RecursionError) as error:
            reading.add(Unreadable(f"log record: {error}"), number)
            continue
        # Equal records of one request are several: the second is no copy by a retry, which would be in another request.
        key = event.series, event.time, event.id
        count = seen[key] = seen.get(key, 0) + 1
        if count > 1:
            event.id = f"{event.id}-{count}"
        reading.add(event, number)
    return reading


def _walk_metrics(request: types.MetricsRequest) -> Iterator[tuple[_Source, JsonObject, int, types.Point]]:
    """Each data point with its source, what its metric adds to its data, and the bytes of both.

    Both are made only for a metric that has points, as each point is counted with them: a body of empty ones costs little.
    """
    for owner in request.resource_metrics:
        for scoped in owner.scope_metrics:
            source = None
            for metric in scoped.metrics:
                for kind, more, points in _points_of(metric):
                    if not points:
                        continue
                    source = source or _Source.of(owner.resource, scoped.scope)
                    unit = {"unit": metric.unit} if metric.unit else {}
                    common = {"metric": metric.name, "type": kind, **unit, **more}
                    size = source.size + len(encode_json(common))
                    for point in points:
                        yield source, common, size, point


def _walk_logs(request: types.LogsRequest) -> Iterator[tuple[_Source, types.LogRecord]]:
    """Each record with its source."""
    for owner in request.resource_logs:
        for scoped in owner.scope_logs:
            if scoped.log_records:
                source = _Source.of(owner.resource, scoped.scope)
                for record in scoped.log_records:
                    yield source, record


def _points_of(metric: types.Metric) -> Iterator[tuple[str, JsonObject, Sequence[types.Point]]]:
    """The points of a metric, its kind, and what the kind adds to each event."""
    if metric.gauge is not None:
        yield "gauge", {}, metric.gauge.data_points
    if metric.sum is not None:
        more = _temporality(metric.sum.aggregation_temporality) | {"monotonic": metric.sum.is_monotonic}
        yield "sum", more, metric.sum.data_points
    if metric.histogram is not None:
        yield "histogram", _temporality(metric.histogram.aggregation_temporality), metric.histogram.data_points
    if metric.exponential_histogram is not None:
        more = _temporality(metric.exponential_histogram.aggregation_temporality)
        yield "exponential_histogram", more, metric.exponential_histogram.data_points
    if metric.summary is not None:
        yield "summary", {}, metric.summary.data_points


def _temporality(number: int) -> JsonObject:
    return {"temporality": _TEMPORALITY[number]} if number in _TEMPORALITY else {}


def _read_point(point: types.Point, common: JsonObject, source: _Source, policy: OtlpPolicy) -> Sent:
    attributes = _read_attributes(point.attributes)
    nanos, start = _whole(point.time_unix_nano), _whole(point.start_time_unix_nano)
    if not nanos:
        raise ValueError("timeUnixNano is missing")
    time, rest = split_nanos(nanos)
    data = common | _values_of(point)
    if start:
        data["start"] = split_nanos(start)[0]
    if point.flags:
        data["flags"] = point.flags
    if not isinstance(point, types.SummaryPoint) and point.exemplars:
        data["exemplars"] = [_read_exemplar(exemplar) for exemplar in point.exemplars]
    if attributes:
        data["attributes"] = nest(attributes)
    data |= source.data
    labels = _labels(policy.series, source.resource, attributes)
    series = f"{common['metric']}{{{labels}}}" if labels else common["metric"]
    identity = [common, start, source.scope, sorted(source.resource, key=_name_of), sorted(attributes, key=_name_of)]
    return Sent(fit_name(series), time, make_id(identity, rest), data)


def _values_of(point: types.Point) -> JsonObject:
    """What a point of its kind measures."""
    data: JsonObject = {}
    match point:
        case types.NumberPoint():
            _set_value(data, "value", point)
        case types.HistogramPoint():
            _set_numbers(data, point, "count", "sum", "min", "max")
            data["bounds"] = [exact(_double(bound)) for bound in point.explicit_bounds]
            data["buckets"] = [_whole(count) for count in point.bucket_counts]
        case types.ExponentialPoint():
            _set_numbers(data, point, "count", "sum", "min", "max", "zero_count", "zero_threshold")
            data["scale"] = point.scale
            for side in ("positive", "negative"):
                buckets: types.Buckets | None = getattr(point, side)
                if buckets is not None and buckets.bucket_counts:
                    counts = [_whole(count) for count in buckets.bucket_counts]
                    data[side] = {"offset": buckets.offset, "buckets": counts}
        case types.SummaryPoint():
            _set_numbers(data, point, "count", "sum")
            data["quantiles"] = [_read_quantile(quantile) for quantile in point.quantile_values]
    return data


def _read_record(record: types.LogRecord, source: _Source, policy: OtlpPolicy) -> Sent:
    attributes = _read_attributes(record.attributes)
    observed = _whole(record.observed_time_unix_nano)
    nanos = _whole(record.time_unix_nano) or observed
    time, rest = split_nanos(nanos) if nanos else (None, 0)
    data: JsonObject = {}
    if record.severity_number:
        data["severity"] = record.severity_number
    for name, text in (
        ("severity_text", record.severity_text),
        ("event", record.event_name),
        ("trace_id", record.trace_id.lower()),
        ("span_id", record.span_id.lower()),
    ):
        if text:
            data[name] = text
    if record.body is not None:
        body = _read_value(record.body)
        if type(body) is float:
            set_number(data, "body", body)
        else:
            data["body"] = body
    for name, count in (("flags", record.flags), ("dropped_attributes", record.dropped_attributes_count)):
        if count:
            data[name] = count
    if attributes:
        data["attributes"] = nest(attributes)
    data |= source.data
    # The time of observation is not part of what a record is: two collectors may have seen the same record.
    id = make_id([time, rest, data, source.scope], rest)
    if observed and observed != nanos:
        data["observed"] = split_nanos(observed)[0]
    series = _labels(policy.series, source.resource, attributes if policy.series else ())
    return Sent(fit_name(series or "unknown"), time, id, data)


def _labels(chosen: Sequence[str], resource: _Attributes, attributes: _Attributes) -> str:
    """The attributes that are part of a series' name, sorted: the chosen ones, or all but those that only name the SDK."""
    if chosen:
        values = {name: value for name, value in [*resource, *attributes] if name in chosen}
    else:
        values = dict([pair for pair in resource if not pair[0].startswith(_NOT_SERIES)]) | dict(attributes)
    return ",".join(f"{name}={_text(values[name])}" for name in sorted(values))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else encode_json(value).decode()


def _name_of(pair: tuple[str, Any]) -> str:
    return pair[0]


def _read_attributes(attributes: Sequence[types.KeyValue]) -> _Attributes:
    return [(pair.key, _read_value(pair.value)) for pair in attributes]


def _read_value(value: types.AnyValue | None) -> Any:
    """A value as JSON has it; a floating-point number stays one, so that its place decides how it is kept."""
    if value is None:
        return None
    if value.string_value is not None:
        return value.string_value
    if value.bool_value is not None:
        return value.bool_value
    if value.int_value is not None:
        return _whole(value.int_value)
    if value.double_value is not None:
        return _double(value.double_value)
    if value.array_value is not None:
        inner = [_read_value(element) for element in value.array_value.values]
        return [exact(element) if type(element) is float else element for element in inner]
    if value.kvlist_value is not None:
        return nest(_read_attributes(value.kvlist_value.values))
    return value.bytes_value


def _read_quantile(quantile: types.Quantile) -> JsonObject:
    data: JsonObject = {}
    set_number(data, "quantile", _double(quantile.quantile))
    set_number(data, "value", _double(quantile.value))
    return data


def _read_exemplar(exemplar: types.Exemplar) -> JsonObject:
    data: JsonObject = {}
    _set_value(data, "value", exemplar)
    if nanos := _whole(exemplar.time_unix_nano):
        data["time"] = split_nanos(nanos)[0]
    for name, text in (("trace_id", exemplar.trace_id.lower()), ("span_id", exemplar.span_id.lower())):
        if text:
            data[name] = text
    if exemplar.filtered_attributes:
        data["attributes"] = nest(_read_attributes(exemplar.filtered_attributes))
    return data


def _set_value(data: JsonObject, name: str, point: types.NumberPoint | types.Exemplar) -> None:
    if point.as_int is not None:
        data[name] = _whole(point.as_int)
    elif point.as_double is not None:
        set_number(data, name, _double(point.as_double))


def _set_numbers(data: JsonObject, point: types.Point, *names: str) -> None:
    for name in names:
        value = getattr(point, name)
        if value is not None:
            if name in ("count", "zero_count"):
                data[name] = _whole(value)
            else:
                set_number(data, name, _double(value))


def _whole(value: types.Whole) -> int:
    if isinstance(value, str):
        if len(value) > _LONGEST_WHOLE or not value.removeprefix("-").isdecimal():
            raise ValueError(f"{value[:32]!r} is no whole number")
        value = int(value)
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"{str(value)[:32]} does not fit into 64 bits")
    return value


def _double(value: types.Double) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{str(value)[:32]!r} is no number") from error


def success_document(rejected: int, message: str, unit: str) -> Mapping[str, Any]:
    """The answer to a request in JSON; ``unit`` is what is counted: dataPoints or logRecords."""
    if not message:
        return {}
    # A whole number of 64 bits is a text in protobuf's JSON.
    return {"partialSuccess": {f"rejected{unit[:1].upper()}{unit[1:]}": str(rejected), "errorMessage": message}}


_METRICS = msgspec.json.Decoder(types.MetricsRequest)
_LOGS = msgspec.json.Decoder(types.LogsRequest)
