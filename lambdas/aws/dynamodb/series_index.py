"""Notes of series in the table of the rollups' state, over the lean client.

The notes of a period are spread over partitions: ``pk`` is ``STREAM#series#PERIOD#SUFFIX`` with a suffix calculated from the
series, and ``sk`` the series. ``at`` is when the note was put. AWS: a partition takes 1,000 write units per second.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from aws.dynamodb.codes import CONDITION_FAILED
from aws.dynamodb.reads import FIRST_PAUSE, decode_answer, is_throttled, read_all
from aws.http.client import LeanClient, RequestRefused, ServiceRequest
from tidetable.errors import TableThrottled
from tidetable.layout import compute_suffix
from tidetable.ports import NotedSeries

SUFFIXES = 16
# AWS: BatchWriteItem takes 25 puts.
_BATCH = 25
_ROUNDS = 4


class Attribute(msgspec.Struct):
    """An attribute of an item: a text, or a number as text."""

    S: str = ""
    N: str = "0"


class _Consumed(msgspec.Struct):
    CapacityUnits: float = 0.0


class Found(msgspec.Struct):
    """A page of a Query."""

    Items: list[dict[str, Attribute]]
    LastEvaluatedKey: dict[str, Any] | None = None
    ConsumedCapacity: _Consumed | None = None


class _Wrote(msgspec.Struct):
    UnprocessedItems: dict[str, list[dict[str, Any]]] = {}


decode_found = msgspec.json.Decoder(Found).decode
_WROTE = msgspec.json.Decoder(_Wrote).decode


class LeanNotes:
    """The series of each period of streams that are partitioned by series and have rollups."""

    def __init__(self, client: LeanClient, table: str) -> None:
        self._client = client
        self._table = table

    def put_notes(self, stream: str, period: str, series: Sequence[str], at: int) -> None:
        """Put notes by BatchWriteItem: 25 puts per call, several calls under way at once.

        Only throttled puts are sent again. If a call gets no answer, no further calls are sent: the caller is waiting,
        and can queue the events.
        """
        waiting = [_make_put_request(stream, period, name, at) for name in dict.fromkeys(series)]
        for turn in range(_ROUNDS):
            batches = [waiting[start : start + _BATCH] for start in range(0, len(waiting), _BATCH)]
            bodies = [msgspec.json.encode({"RequestItems": {self._table: batch}}) for batch in batches]
            replies = self._client.call_all(
                [ServiceRequest("BatchWriteItem", body, _WROTE) for body in bodies], insist=False
            )
            waiting = []
            for batch, reply in zip(batches, replies, strict=True):
                if is_throttled(reply):
                    waiting += batch
                else:
                    waiting += decode_answer(reply, self._table).UnprocessedItems.get(self._table, [])
            if not waiting:
                return
            if turn + 1 < _ROUNDS:
                self._client.pause(FIRST_PAUSE * 2**turn)
        raise TableThrottled(self._table)

    def read_notes(self, stream: str, period: str, *, consistent: bool) -> NotedSeries:
        """Query all suffixes at the same time, each to its end.

        A consistent read of 10,000 series of 40 bytes takes 300 read units.
        """
        series, units = list[str](), 0.0
        for page in self._read_pages(stream, period, consistent=consistent):
            series += [item["sk"].S for item in page.Items]
            units += 0.0 if page.ConsumedCapacity is None else page.ConsumedCapacity.CapacityUnits
        return NotedSeries(sorted(series), units)

    def _read_pages(self, stream: str, period: str, *, consistent: bool) -> Iterator[Found]:
        after: dict[int, dict[str, Any] | None] = dict.fromkeys(range(SUFFIXES))
        while after:
            requests = []
            for suffix, key in after.items():
                body: dict[str, Any] = {
                    "TableName": self._table,
                    "KeyConditionExpression": "pk = :pk",
                    "ExpressionAttributeValues": {":pk": {"S": _name_partition(stream, period, suffix)}},
                    "ProjectionExpression": "sk",
                    "ConsistentRead": consistent,
                    "ReturnConsumedCapacity": "TOTAL",
                }
                more = {} if key is None else {"ExclusiveStartKey": key}
                requests.append(ServiceRequest("Query", msgspec.json.encode(body | more), decode_found))
            pages = [decode_answer(reply, self._table) for reply in read_all(self._client, requests)]
            yield from pages
            following = zip(after, (page.LastEvaluatedKey for page in pages), strict=True)
            after = {suffix: key for suffix, key in following if key is not None}

    def clear_notes(self, stream: str, period: str, before: int, most: int) -> int:
        """Delete notes by conditional DeleteItems, several under way at once.

        A note that was put again since ``before`` stays.
        """
        count = 0
        for page in self._read_pages(stream, period, consistent=True):
            names = [item["sk"].S for item in page.Items][: most - count]
            bodies = [self._name_item(*_place_note(stream, period, name)) | put_before(before) for name in names]
            requests = [ServiceRequest("DeleteItem", msgspec.json.encode(body)) for body in bodies]
            for reply in read_all(self._client, requests):
                if isinstance(reply, RequestRefused) and reply.code == CONDITION_FAILED:
                    continue
                decode_answer(reply, self._table)
                count += 1
            if count >= most:
                break
        return count

    def _name_item(self, pk: str, sk: str) -> dict[str, Any]:
        return {"TableName": self._table, "Key": make_key(pk, sk)}


def make_key(pk: str, sk: str) -> dict[str, Any]:
    """Make the key of an item, in DynamoDB's JSON."""
    return {"pk": {"S": pk}, "sk": {"S": sk}}


def put_before(at: int) -> dict[str, Any]:
    """Make the condition that an item does not exist, or was put before ``at`` (epoch milliseconds)."""
    return {
        "ConditionExpression": "attribute_not_exists(pk) OR #at < :at",
        "ExpressionAttributeNames": {"#at": "at"},
        "ExpressionAttributeValues": {":at": {"N": str(at)}},
    }


def _name_partition(stream: str, period: str, suffix: int) -> str:
    return f"{stream}#series#{period}#{suffix}"


def _place_note(stream: str, period: str, series: str) -> tuple[str, str]:
    """Return the partition key and the sort key of a note."""
    return _name_partition(stream, period, compute_suffix(series, SUFFIXES)), series


def _make_put_request(stream: str, period: str, series: str, at: int) -> dict[str, Any]:
    return {"PutRequest": {"Item": make_key(*_place_note(stream, period, series)) | {"at": {"N": str(at)}}}}
