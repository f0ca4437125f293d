"""Items to and from DynamoDB's attribute values, by boto3's own serializer, and to and from its JSON."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from tidetable.events import Item

_serializer = TypeSerializer()
_deserializer = TypeDeserializer()


def to_wire(item: Item) -> dict[str, Any]:
    """The item as attribute values; numbers must be int or Decimal."""
    return {name: _serializer.serialize(value) for name, value in item.items()}


def from_wire(attributes: Mapping[str, Any]) -> Item:
    """The item of attribute values; numbers come back as Decimal."""
    return {name: _deserializer.deserialize(value) for name, value in attributes.items()}


def from_json(attributes: Mapping[str, Any]) -> Item:
    """The item of attribute values as they stand in JSON, where binary values are Base64."""
    return from_wire({name: _unbased(value) for name, value in attributes.items()})


def plain(value: Mapping[str, Any]) -> Any:
    """An attribute value in JSON as a value of an event's data: what JSON has no type for becomes Base64, or a list."""
    ((letter, inner),) = value.items()
    match letter:
        case "N":
            return Decimal(inner)
        case "NULL":
            return None
        case "M":
            return {name: plain(one) for name, one in inner.items()}
        case "L":
            return [plain(one) for one in inner]
        case "NS":
            return [Decimal(one) for one in inner]
    return inner


def _unbased(value: Mapping[str, Any]) -> dict[str, Any]:
    ((letter, inner),) = value.items()
    match letter:
        case "B":
            return {"B": b64decode(inner)}
        case "BS":
            return {"BS": [b64decode(one) for one in inner]}
        case "M":
            return {"M": {name: _unbased(one) for name, one in inner.items()}}
        case "L":
            return {"L": [_unbased(one) for one in inner]}
    return {letter: inner}
