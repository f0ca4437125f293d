"""Convert OTLP's protobuf messages into the types of ``doors.otlp_types``, and answers into protobuf."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1 import logs_service_pb2 as logs
from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2 as metrics

from doors import otlp_types as types
from tidetable.problems import refuse_request

# 10,000 points with 20 attributes each count as 210,000 messages: each point and each attribute is one message. The
# value of an attribute is not counted, unless it is a list or a map: then each of its elements counts. A bucket of a
# histogram counts, too: it has one byte, and takes a hundred.
MOST_MESSAGES = 500_000


# Per kind of request: its message, the message of its answer, and the answer's field that counts what was refused.
_MESSAGES: dict[type, tuple[Any, Any, str]] = {
    types.ExportMetricsServiceRequest: (
        metrics.ExportMetricsServiceRequest,
        metrics.ExportMetricsServiceResponse,
        "rejected_data_points",
    ),
    types.ExportLogsServiceRequest: (
        logs.ExportLogsServiceRequest,
        logs.ExportLogsServiceResponse,
        "rejected_log_records",
    ),
}


def parse_request(kind: type, body: bytes) -> Any:
    """Parse a request in protobuf, an ``Export...ServiceRequest`` of this kind; ProblemError for another body.

    The library refuses messages nested beyond 100 levels.
    """
    message = _MESSAGES[kind][0]()
    try:
        message.ParseFromString(body)
    except (DecodeError, ValueError) as error:
        raise refuse_request(400, "unparseable", f"the body is not OTLP in protobuf: {str(error)[:200]}") from error
    return _Converter().convert(message)


def encode_answer(kind: type, rejected: int, message: str) -> bytes:
    """Encode the answer to a request of this kind. Without a message, it says that everything was accepted."""
    _, answer, counter = _MESSAGES[kind]
    partial = {counter: rejected, "error_message": message}
    return bytes(answer(partial_success=partial if message else None).SerializeToString())


def encode_status(code: int, message: str) -> bytes:
    """Encode a google.rpc.Status, the body of every error.

    The package of that type has hundreds of types. A partial success has the same fields: a whole number and a text.
    """
    return bytes(
        metrics.ExportMetricsPartialSuccess(rejected_data_points=code, error_message=message).SerializeToString()
    )


class _Converter:
    """Converts at most ``MOST_MESSAGES`` messages. A limit on bytes is not enough: an empty message has only two bytes,
    but its conversion takes much more time than reading two bytes.
    """

    def __init__(self) -> None:
        self._left = MOST_MESSAGES

    def convert(self, message: Any) -> Any:
        """Convert a message to the type of its name, with the fields that this type has."""
        kind, fields = _find_fields(message.DESCRIPTOR)
        return kind(
            *[
                None
                if optional and not message.HasField(name)
                else getattr(message, name)
                if convert is None
                else convert(self, getattr(message, name))
                for name, optional, convert in fields
            ]
        )

    def convert_all(self, messages: Any) -> list[Any]:
        return list(map(self.convert, self.count(messages)))

    def convert_attributes(self, pairs: Any) -> list[types.KeyValue]:
        # The quick way: most messages of a request are attributes.
        return [types.KeyValue(pair.key, self.convert_value(pair.value)) for pair in self.count(pairs)]

    def convert_values(self, values: Any) -> list[types.AnyValue]:
        return [self.convert_value(value) or types.AnyValue() for value in self.count(values)]

    def convert_value(self, value: Any) -> types.AnyValue | None:
        """Convert a value; None if it is absent, or of a kind from a later version of the protocol."""
        kind = value.WhichOneof("value")
        if kind == "string_value":  # nearly all values
            return types.AnyValue(value.string_value)
        match kind:
            case "bool_value" | "int_value" | "double_value":
                return types.AnyValue(**{kind: getattr(value, kind)})
            case "bytes_value":
                return types.AnyValue(bytes_value=b64encode(value.bytes_value).decode())
            case "array_value" | "kvlist_value":
                return types.AnyValue(**{kind: self.convert(getattr(value, kind))})
        return None

    def count(self, messages: Any) -> Any:
        """Count the messages or numbers of a list and return them; ProblemError if there are too many."""
        self._left -= len(messages)
        if self._left < 0:
            detail = f"more than {MOST_MESSAGES} messages and buckets in one request: send fewer points at once"
            raise refuse_request(413, "too_large", detail)
        return messages


_Convert = Callable[[_Converter, Any], Any]


@cache
def _find_fields(message: Any) -> tuple[type, list[tuple[str, bool, _Convert | None]]]:
    """Find the type of a message, and its fields: the name, True if an absent value becomes None, and the conversion."""
    kind = getattr(types, message.name)
    fields = [message.fields_by_name[name] for name in kind.__struct_fields__]
    return kind, [(field.name, field.has_presence, _choose_conversion(field)) for field in fields]


def _choose_conversion(field: Any) -> _Convert | None:
    """Choose the function that converts a field; None for a field whose value is taken as it is."""
    if field.message_type is None:
        if field.is_repeated:
            return lambda converter, values: list(converter.count(values))
        if field.type == field.TYPE_BYTES:
            return lambda _, value: value.hex()
        return None
    match field.message_type.name, field.is_repeated:
        case "KeyValue", True:
            return _Converter.convert_attributes
        case "AnyValue", True:
            return _Converter.convert_values
        case "AnyValue", False:
            return _Converter.convert_value
    return _Converter.convert_all if field.is_repeated else _Converter.convert
