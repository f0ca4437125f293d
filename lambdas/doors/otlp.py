"""OTLP's metrics and logs as events: one event per data point or log record.

Every attribute in which two points or two records may differ is part of an event's id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from msgspec import Raw

from doors import otlp_types as types
from doors.otlp_series import (
    ATTRIBUTES,
    RESOURCE,
    SCOPE,
    Label,
    Labels,
    Pair,
    identify_value,
    join_labels,
    read_pairs,
    show_labels,
)
from doors.otlp_values import (
    list_points,
    read_exemplar,
    read_hex,
    read_severity,
    read_value,
    read_values,
    read_whole,
)
from doors.reading import Limits, Reading, Row, make_id, nest_attributes, set_values, split_nanos
from doors.series import fit_name
from tidetable.config.stream import OtlpPolicy
from tidetable.events import JsonObject
from tidetable.exact_json import canonical_json, encode_json

# The flag of a point that says: its source had no value to report. The values of such a point mean nothing.
_NO_RECORDED_VALUE = 1
# A point or record: its name in messages, the bytes that it shares with others, the function that reads it, and itself.
_Candidate = tuple[str, int, Callable[[Any], Row], Any]


@dataclass(slots=True)
class _Source:
    """The resource and the scope of points.

    ``identity`` is JSON that has all in which sources differ. ``labels`` are the source's labels in the series of its
    points. Each event repeats ``data``; both have ``size`` bytes. ``problem`` is the reason why its points are refused, if
    it is not empty.
    """

    identity: Raw = field(default_factory=Raw)
    data: JsonObject = field(default_factory=dict)
    labels: Sequence[Label] = ()
    size: int = 0
    problem: str = ""


def _read_source(resource: types.Resource | None, scope: types.InstrumentationScope | None, labels: Labels) -> _Source:
    """Read the source of points."""
    data: JsonObject = {}
    pairs: Sequence[Pair] = ()
    own: Sequence[Pair] = ()
    try:
        if resource is not None and resource.attributes:
            pairs, values = read_pairs(resource.attributes)
            data["resource"] = nest_attributes(values)
        if scope is not None:
            own, values = read_pairs(scope.attributes)
            fields = {"name": scope.name, "version": scope.version, "attributes": nest_attributes(values)}
            if members := {name: value for name, value in fields.items() if value}:
                data["scope"] = members
        identity = Raw(canonical_json([pairs, None if scope is None else [scope.name, scope.version, own]]))
    except (ValueError, RecursionError) as error:
        return _Source(problem=f"an attribute of the resource or scope cannot be read: {error}")
    written = labels.write(pairs, RESOURCE) + labels.write(own, SCOPE)
    return _Source(identity, data, written, len(encode_json([pairs, data])))


def _walk_metrics(request: types.ExportMetricsServiceRequest, policy: OtlpPolicy) -> Iterator[_Candidate]:
    """Yield each data point.

    Its source and the data that its metric adds are made only for metrics with points, so that a body full of empty
    metrics costs little.
    """
    labels = Labels(policy.series)
    for owner in request.resource_metrics:
        for scoped in owner.scope_metrics:
            source = None
            for metric in scoped.metrics:
                for kind, more, points in list_points(metric):
                    if not points:
                        continue
                    source = source or _read_source(owner.resource, scoped.scope, labels)
                    unit = {"unit": metric.unit} if metric.unit else {}
                    common = {"metric": metric.name, "type": kind, **unit, **more}
                    size = source.size + len(encode_json(common))
                    own = Raw(canonical_json(common))
                    what, read = f"metric {metric.name[:64]!r}: ", partial(_read_point, common, own, source, labels)
                    for point in points:
                        yield what, size, read, point


def _walk_logs(request: types.ExportLogsServiceRequest, policy: OtlpPolicy) -> Iterator[_Candidate]:
    """Yield each log record."""
    labels, counts = Labels(policy.series, alone=not policy.series), Counter[Any]()
    for owner in request.resource_logs:
        for scoped in owner.scope_logs:
            if scoped.log_records:
                source = _read_source(owner.resource, scoped.scope, labels)
                read = partial(_read_record, source, labels, counts)
                for record in scoped.log_records:
                    yield "log record: ", source.size, read, record


def _read_point(
    common: JsonObject, own: Raw, source: _Source, labels: Labels, point: types.Point | types.Undecodable
) -> Row:
    if isinstance(point, types.Undecodable):
        raise ValueError(point.problem)
    if source.problem:
        raise ValueError(source.problem)
    pairs, values = read_pairs(point.attributes)
    nanos, start = read_whole(point.time_unix_nano), read_whole(point.start_time_unix_nano)
    if not nanos:
        raise ValueError("timeUnixNano is missing")
    time, rest = split_nanos(nanos)
    data = common | (read_values(point) if not point.flags & _NO_RECORDED_VALUE else {})
    if start:
        data["start"] = split_nanos(start)[0]
    if point.flags:
        data["flags"] = point.flags
    if not isinstance(point, types.SummaryDataPoint) and point.exemplars:
        data["exemplars"] = [read_exemplar(exemplar) for exemplar in point.exemplars]
    if pairs:
        data["attributes"] = nest_attributes(values)
    data |= source.data
    series = join_labels(common["metric"], [*source.labels, *labels.write(pairs, ATTRIBUTES)])
    return fit_name(series), time, make_id([own, start, source.identity, pairs], rest), data


def _read_record(
    source: _Source, labels: Labels, counts: Counter[Any], record: types.LogRecord | types.Undecodable
) -> Row:
    if isinstance(record, types.Undecodable):
        raise ValueError(record.problem)
    if source.problem:
        raise ValueError(source.problem)
    observed = read_whole(record.observed_time_unix_nano)
    nanos = read_whole(record.time_unix_nano) or observed
    time, rest = split_nanos(nanos) if nanos else (None, 0)
    data: JsonObject = {}
    for name, value in (
        ("severity", read_severity(record.severity_number)),
        ("severity_text", record.severity_text),
        ("event", record.event_name),
        ("trace_id", read_hex(record.trace_id)),
        ("span_id", read_hex(record.span_id)),
        ("flags", record.flags),
        ("dropped_attributes", record.dropped_attributes_count),
    ):
        if value:
            data[name] = value
    pairs, values = read_pairs(record.attributes)
    body = None if record.body is None else identify_value(record.body)
    # The time of observation is not part of a record's identity: two collectors may have seen the same record.
    id = make_id([time, rest, data, body, pairs, source.identity], rest)
    if record.body is not None:
        set_values([(data, "body", read_value(record.body))])
    if pairs:
        data["attributes"] = nest_attributes(values)
    data |= source.data
    if observed and observed != nanos:
        data["observed"] = split_nanos(observed)[0]
    series = fit_name(show_labels([*source.labels, *labels.write(pairs, ATTRIBUTES)]) or "unknown")
    # Equal records in one request are different events: a retry would send the copy in another request.
    key = series, time, id
    counts[key] += 1
    return series, time, id if counts[key] == 1 else f"{id}-{counts[key]}", data


@dataclass(frozen=True, slots=True)
class Signal:
    """One of OTLP's signals: the type of its requests, the function that walks its points or records, and their name."""

    request: type
    walk: Callable[[Any, OtlpPolicy], Iterator[_Candidate]]
    unit: str

    def read(self, request: Any, policy: OtlpPolicy, limits: Limits) -> Reading:
        """Read the points or records of a decoded request; their places count from 0. ProblemError beyond the limits."""
        reading = Reading(limits)
        for number, (what, shared, read, value) in enumerate(self.walk(request, policy)):
            reading.take([number], read, value, what=what, shared=shared)
        return reading

    def describe_success(self, rejected: int, message: str) -> JsonObject:
        """Return the answer in JSON to a request whose accepted events are durable."""
        # A whole number of 64 bits is a text in protobuf's JSON.
        return {"partialSuccess": {f"rejected{self.unit}": str(rejected), "errorMessage": message}} if message else {}


METRICS = Signal(types.ExportMetricsServiceRequest, _walk_metrics, "DataPoints")
LOGS = Signal(types.ExportLogsServiceRequest, _walk_logs, "LogRecords")
