"""The items of the table of the rollups' edges and marks: their keys and their attributes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec

from aws.dynamodb.last_period_slots import LAST, read_last_item
from aws.dynamodb.series_index import Attribute
from tidetable.ports import Edge, Mark, Noting, RollupState
from tidetable.ports.rollups import Span
from tidetable.times import from_text, to_text

# Of the hash in the key of a new event's mark.
_HASH_DIGITS = 32
EDGE, MARK, OVER = "edge#", "mark#", "over#"
# This key sorts after the edges, so one Query reads both.
NOTING = "edge~noting"
_ZERO = Attribute()
# The attributes of an item, as in DynamoDB's JSON.
RollupItem = dict[str, dict[str, str]]
# The fields of an item's sort key, and its attributes.
FoundItem = tuple[list[str], dict[str, Attribute]]


def make_state(items: Iterable[FoundItem], span: Span | None) -> RollupState:
    """Make the state from items, in any order."""
    marks, edges, over, noting, last = list[Mark](), list[Edge](), list[tuple[str, datetime]](), None, None
    for (kind, *rest), item in items:
        if kind == NOTING:
            noting = Noting(from_text(item["since"].S), from_text(item["swept"].S), item["stopped"].S == "yes")
        elif kind == LAST:
            last = read_last_item(item)
        elif f"{kind}#" == EDGE:
            edges.append(Edge(rest[0], from_text(rest[1]), from_text(item["sealed"].S), item["definition"].S))
        elif f"{kind}#" == OVER:
            over.append((rest[1], from_text(rest[0])))
        elif span is None or decode_mark(rest, item).meets(*span):
            marks.append(decode_mark(rest, item))
    return RollupState(
        sorted(edges, key=lambda edge: (edge.start, edge.rollup)),
        sorted(mark for mark in marks if mark.at),
        sorted(over),
        noting,
        sorted(mark for mark in marks if not mark.at and not mark.lost),
        sorted(mark for mark in marks if not mark.at and mark.lost),
        last,
    )


def expect_item(attributes: RollupItem) -> dict[str, Any]:
    """Make the condition that an item has these attributes."""
    return {
        "ConditionExpression": " AND ".join(f"#{name} = :{name}" for name in attributes),
        "ExpressionAttributeNames": {f"#{name}": name for name in attributes},
        "ExpressionAttributeValues": {f":{name}": value for name, value in attributes.items()},
    }


def expect_mark(mark: Mark) -> dict[str, Any]:
    """Make the condition that nobody has put a mark again."""
    if mark.at:
        return expect_item({"at": {"N": str(mark.at)}})
    return {
        "ConditionExpression": "attribute_not_exists(#at) OR #at = :none",
        "ExpressionAttributeNames": {"#at": "at"},
        "ExpressionAttributeValues": {":none": {"N": "0"}},
    }


def make_edge_key(edge: Edge) -> str:
    return f"{EDGE}{edge.rollup}#{to_text(edge.start)}"


def make_edge_item(edge: Edge) -> RollupItem:
    return {"sealed": {"S": to_text(edge.sealed)}, "definition": {"S": edge.definition}}


def make_mark_key(mark: Mark) -> str:
    key = f"{MARK}{to_text(mark.bucket + mark.length)}#{int(mark.length.total_seconds())}"
    return f"{key}#{sha256(msgspec.json.encode(mark.event)).hexdigest()[:_HASH_DIGITS]}" if mark.event else key


def decode_mark(rest: Sequence[str], item: dict[str, Attribute]) -> Mark:
    length = timedelta(seconds=int(rest[1]))
    at, since, resealed, pauses = (int(item.get(name, _ZERO).N) for name in ("at", "since", "resealed", "pauses"))
    event = msgspec.json.decode(item["event"].S) if "event" in item else ()
    is_lost, is_added = "lost" in item and not at, item.get("version", _ZERO).N == "2"
    # A mark of an earlier deployment has no ``since``, nor has the mark of a new event.
    bucket = from_text(rest[0]) - length
    return Mark(bucket, at, length, since or at, resealed, pauses, is_lost, tuple(event), is_added)


def make_noting_item(noting: Noting) -> RollupItem:
    stopped = "yes" if noting.stopped else "no"
    return {"since": {"S": to_text(noting.since)}, "swept": {"S": to_text(noting.swept)}, "stopped": {"S": stopped}}


def make_over_key(rollup: str, bucket: datetime) -> str:
    return f"{OVER}{to_text(bucket)}#{rollup}"
