"""OTLP's metrics and logs as events: one event per data point or log record.

Every attribute in which two points or two records may differ is part of an event's id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

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
from doors.reading import (
    GROWTH,
    Limits,
    Reading,
    make_id,
    nest_attributes,
    refuse_too_many,
    set_value,
    split_nanos,
)
from doors.series import fit_name
from tidetable.config.stream import OtlpPolicy
from tidetable.events import JsonObject
from tidetable.exact_json import encode_json
from tidetable.ingest.bodies import Sent
from tidetable.ingest.unreadable import Unreadable
from tidetable.problems import refuse_request

# The flag of a point that says: its source had no value to report. The values of such a point mean nothing.
_NO_RECORDED_VALUE = 1


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

    ``identity`` has all in which sources differ. ``labels`` are the source's labels in the series of its points. Each
    event repeats ``data``; both have ``size`` bytes. ``problem`` is the reason why its points are refused, if it is not
    empty.
    """

    identity: Sequence[Any] = ()
    data: JsonObject = field(default_factory=dict)
    labels: Sequence[Label] = ()
    size: int = 0
    problem: str = ""


def _read_metrics(request: types.ExportMetricsServiceRequest, policy: OtlpPolicy, limits: Limits) -> Reading:
    reading, budget, labels = Reading(), _Budget(limits), Labels(policy.series)
    for number, (source, common, size, point) in enumerate(_walk_metrics(request, labels)):
        budget.spend(size)
        try:
            reading.add(_read_point(point, common, source, labels), number)
        except (ValueError, RecursionError) as error:
            reading.add(Unreadable(f"metric {common['metric'][:64]!r}: {error}"), number)
    return reading


def _read_logs(request: types.ExportLogsServiceRequest, policy: OtlpPolicy, limits: Limits) -> Reading:
    reading, budget, labels = Reading(), _Budget(limits), Labels(policy.series)
    # Without a choice, the resource alone makes the series.
    alone = not policy.series
    counts: dict[tuple[str, str | int | None, str | None], int] = {}
    for number, (source, record) in enumerate(_walk_logs(request, labels, alone=alone)):
        budget.spend(source.size)
        try:
            event = _read_record(record, source, None if alone else labels)
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


def _read_source(
    resource: types.Resource | None, scope: types.InstrumentationScope | None, labels: Labels, *, alone: bool
) -> _Source:
    """Read the source of points. ``alone`` says that only the resource's attributes make the series."""
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
        identity = [pairs, None if scope is None else [scope.name, scope.version, own]]
    except (ValueError, RecursionError) as error:
        return _Source(problem=f"an attribute of the resource or scope cannot be read: {error}")
    written = labels.write(pairs, None) if alone else labels.write(pairs, RESOURCE) + labels.write(own, SCOPE)
    return _Source(identity, data, written, len(encode_json([pairs, data])))


def _walk_metrics(
    request: types.ExportMetricsServiceRequest, labels: Labels
) -> Iterator[tuple[_Source, JsonObject, int, types.Point]]:
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
                    source = source or _read_source(owner.resource, scoped.scope, labels, alone=False)
                    unit = {"unit": metric.unit} if metric.unit else {}
                    common = {"metric": metric.name, "type": kind, **unit, **more}
                    size = source.size + len(encode_json(common))
                    for point in points:
                        yield source, common, size, point


def _walk_logs(
    request: types.ExportLogsServiceRequest, labels: Labels, *, alone: bool
) -> Iterator[tuple[_Source, types.LogRecord]]:
    """Yield each record with its source."""
    for owner in request.resource_logs:
        for scoped in owner.scope_logs:
            if scoped.log_records:
                source = _read_source(owner.resource, scoped.scope, labels, alone=alone)
                for record in scoped.log_records:
                    yield source, record


def _read_point(point: types.Point | types.Undecodable, common: JsonObject, source: _Source, labels: Labels) -> Sent:
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
    return Sent(fit_name(series), time, make_id([common, start, source.identity, pairs], rest), data)


def _read_record(record: types.LogRecord | types.Undecodable, source: _Source, labels: Labels | None) -> Sent:
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
        set_value(data, "body", read_value(record.body))
    if pairs:
        data["attributes"] = nest_attributes(values)
    data |= source.data
    if observed and observed != nanos:
        data["observed"] = split_nanos(observed)[0]
    series = show_labels(source.labels if labels is None else [*source.labels, *labels.write(pairs, ATTRIBUTES)])
    return Sent(fit_name(series or "unknown"), time, id, data)


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
