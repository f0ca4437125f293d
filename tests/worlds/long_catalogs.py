"""A catalog of ten years of hours, and the read units that its answers take.

It answers the Queries of the real adapter. Its items are made from one item, which takes less time than 87,600 items.
"""

import json
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec

from aws.dynamodb.catalog import LeanCatalog
from aws.dynamodb.catalog_items import make_attributes
from aws.dynamodb.wire import encode_item
from aws.http.client import LeanClient, ServiceRequest
from tests.worlds.entries import change_entry
from tidetable.catalog import ArchiveFacts, Entry, SeenTable, State
from tidetable.config import TableClass
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing
from tidetable.times import to_text

YEARS = 87_600
END = datetime(2026, 3, 1, tzinfo=UTC)
START = END - timedelta(hours=YEARS)
# AWS: a page of a Query ends at 1 MB, and an eventually consistent read unit has 8 KB.
_PAGE, _UNIT = 1_048_576, 4_096


def make_entry(stream: str, start: datetime, state: State, layout: Layout) -> Entry:
    """Make the entry of an hour. One that has no table any more has an archive."""
    period = find_containing(start, Kind.HOUR)
    entry = Entry(stream, period, f"tidetable-t.{stream}.{period.label}", layout, state, start)
    if state is State.ARCHIVED:
        facts = ArchiveFacts(f"{stream}/period={period.label}/1/manifest.json", 1_000, 50_000, start)
        return change_entry(entry, archive=facts)
    if state is State.DELETED:
        return change_entry(entry, deleted_at=start + timedelta(days=2))
    seen = SeenTable(None, None, TableClass.STANDARD)
    return change_entry(entry, seen=seen)


class LongCatalog:
    """The items of a stream's catalog. ``units`` and ``requests`` count what its answers took."""

    def __init__(
        self,
        stream: str,
        choose_state: Callable[[int], State],
        layout: Layout,
        hours: int = YEARS,
        make: Callable[[str, datetime, State, Layout], Entry] = make_entry,
    ) -> None:
        self.units = 0.0
        self.requests = 0
        self._partition = f"stream#{stream}"
        self._choose_state = choose_state
        times = [to_text(END - timedelta(hours=hours - number)) for number in range(hours)]
        self.keys = [f"{time}#{time[:13]}" for time in times]
        # Of each state the item of the first hour, that hour's time and its label.
        self._templates: dict[State, bytes] = {}
        self._first = times[0]
        for state in set(map(choose_state, range(hours))):
            key = {"pk": self._partition, "sk": self.keys[0]}
            entry = make(stream, END - timedelta(hours=hours), state, layout)
            self._templates[state] = encode_item(key | make_attributes(entry)).encode()

    def make_item(self, number: int) -> bytes:
        """Make the item of an hour, as DynamoDB's JSON."""
        item, time = self._templates[self._choose_state(number)], self.keys[number].partition("#")[0]
        whole = item.replace(self._first.encode(), time.encode())
        return whole.replace(self._first[:13].encode(), time[:13].encode())

    @property
    def catalog(self) -> LeanCatalog:
        return LeanCatalog(cast("LeanClient", self), "catalog")

    def pause(self, most: float) -> None:
        """Do nothing: no request fails."""

    def call_all(self, requests: Sequence[ServiceRequest], *, insist: bool = True) -> list[Any]:
        """Answer requests. Only the stream's own partition has items."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: ServiceRequest) -> Any:
        body = json.loads(request.body)
        self.requests += 1
        values = {name: value["S"] for name, value in body["ExpressionAttributeValues"].items()}
        low, high = bisect_left(self.keys, values[":low"]), bisect_right(self.keys, values[":high"])
        forward, after = body.get("ScanIndexForward", True), body.get("ExclusiveStartKey")
        if values[":pk"] != self._partition:
            low = high
        if after is not None:
            at = bisect_left(self.keys, after["sk"]["S"])
            low, high = (at + 1, high) if forward else (low, at)
        numbers = range(low, high) if forward else range(high - 1, low - 1, -1)
        items, size = list[bytes](), 0
        for number in numbers[: body.get("Limit", len(self.keys))]:
            items.append(self.make_item(number))
            size += len(items[-1])
            if size > _PAGE:
                break
        self.units += max(-(-size // _UNIT), 1) * (1.0 if body["ConsistentRead"] else 0.5)
        answer: dict[str, Any] = {"Items": list(map(msgspec.Raw, items))}
        if len(items) < len(numbers):
            answer["LastEvaluatedKey"] = {"sk": {"S": self.keys[numbers[len(items) - 1]]}}
        text = msgspec.json.encode(answer)
        return text if request.decode is None else request.decode(text)
