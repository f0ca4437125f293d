"""The partition keys of a table, without reading all of its items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from aws.dynamodb.reads import ROUNDS, decode_answer, read_all
from aws.dynamodb.series_index import Found, decode_found
from aws.http.client import LeanClient, ServiceRequest

_SEGMENTS = 8
# The items of a page: a few more than are needed to see the partition keys that the page before had.
_FEWEST, _MOST, _GROWTH = 10, 4_000, 4
# This text sorts after every sort key of a period table.
_BEHIND = {"S": "~"}


def scan_partitions(client: LeanClient, table: str) -> Iterator[tuple[Sequence[str], float]]:
    """Yield partition keys, each once or more often, with the read units that they consumed.

    Strongly consistent Scans of several segments are under way at once. Each goes on behind the last partition of its
    page, with a start key that no item has: the AWS Database Blog, "Generate a distinct set of partition keys for an
    Amazon DynamoDB table efficiently", does the same. So a partition is read up to the end of a page, not to its own end.
    """
    waiting: dict[int, tuple[dict[str, Any], int]] = {segment: ({}, _FEWEST) for segment in range(_SEGMENTS)}
    while waiting:
        requests = [_make_scan(table, segment, *place) for segment, place in waiting.items()]
        for segment, reply in zip([*waiting], read_all(client, requests, ROUNDS), strict=True):
            page: Found = decode_answer(reply, table)
            keys = list(dict.fromkeys(item["pk"].S for item in page.Items))
            yield keys, 0.0 if page.ConsumedCapacity is None else page.ConsumedCapacity.CapacityUnits
            if page.LastEvaluatedKey is None:
                del waiting[segment]
            else:
                start = {"ExclusiveStartKey": page.LastEvaluatedKey | {"sk": _BEHIND}}
                waiting[segment] = start, min(max(len(keys) * _GROWTH, _FEWEST), _MOST)


def _make_scan(table: str, segment: int, start: dict[str, Any], limit: int) -> ServiceRequest:
    body = {
        "TableName": table,
        "Segment": segment,
        "TotalSegments": _SEGMENTS,
        "ConsistentRead": True,
        "Limit": limit,
        "ProjectionExpression": "pk",
        "ReturnConsumedCapacity": "TOTAL",
    }
    return ServiceRequest("Scan", msgspec.json.encode(body | start), decode_found)
