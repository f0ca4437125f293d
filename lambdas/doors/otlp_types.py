"""The messages of OTLP that this project reads, in OTLP's JSON encoding (opentelemetry-proto, docs/specification.md).

Field names are lowerCamelCase. Whole numbers of 64 bits are texts or numbers. NaN and infinities are texts. The ids of
traces and spans are hexadecimal. Unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

# A number, or its text; read_whole and read_double check it. An enumeration is a number or a name.
Whole = int | float | str
Double = float | str
Enum = int | str


class _Message(msgspec.Struct, rename="camel", gc=False):
    """A message; every field has protobuf's default."""


class Undecodable(_Message):
    """A point or a record that cannot be decoded, and the reason."""

    problem: str


class AnyValue(_Message):
    """A value of any type: one field is set, all others are None."""

    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Whole | None = None
    double_value: Double | None = None
    array_value: ArrayValue | None = None
    kvlist_value: KeyValueList | None = None
    bytes_value: str | None = None


class ArrayValue(_Message):
    values: Sequence[AnyValue] = ()


class KeyValue(_Message):
    key: str = ""
    value: AnyValue | None = None


class KeyValueList(_Message):
    values: Sequence[KeyValue] = ()


class Resource(_Message):
    attributes: Sequence[KeyValue] = ()


class InstrumentationScope(_Message):
    name: str = ""
    version: str = ""
    attributes: Sequence[KeyValue] = ()


class Exemplar(_Message):
    filtered_attributes: Sequence[KeyValue] = ()
    time_unix_nano: Whole = 0
    as_double: Double | None = None
    as_int: Whole | None = None
    span_id: str = ""
    trace_id: str = ""


class _Point(_Message):
    attributes: Sequence[KeyValue] = ()
    start_time_unix_nano: Whole = 0
    time_unix_nano: Whole = 0
    flags: int = 0


class _Distribution(_Point):
    count: Whole = 0
    sum: Double | None = None
    min: Double | None = None
    max: Double | None = None
    exemplars: Sequence[Exemplar] = ()


class NumberDataPoint(_Point):
    as_double: Double | None = None
    as_int: Whole | None = None
    exemplars: Sequence[Exemplar] = ()


class HistogramDataPoint(_Distribution):
    bucket_counts: Sequence[Whole] = ()
    explicit_bounds: Sequence[Double] = ()


class Buckets(_Message):
    offset: int = 0
    bucket_counts: Sequence[Whole] = ()


class ExponentialHistogramDataPoint(_Distribution):
    scale: int = 0
    zero_count: Whole = 0
    zero_threshold: Double = 0.0
    positive: Buckets | None = None
    negative: Buckets | None = None


class ValueAtQuantile(_Message):
    quantile: Double = 0.0
    value: Double = 0.0


class SummaryDataPoint(_Point):
    count: Whole = 0
    sum: Double = 0.0
    quantile_values: Sequence[ValueAtQuantile] = ()


Point = NumberDataPoint | HistogramDataPoint | ExponentialHistogramDataPoint | SummaryDataPoint


class Gauge(_Message):
    data_points: Sequence[NumberDataPoint] = ()


class Sum(_Message):
    data_points: Sequence[NumberDataPoint] = ()
    aggregation_temporality: Enum = 0
    is_monotonic: bool = False


class Histogram(_Message):
    data_points: Sequence[HistogramDataPoint] = ()
    aggregation_temporality: Enum = 0


class ExponentialHistogram(_Message):
    data_points: Sequence[ExponentialHistogramDataPoint] = ()
    aggregation_temporality: Enum = 0


class Summary(_Message):
    data_points: Sequence[SummaryDataPoint] = ()


class Metric(_Message):
    name: str = ""
    unit: str = ""
    gauge: Gauge | None = None
    sum: Sum | None = None
    histogram: Histogram | None = None
    exponential_histogram: ExponentialHistogram | None = None
    summary: Summary | None = None


class ScopeMetrics(_Message):
    scope: InstrumentationScope | None = None
    metrics: Sequence[Metric] = ()


class ResourceMetrics(_Message):
    resource: Resource | None = None
    scope_metrics: Sequence[ScopeMetrics] = ()


class ExportMetricsServiceRequest(_Message):
    resource_metrics: Sequence[ResourceMetrics] = ()


class LogRecord(_Message):
    time_unix_nano: Whole = 0
    observed_time_unix_nano: Whole = 0
    severity_number: Enum = 0
    severity_text: str = ""
    body: AnyValue | None = None
    attributes: Sequence[KeyValue] = ()
    dropped_attributes_count: int = 0
    flags: int = 0
    trace_id: str = ""
    span_id: str = ""
    event_name: str = ""


class ScopeLogs(_Message):
    scope: InstrumentationScope | None = None
    log_records: Sequence[LogRecord] = ()


class ResourceLogs(_Message):
    resource: Resource | None = None
    scope_logs: Sequence[ScopeLogs] = ()


class ExportLogsServiceRequest(_Message):
    resource_logs: Sequence[ResourceLogs] = ()
