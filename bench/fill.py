"""Period tables of synthetic events on DynamoDB Local, for the benchmark of queries."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import wiring
from aws.dynamodb.catalog import LeanCatalog
from aws.zstd import Zstd
from tests.worlds.packing import make_packs
from tidetable.catalog import Entry, State
from tidetable.config import Stream, TableClass
from tidetable.events import Event
from tidetable.names import name_table
from tidetable.periods import find_containing
from tidetable.ports import Put, TableSpec

# The number of events that are packed together, as if they came in one request.
PER_REQUEST = 500
DAY = datetime(2026, 3, 1, tzinfo=UTC)


def fill_tables(stream: Stream, days: int, events: int, text: int = 0, *, scores: bool = False) -> list[Entry]:
    """Make one period table of a stream per day, with ``events`` events in all; return the tables' entries."""
    chance = random.Random(1)  # noqa: S311 - made-up data
    entries = []
    tables = wiring.get_pipeline().table_reader
    catalog = LeanCatalog(wiring.get_pipeline().dynamodb, "bench-catalog")
    for day in range(days):
        period = find_containing(DAY + timedelta(days=day), stream.period)
        table = name_table("bench", stream.name, period)
        tables.create(TableSpec(table, None, None, TableClass.STANDARD, {}, stream.layout.indexes))
        entry = Entry(stream.name, period, table, stream.layout, State.OPEN, DAY)
        catalog.add(entry)
        entries.append(entry)
        each = events // days
        puts = [
            Put(
                table,
                stream.layout.make_item(
                    Event(
                        f"station-{number % 40}",
                        period.start + timedelta(seconds=number),
                        f"event-{day}-{number:06d}",
                        {
                            "mag": Decimal("1.25"),
                            "place": "10 km NE of Somewhere, California" + "x" * text,
                            "status": "reviewed",
                            "depth": Decimal("4.2"),
                            **({"score": chance.randrange(10**6)} if scores else {}),
                        },
                    ),
                    at=1,
                ),
            )
            for number in range(each)
        ]
        if stream.pack is not None:
            items = [put.item for put in puts]
            requests = [items[start : start + PER_REQUEST] for start in range(0, each, PER_REQUEST)]
            puts = [
                Put(table, pack.item)
                for request in requests
                for pack in make_packs(request, stream.layout, Zstd()).packs
            ]
        for start in range(0, len(puts), 1000):
            unwritten = wiring.get_pipeline().store.write(puts[start : start + 1000]).unwritten
            if unwritten:
                raise RuntimeError(f"{len(unwritten)} events could not be written")
    return entries
