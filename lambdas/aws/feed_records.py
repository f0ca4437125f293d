"""The records that Lambda reads from a table's stream, as the core has them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aws.codec import from_wire
from tidetable.feed.changes import Kind, Record

_KINDS: Mapping[str, Kind] = {"INSERT": "insert", "MODIFY": "replace"}


def read_records(event: Mapping[str, Any]) -> Sequence[Record]:
    """The records of an invocation, which are of one shard, in its order."""
    return [_record(record) for record in event["Records"]]


def _record(record: Mapping[str, Any]) -> Record:
    change = record["dynamodb"]
    image = change.get("NewImage")
    created = datetime.fromtimestamp(float(change.get("ApproximateCreationDateTime", 0)), UTC)
    table = record["eventSourceARN"].split("/")[1]
    item = None if image is None else from_wire({name: _with_bytes(value) for name, value in image.items()})
    return Record(change["SequenceNumber"], _KINDS.get(record["eventName"]), table, item, created)


def _with_bytes(value: Any) -> Any:
    """An attribute value whose binary values are bytes: Lambda's events are JSON, which has them in Base64."""
    ((kind, inner),) = value.items()
    if kind == "B":
        return {kind: b64decode(inner)}
    if kind == "BS":
        return {kind: [b64decode(element) for element in inner]}
    if kind == "L":
        return {kind: [_with_bytes(element) for element in inner]}
    if kind == "M":
        return {kind: {name: _with_bytes(element) for name, element in inner.items()}}
    return value
