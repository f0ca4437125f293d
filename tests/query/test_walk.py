"""A walk to the end gives every event exactly once, in order, across all kinds of periods."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.fakes import SEAL
from tests.fakes.serial import Silent
from tests.query.positions import find_position
from tests.worlds.days import LAYOUTS, NOW, START, STREAM, Days, Fixture, many, run
from tidetable.errors import ArchiveBusy
from tidetable.events import Event
from tidetable.periods import Kind, find_containing
from tidetable.query import parse_query, run_query

# The values of events, as a query writes them.
KINDS = {"x": "x", "y#": "y#", "True": "true", "1.50": "1.5"}
SERIES = ["a", "a!", "b#1", "ü%"]

# Few distinct times, so that series and id often decide the order.
events = st.builds(
    Event,
    series=st.sampled_from(SERIES),
    time=st.integers(0, 119).map(lambda hours: START + timedelta(hours=hours)),
    id=st.sampled_from(["1", "2", "#", "%23"]),
    data=st.sampled_from(
        [{}, {"kind": "x"}, {"kind": "y#"}, {"kind": True}, {"kind": Decimal("1.50")}, {"kind": ["x"]}]
    ),
)


def expected(
    events: list[Event], start: datetime, end: datetime, series: str | None, order: str, kind: str | None = None
) -> list[Event]:
    gap = find_containing(START + timedelta(days=3), Kind.DAY)
    kept = {
        find_position(event): event
        for event in events
        if start <= event.time < end
        and event.time not in gap
        and series in (None, event.series)
        and kind in (None, KINDS.get(str(event.data.get("kind"))))
    }
    return [kept[key] for key in sorted(kept, reverse=order == "desc")]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(events, max_size=60),
    st.integers(0, 119),
    st.integers(1, 130),
    st.sampled_from([None, *SERIES]),
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 20),
    st.sampled_from([None, *KINDS.values()]),
)
def test_walking_a_cursor_gives_every_event_once_and_in_order(
    stored: list[Event], first: int, hours: int, series: str | None, order: str, limit: int, kind: str | None
) -> None:
    start, end = START + timedelta(hours=first), START + timedelta(hours=first + hours)
    parameters = {"from": start.isoformat(), "to": end.isoformat(), "order": order}
    if series is not None:
        parameters["series"] = series
    if kind is not None:
        parameters["where.kind"] = kind
    # Among equal keys the last event counts, whatever its kind.
    last = list({(event.time, event.series, event.id): event for event in stored}.values())
    assert Fixture(stored).walk(limit, **parameters) == expected(last, start, end, series, order, kind)


def test_events_that_arrive_while_a_cursor_is_walked_neither_repeat_nor_hide_others() -> None:
    fixture = Fixture(many(50))
    page = run(fixture, **{"from": START.isoformat(), "to": NOW.isoformat(), "order": "asc", "limit": "20"})
    layout, table = LAYOUTS[0], "tidetable-t.s.2026-03-01"
    for event in (Event("a", START, "early", {}), Event("a", START + timedelta(minutes=40), "later", {})):
        fixture.store.tables[table][layout.make_key(event)] = layout.make_item(event)
    rest = fixture.walk(20, cursor=page.next)
    assert [event.id for event in rest] == [*map(str, range(20, 41)), "later", *map(str, range(41, 50))]


def test_a_page_does_not_read_the_whole_range() -> None:
    fixture = Fixture(many(1400))
    page = run(fixture, **{"from": START.isoformat(), "to": NOW.isoformat(), "order": "asc", "limit": "100"})
    assert page.count == 100
    assert fixture.store.items_read < 300


def test_what_has_no_table_is_a_gap_and_not_an_error() -> None:
    fixture = Fixture(many(10))
    del fixture.store.tables["tidetable-t.s.2026-03-03"]
    page = run(fixture, **{"from": START.isoformat(), "to": NOW.isoformat()})
    assert [(gap.start.day, gap.reason) for gap in page.gaps] == [(3, "table missing"), (4, "no table")]
    assert page.count == 10
    # A gap is not longer than the range.
    page = run(fixture, **{"from": "2026-03-03T10:00:00Z", "to": "2026-03-03T10:02:00Z"})
    (gap,) = page.gaps
    assert (gap.start.isoformat(), gap.end.isoformat()) == ("2026-03-03T10:00:00+00:00", "2026-03-03T10:02:00+00:00")


@pytest.mark.parametrize("limit", [1, 7, 50])
def test_a_page_that_is_not_the_last_has_as_many_events_as_were_queried(limit: int) -> None:
    page = run(Fixture(many(51)), **{"from": START.isoformat(), "to": NOW.isoformat(), "limit": str(limit)})
    assert (page.count, page.next is None) == (limit, False)
    by_rows = run(
        Fixture(many(51)), **{"from": START.isoformat(), "to": NOW.isoformat(), "limit": str(limit), "fields": "n"}
    )
    assert (by_rows.count, by_rows.next is None) == (limit, False)


def test_when_the_time_is_up_the_answer_is_a_cursor_that_goes_on() -> None:
    fixture = Fixture(many(1400))
    query = parse_query(STREAM, {"from": [START.isoformat()], "limit": ["1000"]}, NOW, SEAL)
    first = run_query(query, STREAM, fixture.reader, NOW, lambda: 0.0)
    assert first.next is not None
    assert first.count + len(fixture.walk(1000, cursor=first.next)) == 1400


def test_plain_events_beside_a_large_one_are_shown_whole() -> None:
    """The large event's page is read as items, the pages of the other suffixes as text."""
    events = [Event("a", START + timedelta(minutes=n), str(n), {"n": n}) for n in range(40)]
    fixture = Fixture(events)
    table = next(iter(fixture.store.tables.values()))
    key = next(iter(table))
    table[key] = {**table[key], "note": "another attribute"}
    rows = fixture.walk(30, **{"from": START.isoformat(), "to": (START + timedelta(days=1)).isoformat()})
    assert sorted(event.data["n"] for event in rows) == list(range(40))


@pytest.mark.parametrize(("order", "before"), [("asc", ["1", "2"]), ("desc", ["50"])])
def test_an_archive_that_does_not_answer_in_time_ends_the_page_before_it(order: str, before: list[str]) -> None:
    """The page holds the events that were read before it."""
    fixture = Fixture([Event("a", START + timedelta(hours=n), str(n), {}) for n in (1, 2, 30, 50)])
    fixture.reader.pools = Silent
    parameters = {"from": [START.isoformat()], "to": [(START + timedelta(hours=60)).isoformat()], "order": [order]}
    answer = run_query(parse_query(STREAM, parameters, NOW, SEAL), STREAM, fixture.reader, NOW, lambda: 100.0)
    shown = [event["id"] for event in answer.document()["events"]]
    assert answer.next is not None
    assert shown == before


def test_an_archive_that_is_the_first_and_does_not_answer_is_said_to_be_slow() -> None:
    """The page would be empty, so the caller must repeat the request."""
    fixture = Fixture([Event("a", START + timedelta(hours=30), "30", {})])
    fixture.reader.pools = Silent
    parameters = {
        "from": [(START + timedelta(hours=25)).isoformat()],
        "to": [(START + timedelta(hours=47)).isoformat()],
    }
    query = parse_query(STREAM, parameters, NOW, SEAL)
    with pytest.raises(ArchiveBusy, match="slow"):
        run_query(query, STREAM, fixture.reader, NOW, lambda: 100.0)


def test_a_page_without_any_time_has_the_events_of_its_first_table() -> None:
    """Or a caller would follow cursors for ever."""
    fixture = Fixture(many(30))
    parameters = {"from": [START.isoformat()], "to": [(START + timedelta(days=3)).isoformat()], "order": ["asc"]}
    answer = run_query(parse_query(STREAM, parameters, NOW, SEAL), STREAM, fixture.reader, NOW, lambda: 0.0)
    assert answer.count == 30


def test_each_page_of_an_archive_is_a_request_and_its_events_are_read() -> None:
    fixture = Fixture([Event("a", START + timedelta(hours=24, minutes=n), str(n), {}) for n in range(8)])
    parameters = {"from": (START + timedelta(days=1)).isoformat(), "to": (START + timedelta(days=2)).isoformat()}
    # The archive on fakes answers seven events at a time.
    cost = run(fixture, **parameters).cost
    assert (cost.requests, cost.read) == (2, 8)
    # Also those that meet no condition, for which one page suffices.
    cost = run(fixture, **parameters, **{"where.kind": "x"}).cost
    assert (cost.requests, cost.read) == (1, 8)


def test_a_table_that_is_not_there_is_looked_up_once_more_consistently() -> None:
    """The catalog's entry was a second old: meanwhile the day had been archived, and its events are read from there."""
    fixture, day = Fixture(many(10)), find_containing(START, Kind.DAY)
    stale = fixture.catalog.entries("s")
    other = Days()
    other.add_archive(day, LAYOUTS[0], many(10))
    (archived,) = other.catalog.entries("s")
    whole = {"from": START.isoformat(), "to": (START + timedelta(days=1)).isoformat(), "order": "asc"}

    class Archived(type(fixture.catalog)):  # type: ignore[misc]
        def entries(self, *range: Any, consistent: bool = False) -> Any:
            return [archived] if consistent else [entry for entry in stale if entry.period == day]

    del fixture.store.tables["tidetable-t.s.2026-03-01"]
    reader = replace(fixture.reader, catalog=Archived(), archive=other.archive)
    query = parse_query(STREAM, {name: [value] for name, value in whole.items()}, NOW, SEAL)
    page = run_query(query, STREAM, reader, NOW, lambda: 100.0)
    assert ([event["id"] for event in page.document()["events"]], page.gaps) == ([str(n) for n in range(10)], [])
