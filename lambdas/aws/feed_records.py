"""Convert the records that Lambda reads from a table's stream into the core's records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aws.dynamodb.wire import decode_item
from tidetable.config.stream import ChangeKind
from tidetable.feed.changes import StreamRecord

_KINDS: Mapping[str, ChangeKind] = {"INSERT": "insert", "MODIFY": "replace"}


def read_records(event: Mapping[str, Any]) -> Sequence[StreamRecord]:
    """Read the records of an invocation. All come from one shard of the stream, in the shard's order."""
    return [_read_record(record) for record in event["Records"]]


def _read_record(record: Mapping[str, Any]) -> StreamRecord:
    change = record["dynamodb"]
    image = change.get("NewImage")
    created = datetime.fromtimestamp(float(change.get("ApproximateCreationDateTime", 0)), UTC)
    _, table, _, label = record["eventSourceARN"].split("/", 3)
    item = None if image is None else decode_item(image)
    return StreamRecord(
        change["SequenceNumber"], _KINDS.get(record["eventName"]), table, item, created, _read_label(label)
    )


def _read_label(label: str) -> int:
    """Read the instant in the ARN of a stream, in epoch milliseconds.

    AWS: the label is a timestamp in ISO 8601 format, for this stream (API reference, *Stream*). An emulator may have
    another label.
    """
    try:
        return int(datetime.fromisoformat(label).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return 0
