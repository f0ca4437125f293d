"""Find the condition keys that IAM reads from a request to DynamoDB. With these, a policy limits items and attributes.

Guide, "Using IAM policy conditions for fine-grained access control"; docs/inside/aws.md has the facts one by one.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from strict.placeholders import find_attributes

Request = Mapping[str, Any]

LEADING_KEYS, ATTRIBUTES, SELECT = "dynamodb:LeadingKeys", "dynamodb:Attributes", "dynamodb:Select"
_EXPRESSIONS = ("ProjectionExpression", "FilterExpression", "KeyConditionExpression", "ConditionExpression")
_EQUALS = re.compile(r"(#?\w+)\s*=\s*(:\w+)")


def describe_request(request: Request, partition_keys: Mapping[str, str]) -> dict[str, Any]:
    """Describe a request for one table by its condition keys and their values.

    ``partition_keys`` maps the name of an index to the attribute of its partition key; the name "" stands for the
    table. A condition key without a value in the request is absent.
    """
    leading, attributes = list(_find_leading(request, partition_keys)), list(dict.fromkeys(_find_attributes(request)))
    context: dict[str, Any] = {SELECT: _find_select(request)}
    if leading:
        context[LEADING_KEYS] = leading
    if attributes:
        context[ATTRIBUTES] = attributes
    return context


def _find_leading(request: Request, partition_keys: Mapping[str, str]) -> Iterator[str]:
    """Find the partition keys of the items that a request names. A Scan names no items."""
    name = partition_keys.get(request.get("IndexName") or "")
    if name is None:
        return
    for item in _find_items(request):
        if name in item:
            yield _render_text(item[name])
    names, values = request.get("ExpressionAttributeNames") or {}, request.get("ExpressionAttributeValues") or {}
    for attribute, value in _EQUALS.findall(request.get("KeyConditionExpression") or ""):
        if names.get(attribute, attribute) == name and value in values:
            yield _render_text(values[value])
    legacy = (request.get("KeyConditions") or {}).get(name) or {}
    yield from (_render_text(value) for value in legacy.get("AttributeValueList", ()))


def _find_items(request: Request) -> Iterator[Mapping[str, Any]]:
    """Find the items and keys in a request, also in a batch for one table."""
    for member in ("Key", "Item"):
        if isinstance(request.get(member), Mapping):
            yield request[member]
    for requested in (request.get("RequestItems") or {}).values():
        yield from requested.get("Keys", ()) if isinstance(requested, Mapping) else ()
        for write in requested if isinstance(requested, list) else ():
            yield from (action[member] for action in write.values() for member in ("Key", "Item") if member in action)


def _find_attributes(request: Request) -> Iterator[str]:
    """Find the top-level attributes that a request mentions in its key conditions, its filters and its projection."""
    names = request.get("ExpressionAttributeNames") or {}
    for member in _EXPRESSIONS:
        yield from find_attributes(request.get(member) or "", names)
    yield from request.get("AttributesToGet") or ()
    for member in ("KeyConditions", "QueryFilter", "ScanFilter", "Expected", "AttributeUpdates", "ExclusiveStartKey"):
        yield from request.get(member) or ()
    for item in _find_items(request):
        yield from item


def _find_select(request: Request) -> str:
    """Find the value of Select, or DynamoDB's default if the request has no Select."""
    if request.get("Select"):
        return str(request["Select"])
    if request.get("ProjectionExpression") or request.get("AttributesToGet"):
        return "SPECIFIC_ATTRIBUTES"
    return "ALL_PROJECTED_ATTRIBUTES" if request.get("IndexName") else "ALL_ATTRIBUTES"


def _render_text(value: Mapping[str, Any]) -> str:
    """Write the value of a key in the form that IAM compares."""
    (only,) = value.values()
    return base64.b64encode(only).decode() if isinstance(only, bytes) else str(only)


def find_partition_keys(table: Mapping[str, Any]) -> dict[str, str]:
    """Map the table ("") and the name of each index to the attribute of its partition key, by a description."""
    indexes: Iterable[Mapping[str, Any]] = [
        *(table.get("GlobalSecondaryIndexes") or ()),
        *(table.get("LocalSecondaryIndexes") or ()),
    ]
    schemas = {"": table.get("KeySchema") or (), **{index["IndexName"]: index["KeySchema"] for index in indexes}}
    return {
        name: key["AttributeName"] for name, schema in schemas.items() for key in schema if key["KeyType"] == "HASH"
    }
