"""Convert OTLP's values into JSON values: attributes, numbers, and the measured values of each kind of data point."""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any

from doors import otlp_types as types
from doors.reading import nest_attributes, read_exact, set_values, split_nanos
from tidetable.events import JsonObject

_TEMPORALITY = {1: "delta", 2: "cumulative"}
_TEMPORALITY_NAMES = {
    f"AGGREGATION_TEMPORALITY_{name}": n for n, name in enumerate(("UNSPECIFIED", "DELTA", "CUMULATIVE"))
}
_SEVERITY_NAMES = {"SEVERITY_NUMBER_UNSPECIFIED": 0} | {
    f"SEVERITY_NUMBER_{name}{more}": 4 * level + step
    for level, name in enumerate(("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"))
    for step, more in enumerate(("", "2", "3", "4"), start=1)
}
# The grammar of JSON's numbers. Zeros in front are allowed, because some senders fill up their texts with zeros.
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_HEX = re.compile(r"[0-9a-fA-F]*", re.ASCII)
_LONGEST_NUMBER = 400
_LARGEST_EXPONENT, _TOO_LARGE = 20, 100_000_000_000_000_000_000
_STANDARD_ALPHABET = str.maketrans("-_", "+/")
_WORDS = frozenset({"NaN", "Infinity", "-Infinity"})
Attributes = Sequence[tuple[str, Any]]


def list_points(metric: types.Metric) -> Iterator[tuple[str, JsonObject, Sequence[types.Point]]]:
    """Yield a metric's kind, the data that the kind adds to each event, and the metric's points."""
    for kind in ("gauge", "sum", "histogram", "exponential_histogram", "summary"):
        measured = getattr(metric, kind)
        if measured is None:
            continue
        more: JsonObject = {}
        points: Sequence[Any] = measured.data_points
        try:
            number = _read_enum(getattr(measured, "aggregation_temporality", 0), _TEMPORALITY_NAMES)
            if temporality := _TEMPORALITY.get(number):
                more["temporality"] = temporality
        except ValueError as error:
            points = [types.Undecodable(f"aggregationTemporality: {error}")] * len(points)
        if isinstance(measured, types.Sum):
            more["monotonic"] = measured.is_monotonic
        yield kind, more, points


def read_values(point: types.Point) -> JsonObject:
    """Return the measured values of a point, by the kind of the point."""
    data: JsonObject = {}
    match point:
        case types.NumberDataPoint():
            _set_value(data, point)
        case types.HistogramDataPoint():
            data = _read_numbers(point, "count", "sum", "min", "max")
            data["bounds"] = [read_exact(read_double(bound)) for bound in point.explicit_bounds]
            data["buckets"] = [_read_count(count) for count in point.bucket_counts]
        case types.ExponentialHistogramDataPoint():
            data = _read_numbers(point, "count", "sum", "min", "max", "zero_count", "zero_threshold")
            data["scale"] = point.scale
            for side in ("positive", "negative"):
                buckets: types.Buckets | None = getattr(point, side)
                if buckets is not None and buckets.bucket_counts:
                    counts = [_read_count(count) for count in buckets.bucket_counts]
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
    return None if value.bytes_value is None else normalize_base64(value.bytes_value)


def normalize_base64(text: str) -> str:
    """Return bytes in standard base64; they may come in the alphabet for URLs, and without the padding."""
    padded = text.rstrip("=").translate(_STANDARD_ALPHABET)
    padded += "=" * (-len(padded) % 4)
    try:
        b64decode(padded, validate=True)
    except ValueError as error:
        raise ValueError(f"{text[:32]!r} is not base64") from error
    return padded


def read_hex(text: str) -> str:
    """Return the id of a trace or span in lower case. A text that is not hexadecimal, such as base64, stays as it is."""
    return text.lower() if _HEX.fullmatch(text) else text


def read_exemplar(exemplar: types.Exemplar) -> JsonObject:
    data: JsonObject = {}
    _set_value(data, exemplar)
    if nanos := read_whole(exemplar.time_unix_nano):
        data["time"] = split_nanos(nanos)[0]
    for name, text in (("trace_id", read_hex(exemplar.trace_id)), ("span_id", read_hex(exemplar.span_id))):
        if text:
            data[name] = text
    if exemplar.filtered_attributes:
        data["attributes"] = nest_attributes(read_attributes(exemplar.filtered_attributes))
    return data


def _set_value(data: JsonObject, point: types.NumberDataPoint | types.Exemplar) -> None:
    if point.as_int is not None:
        data["value"] = read_whole(point.as_int)
    elif point.as_double is not None:
        number = read_exact(read_double(point.as_double))
        data["value_text" if isinstance(number, str) else "value"] = number


def _read_numbers(source: types.Point | types.ValueAtQuantile, *names: str) -> JsonObject:
    """Read the fields of these names that are set."""
    data: JsonObject = {}
    values = {name: getattr(source, name) for name in names}
    set_values(
        (data, name, _read_count(value) if name in ("count", "zero_count") else read_double(value))
        for name, value in values.items()
        if value is not None
    )
    return data


def read_severity(value: types.Enum) -> int:
    """Return the number of a severity, which may be a name."""
    return _read_enum(value, _SEVERITY_NAMES)


def _read_enum(value: types.Enum, names: Mapping[str, int]) -> int:
    return names[value] if isinstance(value, str) and value in names else read_whole(value)


def read_whole(value: types.Whole) -> int:
    """Return a whole number: a number, or its text. It may have an exponent, if it is whole nevertheless."""
    whole: int | None
    if isinstance(value, int):
        whole = value
    elif isinstance(value, str) and len(value) <= _LARGEST_EXPONENT and value.isascii() and value.isdigit():
        whole = int(value)  # nearly all texts
    else:
        whole = _convert_whole(value)
    if whole is None:
        raise ValueError(f"{str(value)[:32]!r} is not a whole number")
    if not -(2**63) <= whole < 2**64:
        raise ValueError(f"{str(value)[:32]} does not fit into 64 bits")
    return whole


def _read_count(value: types.Whole) -> int:
    count = read_whole(value)
    if count < 0:
        raise ValueError(f"{count} is not a count")
    return count


def _convert_whole(value: float | str) -> int | None:
    """Return a whole number; None for any other number or text. A number that is much too large is 10^20."""
    if isinstance(value, str):
        if len(value) > _LONGEST_NUMBER or not _NUMBER.fullmatch(value):
            return None
        number = Decimal(value)
    elif not isfinite(value):
        return None
    else:
        number = Decimal(value)
    if number.adjusted() >= _LARGEST_EXPONENT:
        return _TOO_LARGE
    whole = int(number)
    return whole if not number - whole else None


def read_double(value: types.Double) -> float:
    """Return a number: a number, its text, or the text ``NaN``, ``Infinity`` or ``-Infinity``."""
    if not isinstance(value, str):
        return float(value)
    if value in _WORDS:
        return float(value)
    if len(value) > _LONGEST_NUMBER or not _NUMBER.fullmatch(value):
        raise ValueError(f"{value[:32]!r} is not a number")
    number = float(value)
    if not isfinite(number):
        raise ValueError(f"{value[:32]} does not fit into 64 bits")
    return number
