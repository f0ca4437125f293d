"""Where a page of events ends when the time is up: its cursor must not be the place of an event of another series."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.query.stored_events import DAYS, NOW, START, TIMELY, StoredEvents
from tidetable.conditions import ANY, NameConditions
from tidetable.events import Event
from tidetable.query import parse_query, run_query
from tidetable.query.events import find_stop
from tidetable.query.model import Position, Query
from tidetable.query.page import EventsPage
from tidetable.query.rows import Row, Rows
from tidetable.times import to_text

NOON = datetime(2026, 3, 2, 12, tzinfo=UTC)
MINE = NameConditions(series_prefix="a/")
LAYOUT = StoredEvents(TIMELY, [], [TIMELY.layout] * DAYS).reader.catalog.entries("s")[1]


def at(seconds: float) -> datetime:
    return NOON + timedelta(seconds=seconds)


def fill_page(*shown: Position) -> EventsPage:
    page = EventsPage(100)
    for position in shown:
        event = Event(position.series, position.time, position.id, {})
        item = LAYOUT.layout.make_item(event, at=0)
        page.take(Rows.of_rows([Row(LAYOUT, item, parse_query(TIMELY, {}, NOW, SEAL).projection)], LAYOUT))
    return page


def find(
    ascending: bool,
    reached: Position | None,
    *shown: Position,
    names: NameConditions = MINE,
    after: Position | None = None,
) -> Position | None:
    query = Query("s", at(-3600), at(3600), names, ascending, 100, after)
    return find_stop(query, fill_page(*shown), reached)


# Order, the position that was read last, the position of the last event of the page, and where the next page begins.
STOPS: list[tuple[bool, Position, list[Position], Position]] = [
    (True, Position(at(7.25), "b/74", "visit"), [], Position(at(7))),
    (True, Position(at(7.25), "a/1", "mine"), [], Position(at(7))),
    (True, Position(at(7), "b/74", "visit"), [], Position(at(7))),
    (True, Position(at(7.25)), [], Position(at(7))),
    (True, Position(at(7.25), "b/74", "visit"), [Position(at(6), "a/1", "1")], Position(at(7))),
    (True, Position(at(7.25), "b/74", "visit"), [Position(at(7.125), "a/1", "1")], Position(at(7.125), "a/1", "1")),
    (
        True,
        Position(at(7.25), "b/74", "visit"),
        [Position(at(7.25), "a/1", "1")],
        Position(at(7.25), "a/1", "1"),
    ),
    (False, Position(at(7.25), "b/74", "visit"), [], Position(at(8))),
    (False, Position(at(7), "b/74", "visit"), [], Position(at(8))),
    (False, Position(at(7)), [], Position(at(7))),
    (False, Position(at(7.25)), [], Position(at(8))),
    (
        False,
        Position(at(7.25), "b/74", "visit"),
        [Position(at(7.5), "a/1", "1")],
        Position(at(7.5), "a/1", "1"),
    ),
    (
        False,
        Position(at(7.25), "a/1", "0"),
        [Position(at(7.25), "a/1", "1")],
        Position(at(7.25), "a/1", "1"),
    ),
]


@pytest.mark.parametrize(("ascending", "reached", "shown", "stop"), STOPS, ids=str)
def test_a_page_goes_back_to_a_place_that_names_nothing_foreign(
    ascending: bool, reached: Position, shown: list[Position], stop: Position
) -> None:
    assert find(ascending, reached, *shown) == stop


@pytest.mark.parametrize("ascending", [True, False])
def test_a_page_without_events_goes_back_to_a_time_without_names_if_a_second_is_too_far(ascending: bool) -> None:
    before, reached = Position(at(7.1), "b/1", "1"), Position(at(7.2), "b/2", "1")
    if not ascending:
        before, reached = reached, before
    assert find(ascending, reached, after=before) == Position(at(7.2 if ascending else 7.100001))


def test_a_page_of_all_series_ends_exactly_where_reading_ended() -> None:
    reached = Position(at(7.25), "b/74", "visit")
    assert find(True, reached, names=ANY) == find(False, reached, names=ANY) == reached
    assert find(True, None) is None


@pytest.mark.parametrize("ascending", [True, False])
def test_a_walk_advances_even_if_it_has_no_time_to_leave_one_instant(ascending: bool) -> None:
    """A thousand devices may send at the same instant. The cursor is sealed, so it may hold the place itself."""
    before, reached = Position(at(7), "b/1", "1"), Position(at(7), "b/2", "1")
    if not ascending:
        before, reached = reached, before
    assert find(ascending, reached, after=before) == reached


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("pace", [0, 1, 2])
def test_pages_that_end_early_have_each_event_once(order: str, pace: int) -> None:
    """Two of five events in a second are the caller's. Each page has time for a few reads."""
    start = START + timedelta(days=1)
    events = [
        Event(("a/1", "b/1", "b/2", "a/2", "b/3")[n % 5], start + timedelta(milliseconds=200 * n), str(n), {})
        for n in range(400)
    ]
    base = StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)
    span = {"from": [to_text(start)], "to": [to_text(start + timedelta(minutes=2))]}
    parameters: Any = span | {"series:prefix": ["a/"], "order": [order], "limit": ["30"]}
    shown, early = list[str](), 0
    while True:
        left = iter([10.0] * pace)
        query = parse_query(TIMELY, parameters, NOW, SEAL)
        answer = run_query(query, TIMELY, base.reader, NOW, lambda left=left: next(left, 0.0))  # type: ignore[misc]
        shown += [event["id"] for event in answer.document()["events"]]
        if answer.next is None:
            break
        following = SEAL.open(answer.next, Query).after
        assert following is not None
        assert following.series in ("", "a/1", "a/2")
        early += answer.count < 30
        parameters = {"cursor": [answer.next], "limit": ["30"]}
    wanted = [str(n) for n in range(400) if n % 5 in (0, 3)]
    assert shown == (wanted if order == "asc" else wanted[::-1])
    assert early > 1
