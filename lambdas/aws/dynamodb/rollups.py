"""The table of the rollups' edges and marks, over the lean client.

All items of a stream are in one partition: ``pk`` is the stream, and ``sk`` is one of ``mark#END#SECONDS``,
``mark#END#SECONDS#HASH``, ``edge#NAME#START``, ``edge~noting``, ``covered`` and ``over#BUCKET#NAME``. A mark's key has
the end of its bucket, so one Query reads the marks of a range; besides them, it only reads the marks of the day after
the range. The mark of a new event also has a hash of the event's key. The notes of series and their last periods have
partitions of their own (``aws.dynamodb.series_index``, ``last_period_slots``), and so have the cells of a part of a bucket:
``pk`` is ``part#NAME``, and ``sk`` is ``GENERATION#CHUNK``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from aws.dynamodb.last_period_slots import LAST, LeanLastPeriods
from aws.dynamodb.reads import ROUNDS, is_made, make_range_body, read_all, read_pages
from aws.dynamodb.rollup_items import (
    EDGE,
    MARK,
    NOTING,
    OVER,
    FoundItem,
    RollupItem,
    expect_item,
    expect_mark,
    make_edge_item,
    make_edge_key,
    make_mark_key,
    make_noting_item,
    make_over_key,
    make_state,
)
from aws.dynamodb.series_index import Found, decode_found, make_key
from aws.http.client import ServiceRequest
from tidetable.ports import Edge, Mark, Noting, Put, RollupState
from tidetable.ports.rollups import Span
from tidetable.times import to_text

_ROUNDS = 3
# Cells of a part have a partition of their own. No stream's name has a ``#``.
_PART = "part#"
# ``every`` divides a day, so no marked bucket is longer than a day.
_LONGEST = timedelta(days=1)
# This text sorts after every time, and after everything that follows a time in a sort key.
_BEHIND = "~"
_LAST = datetime.max.replace(tzinfo=UTC) - _LONGEST
# The condition that an item does not exist yet.
_NEW = {"ConditionExpression": "attribute_not_exists(pk)"}
# A search for latest events reads at most this many marks, which are about 16 read units.
_MOST_MARKS = 1_000


class LeanRollups(LeanLastPeriods):
    """The edges, marks, overfull buckets and noted series of every stream, in one table."""

    def read_state(self, stream: str, span: Span | None = None) -> RollupState:
        """Send three strongly consistent Queries. A mark has about 63 bytes, so a read unit reads 65 marks.

        The order of the Queries matters. Marks are read first: a mark is cleared when its bucket is computed under the
        edges of that moment, so edges that were read earlier would be wrong. Overfull buckets are read last: such a
        bucket is recorded before the edge passes it.
        """
        first, last = ("", _BEHIND) if span is None else (to_text(span[0]), to_text(span[1]))
        marks = self._read_mark_items(stream, span)
        edges = self._read_items(stream, EDGE, NOTING)
        return make_state([*marks, *edges, *self._read_items(stream, OVER + first, OVER + last)], span)

    def read_marks(self, stream: str, span: Span) -> Sequence[Mark]:
        """Send one strongly consistent Query."""
        return make_state(self._read_mark_items(stream, span), span).marks

    def read_last(self, stream: str) -> RollupState | None:
        """Send two strongly consistent Queries. The order matters, as that of ``read_state`` does.

        A mark rests only after its bucket was cut out of the covered spans.
        """
        body = make_range_body(self._table, stream, MARK, MARK + _BEHIND, consistent=True) | {"Limit": _MOST_MARKS}
        page: Found = next(read_pages(self._client, body, decode_found))
        if page.LastEvaluatedKey is not None:
            return None
        marks = [(item["sk"].S.split("#"), item) for item in page.Items]
        return make_state([*marks, *self._read_items(stream, LAST, NOTING)], None)

    def _read_mark_items(self, stream: str, span: Span | None) -> list[FoundItem]:
        if span is None:
            return self._read_items(stream, MARK, MARK + _BEHIND)
        behind = to_text(min(span[1], _LAST) + _LONGEST) + _BEHIND
        return self._read_items(stream, MARK + to_text(span[0]), MARK + behind)

    def read_at_once(self, stream: str) -> RollupState:
        """Send one strongly consistent Query for all items of the stream."""
        return make_state(self._read_items(stream, LAST, OVER + _BEHIND), None)

    def _read_items(self, stream: str, low: str, high: str) -> list[FoundItem]:
        """Read the items of a stream between two sort keys, each with the fields of its sort key."""
        body = make_range_body(self._table, stream, low, high, consistent=True)
        pages: Iterator[Found] = read_pages(self._client, body, decode_found)
        return [(item["sk"].S.split("#"), item) for page in pages for item in page.Items]

    def make_mark(self, stream: str, mark: Mark) -> Put:
        """Make the item of the mark. Its ``version`` is the condition under which it is replaced."""
        key = {"pk": stream, "sk": make_mark_key(mark)}
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
        keys = [make_mark_key(Mark(bucket, at, length)) for bucket in dict.fromkeys(buckets)]
        self._update_items([self._name_item(stream, key) | change for key in keys], _ROUNDS)

    def clear_mark(self, stream: str, mark: Mark) -> bool:
        """Delete a mark by a conditional DeleteItem."""
        return self._change_once("DeleteItem", self._name_mark(stream, mark) | expect_mark(mark))

    def note_resealed(self, stream: str, mark: Mark, at: int, *, rests: bool) -> bool:
        """Change a mark by a conditional UpdateItem."""
        names = {"#at": "at", "#resealed": "resealed", "#pauses": "pauses"}
        values = {":resealed": {"N": str(at)}, ":pauses": {"N": str(mark.pauses + 1)}, ":none": {"N": "0"}}
        change: dict[str, Any] = {
            "UpdateExpression": "SET #resealed = :resealed, #pauses = :pauses",
            "ConditionExpression": "#at > :none",
        }
        if rests:
            names |= {"#since": "since", "#lost": "lost"}
            values[":at"] = {"N": str(mark.at)}
            change = {
                # The versions before work items read the attribute ``at`` of every mark.
                "UpdateExpression": f"{change['UpdateExpression']}, #at = :none REMOVE #since, #lost",
                "ConditionExpression": "#at = :at",
            }
        change |= {"ExpressionAttributeNames": names, "ExpressionAttributeValues": values}
        return self._change_once("UpdateItem", self._name_mark(stream, mark) | change)

    def note_lost(self, stream: str, mark: Mark) -> bool:
        """Change a mark by a conditional UpdateItem."""
        change = {
            "UpdateExpression": "SET #lost = :lost, #at = :none REMOVE #since",
            "ConditionExpression": "#at = :at",
            "ExpressionAttributeNames": {"#at": "at", "#since": "since", "#lost": "lost"},
            "ExpressionAttributeValues": {":at": {"N": str(mark.at)}, ":lost": {"S": "yes"}, ":none": {"N": "0"}},
        }
        return self._change_once("UpdateItem", self._name_mark(stream, mark) | change)

    def _name_mark(self, stream: str, mark: Mark) -> dict[str, Any]:
        return self._name_item(stream, make_mark_key(mark))

    def put_edge(self, stream: str, edge: Edge, expected: Edge | None) -> bool:
        """Put an edge by a conditional PutItem or, if the start moves, by a transaction of a PutItem and a DeleteItem."""
        put = self._make_put(stream, make_edge_key(edge), make_edge_item(edge))
        if expected is None:
            return self._change_once("PutItem", put | _NEW)
        key, condition = make_edge_key(expected), expect_item(make_edge_item(expected))
        if key == make_edge_key(edge):
            return self._change_once("PutItem", put | condition)
        changes = [{"Delete": self._name_item(stream, key) | condition}, {"Put": put | _NEW}]
        return self._change_once("TransactWriteItems", {"TransactItems": changes})

    def put_over(self, stream: str, rollup: str, bucket: datetime, groups: int) -> None:
        """Put the record of an overfull bucket by a PutItem, which may be repeated."""
        item = {"groups": {"N": str(groups)}}
        self._repeat_changes("PutItem", [self._make_put(stream, make_over_key(rollup, bucket), item)])

    def clear_over(self, stream: str, rollup: str, bucket: datetime) -> None:
        """Delete the record of an overfull bucket by a DeleteItem, which may be repeated."""
        self._repeat_changes("DeleteItem", [self._name_item(stream, make_over_key(rollup, bucket))])

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
        keys = [make_edge_key(edge) for edge in state.edges if edge.rollup == rollup]
        keys += [make_over_key(name, bucket) for name, bucket in state.over if name == rollup]
        self._repeat_changes("DeleteItem", [self._name_item(stream, key) for key in keys])

    def put_noting(self, stream: str, noting: Noting, expected: Noting | None) -> bool:
        """Put the record by a conditional PutItem."""
        condition = _NEW if expected is None else expect_item(make_noting_item(expected))
        return self._change_once("PutItem", self._make_put(stream, NOTING, make_noting_item(noting)) | condition)

    def stop_noting(self, stream: str, at: datetime) -> None:
        """Put the stopped record by a PutItem, which may be repeated."""
        item = make_noting_item(Noting(at, at, stopped=True))
        self._repeat_changes("PutItem", [self._make_put(stream, NOTING, item)])

    def _make_put(self, stream: str, key: str, item: RollupItem) -> dict[str, Any]:
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
