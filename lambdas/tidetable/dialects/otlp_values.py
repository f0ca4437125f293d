"""Convert OTLP's values into JSON values: attributes, numbers, and the measured values of each kind of data point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidetable.dialects import otlp_types as types
from tidetable.dialects.reading import nest, read_exact, set_number, split_nanos
from tidetable.events import JsonObject

_TEMPORALITY = {1: "delta", 2: "cumulative"}
_LONGEST_WHOLE = 21
Attributes = Sequence[tuple[str, Any]]


def list_points(metric: types.Metric) -> Iterator[tuple[str, JsonObject, Sequence[types.Point]]]:
    """Yield a metric's kind, the data that the kind adds to each event, and the metric's points."""
    if metric.gauge is not None:
        yield "gauge", {}, metric.gauge.data_points
    if metric.sum is not None:
        more = _name_temporality(metric.sum.aggregation_temporality) | {"monotonic": metric.sum.is_monotonic}
        yield "sum", more, metric.sum.data_points
    if metric.histogram is not None:
        yield "histogram", _name_temporality(metric.histogram.aggregation_temporality), metric.histogram.data_points
    if metric.exponential_histogram is not None:
        more = _name_temporality(metric.exponential_histogram.aggregation_temporality)
        yield "exponential_histogram", more, metric.exponential_histogram.data_points
    if metric.summary is not None:
        yield "summary", {}, metric.summary.data_points


def _name_temporality(number: int) -> JsonObject:
    return {"temporality": _TEMPORALITY[number]} if number in _TEMPORALITY else {}


def read_values(point: types.Point) -> JsonObject:
    """Return the measured values of a point, by the kind of the point."""
    data: JsonObject = {}
    match point:
        case types.NumberPoint():
            _set_value(data, "value", point)
        case types.HistogramPoint():
            _set_numbers(data, point, "count", "sum", "min", "max")
            data["bounds"] = [read_exact(_read_double(bound)) for bound in point.explicit_bounds]
            data["buckets"] = [read_whole(count) for count in point.bucket_counts]
        case types.ExponentialPoint():
            _set_numbers(data, point, "count", "sum", "min", "max", "zero_count", "zero_threshold")
            data["scale"] = point.scale
            for side in ("positive", "negative"):
                buckets: types.Buckets | None = getattr(point, side)
                if buckets is not None and buckets.bucket_counts:
                    counts = [read_whole(count) for count in buckets.bucket_counts]
                    data[side] = {"offset": buckets.offset, "buckets": counts}
        case types.SummaryPoint():
            _set_numbers(data, point, "count", "sum")
            data["quantiles"] = [_read_quantile(quantile) for quantile in point.quantile_values]
    return data


def read_attributes(attributes: Sequence[types.KeyValue]) -> Attributes:
    return [(pair.key, read_value(pair.value)) for pair in attributes]


def read_value(value: types.AnyValue | None) -> Any:
    """Return a value as a JSON value. A float stays a float: the caller decides how to store it."""
    if value is None:
        return None
    if value.string_value is not None:
        return value.string_value
    if value.bool_value is not None:
        return value.bool_value
    if value.int_value is not None:
        return read_whole(value.int_value)
    if value.double_value is not None:
        return _read_double(value.double_value)
    if value.array_value is not None:
        inner = [read_value(element) for element in value.array_value.values]
        return [read_exact(element) if type(element) is float else element for element in inner]
    if value.kvlist_value is not None:
        return nest(read_attributes(value.kvlist_value.values))
    return value.bytes_value


def _read_quantile(quantile: types.Quantile) -> JsonObject:
    data: JsonObject = {}
    set_number(data, "quantile", _read_double(quantile.quantile))
    set_number(data, "value", _read_double(quantile.value))
    return data


def read_exemplar(exemplar: types.Exemplar) -> JsonObject:
    data: JsonObject = {}
    _set_value(data, "value", exemplar)
    if nanos := read_whole(exemplar.time_unix_nano):
        data["time"] = split_nanos(nanos)[0]
    for name, text in (("trace_id", exemplar.trace_id.lower()), ("span_id", exemplar.span_id.lower())):
        if text:
            data[name] = text
    if exemplar.filtered_attributes:
        data["attributes"] = nest(read_attributes(exemplar.filtered_attributes))
    return data


def _set_value(data: JsonObject, name: str, point: types.NumberPoint | types.Exemplar) -> None:
    if point.as_int is not None:
        data[name] = read_whole(point.as_int)
    elif point.as_double is not None:
        set_number(data, name, _read_double(point.as_double))


def _set_numbers(data: JsonObject, point: types.Point, *names: str) -> None:
    for name in names:
        value = getattr(point, name)
        if value is not None:
            if name in ("count", "zero_count"):
                data[name] = read_whole(value)
            else:
                set_number(data, name, _read_double(value))


def read_whole(value: types.Whole) -> int:
    if isinstance(value, str):
        if len(value) > _LONGEST_WHOLE or not value.removeprefix("-").isdecimal():
            raise ValueError(f"{value[:32]!r} is not a whole number")
        value = int(value)
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"{str(value)[:32]} does not fit into 64 bits")
    return value


def _read_double(value: types.Double) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{str(value)[:32]!r} is not a number") from error
