"""Convert OTLP's values into JSON values: attributes, numbers, and the measured values of each kind of data point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tidetable.dialects import otlp_types as types
from tidetable.dialects.reading import nest_attributes, read_exact, set_number, split_nanos
from tidetable.events import JsonObject

_TEMPORALITY = {1: "delta", 2: "cumulative"}
_LONGEST_WHOLE = 21
Attributes = Sequence[tuple[str, Any]]


def list_points(metric: types.Metric) -> Iterator[tuple[str, JsonObject, Sequence[types.Point]]]:
    """Yield a metric's kind, the data that the kind adds to each event, and the metric's points."""
    for kind in ("gauge", "sum", "histogram", "exponential_histogram", "summary"):
        measured = getattr(metric, kind)
        if measured is None:
            continue
        more: JsonObject = {}
        if temporality := _TEMPORALITY.get(getattr(measured, "aggregation_temporality", 0)):
            more["temporality"] = temporality
        if isinstance(measured, types.Sum):
            more["monotonic"] = measured.is_monotonic
        yield kind, more, measured.data_points


def read_values(point: types.Point) -> JsonObject:
    """Return the measured values of a point, by the kind of the point."""
    data: JsonObject = {}
    match point:
        case types.NumberDataPoint():
            _set_value(data, point)
        case types.HistogramDataPoint():
            data = _read_numbers(point, "count", "sum", "min", "max")
            data["bounds"] = [read_exact(read_double(bound)) for bound in point.explicit_bounds]
            data["buckets"] = [read_whole(count) for count in point.bucket_counts]
        case types.ExponentialHistogramDataPoint():
            data = _read_numbers(point, "count", "sum", "min", "max", "zero_count", "zero_threshold")
            data["scale"] = point.scale
            for side in ("positive", "negative"):
                buckets: types.Buckets | None = getattr(point, side)
                if buckets is not None and buckets.bucket_counts:
                    counts = [read_whole(count) for count in buckets.bucket_counts]
                    data[side] = {"offset": buckets.offset, "buckets": counts}
        case types.SummaryDataPoint():
            data = _read_numbers(point, "count", "sum")
            data["quantiles"] = [_read_numbers(value, "quantile", "value") for value in point.quantile_values]
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
        return read_double(value.double_value)
    if value.array_value is not None:
        inner = [read_value(element) for element in value.array_value.values]
        return [read_exact(element) if type(element) is float else element for element in inner]
    if value.kvlist_value is not None:
        return nest_attributes(read_attributes(value.kvlist_value.values))
    return value.bytes_value


def read_exemplar(exemplar: types.Exemplar) -> JsonObject:
    data: JsonObject = {}
    _set_value(data, exemplar)
    if nanos := read_whole(exemplar.time_unix_nano):
        data["time"] = split_nanos(nanos)[0]
    for name, text in (("trace_id", exemplar.trace_id.lower()), ("span_id", exemplar.span_id.lower())):
        if text:
            data[name] = text
    if exemplar.filtered_attributes:
        data["attributes"] = nest_attributes(read_attributes(exemplar.filtered_attributes))
    return data


def _set_value(data: JsonObject, point: types.NumberDataPoint | types.Exemplar) -> None:
    if point.as_int is not None:
        data["value"] = read_whole(point.as_int)
    elif point.as_double is not None:
        set_number(data, "value", read_double(point.as_double))


def _read_numbers(source: types.Point | types.ValueAtQuantile, *names: str) -> JsonObject:
    """Read the fields of these names that are set."""
    data: JsonObject = {}
    for name in names:
        value = getattr(source, name)
        if value is not None:
            if name in ("count", "zero_count"):
                data[name] = read_whole(value)
            else:
                set_number(data, name, read_double(value))
    return data


def read_whole(value: types.Whole) -> int:
    if isinstance(value, str):
        if len(value) > _LONGEST_WHOLE or not value.removeprefix("-").isdecimal():
            raise ValueError(f"{value[:32]!r} is not a whole number")
        value = int(value)
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"{str(value)[:32]} does not fit into 64 bits")
    return value


def read_double(value: types.Double) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{str(value)[:32]!r} is not a number") from error
