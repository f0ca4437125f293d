"""Five days of a stream to query, on fakes: one is archived, one was never made, each has another layout."""

from datetime import UTC, datetime, timedelta
from typing import Any

from aws.sketches import DDSketches
from tests.fakes import SEAL, FakeArchive, FakeCatalog, FakeStore, FakeValues, unpacker
from tests.fakes.serial import Serial
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import Stream, parse
from tidetable.events import Event
from tidetable.keys import Index, Layout
from tidetable.periods import Kind, Period, containing
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


def event_of(shown: dict[str, Any]) -> Event:
    return Event(shown["series"], from_text(shown["time"]), shown["id"], shown["data"])


class Fixture:
    """Five days: day 1 is archived, day 3 was never made, and each day has another layout."""

    def __init__(self, held: list[Event]) -> None:
        self.catalog = FakeCatalog()
        self.store = FakeStore(self.catalog)
        self.archive = FakeArchive()
        for day in (0, 1, 2, 4):
            period = containing(START + timedelta(days=day), Kind.DAY)
            mine = [event for event in held if event.time in period]
            self._period(period, LAYOUTS[day % 4], mine, archived=day == 1)
        self.reader = Reader(
            self.catalog, self.store, self.archive, unpacker(self.store, FakeValues()), SEAL, DDSketches(), Serial
        )

    def _period(self, period: Period, layout: Layout, mine: list[Event], *, archived: bool) -> None:
        table = f"tidetable-t.s.{period.label}"
        state = State.DELETED if archived else State.OPEN
        facts = ArchiveFacts(table, len(mine), 0, period.end) if archived else None
        self.catalog.add(Entry("s", period, table, layout, state, START, archive=facts))
        items = {layout.key_of(event): layout.item_of(event) for event in mine}
        if archived:
            self.archive.keep(table, layout, [layout.event_of(item) for item in items.values()])
        else:
            self.store.tables[table] = items

    def walk(self, limit: int, **parameters: str) -> list[Event]:
        found: list[Event] = []
        given = {name: [value] for name, value in parameters.items()}
        while True:
            answer = run_query(
                parse_query(STREAM, given | {"limit": [str(limit)]}, NOW, SEAL), STREAM, self.reader, NOW, lambda: 100.0
            )
            assert answer.count <= limit
            found += [event_of(one) for one in answer.document()["events"]]
            if answer.next is None:
                return found
            assert answer.count, "a page that is not the last holds something"
            given = {"cursor": [answer.next]}


def run(fixture: Fixture, **parameters: str):  # type: ignore[no-untyped-def]
    query = parse_query(STREAM, {name: [value] for name, value in parameters.items()}, NOW, SEAL)
    return run_query(query, STREAM, fixture.reader, NOW, lambda: 100.0)


def many(count: int) -> list[Event]:
    return [Event("a", START + timedelta(minutes=i), str(i), {}) for i in range(count)]
