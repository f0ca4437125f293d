"""The latest event of each series, compared with the stored events."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.sketches import DDSketches
from tests.fakes import SEAL, FakeArchive, FakeCatalog, FakeStore, FakeValues, unpacker
from tests.fakes.serial import Serial
from tests.query.positions import find_position
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import Stream, parse
from tidetable.events import Event
from tidetable.layout import Key, Layout
from tidetable.periods import Kind, find_containing
from tidetable.problems import ProblemError
from tidetable.query import Reader, find_latest
from tidetable.versions.writing import make_first_version

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = START + timedelta(days=4)
STREAMS = parse(
    """
    [streams.s]
    period = "day"
    late = "3d"
    retention = 9
    key = { partition_by = "series", shards = 3 }
    [streams.timely]
    period = "day"
    late = "3d"
    retention = 9
    key = { partition_by = "time", bucket = "6h" }
    """
).streams
STREAM: Stream = STREAMS["s"]
LAYOUTS = [Layout("series", 3, "id"), Layout("series", 1, "id"), Layout("series", 2, "id", versioned=True)]

events = st.builds(
    Event,
    series=st.sampled_from(["a", "b#", "c%"]),
    time=st.integers(0, 95).map(lambda hours: START + timedelta(hours=hours)),
    id=st.integers(0, 20).map(str),
    data=st.just({}),
)


def reader_of(events: list[Event], *, archived: int | None = None) -> Reader:
    """A reader of four days, each with its own layout; one may be archived."""
    catalog = FakeCatalog()
    store = FakeStore(catalog)
    for day in range(4):
        period = find_containing(START + timedelta(days=day), Kind.DAY)
        table, layout = f"tidetable-t.s.{period.label}", LAYOUTS[day % 3]
        facts = ArchiveFacts(table, 0, 0, NOW) if day == archived else None
        state = State.ARCHIVED if day == archived else State.OPEN
        catalog.add(Entry("s", period, table, layout, state, START, archive=facts))
        items = [layout.make_item(event, at=1) for event in events if event.time in period]
        items = [make_first_version(item, {}) if layout.versioned else item for item in items]
        store.tables[table] = {Key(item["pk"], item["sk"]): item for item in items}
    return Reader(catalog, store, FakeArchive(), unpacker(store, FakeValues()), SEAL, DDSketches(), Serial)


@settings(max_examples=100, deadline=None)
@given(st.lists(events, max_size=30))
def test_the_latest_is_the_last_in_the_order_of_answers(stored: list[Event]) -> None:
    names = ["c%", "a", "nobody", "b#"]
    latest = find_latest(STREAM, {"series": names}, reader_of(stored), NOW, lambda: 100.0).document()["latest"]
    for name, row in zip(names, latest, strict=True):
        mine = sorted((event for event in stored if event.series == name), key=find_position)
        assert row["series"] == name
        assert (row["event"]["id"] if row["event"] else None) == (mine[-1].id if mine else None)


def test_the_search_ends_where_each_series_has_one_and_before_archives() -> None:
    events = [
        Event("a", START + timedelta(days=3, hours=1), "new", {}),
        Event("b", START + timedelta(hours=1), "old", {}),
    ]
    latest = find_latest(STREAM, {"series": ["a"]}, reader_of(events), NOW, lambda: 100.0)
    assert (latest.searched, latest.cost.requests) == (START + timedelta(days=3), 3), (
        "one table, an item of each suffix"
    )
    latest = find_latest(STREAM, {"series": ["b"]}, reader_of(events, archived=1), NOW, lambda: 100.0)
    assert latest.searched == START + timedelta(days=2)
    assert latest.document()["latest"] == [{"series": "b", "event": None}]


def test_of_each_suffix_one_event_is_read() -> None:
    """The last day's table has three suffixes, each of which has several of these events."""
    events = [Event("a", START + timedelta(days=3, minutes=number), str(number), {}) for number in range(21)]
    latest = find_latest(STREAM, {"series": ["a"]}, reader_of(events), NOW, lambda: 100.0)
    assert (latest.cost.requests, latest.cost.read) == (3, 3)
    assert latest.events["a"]["id"] == "20"


@pytest.mark.parametrize(
    ("stream", "parameters", "code"),
    [
        ("s", {}, "bad_parameter"),
        ("s", {"series": [""]}, "bad_parameter"),
        ("s", {"series": [str(n) for n in range(101)]}, "bad_parameter"),
        ("s", {"series": ["a", "é" * 240 + "e"]}, "bad_parameter"),
        ("s", {"series": ["a"], "limit": ["3"]}, "unknown_parameter"),
        ("timely", {"series": ["a"]}, "needs_series"),
    ],
)
def test_a_refusal_says_what_to_change(stream: str, parameters: dict[str, list[str]], code: str) -> None:
    with pytest.raises(ProblemError) as refused:
        find_latest(STREAMS[stream], parameters, reader_of([]), NOW, lambda: 100.0)
    assert refused.value.problem.code == code


def test_a_series_has_up_to_480_bytes_and_a_request_up_to_100_series() -> None:
    names = ["é" * 240, *map(str, range(99))]
    found = find_latest(STREAM, {"series": names}, reader_of([]), NOW, lambda: 100.0).document()["latest"]
    assert found == [{"series": name, "event": None} for name in names]


def one_table(layout: Layout, day: float, *events: Event) -> tuple[Entry, list[Event]]:
    """The entry of the day that begins ``day`` days after the first, with these events."""
    period = find_containing(START + timedelta(days=day), Kind.DAY)
    return Entry("s", period, f"tidetable-t.s.{period.label}", layout, State.OPEN, START), list(events)


def reader_of_tables(*tables: tuple[Entry, list[Event]]) -> Reader:
    catalog = FakeCatalog()
    store = FakeStore(catalog)
    for entry, events in tables:
        catalog.add(entry)
        items = [entry.layout.make_item(event, at=1) for event in events]
        store.tables[entry.table] = {Key(item["pk"], item["sk"]): item for item in items}
    return Reader(catalog, store, FakeArchive(), unpacker(store, FakeValues()), SEAL, DDSketches(), Serial)


def test_an_event_of_a_sender_whose_clock_is_ahead_is_the_latest_in_the_period_that_begins_next() -> None:
    """Events of up to five minutes ahead are accepted, also after midnight."""
    ahead = Event("a", START + timedelta(days=1, minutes=3), "ahead", {})
    reader = reader_of_tables(one_table(LAYOUTS[1], 0, Event("a", START, "old", {})), one_table(LAYOUTS[1], 1, ahead))
    now = START + timedelta(days=1) - timedelta(minutes=1)
    latest = find_latest(STREAM, {"series": ["a"]}, reader, now, lambda: 100.0).document()["latest"]
    assert latest[0]["event"]["id"] == "ahead"


def test_the_search_ends_when_the_time_is_up_and_says_how_far_it_came() -> None:
    """Three seconds are kept for the answer."""
    events = [Event("a", START + timedelta(hours=1), "old", {})]
    time = iter([100.0, 3.0, 2.9])
    latest = find_latest(STREAM, {"series": ["a"]}, reader_of(events), NOW, lambda: next(time))
    assert latest.document() == {
        "latest": [{"series": "a", "event": None, "stopped": True}],
        "searched_back_to": "2026-03-03T00:00:00.000000Z",
    }


def test_tables_that_are_kept_beyond_retention_are_searched_after_the_others() -> None:
    """Retention is nine days."""
    old = one_table(LAYOUTS[1], 0, Event("a", START, "old", {}))
    new = one_table(LAYOUTS[1], 20, Event("b", START + timedelta(days=20), "new", {}))
    now = START + timedelta(days=20, hours=1)
    reader = reader_of_tables(old, one_table(LAYOUTS[1], 19), new)
    catalog = reader.catalog
    assert isinstance(catalog, FakeCatalog)
    latest = find_latest(STREAM, {"series": ["b"]}, reader, now, lambda: 100.0)
    assert list(latest.events) == ["b"]
    assert len(catalog.reads) == 1
    latest = find_latest(STREAM, {"series": ["a", "b"]}, reader, now, lambda: 100.0)
    assert [row["event"]["id"] for row in latest.document()["latest"]] == ["old", "new"]
    assert latest.document()["searched_back_to"] == "2026-03-01T00:00:00.000000Z"
    assert latest.cost.requests == 4, "of two series in the newest table, of one in the others"


def test_the_search_ends_before_a_table_that_is_partitioned_by_time() -> None:
    """The table is older than the present configuration; a search for a series in it would need a scan."""
    event = Event("a", START + timedelta(hours=1), "1", {})
    timely = one_table(Layout("time", 1, "id", 21_600), 1, Event("a", START + timedelta(days=1), "2", {}))
    reader = reader_of_tables(one_table(LAYOUTS[1], 0, event), timely, one_table(LAYOUTS[1], 2))
    document = find_latest(STREAM, {"series": ["a"]}, reader, START + timedelta(days=2), lambda: 100.0).document()
    assert document == {
        "latest": [{"series": "a", "event": None}],
        "searched_back_to": "2026-03-03T00:00:00.000000Z",
    }


def test_events_that_no_answer_holds_are_refused_and_fields_of_them_are_not() -> None:
    text = "x" * 390_000
    events = [Event(f"s{n}", START, "1", {"text": text, "n": n}) for n in range(13)]
    reader = reader_of_tables(one_table(LAYOUTS[1], 0, *events))
    names = [event.series for event in events]
    with pytest.raises(ProblemError, match=r"422 too_much: .*ask for fewer series or fields"):
        find_latest(STREAM, {"series": names}, reader, START, lambda: 100.0)
    assert len(find_latest(STREAM, {"series": names[:12]}, reader, START, lambda: 100.0).events) == 12
    assert len(find_latest(STREAM, {"series": names, "fields": ["n"]}, reader, START, lambda: 100.0).events) == 13
