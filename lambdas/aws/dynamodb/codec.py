"""Items as attribute values for boto3's client, by its own serializer; aws.dynamodb.wire reads them back."""

from __future__ import annotations

from typing import Any

from boto3.dynamodb.types import TypeSerializer

from tidetable.events import Item


class _Serializer(TypeSerializer):
    def _serialize_n(self, value: Any) -> str:
        # boto3 refuses numbers of more than 38 digits. DynamoDB does not count zeros at the end of a number, but writes
        # them out, so a number that it returned may have more digits.
        return str(value)


_serializer = _Serializer()


def to_wire(item: Item) -> dict[str, Any]:
    """Convert an item to attribute values; numbers must be int or Decimal."""
    return {name: _serializer.serialize(value) for name, value in item.items()}
