"""Compares one key, random and calculated suffixes on the strict service: writes, look-ups, ranges and repetitions.

A logical partition is a day of a stream that is partitioned by time. `python -m bench.suffixes` prints the table and draws
docs/inside/suffix.svg.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from strict import ManualClock, StrictDynamo
from strict.memory import MemoryEngine
from tidetable.layout import compute_suffix
from tidetable.times import to_text

START = datetime(2026, 3, 15, 12, tzinfo=UTC)
DAY = "2026-03-15T00:00:00.000000Z"
EVENTS, FOUND, BYTES = 1000, 100, 200
# The number of events of a page: a few seconds of the stream.
PAGE = 100

Choose = Callable[[str], int]


@dataclass(frozen=True)
class Kind:
    """A way to choose an event's suffix: its name, the number of suffixes, and whether the suffix is calculated."""

    name: str
    suffixes: int
    calculated: bool

    @property
    def title(self) -> str:
        """The name of the kind in the table and in the picture."""
        return self.name if self.suffixes == 1 else f"{self.suffixes} {self.name}"

    def make_chooser(self) -> Choose:
        """Make a function that returns the suffix for an event's id. The random kind throws a die at each call."""
        if self.calculated:
            return lambda value: compute_suffix(value, self.suffixes)
        die = random.Random(1)  # noqa: S311 - repeatable on purpose
        return lambda _: die.randrange(self.suffixes)


KINDS = (
    Kind("one key", 1, calculated=True),
    Kind("random suffixes", 4, calculated=False),
    Kind("calculated suffixes", 4, calculated=True),
    Kind("random suffixes", 16, calculated=False),
    Kind("calculated suffixes", 16, calculated=True),
)


@dataclass(frozen=True)
class Costs:
    """The figures of a kind.

    ``writes`` are events of 1 KB per second before the first throttle. ``get_requests`` and ``get_units`` are the
    requests and units to find one event by its id, ``page_requests`` and ``page_units`` to read the newest 100 events.
    ``stored`` is the number of events in the table after 1,000 events were sent twice. Units are read units, eventually
    consistent.
    """

    writes: int
    get_requests: float
    get_units: float
    page_requests: int
    page_units: float
    stored: int


HEADINGS = (
    "writes per second",
    "look-up by id: requests",
    "read units",
    "newest 100: requests",
    "read units",
    "stored after 1,000 events were sent twice",
)


def measure_kind(kind: Kind, writes: int) -> Costs:
    """Measure the costs of a kind. Its sustained ``writes`` are known already."""
    table = _Table(kind)
    for id in _make_ids():
        table.put(id)
    requests, units = 0, 0.0
    for id in _make_ids()[:: EVENTS // FOUND]:
        looked_up = table.get(id)
        requests, units = requests + looked_up[0], units + looked_up[1]
    page_requests, page_units = table.read_newest()
    for id in _make_ids():
        table.put(id)
    return Costs(writes, requests / FOUND, units / FOUND, page_requests, page_units, table.count())


def make_partition_keys(kind: Kind, count: int) -> list[str]:
    """The partition keys of many events, in the order in which the events come."""
    choose = kind.make_chooser()
    return [f"{DAY}#{choose(f'event-{number}')}" for number in range(count)]


def _make_ids() -> list[str]:
    return [f"event-{number}" for number in range(EVENTS)]


class _Table:
    """An on-demand table of the strict service with the keys of a kind."""

    def __init__(self, kind: Kind) -> None:
        clock = ManualClock(START)
        self._dynamo = StrictDynamo(MemoryEngine(), clock)
        self._suffixes, self._choose, self._kind = kind.suffixes, kind.make_chooser(), kind
        self._dynamo.call(
            "CreateTable",
            {
                "TableName": "bench",
                "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
                "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
                "BillingMode": "PAY_PER_REQUEST",
            },
        )
        clock.sleep(60)
        self._clock = clock

    def put(self, id: str) -> None:
        """Write an event. The clock goes on before the write, so that nothing is throttled."""
        self._clock.sleep(0.01)
        item = {"pk": {"S": f"{DAY}#{self._choose(id)}"}, "sk": {"S": _make_sort_key(id)}, "d": {"S": "x" * BYTES}}
        self._dynamo.call("PutItem", {"TableName": "bench", "Item": item})

    def get(self, id: str) -> tuple[int, float]:
        """Requests and units to find an event. Nobody knows a random suffix, so all suffixes are asked at once."""
        candidates: Sequence[int] = [self._choose(id)] if self._kind.calculated else range(self._suffixes)
        units, hits = 0.0, 0
        for suffix in candidates:
            key = {"pk": {"S": f"{DAY}#{suffix}"}, "sk": {"S": _make_sort_key(id)}}
            answer = self._call("GetItem", Key=key)
            units += answer["ConsumedCapacity"]["CapacityUnits"]
            hits += "Item" in answer
        assert hits == 1
        return len(candidates), units

    def read_newest(self) -> tuple[int, float]:
        """Requests and units of the newest page. Each suffix may hold all events of the page, or none."""
        units, rows = 0.0, []
        for suffix in range(self._suffixes):
            answer = self._call(
                "Query",
                KeyConditionExpression="pk = :pk AND sk >= :low",
                ExpressionAttributeValues={
                    ":pk": {"S": f"{DAY}#{suffix}"},
                    ":low": {"S": _render_sort_key(EVENTS - PAGE)},
                },
                ScanIndexForward=False,
                Limit=PAGE,
            )
            units += answer["ConsumedCapacity"]["CapacityUnits"]
            rows += answer["Items"]
        assert len(rows) == PAGE
        return self._suffixes, units

    def count(self) -> int:
        """Count the items of all suffixes."""
        return sum(self._count_pages())

    def _count_pages(self) -> Iterator[int]:
        for suffix in range(self._suffixes):
            values = {":pk": {"S": f"{DAY}#{suffix}"}}
            request = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": values, "Select": "COUNT"}
            answer = self._call("Query", **request)
            assert "LastEvaluatedKey" not in answer
            yield answer["Count"]

    def _call(self, operation: str, **request: Any) -> Any:
        self._clock.sleep(0.01)
        return self._dynamo.call(operation, {"TableName": "bench", "ReturnConsumedCapacity": "TOTAL", **request})


def _make_sort_key(id: str) -> str:
    return _render_sort_key(int(id.rpartition("-")[2]))


def _render_sort_key(number: int) -> str:
    return to_text(START + timedelta(milliseconds=number))


def render_table(costs: dict[Kind, Costs]) -> str:
    """Write the costs as a table in Markdown."""
    rows = [f"| | {' | '.join(HEADINGS)} |", "|---" * (len(HEADINGS) + 1) + "|"]
    for kind, own in costs.items():
        rows.append(f"| {kind.title} | {' | '.join(f'{figure:,g}' for figure in astuple(own))} |")
    return "\n".join(rows)
