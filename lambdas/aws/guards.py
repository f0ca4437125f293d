"""Conditions of puts in DynamoDB's syntax."""

from __future__ import annotations

from typing import Any

from tidetable.ports import Guarded


def make_condition(guarded: Guarded) -> dict[str, Any]:
    """Make the members of a request for a put's condition. The values are Python's values, not attribute values."""
    match guarded.guard:
        case None:
            return {}
        case "absent":
            return {"ConditionExpression": "attribute_not_exists(pk)"}
        case "newer":
            return {
                "ConditionExpression": "attribute_not_exists(pk) OR attribute_not_exists(#at) OR #at <= :at",
                "ExpressionAttributeNames": {"#at": "at"},
                "ExpressionAttributeValues": {":at": guarded.put.item["at"]},
            }
        case version:
            return {
                "ConditionExpression": "#version = :version",
                "ExpressionAttributeNames": {"#version": "version"},
                "ExpressionAttributeValues": {":version": version},
            }
