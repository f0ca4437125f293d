"""Items as attribute values by boto3's own serializer: the oracle of the functions' encoder, and for boto3's clients."""

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
