"""Items to and from DynamoDB's attribute values, by boto3's own serializer."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, cast

from boto3.dynamodb.types import Binary, TypeDeserializer, TypeSerializer

from tidetable.events import Item


class _Serializer(TypeSerializer):
    def _serialize_n(self, value: Any) -> str:
        # boto3 refuses numbers of more than 38 digits; DynamoDB does not count zeros at their end, and writes them out.
        return str(value)


class _Deserializer(TypeDeserializer):
    def _deserialize_n(self, value: str) -> Decimal:
        return Decimal(value)


_serializer = _Serializer()
_deserializer = _Deserializer()


def to_wire(item: Item) -> dict[str, Any]:
    """The item as attribute values; numbers must be int or Decimal."""
    return {name: _serializer.serialize(value) for name, value in item.items()}


def from_wire(attributes: Mapping[str, Any]) -> Item:
    """The item of attribute values; numbers come back as Decimal."""
    return {name: _plain(_deserializer.deserialize(value)) for name, value in attributes.items()}


def _plain(value: Any) -> Any:
    # boto3 wraps binary values.
    return cast("Any", value).value if isinstance(value, Binary) else value
