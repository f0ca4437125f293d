"""Days of a stream to query, on fakes; and a fixture of five days."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from aws.sketches import DDSketches
from tests.fakes import SEAL, FakeArchive, FakeCatalog, FakeStore, FakeValues, unpacker
from tests.fakes.items import read_event
from tests.fakes.serial import Serial
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import Stream, parse
from tidetable.events import Event, Item
from tidetable.layout import Index, Key, Layout
from tidetable.periods import Kind, Period, find_containing
from tidetable.query import Reader, parse_query, run_query
from tidetable.times import from_text

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = datetime(2026, 3, 6, tzinfo=UTC)
STREAM: Stream = parse(
    """
    [streams.s]
    period = "day"
    late = "5d"
    retention = 9
    key = { partition_by = "time", bucket = "6h", shards = 4 }
    """
).streams["s"]
LAYOUTS = [
    Layout("time", 4, "id", 21_600),
    Layout("time", 1, "id", 3_600, (Index("by_kind", "kind", 3),)),
    Layout("time", 16, "series", 86_400, (Index("by_kind", "kind", 1),)),
    Layout("time", 3, "id", 900),
]


def event_of(row: dict[str, Any]) -> Event:
    return Event(row["series"], from_text(row["time"]), row["id"], row["data"])


class Days:
    """Days of a stream on fakes, for queries. A day is a table or an archive; other days were never made."""

    def __init__(self) -> None:
        self.catalog, self.archive, self.values = FakeCatalog(), FakeArchive(), FakeValues()
        self.store = FakeStore(self.catalog)
        whole = unpacker(self.store, self.values)
        self.reader = Reader(self.catalog, self.store, self.archive, whole, SEAL, DDSketches(), Serial)

    def add_table(self, period: Period, layout: Layout, items: Iterable[Item]) -> None:
        """Add a period with a table of some items."""
        table = self._record(period, layout, State.OPEN, None)
        self.store.tables[table] = {Key(item["pk"], item["sk"]): item for item in items}

    def add_archive(self, period: Period, layout: Layout, events: Sequence[Event]) -> None:
        """Add a period whose events are archived and whose table is deleted."""
        facts = ArchiveFacts(f"tidetable-t.s.{period.label}", len(events), 0, period.end)
        self.archive.keep(self._record(period, layout, State.DELETED, facts), layout, list(events))

    def _record(self, period: Period, layout: Layout, state: State, facts: ArchiveFacts | None) -> str:
        table = f"tidetable-t.s.{period.label}"
        self.catalog.add(Entry("s", period, table, layout, state, START, archive=facts))
        return table


class Fixture(Days):
    """Five days: day 1 is archived, day 3 was never made, and the days have different layouts."""

    def __init__(self, events: list[Event]) -> None:
        super().__init__()
        for day in (0, 1, 2, 4):
            period, layout = find_containing(START + timedelta(days=day), Kind.DAY), LAYOUTS[day % 4]
            items = {layout.make_key(event): layout.make_item(event) for event in events if event.time in period}
            if day == 1:
                self.add_archive(period, layout, [read_event(layout, item) for item in items.values()])
            else:
                self.add_table(period, layout, items.values())

    def walk(self, limit: int, **parameters: str) -> list[Event]:
        events: list[Event] = []
        query_string = {name: [value] for name, value in parameters.items()}
        while True:
            answer = run_query(
                parse_query(STREAM, query_string | {"limit": [str(limit)]}, NOW, SEAL),
                STREAM,
                self.reader,
                NOW,
                lambda: 100.0,
            )
            assert answer.count <= limit
            events += [event_of(event) for event in answer.document()["events"]]
            if answer.next is None:
                return events
            assert answer.count, "a page that is not the last holds something"
            query_string = {"cursor": [answer.next]}


def run(fixture: Fixture, **parameters: str):  # type: ignore[no-untyped-def]
    query = parse_query(STREAM, {name: [value] for name, value in parameters.items()}, NOW, SEAL)
    return run_query(query, STREAM, fixture.reader, NOW, lambda: 100.0)


def many(count: int) -> list[Event]:
    return [Event("a", START + timedelta(minutes=i), str(i), {}) for i in range(count)]
