"""A request whose time is up at any look at the clock: its answer is whole, or it says where it ended, or it is refused."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import pytest
from msgspec.structs import replace

from aws.sketches import DDSketches
from aws.zstd import Zstd
from tests.fakes import SEAL, FakeArchive, FakeCatalog, FakeStore, FakeValues, unpacker
from tests.fakes.serial import Serial
from tests.worlds.packing import make_packs
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import Stream, parse
from tidetable.events import Event
from tidetable.layout import Key
from tidetable.periods import Kind, find_containing
from tidetable.problems import ProblemError
from tidetable.query import Reader, find_latest, parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.rankings import find_top, parse_ranking

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = START + timedelta(days=4)
_STREAM = """
[streams.{name}]
period = "day"
late = "3d"
retention = 9
key = {key}
{more}
"""
_INDEXES = """index = [
  { name = "ranking", partition_by = "*", sort_by = "n" },
  { name = "places", partition_by = "*", sort_by = ["city", "street"] },
  { name = "kinds", partition_by = "kind" },
]"""
STREAMS = parse(
    _STREAM.format(name="timely", key='{ partition_by = "time", bucket = "6h", shards = 2 }', more=_INDEXES)
    + _STREAM.format(
        name="packed",
        key='{ partition_by = "time", bucket = "6h", shards = 2 }',
        more='pack = { span = "1m", max_bytes = 65536 }',
    )
    + _STREAM.format(name="serial", key='{ partition_by = "series", shards = 2 }', more="")
).streams
EVENTS = [
    Event(
        "abc"[n % 3],
        START + timedelta(minutes=37 * n),
        f"e{n:03d}",
        {"n": n, "kind": "xy"[n % 2], "city": "pq"[n % 2], "street": f"s{n % 4}"},
    )
    for n in range(150)
]
ALL = {"from": ["2026-03-01"], "to": ["2026-03-05"]}


@cache
def make_reader(name: str) -> Reader:
    """A reader of four days, the first of which is archived. Queries change nothing in it."""
    stream = STREAMS[name]
    catalog, archive = FakeCatalog(), FakeArchive()
    store, layout = FakeStore(catalog), stream.layout
    for day in range(4):
        period = find_containing(START + timedelta(days=day), Kind.DAY)
        table = f"tidetable-t.{stream.name}.{period.label}"
        events = [event for event in EVENTS if event.time in period]
        facts = ArchiveFacts(table, len(events), 0, NOW) if day == 0 else None
        catalog.add(
            Entry(stream.name, period, table, layout, State.ARCHIVED if facts else State.OPEN, START, archive=facts)
        )
        if facts:
            archive.keep(table, layout, events)
            continue
        items = [layout.make_item(event, at=1) for event in events]
        if layout.pack is not None:
            items = [pack.item for pack in make_packs(items, layout, Zstd()).packs]
        store.tables[table] = {Key(item["pk"], item["sk"]): item for item in items}
    return Reader(catalog, store, archive, unpacker(store, FakeValues()), SEAL, DDSketches(), Serial)


def read_code(error: ProblemError) -> tuple[int, str]:
    return error.problem.status, error.problem.code


class Countdown:
    """Enough time for so many looks, and then too little for another read: then ``late`` counts further reads."""

    def __init__(self, looks: int) -> None:
        self.looks = looks
        self.used = self.late = 0

    def __call__(self) -> float:
        self.used += 1
        return 100.0 if self.used <= self.looks else 2.9

    def watch(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that reads, and counts the read if it is late."""

        def count_and_read(*arguments: Any, **options: Any) -> Any:
            self.late += self.used > self.looks
            return read(*arguments, **options)

        return count_and_read


class Watched:
    """A port whose reads of ranges are counted by a clock."""

    def __init__(self, port: Any, clock: Countdown, *names: str) -> None:
        self._port = port
        self._reads = {name: clock.watch(getattr(port, name)) for name in names}

    def __getattr__(self, name: str) -> Any:
        return self._reads.get(name) or getattr(self._port, name)


def ask_route(route: str, stream: Stream, parameters: Any, remaining: Countdown) -> Any:
    """Ask a route, and return the body of its answer. No range is read after the time was up."""
    made = make_reader(stream.name)
    store: Any = Watched(made.store, remaining, "query_many")
    archive: Any = Watched(made.archive, remaining, "read")
    try:
        return ask_reader(route, stream, parameters, remaining, replace(made, store=store, archive=archive))
    finally:
        assert remaining.late == 0


def ask_reader(route: str, stream: Stream, parameters: Any, remaining: Countdown, reader: Reader) -> Any:
    if route == "latest":
        return find_latest(stream, parameters, reader, NOW, remaining).document()
    parsers: dict[str, Any] = {
        "events": (parse_query, run_query),
        "top": (parse_ranking, find_top),
        "aggregate": (parse_aggregation, find_aggregate),
    }
    parse_route, run = parsers[route]
    query = parse_route(stream, parameters, NOW, SEAL)
    return run(query, stream, reader, NOW, remaining).document()


WHOLE_ANSWERS = [
    ("aggregate", "timely", {"stat": ["count,max"], "field": ["n"]}),
    ("aggregate", "packed", {"by": ["series"]}),
    ("aggregate", "serial", {"series": ["a", "b"]}),
    ("aggregate", "timely", {"step": ["6h"], "by": ["kind"], "top": ["1"]}),
]


@pytest.mark.parametrize(("route", "stream", "parameters"), WHOLE_ANSWERS)
def test_an_answer_that_needs_its_whole_range_is_whole_or_refused(
    route: str, stream: str, parameters: dict[str, list[str]]
) -> None:
    policy, asked = STREAMS[stream], ALL | parameters
    clock = Countdown(10_000)
    expected = ask_route(route, policy, asked, clock)
    assert clock.used >= 2, "the clock is looked at between reads"
    codes: set[tuple[int, str]] = set()
    for looks in range(clock.used + 1):
        try:
            answer = ask_route(route, policy, asked, Countdown(looks))
        except ProblemError as error:
            codes.add(read_code(error))
        else:
            assert answer == expected
    assert codes == {(422, "too_much")}


PAGES = [
    ("aggregate", "timely", {"step": ["6h"], "stat": ["count,max"], "field": ["n"]}),
    ("aggregate", "packed", {"step": ["3h"], "by": ["series"]}),
    ("aggregate", "serial", {"series": ["a", "b"], "step": ["24h"]}),
    ("events", "timely", {}),
    ("events", "timely", {"order": ["asc"]}),
    ("events", "timely", {"where.kind": ["x"]}),
    ("events", "timely", {"where.city": ["p"], "where.street": ["s2"]}),
    ("events", "packed", {}),
    ("events", "packed", {"order": ["asc"], "where.kind": ["y"]}),
    ("events", "serial", {"series": ["a", "c"]}),
    ("top", "timely", {"index": ["ranking"], "limit": ["7"]}),
]


@pytest.mark.parametrize(("route", "stream", "parameters"), PAGES)
def test_pages_that_end_early_say_where_to_go_on_and_lose_no_event(
    route: str, stream: str, parameters: dict[str, list[str]]
) -> None:
    policy, asked = STREAMS[stream], ALL | {"limit": ["40"]} | parameters
    rows = {"events": "events", "top": "top", "aggregate": "aggregates"}[route]

    def walk(looks: int) -> tuple[list[Any], int]:
        """The rows of all pages, of which each has so many looks, and the most looks of a page."""
        read: list[Any] = []
        request, most = asked, 0
        for _ in range(500):
            clock = Countdown(looks)
            page = ask_route(route, policy, request, clock)
            read += [row.get("id", row) for row in page[rows]]
            most = max(most, clock.used)
            if page["next"] is None:
                return read, most
            request = {"cursor": [page["next"]]}
        raise AssertionError("the pages have no end")

    expected, most = walk(10_000)
    assert len(expected) >= 4
    codes: set[tuple[int, str]] = set()
    for looks in range(min(most, 5) + 1):
        try:
            read, _ = walk(looks)
        except ProblemError as error:
            codes.add(read_code(error))
        else:
            assert read == expected
    assert codes <= {(422, "too_much")}


def test_the_latest_events_are_right_or_marked_or_an_error() -> None:
    policy, asked = STREAMS["serial"], {"series": ["a", "b", "nobody"]}
    clock = Countdown(10_000)
    expected = ask_route("latest", policy, asked, clock)
    with pytest.raises(ProblemError, match="503 unavailable"):
        ask_route("latest", policy, asked, Countdown(0))
    for looks in range(1, clock.used + 1):
        answer = ask_route("latest", policy, asked, Countdown(looks))
        for row, whole in zip(answer["latest"], expected["latest"], strict=True):
            assert row == whole or (row["event"] is None and row["stopped"])
