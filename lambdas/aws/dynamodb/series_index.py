"""Notes of series in the table of the rollups' state, over the lean client.

The notes of a period are spread over partitions: ``pk`` is ``STREAM#series#PERIOD#SUFFIX``. An item is a page of notes:
``sk`` is ``CHAIN#NUMBER``, ``series`` the set of its series, and ``at`` when notes were last put there. The ``sk`` of a
page of one series alone is ``!SERIES``. AWS: a partition takes 1,000 write units per second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from aws.dynamodb.reads import FIRST_PAUSE, decode_answer, is_made, is_throttled, make_range_body, read_all
from aws.http.client import CONNECTIONS, LeanClient, NoAnswer, Reply, ServiceRequest
from tidetable.ports import NotedSeries, NotePage

SUFFIXES = 16
_ROUNDS = 4
# The key of a series that is alone on its page begins with the first text, which no number of a chain begins with. The
# other text sorts after every number of a page.
_ALONE, _BEHIND = "!", "~"


class Attribute(msgspec.Struct):
    """An attribute of an item: a text, a number as text, a set of texts, or bytes."""

    S: str = ""
    N: str = "0"
    SS: list[str] = []
    B: bytes = b""


class _Consumed(msgspec.Struct):
    CapacityUnits: float = 0.0


class Found(msgspec.Struct):
    """A page of a Query."""

    Items: list[dict[str, Attribute]]
    LastEvaluatedKey: dict[str, Any] | None = None
    ConsumedCapacity: _Consumed | None = None


decode_found = msgspec.json.Decoder(Found).decode


class LeanNotes:
    """The series of each period of streams that are partitioned by series and have rollups."""

    def __init__(self, client: LeanClient, table: str) -> None:
        self._client = client
        self._table = table

    def put_notes(self, stream: str, period: str, pages: Sequence[NotePage], at: int) -> None:
        """Send one UpdateItem per page, several under way at once. A repeated UpdateItem changes nothing."""
        change = {
            "UpdateExpression": "SET #at = :at ADD #series :series",
            "ExpressionAttributeNames": {"#at": "at", "#series": "series"},
        }
        bodies = []
        for page in pages:
            values = {":at": {"N": str(at)}, ":series": {"SS": page.series}}
            key = self._name_item(_name_partition(stream, period, page.chain % SUFFIXES), _make_page_key(page))
            bodies.append(key | change | {"ExpressionAttributeValues": values})
        self._update_items(bodies, _ROUNDS)

    def _update_items(self, bodies: Sequence[dict[str, Any]], rounds: int) -> None:
        """Send UpdateItems for a caller that waits. A condition that does not hold is no failure."""
        requests = [ServiceRequest("UpdateItem", msgspec.json.encode(body)) for body in bodies]
        for reply in self._send_briefly(requests, rounds):
            is_made(reply, self._table)

    def _send_briefly(self, requests: Sequence[ServiceRequest], rounds: int = _ROUNDS) -> list[Reply]:
        """Send requests for a caller that waits, and can queue its events; send throttled ones again.

        If one gets no answer, no further ones are sent.
        """
        replies: list[Reply] = [NoAnswer("not sent")] * len(requests)
        waiting = list(range(len(requests)))
        for turn in range(rounds):
            answers = self._client.call_all([requests[number] for number in waiting], insist=False)
            for number, reply in zip(waiting, answers, strict=True):
                replies[number] = reply
            waiting = [number for number in waiting if is_throttled(replies[number])]
            if not waiting or turn + 1 == rounds or any(isinstance(reply, NoAnswer) for reply in answers):
                break
            self._client.pause(FIRST_PAUSE * 2**turn)
        return replies

    def read_chains(self, stream: str, period: str, first: Mapping[int, int]) -> Iterator[NotePage]:
        """Query eight chains at a time, strongly consistent. A read unit reads 4 KB, which is four full pages.

        No more are sent at the same time anyway. A page of a Query has up to 60,000 series, which take 4 MB.
        """
        bodies = []
        for chain, number in first.items():
            pk = _name_partition(stream, period, chain % SUFFIXES)
            keys = f"{chain:02}#{number:06}", f"{chain:02}#{_BEHIND}"
            bodies.append(make_range_body(self._table, pk, *keys, consistent=True))
        for start in range(0, len(bodies), CONNECTIONS):
            for page in self._read_queries(bodies[start : start + CONNECTIONS], self._send_briefly):
                for item in page.Items:
                    if "series" in item:
                        chain, number = map(int, item["sk"].S.split("#"))
                        yield NotePage(chain, number, item["series"].SS, int(item["at"].N))

    def read_notes(self, stream: str, period: str, *, consistent: bool) -> NotedSeries:
        """Query all suffixes at the same time, each to its end.

        A consistent read of 10,000 series of 16 bytes takes about 50 read units.
        """
        series, units = set[str](), 0.0
        for page in self._read_period(stream, period, consistent=consistent):
            for item in page.Items:
                # A former version put an item per series, whose sort key was the series.
                series.update(item["series"].SS if "series" in item else [item["sk"].S])
            units += 0.0 if page.ConsumedCapacity is None else page.ConsumedCapacity.CapacityUnits
        return NotedSeries(sorted(series), units)

    def _read_period(self, stream: str, period: str, *, consistent: bool) -> Iterator[Found]:
        bodies = [
            {
                "TableName": self._table,
                "KeyConditionExpression": "pk = :pk",
                "ExpressionAttributeValues": {":pk": {"S": _name_partition(stream, period, suffix)}},
                "ConsistentRead": consistent,
                "ReturnConsumedCapacity": "TOTAL",
            }
            for suffix in range(SUFFIXES)
        ]
        return self._read_queries(bodies, partial(read_all, self._client))

    def _read_queries(
        self, bodies: Sequence[dict[str, Any]], send: Callable[[Sequence[ServiceRequest]], Sequence[Reply]]
    ) -> Iterator[Found]:
        """Send Queries at the same time, and read each to its end."""
        while bodies:
            requests = [ServiceRequest("Query", msgspec.json.encode(body), decode_found) for body in bodies]
            pages = [decode_answer(reply, self._table) for reply in send(requests)]
            yield from pages
            bodies = [
                body | {"ExclusiveStartKey": page.LastEvaluatedKey}
                for body, page in zip(bodies, pages, strict=True)
                if page.LastEvaluatedKey is not None
            ]

    def clear_notes(self, stream: str, period: str, before: int, most: int) -> int:
        """Delete pages of notes by conditional DeleteItems, several under way at once.

        A page to which notes were put since ``before`` stays.
        """
        count = 0
        for page in self._read_period(stream, period, consistent=True):
            keys = [(item["pk"].S, item["sk"].S) for item in page.Items][: most - count]
            bodies = [self._name_item(*key) | put_before(before) for key in keys]
            requests = [ServiceRequest("DeleteItem", msgspec.json.encode(body)) for body in bodies]
            count += sum(is_made(reply, self._table) for reply in read_all(self._client, requests))
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


def _make_page_key(page: NotePage) -> str:
    return f"{_ALONE}{page.series[0]}" if page.number is None else f"{page.chain:02}#{page.number:06}"
