"""A stream with packs by series on every engine: written in two requests and by the drain, read by every route."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws.sketches import DDSketches
from aws.zstd import Zstd
from tests.contract.conftest import ENGINES, build
from tests.contract.engines import Engine
from tests.fakes import SEAL, FakeArchive, FakeCatalog, FakeValues, unpacker
from tests.fakes.serial import Serial
from tidetable.batch import Batch
from tidetable.catalog import Entry, State
from tidetable.config import parse
from tidetable.events import Event
from tidetable.forms.choose import choose_form
from tidetable.periods import Kind, find_containing
from tidetable.ports import Put
from tidetable.query import Reader, parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.get import get_event
from tidetable.query.latest import find_latest
from tidetable.times import to_text

START = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
NOW = START + timedelta(hours=1)
STREAM = parse(
    """
    [streams.s]
    period = "day"
    late = "2h"
    retention = 9
    key = { partition_by = "time", bucket = "1h", shards = 3, shard_by = "series", shard_until = "/" }
    pack = { span = "1m" }
    """
).streams["s"]
SERIES = ["m1/a", "m1/b", "m2/a", "n#%"]
RANGE = {"from": [to_text(START)], "to": [to_text(NOW)], "consistent": ["true"]}


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    return build(request.param, request)


def event(second: float, series: str, v: int) -> Event:
    return Event(series, START + timedelta(seconds=second), f"{second}%", {"v": v})


def make_puts(table: str, events: Sequence[Event], at: int) -> list[Put]:
    form = choose_form(STREAM.layout)
    puts = form.make_puts(Batch.of(events, at), range(len(events)), table, Zstd(), lambda item: Put(table, item))
    return puts.puts


def write_history(engine: Engine) -> tuple[Reader, list[Event]]:
    """Write 40 events; half of them again in another batch, five with new data; and two that waited in the queue.

    One of the two has been accepted again meanwhile, and must not replace the newer state.
    """
    table = engine.create_table()
    first = [event(n * 7, SERIES[n % 4], n) for n in range(40)]
    again = first[10:30] + [event(n * 7, SERIES[n % 4], 100 + n) for n in range(5)]
    waited = [event(0, SERIES[0], -1), event(1000, SERIES[1], 7)]
    for at, events in ((10, first), (20, again)):
        assert engine.store.write(make_puts(table, events, at)).unwritten == []
    written = engine.store.write_each(make_puts(table, waited, 15), "newer")
    assert (written.unwritten, list(written.conflicts)) == ([], [])
    period = find_containing(START, Kind.DAY)
    catalog = FakeCatalog()
    catalog.add(Entry("s", period, table, STREAM.layout, State.OPEN, START))
    whole = unpacker(engine.store, FakeValues())
    reader = Reader(catalog, engine.store, FakeArchive(), whole, SEAL, DDSketches(), Serial)
    counting = [event(n * 7, SERIES[n % 4], 100 + n if n < 5 else n) for n in range(40)] + waited[1:]
    return reader, sorted(counting, key=lambda event: (event.time, event.series))


def show(events: Sequence[Event]) -> list[dict[str, Any]]:
    return [{"series": e.series, "time": to_text(e.time), "id": e.id, "data": e.data} for e in events]


def read(reader: Reader, **parameters: list[str]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    texts = RANGE | parameters | {"limit": ["9"]}
    while True:
        page = run_query(parse_query(STREAM, texts, NOW, SEAL), STREAM, reader, NOW, lambda: 100.0)
        rows += page.document()["events"]
        if page.next is None:
            return rows
        texts = {"cursor": [page.next], "limit": ["9"]}


def test_every_route_answers_what_counts(engine: Engine) -> None:
    reader, counting = write_history(engine)
    for parameters, series in (
        ({}, SERIES),
        ({"series": ["m1/b"]}, ["m1/b"]),
        ({"series": ["n#%", "m2/a"]}, ["n#%", "m2/a"]),
        ({"series:prefix": ["m1/"]}, ["m1/a", "m1/b"]),
    ):
        expected = show([event for event in counting if event.series in series])
        rows = read(reader, order=["asc"], **parameters)
        assert [{name: row[name] for name in expected[0]} for row in rows] == expected
        assert read(reader, order=["desc"], **parameters) == rows[::-1]
    for row in rows[:3]:
        assert get_event(STREAM, row["ref"], reader, {"consistent": ["true"]}) == row
    texts = RANGE | {"stat": ["count,sum"], "field": ["v"], "by": ["series"]}
    texts.pop("consistent")
    engine.clock.sleep(3.0)
    totals = find_aggregate(parse_aggregation(STREAM, texts, NOW, SEAL), STREAM, reader, NOW, lambda: 100.0).rows
    assert {row["group"]["series"]: (row["count"], row["sum"]) for row in totals} == {
        "m1/a": (10, 380), "m1/b": (11, 297), "m2/a": (10, 300), "n#%": (10, 310),
    }  # fmt: skip
    latest = find_latest(STREAM, {"series": ["m1/b", "n#%", "none"]}, reader, NOW, lambda: 100.0).document()["latest"]
    assert [row["event"] and row["event"]["id"] for row in latest] == ["1000%", "273%", None]
