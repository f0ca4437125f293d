"""The intake of one stream, on fakes: requests, the queue behind them and its drain."""

import json
from datetime import timedelta
from typing import Any

from tests.fakes import FakeCatalog, FakeClock, FakeOverflow, FakeStore, FakeValues, outside
from tests.ingest.streams import CONFIG, NOW
from tidetable.catalog import Entry, State
from tidetable.config import Config
from tidetable.events import Item
from tidetable.ingest.circuit import Circuit
from tidetable.ingest.drain import Drain, Pace, drain_message
from tidetable.ingest.known import KnownPeriods
from tidetable.ingest.request import Ingest, IngestRequest, Outcome, ingest
from tidetable.ingest.writing import Jitter
from tidetable.names import parts_table
from tidetable.periods import Kind, containing
from tidetable.times import to_text


class World:
    """The tables of the window are there: 27 and 28 February, 1 March."""

    def __init__(self, config: Config = CONFIG, jitter: Jitter = lambda pause: pause) -> None:
        self.config = config
        self.jitter = jitter
        self.clock = FakeClock(NOW)
        self.values = FakeValues()
        self.outside = outside(self.values)
        self.catalog = FakeCatalog()
        self.store = FakeStore(self.catalog)
        self.overflow = FakeOverflow()
        self.circuit = Circuit(self.clock)
        for days in range(3):
            period = containing(NOW - timedelta(days=days), Kind.DAY)
            table = f"tidetable-t.quakes.{period.label}"
            self.catalog.add(Entry("quakes", period, table, config.streams["quakes"].layout, State.OPEN, NOW))
            self.store.tables[table] = {}
            self.store.tables[parts_table(table)] = {}

    def send(self, *events: Any, seconds: float = 5, **request: Any) -> Outcome:
        return self.post(json.dumps(events).encode(), seconds=seconds, **request)

    def post(self, body: bytes, *, seconds: float = 5, known: KnownPeriods | None = None, **request: Any) -> Outcome:
        """What a process does with a request; with ``known`` it is one that has served requests before."""
        deadline = self.clock.now() + timedelta(seconds=seconds)
        return ingest(
            IngestRequest("quakes", body, "application/json", **request),
            self.serving(known),
            lambda: (deadline - self.clock.now()).total_seconds(),
        )

    def serving(self, known: KnownPeriods | None = None) -> Ingest:
        return Ingest(
            self.config,
            self.catalog,
            self.store,
            self.overflow,
            self.clock,
            self.jitter,
            self.circuit,
            self.outside,
            known or KnownPeriods(),
        )

    def drainer(self) -> Drain:
        pace = Pace(self.clock)
        return Drain(self.config, self.catalog, self.store, self.clock, self.jitter, self.outside, pace)

    def drain(self, body: str, seconds: float = 0.0) -> int:
        return drain_message(body, self.drainer(), lambda: seconds)

    def stored(self) -> int:
        return sum(map(len, self.store.tables.values()))

    def table(self, label: str) -> list[Item]:
        return list(self.store.tables[f"tidetable-t.quakes.{label}"].values())

    def count(self, label: str) -> int:
        return len(self.table(label))

    def move(self, label: str, state: State) -> Entry:
        entry = next(one for one in self.catalog.entries("quakes") if one.period.label == label)
        return self.catalog.move(entry, state, expected=list(State))


def event(number: int, **ago: float) -> dict[str, Any]:
    return {"series": "a", "id": str(number), "time": to_text(NOW - timedelta(**ago)), "data": {"n": number}}
