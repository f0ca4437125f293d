"""Convert OTLP's protobuf messages into the types of ``tidetable.dialects.otlp_types``, and answers into protobuf."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics

from tidetable.dialects import otlp_types as types
from tidetable.problems import refuse

# 10,000 points with 20 attributes each count as 210,000 messages: each point and each attribute is one message. The
# value of an attribute is not counted, unless it is a list or a map: then each of its elements counts.
MOST_MESSAGES = 500_000
# The first fields of every point: its attributes, its start, its time and its flags.
_Head = tuple[list[types.KeyValue], int, int, int]


def parse_metrics(body: bytes) -> types.MetricsRequest:
    """Parse a metrics request; ProblemError for another body. The library refuses messages nested beyond 100 levels."""
    return _Converter().metrics(_parse(metrics.ExportMetricsServiceRequest(), body))


def parse_logs(body: bytes) -> types.LogsRequest:
    """Parse a logs request; ProblemError for another body."""
    return _Converter().logs(_parse(logs.ExportLogsServiceRequest(), body))


def encode_metrics_answer(rejected: int, message: str) -> bytes:
    """Encode an ExportMetricsServiceResponse. Without a message, it says that everything was accepted."""
    partial = metrics.ExportMetricsPartialSuccess(rejected_data_points=rejected, error_message=message)
    answer = metrics.ExportMetricsServiceResponse(partial_success=partial if message else None)
    return bytes(answer.SerializeToString())


def encode_logs_answer(rejected: int, message: str) -> bytes:
    """Encode an ExportLogsServiceResponse. Without a message, it says that everything was accepted."""
    partial = logs.ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=message)
    answer = logs.ExportLogsServiceResponse(partial_success=partial if message else None)
    return bytes(answer.SerializeToString())


def encode_status(code: int, message: str) -> bytes:
    """Encode a google.rpc.Status, the body of every error.

    This module describes the type, because its package has hundreds of types.
    """
    return bytes(_load_status_type()(code=code, message=message).SerializeToString())


def _load_status_type() -> Any:
    file = FileDescriptorProto(name="status.proto", package="google.rpc", syntax="proto3")
    status = file.message_type.add(name="Status")
    optional = FieldDescriptorProto.LABEL_OPTIONAL
    status.field.add(name="code", number=1, type=FieldDescriptorProto.TYPE_INT32, label=optional)
    status.field.add(name="message", number=2, type=FieldDescriptorProto.TYPE_STRING, label=optional)
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("google.rpc.Status"))


def _parse(message: Any, body: bytes) -> Any:
    try:
        message.ParseFromString(body)
    except (DecodeError, ValueError) as error:
        raise refuse(400, "unparseable", f"the body is not OTLP in protobuf: {str(error)[:200]}") from error
    return message


class _Converter:
    """Converts at most ``MOST_MESSAGES`` messages. A limit on bytes is not enough: an empty message has only two bytes,
    but its conversion takes much more time than reading two bytes.
    """

    def __init__(self) -> None:
        self._left = MOST_MESSAGES

    def metrics(self, request: Any) -> types.MetricsRequest:
        return types.MetricsRequest(
            [
                types.ResourceMetrics(
                    self._convert_resource(owner),
                    [
                        types.ScopeMetrics(
                            self._convert_scope(scoped), list(map(self._convert_metric, self._count(scoped.metrics)))
                        )
                        for scoped in self._count(owner.scope_metrics)
                    ],
                )
                for owner in self._count(request.resource_metrics)
            ]
        )

    def logs(self, request: Any) -> types.LogsRequest:
        return types.LogsRequest(
            [
                types.ResourceLogs(
                    self._convert_resource(owner),
                    [
                        types.ScopeLogs(
                            self._convert_scope(scoped),
                            list(map(self._convert_record, self._count(scoped.log_records))),
                        )
                        for scoped in self._count(owner.scope_logs)
                    ],
                )
                for owner in self._count(request.resource_logs)
            ]
        )

    def _count(self, messages: Any) -> Any:
        """Count the messages and return them; ProblemError if there are too many."""
        self._left -= len(messages)
        if self._left < 0:
            raise refuse(
                413, "too_large", f"more than {MOST_MESSAGES} messages in one request: send fewer points at once"
            )
        return messages

    def _convert_resource(self, owner: Any) -> types.Resource | None:
        return (
            types.Resource(self._convert_attributes(owner.resource.attributes)) if owner.HasField("resource") else None
        )

    def _convert_scope(self, scoped: Any) -> types.Scope | None:
        if not scoped.HasField("scope"):
            return None
        return types.Scope(scoped.scope.name, scoped.scope.version, self._convert_attributes(scoped.scope.attributes))

    def _convert_attributes(self, pairs: Any) -> list[types.KeyValue]:
        return [
            types.KeyValue(pair.key, self._convert_value(pair.value) if pair.HasField("value") else None)
            for pair in self._count(pairs)
        ]

    def _convert_value(self, value: Any) -> types.AnyValue | None:
        kind = value.WhichOneof("value")
        match kind:
            case None:
                return None
            case "array_value":
                inner = [
                    self._convert_value(element) or types.AnyValue()
                    for element in self._count(value.array_value.values)
                ]
                return types.AnyValue(array_value=types.ArrayValue(inner))
            case "kvlist_value":
                return types.AnyValue(
                    kvlist_value=types.KeyValueList(self._convert_attributes(value.kvlist_value.values))
                )
            case "bytes_value":
                return types.AnyValue(bytes_value=b64encode(value.bytes_value).decode())
            case "string_value" | "bool_value" | "int_value" | "double_value":
                return types.AnyValue(**{kind: getattr(value, kind)})
        # A kind of value from a later version of the protocol. It becomes null, so that its presence is kept.
        return None

    def _convert_metric(self, metric: Any) -> types.Metric:
        kind = metric.WhichOneof("data")
        converted = types.Metric(metric.name, metric.unit)
        if kind is not None:
            setattr(converted, kind, self._convert_kind(kind, getattr(metric, kind)))
        return converted

    def _convert_head(self, point: Any) -> _Head:
        """Convert the fields that are common to all points."""
        attributes = self._convert_attributes(point.attributes)
        return attributes, point.start_time_unix_nano, point.time_unix_nano, point.flags

    def _convert_distribution(self, point: Any) -> tuple[*_Head, int, Any, Any, Any, list[types.Exemplar]]:
        """Convert the fields that are common to both kinds of histograms."""
        sum, min, max = (getattr(point, name) if point.HasField(name) else None for name in ("sum", "min", "max"))
        exemplars = list(map(self._convert_exemplar, self._count(point.exemplars)))
        return *self._convert_head(point), point.count, sum, min, max, exemplars

    def _convert_number_point(self, point: Any) -> types.NumberPoint:
        kind = point.WhichOneof("value")
        return types.NumberPoint(
            *self._convert_head(point),
            point.as_double if kind == "as_double" else None,
            point.as_int if kind == "as_int" else None,
            list(map(self._convert_exemplar, self._count(point.exemplars))),
        )

    def _convert_histogram_point(self, point: Any) -> types.HistogramPoint:
        return types.HistogramPoint(
            *self._convert_distribution(point),
            list(point.bucket_counts),
            list(point.explicit_bounds),
        )

    def _convert_exponential_point(self, point: Any) -> types.ExponentialPoint:
        positive, negative = (
            types.Buckets(side.offset, list(side.bucket_counts)) for side in (point.positive, point.negative)
        )
        return types.ExponentialPoint(
            *self._convert_distribution(point),
            point.scale,
            point.zero_count,
            point.zero_threshold,
            positive,
            negative,
        )

    def _convert_summary_point(self, point: Any) -> types.SummaryPoint:
        return types.SummaryPoint(
            *self._convert_head(point),
            point.count,
            point.sum,
            [types.Quantile(quantile.quantile, quantile.value) for quantile in self._count(point.quantile_values)],
        )

    def _convert_exemplar(self, exemplar: Any) -> types.Exemplar:
        kind = exemplar.WhichOneof("value")
        return types.Exemplar(
            self._convert_attributes(exemplar.filtered_attributes),
            exemplar.time_unix_nano,
            exemplar.as_double if kind == "as_double" else None,
            exemplar.as_int if kind == "as_int" else None,
            exemplar.span_id.hex(),
            exemplar.trace_id.hex(),
        )

    def _convert_record(self, record: Any) -> types.LogRecord:
        return types.LogRecord(
            record.time_unix_nano,
            record.observed_time_unix_nano,
            record.severity_number,
            record.severity_text,
            self._convert_value(record.body) if record.HasField("body") else None,
            self._convert_attributes(record.attributes),
            record.dropped_attributes_count,
            record.flags,
            record.trace_id.hex(),
            record.span_id.hex(),
            record.event_name,
        )

    def _convert_kind(self, kind: str, data: Any) -> Any:
        """Convert the data of a metric, by its kind."""
        points = self._count(data.data_points)
        match kind:
            case "gauge":
                return types.Gauge(list(map(self._convert_number_point, points)))
            case "sum":
                return types.Sum(
                    list(map(self._convert_number_point, points)), data.aggregation_temporality, data.is_monotonic
                )
            case "histogram":
                return types.Histogram(list(map(self._convert_histogram_point, points)), data.aggregation_temporality)
            case "exponential_histogram":
                return types.ExponentialHistogram(
                    list(map(self._convert_exponential_point, points)), data.aggregation_temporality
                )
        return types.Summary(list(map(self._convert_summary_point, points)))
