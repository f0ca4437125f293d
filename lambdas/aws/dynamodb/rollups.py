"""The table of the rollups' edges and marks, over the lean client.

All items of a stream are in one partition: ``pk`` is the stream, and ``sk`` is one of ``mark#END#SECONDS``,
``mark#END#SECONDS#HASH``, ``edge#NAME#START``, ``edge~noting`` and ``over#BUCKET#NAME``. A mark's key has the end of its
bucket, so one Query reads the marks of a range; besides them, it only reads the marks of the day after the range. The
mark of a new event also has a hash of the event's key. The notes of series have
partitions of their own (``aws.dynamodb.series_index``), and so have the cells of a part of a bucket: ``pk`` is
``part#NAME``, and ``sk`` is ``GENERATION#CHUNK``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec

from aws.dynamodb.reads import ROUNDS, is_made, make_range_body, read_all, read_pages
from aws.dynamodb.series_index import Attribute, Found, LeanNotes, decode_found, make_key
from aws.http.client import ServiceRequest
from tidetable.ports import Edge, Mark, Noting, Put, RollupState
from tidetable.ports.rollups import Span
from tidetable.times import from_text, to_text

_ROUNDS = 3
# Of the hash in the key of a new event's mark.
_HASH_DIGITS = 32
_EDGE, _MARK, _OVER = "edge#", "mark#", "over#"
# Cells of a part have a partition of their own. No stream's name has a ``#``.
_PART = "part#"
# This key sorts after the edges, so one Query reads both.
_NOTING = "edge~noting"
# ``every`` divides a day, so no marked bucket is longer than a day.
_LONGEST = timedelta(days=1)
# This text sorts after every time, and after everything that follows a time in a sort key.
_BEHIND = "~"
_LAST = datetime.max.replace(tzinfo=UTC) - _LONGEST
# The condition that an item does not exist yet.
_NEW = {"ConditionExpression": "attribute_not_exists(pk)"}
_ZERO = Attribute()
# The attributes of an item, as in DynamoDB's JSON.
_Item = dict[str, dict[str, str]]
# The fields of an item's sort key, and its attributes.
_Found = tuple[list[str], dict[str, Attribute]]


class LeanRollups(LeanNotes):
    """The edges, marks, overfull buckets and noted series of every stream, in one table."""

    def read_state(self, stream: str, span: Span | None = None) -> RollupState:
        """Send three strongly consistent Queries. A mark has about 63 bytes, so a read unit reads 65 marks.

        The order of the Queries matters. Marks are read first: a mark is cleared when its bucket is computed under the
        edges of that moment, so edges that were read earlier would be wrong. Overfull buckets are read last: such a
        bucket is recorded before the edge passes it.
        """
        first, last = ("", _BEHIND) if span is None else (to_text(span[0]), to_text(span[1]))
        marks = self._read_mark_items(stream, span)
        edges = self._read_items(stream, _EDGE, _NOTING)
        return _make_state([*marks, *edges, *self._read_items(stream, _OVER + first, _OVER + last)], span)

    def read_marks(self, stream: str, span: Span) -> Sequence[Mark]:
        """Send one strongly consistent Query."""
        return _make_state(self._read_mark_items(stream, span), span).marks

    def _read_mark_items(self, stream: str, span: Span | None) -> list[_Found]:
        if span is None:
            return self._read_items(stream, _MARK, _MARK + _BEHIND)
        behind = to_text(min(span[1], _LAST) + _LONGEST) + _BEHIND
        return self._read_items(stream, _MARK + to_text(span[0]), _MARK + behind)

    def read_at_once(self, stream: str) -> RollupState:
        """Send one strongly consistent Query for all items of the stream."""
        return _make_state(self._read_items(stream, _EDGE, _OVER + _BEHIND), None)

    def _read_items(self, stream: str, low: str, high: str) -> list[_Found]:
        """Read the items of a stream between two sort keys, each with the fields of its sort key."""
        body = make_range_body(self._table, stream, low, high, consistent=True)
        pages: Iterator[Found] = read_pages(self._client, body, decode_found)
        return [(item["sk"].S.split("#"), item) for page in pages for item in page.Items]

    def make_mark(self, stream: str, mark: Mark) -> Put:
        """Make the item of the mark. Its ``version`` is the condition under which it is replaced."""
        key = {"pk": stream, "sk": _make_mark_key(mark)}
        item = key | {"at": mark.at, "event": msgspec.json.encode(mark.event).decode(), "version": 1 + mark.is_added}
        return Put(self._table, item)

    def put_marks(self, stream: str, buckets: Sequence[datetime], at: int, length: timedelta) -> None:
        """Send one conditional UpdateItem per bucket, several under way at once, and send throttled marks again.

        The condition fails if a later writer has already marked the bucket.
        """
        change = {
            "UpdateExpression": "SET #at = :at, #since = if_not_exists(#since, :at)",
            "ConditionExpression": "attribute_not_exists(#at) OR #at < :at",
            "ExpressionAttributeNames": {"#at": "at", "#since": "since"},
            "ExpressionAttributeValues": {":at": {"N": str(at)}},
        }
        keys = [_make_mark_key(Mark(bucket, at, length)) for bucket in dict.fromkeys(buckets)]
        self._update_items([self._name_item(stream, key) | change for key in keys], _ROUNDS)

    def clear_mark(self, stream: str, mark: Mark) -> bool:
        """Delete a mark by a conditional DeleteItem."""
        return self._change_once("DeleteItem", self._name_mark(stream, mark) | _expect_mark(mark))

    def note_resealed(self, stream: str, mark: Mark, at: int, *, rests: bool) -> bool:
        """Change a mark by a conditional UpdateItem."""
        names = {"#at": "at", "#resealed": "resealed", "#pauses": "pauses"}
        values = {":resealed": {"N": str(at)}, ":pauses": {"N": str(mark.pauses + 1)}}
        change: dict[str, Any] = {
            "UpdateExpression": "SET #resealed = :resealed, #pauses = :pauses",
            "ConditionExpression": "attribute_exists(#at)",
        }
        if rests:
            names |= {"#since": "since", "#lost": "lost"}
            values[":at"] = {"N": str(mark.at)}
            change = {
                "UpdateExpression": f"{change['UpdateExpression']} REMOVE #at, #since, #lost",
                "ConditionExpression": "#at = :at",
            }
        change |= {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
        return self._change_once("UpdateItem", self._name_mark(stream, mark) | change)

    def note_lost(self, stream: str, mark: Mark) -> bool:
        """Change a mark by a conditional UpdateItem."""
        change = {
            "UpdateExpression": "SET #lost = :lost REMOVE #at, #since",
            "ConditionExpression": "#at = :at",
            "ExpressionAttributeNames": {"#at": "at", "#since": "since", "#lost": "lost"},
            "ExpressionAttributeValues": {":at": {"N": str(mark.at)}, ":lost": {"S": "yes"}},
        }
        return self._change_once("UpdateItem", self._name_mark(stream, mark) | change)

    def _name_mark(self, stream: str, mark: Mark) -> dict[str, Any]:
        return self._name_item(stream, _make_mark_key(mark))

    def put_edge(self, stream: str, edge: Edge, expected: Edge | None) -> bool:
        """Put an edge by a conditional PutItem or, if the start moves, by a transaction of a PutItem and a DeleteItem."""
        put = self._make_put(stream, _make_edge_key(edge), _make_edge_item(edge))
        if expected is None:
            return self._change_once("PutItem", put | _NEW)
        key, condition = _make_edge_key(expected), _expect_item(_make_edge_item(expected))
        if key == _make_edge_key(edge):
            return self._change_once("PutItem", put | condition)
        changes = [{"Delete": self._name_item(stream, key) | condition}, {"Put": put | _NEW}]
        return self._change_once("TransactWriteItems", {"TransactItems": changes})

    def put_over(self, stream: str, rollup: str, bucket: datetime, groups: int) -> None:
        """Put the record of an overfull bucket by a PutItem, which may be repeated."""
        item = {"groups": {"N": str(groups)}}
        self._repeat_changes("PutItem", [self._make_put(stream, _make_over_key(rollup, bucket), item)])

    def clear_over(self, stream: str, rollup: str, bucket: datetime) -> None:
        """Delete the record of an overfull bucket by a DeleteItem, which may be repeated."""
        self._repeat_changes("DeleteItem", [self._name_item(stream, _make_over_key(rollup, bucket))])

    def put_part(self, name: str, generation: int, pieces: Sequence[str]) -> None:
        """Send one PutItem after another, each of at most 300 write units. A PutItem may be repeated.

        AWS: a partition takes 1,000 write units per second. A throttled request is sent up to eight times.
        """
        puts = [
            self._make_put(f"{_PART}{name}", f"{generation:010}#{number:04}", {"body": {"S": piece}})
            for number, piece in enumerate(pieces)
        ]
        self._send_slowly("PutItem", puts)

    def read_part(self, name: str, generation: int) -> Sequence[str]:
        """Send a strongly consistent Query, and one for each further MB."""
        low = f"{generation:010}#"
        return [item["body"].S for _, item in self._read_items(f"{_PART}{name}", low, low + _BEHIND)]

    def clear_part(self, name: str) -> None:
        """Send a Query for the pieces of all generations, and one DeleteItem after another. A DeleteItem may be repeated."""
        keys = [item["sk"].S for _, item in self._read_items(f"{_PART}{name}", "0", _BEHIND)]
        self._send_slowly("DeleteItem", [self._name_item(f"{_PART}{name}", key) for key in keys])

    def _send_slowly(self, operation: str, bodies: Iterable[dict[str, Any]]) -> None:
        for body in bodies:
            (reply,) = read_all(self._client, [ServiceRequest(operation, msgspec.json.encode(body))], ROUNDS)
            is_made(reply, self._table)

    def forget(self, stream: str, rollup: str) -> None:
        """Send one DeleteItem per edge and overfull bucket, several under way at once.

        Each DeleteItem may be repeated.
        """
        state = self.read_state(stream)
        keys = [_make_edge_key(edge) for edge in state.edges if edge.rollup == rollup]
        keys += [_make_over_key(name, bucket) for name, bucket in state.over if name == rollup]
        self._repeat_changes("DeleteItem", [self._name_item(stream, key) for key in keys])

    def put_noting(self, stream: str, noting: Noting, expected: Noting | None) -> bool:
        """Put the record by a conditional PutItem."""
        condition = _NEW if expected is None else _expect_item(_make_noting_item(expected))
        return self._change_once("PutItem", self._make_put(stream, _NOTING, _make_noting_item(noting)) | condition)

    def stop_noting(self, stream: str, at: datetime) -> None:
        """Put the stopped record by a PutItem, which may be repeated."""
        item = _make_noting_item(Noting(at, at, stopped=True))
        self._repeat_changes("PutItem", [self._make_put(stream, _NOTING, item)])

    def _make_put(self, stream: str, key: str, item: _Item) -> dict[str, Any]:
        return {"TableName": self._table, "Item": make_key(stream, key) | item}

    def _change_once(self, operation: str, body: dict[str, Any]) -> bool:
        """Send a change once, because its condition holds only once.

        DynamoDB would refuse a second request after the first request.
        """
        (reply,) = self._client.call_all([ServiceRequest(operation, msgspec.json.encode(body))])
        return is_made(reply, self._table)

    def _repeat_changes(self, operation: str, bodies: Iterable[dict[str, Any]]) -> None:
        for reply in read_all(self._client, [ServiceRequest(operation, msgspec.json.encode(body)) for body in bodies]):
            is_made(reply, self._table)


def _make_state(items: Iterable[_Found], span: Span | None) -> RollupState:
    """Make the state from items, in any order."""
    marks, edges, over, noting = list[Mark](), list[Edge](), list[tuple[str, datetime]](), None
    for (kind, *rest), item in items:
        if kind == _NOTING:
            noting = Noting(from_text(item["since"].S), from_text(item["swept"].S), item["stopped"].S == "yes")
        elif f"{kind}#" == _EDGE:
            edges.append(Edge(rest[0], from_text(rest[1]), from_text(item["sealed"].S), item["definition"].S))
        elif f"{kind}#" == _OVER:
            over.append((rest[1], from_text(rest[0])))
        elif span is None or _decode_mark(rest, item).meets(*span):
            marks.append(_decode_mark(rest, item))
    return RollupState(
        sorted(edges, key=lambda edge: (edge.start, edge.rollup)),
        sorted(mark for mark in marks if mark.at),
        sorted(over),
        noting,
        sorted(mark for mark in marks if not mark.at and not mark.lost),
        sorted(mark for mark in marks if not mark.at and mark.lost),
    )


def _expect_item(attributes: _Item) -> dict[str, Any]:
    """Make the condition that an item has these attributes."""
    return {
        "ConditionExpression": " AND ".join(f"#{name} = :{name}" for name in attributes),
        "ExpressionAttributeNames": {f"#{name}": name for name in attributes},
        "ExpressionAttributeValues": {f":{name}": value for name, value in attributes.items()},
    }


def _expect_mark(mark: Mark) -> dict[str, Any]:
    """Make the condition that nobody has put a mark again."""
    if mark.at:
        return _expect_item({"at": {"N": str(mark.at)}})
    return {"ConditionExpression": "attribute_not_exists(#at)", "ExpressionAttributeNames": {"#at": "at"}}


def _make_edge_key(edge: Edge) -> str:
    return f"{_EDGE}{edge.rollup}#{to_text(edge.start)}"


def _make_edge_item(edge: Edge) -> _Item:
    return {"sealed": {"S": to_text(edge.sealed)}, "definition": {"S": edge.definition}}


def _make_mark_key(mark: Mark) -> str:
    key = f"{_MARK}{to_text(mark.bucket + mark.length)}#{int(mark.length.total_seconds())}"
    return f"{key}#{sha256(msgspec.json.encode(mark.event)).hexdigest()[:_HASH_DIGITS]}" if mark.event else key


def _decode_mark(rest: Sequence[str], item: dict[str, Attribute]) -> Mark:
    length = timedelta(seconds=int(rest[1]))
    at, since, resealed, pauses = (int(item.get(name, _ZERO).N) for name in ("at", "since", "resealed", "pauses"))
    event = msgspec.json.decode(item["event"].S) if "event" in item else ()
    is_lost, is_added = "lost" in item and not at, item.get("version", _ZERO).N == "2"
    # A mark of an earlier deployment has no ``since``, nor has the mark of a new event.
    bucket = from_text(rest[0]) - length
    return Mark(bucket, at, length, since or at, resealed, pauses, is_lost, tuple(event), is_added)


def _make_noting_item(noting: Noting) -> _Item:
    stopped = "yes" if noting.stopped else "no"
    return {"since": {"S": to_text(noting.since)}, "swept": {"S": to_text(noting.swept)}, "stopped": {"S": stopped}}


def _make_over_key(rollup: str, bucket: datetime) -> str:
    return f"{_OVER}{to_text(bucket)}#{rollup}"
