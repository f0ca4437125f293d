"""Notes of series: the units and calls per event of many processes that write a period's first and further events.

100 processes take the events of a period at random, 100 events of each series, in requests of one event and of 100. The
code is that of the functions, on the strict service, which counts units. The write units per event do not depend on the
number of series, as long as a process can remember them (``MEMORY``). The read units fall with it, because a read of a
chain then finds more new notes: more than twenty thousand series cost less per event.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

import msgspec

from aws.dynamodb.rollups import LeanRollups
from aws.http.client import LeanClient, Reply, ServiceRequest
from bench.results import note_ratios
from strict import ManualClock, StrictDynamo
from strict.memory import MemoryEngine
from strict.rules import Rule
from tests.fakes.transport import StrictTransport
from tidetable.catalog import Entry, State
from tidetable.ingest.series_index import SeriesIndex
from tidetable.ingest.series_set import SeriesSet
from tidetable.layout import Layout
from tidetable.periods import Kind, find_containing

SERIES, PROCESSES, EACH = 20_000, 100, 100
MEMORY = 1_000_000
NOW = datetime(2026, 3, 5, 0, 1, tzinfo=UTC)
TABLE = "tidetable-bench-rollups"
ENTRY = Entry("readings", find_containing(NOW, Kind.DAY), "table", Layout("series", 1, "id"), State.OPEN, NOW)


class CountingTransport(StrictTransport):
    """Counts the calls, and the units of each kind of operation."""

    def __init__(self, service: StrictDynamo) -> None:
        super().__init__(service)
        self.units = {"Query": 0.0, "UpdateItem": 0.0, "DeleteItem": 0.0}
        # The times that a caller waits for answers: requests that are sent together count once.
        self.waits = 0
        self.calls = 0

    def call_all(self, requests: Sequence[ServiceRequest], *, insist: bool = True) -> list[Reply]:  # noqa: ARG002
        """Answer requests, and count what they consume. All of them are answered."""
        self.waits += bool(requests)
        self.calls += len(requests)
        replies = []
        for operation, body, decode in requests:
            asked = msgspec.json.decode(body) | {"ReturnConsumedCapacity": "TOTAL"}
            answer = self._service.call(operation, asked)
            self.units[operation] += answer["ConsumedCapacity"]["CapacityUnits"]
            text = msgspec.json.encode(answer)
            replies.append(text if decode is None else decode(text))
        return replies


def make_transport() -> CountingTransport:
    """Make a service with the table of the rollups' state, whose partitions take any rate."""
    clock = ManualClock(NOW)
    without = [Rule.PARTITION_THROUGHPUT, Rule.ON_DEMAND_THROUGHPUT]
    service = StrictDynamo(MemoryEngine(), clock, without=without)
    keys = ("pk", "HASH"), ("sk", "RANGE")
    service.call(
        "CreateTable",
        {
            "TableName": TABLE,
            "BillingMode": "PAY_PER_REQUEST",
            "KeySchema": [{"AttributeName": name, "KeyType": kind} for name, kind in keys],
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name, _ in keys],
        },
    )
    clock.sleep(60)
    return CountingTransport(service)


def name_series(number: int) -> str:
    """A name of 16 bytes."""
    return f"device-{number:09}"


def count_period(series: int, batch: int) -> dict[str, float]:
    """Count a period's units and calls per event, and those of a reader and of the removal per series."""
    transport, chance = make_transport(), random.Random(7)  # noqa: S311 - made-up data
    processes = [SeriesIndex(LeanRollups(cast("LeanClient", transport), TABLE)) for _ in range(PROCESSES)]
    for _ in range(series * EACH // batch):
        names = {name_series(chance.randrange(series)) for _ in range(batch)}
        assert chance.choice(processes).note([(ENTRY, names)], NOW)
    events = series * EACH
    counted = {
        "write_units": transport.units["UpdateItem"] / events,
        "read_units": transport.units["Query"] / events,
        "waits": transport.waits / events,
        "calls": transport.calls / events,
    }
    rollups = LeanRollups(cast("LeanClient", transport), TABLE)
    noted = rollups.read_notes("readings", ENTRY.period.label, consistent=True)
    assert len(noted.series) == series
    counted["listing"] = noted.units / series
    while rollups.clear_notes("readings", ENTRY.period.label, 10**15, 2_000):
        pass
    return counted | {"removal": transport.units["DeleteItem"] / events}


def measure_memory(series: int) -> float:
    """Measure the memory of a process that knows this number of series, in bytes per series."""
    before = _read_resident()
    held = SeriesSet()
    for first in range(0, series, 50):
        held.add([name_series(number) for number in range(first, first + 50)])
    return (_read_resident() - before) / series


def _read_resident() -> int:
    pages: Any = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * 4096


def main() -> None:
    """Measure everything, and write the figures to bench/results.json."""
    print(f"memory of {MEMORY:,} series: {measure_memory(MEMORY):.1f} bytes each")
    for batch in (1, 100):
        counted = count_period(SERIES, batch)
        print(f"requests of {batch}: " + ", ".join(f"{name} {count:.5f}" for name, count in counted.items()))
        if batch == 1:
            note_ratios(
                digits=4,
                notes_write_units_per_event=counted["write_units"] + counted["removal"],
                notes_read_units_per_event=counted["read_units"],
                notes_round_trips_per_event=counted["waits"],
                notes_listing_read_units_per_series=counted["listing"],
            )


if __name__ == "__main__":
    main()
