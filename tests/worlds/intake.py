"""The write path of one stream on fakes: requests, the overflow queue and the drain."""

import json
from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tests.fakes import FakeCatalog, FakeClock, FakeOverflow, FakeStore, FakeValues, large_values
from tests.fakes.queue import FakeBeats
from tests.fakes.rollups import FakeRollups
from tests.fakes.serial import Serial
from tests.ingest.streams import CONFIG, NOW
from tidetable.catalog import Entry, State
from tidetable.config import Config
from tidetable.event_writing import Jitter, Writer
from tidetable.events import Item
from tidetable.ingest.circuit import Circuit
from tidetable.ingest.delivery import Drain
from tidetable.ingest.drain import drain_message
from tidetable.ingest.outcome import Outcome
from tidetable.ingest.recent_periods import RecentPeriods
from tidetable.ingest.request import Ingest, IngestRequest, ingest_body
from tidetable.large.table_names import name_chunks_table
from tidetable.periods import Kind, find_containing
from tidetable.times import to_text
from wiring_upkeep import Upkeep

LABEL = "2026-03-01"
MINUTE = timedelta(minutes=1)


class Letters:
    """The queue of dead letters. It can be reached only if ``takes`` is set."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.takes = False

    def bury(self, body: str, reason: str) -> bool:
        if self.takes:
            self.kept.append(reason)
        return self.takes


class World:
    """A stream whose window has three tables: 27 and 28 February, 1 March."""

    def __init__(self, config: Config = CONFIG, jitter: Jitter = lambda pause: pause) -> None:
        self.config = config
        self.jitter = jitter
        self.clock = FakeClock(NOW)
        self.values = FakeValues()
        self.large = large_values(self.values)
        self.catalog = FakeCatalog()
        self.store = FakeStore(self.catalog)
        self.overflow = FakeOverflow()
        self.circuit = Circuit(self.clock)
        self.letters = Letters()
        for days in range(3):
            period = find_containing(NOW - timedelta(days=days), Kind.DAY)
            table = f"tidetable-t.quakes.{period.label}"
            self.catalog.add(Entry("quakes", period, table, config.streams["quakes"].layout, State.OPEN, NOW))
            self.store.tables[table] = {}
            self.store.tables[name_chunks_table(table)] = {}

    def send(self, *events: Any, seconds: float = 5, **request: Any) -> Outcome:
        return self.post(json.dumps(events).encode(), seconds=seconds, **request)

    def post(
        self,
        body: bytes,
        *,
        seconds: float = 5,
        known: RecentPeriods | None = None,
        stream: str = "quakes",
        **request: Any,
    ) -> Outcome:
        """Handle a request. ``known`` is the state of a process that has served requests; None for a new process."""
        deadline = self.clock.now() + timedelta(seconds=seconds)
        return ingest_body(
            IngestRequest(stream, body, "application/json", **request),
            self.serving(known),
            lambda: (deadline - self.clock.now()).total_seconds(),
        )

    def serving(self, known: RecentPeriods | None = None) -> Ingest:
        return self.pipeline(known=known or RecentPeriods()).ingest

    def drainer(self) -> Drain:
        return self.pipeline().drain

    def pipeline(self, **ports: Any) -> Upkeep:
        """The functions' pipeline on these fakes."""
        fakes = {
            "config": self.config,
            "catalog_reader": self.catalog,
            "store": self.store,
            "overflow": self.overflow,
            "dead_letters": self.letters,
            "clock": self.clock,
            "jitter": self.jitter,
            "circuit": self.circuit,
            "values": self.values,
            "large": self.large,
            "rollups": FakeRollups(),
            "beats": FakeBeats(),
            "pools": Serial,
        }
        return Upkeep(**(fakes | ports))

    def drain(self, body: str, seconds: float = 0.0) -> int:
        """Drain a message. If it would be buried, Undrainable is raised, because no queue takes dead letters here."""
        return drain_message(body, self.drainer(), lambda: seconds).events

    def stored(self) -> int:
        return sum(map(len, self.store.tables.values()))

    def table(self, label: str) -> list[Item]:
        return list(self.store.tables[f"tidetable-t.quakes.{label}"].values())

    def count(self, label: str) -> int:
        return len(self.table(label))

    def move(self, label: str, state: State) -> Entry:
        entry = next(entry for entry in self.catalog.entries("quakes") if entry.period.label == label)
        return self.catalog.move(entry, state, expected=list(State))


def event(number: int, **ago: float) -> dict[str, Any]:
    return {"series": "a", "id": str(number), "time": to_text(NOW - timedelta(**ago)), "data": {"n": number}}


def world(**policy: Any) -> World:
    stream = replace(CONFIG.streams["quakes"], **policy)
    return World(replace(CONFIG, streams={"quakes": stream}, api=replace(CONFIG.api, max_body=10**7)))


def make_writer(stage: World, seconds: float) -> Writer:
    """A writer with this number of seconds; its pauses are as long as they may be."""
    return Writer(stage.store, stage.values, lambda: seconds, stage.clock, lambda pause: pause)


def numbered(n: Any) -> dict[str, Any]:
    return event(1) | {"data": {"n": n}}


def versions(stage: World) -> dict[str, Any]:
    """The number ``n`` in the data of each version, by the beginning of the version's sort key."""
    return {item["sk"].partition("#")[0]: item["data"]["n"] for item in stage.table(LABEL)}


class Process(World):
    """A process of the ingest function, which serves one request after another."""

    def __init__(self) -> None:
        super().__init__(replace(CONFIG, api=replace(CONFIG.api, max_body=10**6)))
        self.known = RecentPeriods()
        self.catalog.reads.clear()

    def serve(self, *ages: timedelta) -> Outcome:
        sent = [event(number) | {"time": to_text(self.clock.now() - age)} for number, age in enumerate(ages)]
        return self.send(*sent, known=self.known)

    def reads(self) -> list[tuple[datetime | None, datetime | None, bool]]:
        """The ranges of the catalog that were read since the last call."""
        ranges, self.catalog.reads = self.catalog.reads, []
        return ranges
