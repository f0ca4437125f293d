"""Hours of a stream, each with its table, and the search for latest events in them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from aws.sketches import DDSketches
from aws.zstd import Zstd
from tests.fakes import SEAL, FakeArchive, FakeCatalog, FakeStore, FakeValues, unpacker
from tests.fakes.serial import Serial
from tests.worlds.packing import make_packs
from tidetable.catalog import Entry, State
from tidetable.config import Stream, parse
from tidetable.events import Event
from tidetable.layout import Key, Layout
from tidetable.periods import Kind, find_containing
from tidetable.query import Reader, find_latest

START = datetime(2026, 3, 1, tzinfo=UTC)
STREAM: Stream = parse(
    """
    [streams.s]
    period = "hour"
    late = "1h"
    retention = 2200
    key = { partition_by = "series" }
    """
).streams["s"]
PLAIN = Layout("series", 1, "id")


def make_reader(hours: int, *events: Event, layout: Layout = PLAIN) -> Reader:
    """A reader of as many hours from the start on."""
    catalog = FakeCatalog()
    store = FakeStore(catalog)
    for hour in range(hours):
        period = find_containing(START + timedelta(hours=hour), Kind.HOUR)
        table = f"tidetable-t.s.{period.label}"
        catalog.add(Entry("s", period, table, layout, State.OPEN, START))
        items = [layout.make_item(event, at=1) for event in events if event.time in period]
        if layout.pack is not None and items:
            items = [pack.item for pack in make_packs(items, layout, Zstd()).packs]
        store.tables[table] = {Key(item["pk"], item["sk"]): item for item in items}
    return Reader(catalog, store, FakeArchive(), unpacker(store, FakeValues()), SEAL, DDSketches(), Serial)


def ask(reader: Reader, hours: int, *names: str, remaining: Callable[[], float] = lambda: 100.0, **options: str) -> Any:
    parameters = {"series": list(names)} | {name: [value] for name, value in options.items()}
    return find_latest(STREAM, parameters, reader, START + timedelta(hours=hours, minutes=-30), remaining)


def list_stopped(document: Any) -> list[str]:
    return [row["series"] for row in document["latest"] if row.get("stopped")]
