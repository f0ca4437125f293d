"""Indexes that hold an event twice for a moment: under its old value and under its new value."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.query.stored_events import BY_TIME, DAYS, NOW, START, TIMELY, StoredEvents, stream
from tidetable.config import Stream
from tidetable.events import Event
from tidetable.layout import Key
from tidetable.query import parse_query, run_query
from tidetable.query.rankings import find_top, parse_ranking
from tidetable.times import to_text

SPAN = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=DAYS))]}


def store_moved(before: dict[str, Any], after: dict[str, Any], policy: Stream = TIMELY) -> StoredEvents:
    """Store an event with other data before and after it; the index still has its entry of the data ``before``."""
    times = [START + timedelta(days=1, seconds=second) for second in range(3)]
    events = [Event("a", time, f"e{number}", after) for number, time in enumerate(times)]
    base = StoredEvents(policy, events, [policy.layout] * DAYS)
    item = policy.layout.make_item(Event("a", times[1], "e1", before))
    base.store.tables["tidetable-t.s.2026-03-02"][Key("old entry", item["sk"])] = item
    return base


@pytest.mark.parametrize("states", ["CA,NV", "NV,CA"])
def test_an_event_under_two_values_is_shown_once_with_its_data_from_the_table(states: str) -> None:
    base = store_moved({"place": {"state": "CA"}, "n": 1}, {"place": {"state": "NV"}, "n": 2})
    query = parse_query(TIMELY, {**SPAN, "where.place.state:in": [states]}, NOW, SEAL)
    events = run_query(query, TIMELY, base.reader, NOW, lambda: 100.0).document()["events"]
    assert [(event["id"], event["data"]["n"]) for event in events] == [("e2", 2), ("e1", 2), ("e0", 2)]


@pytest.mark.parametrize("kinds", ["x,y", "y,x"])
def test_an_event_under_two_values_is_not_lost_between_pages_if_the_index_lacks_its_data(kinds: str) -> None:
    """A page that has room for one of the two entries ends for lack of time. The table tells which entry is present."""
    policy = stream(BY_TIME, '\n[[streams.s.index]]\nname = "by_kind"\npartition_by = "kind"\nproject = "keys"\n')
    base = store_moved({"kind": "x", "n": 1}, {"kind": "y", "n": 2}, policy)
    parameters, shown = {**SPAN, "where.kind:in": [kinds], "limit": ["1"]}, list[tuple[str, int]]()
    following: str | None = None
    while following is not None or not shown:
        cursor = {} if following is None else {"cursor": [following]}
        query = parse_query(policy, parameters | cursor, NOW, SEAL)
        page = run_query(query, policy, base.reader, NOW, lambda: 1.0).document()
        shown += [(event["id"], event["data"]["n"]) for event in page["events"]]
        following = page["next"]
    assert shown == [("e2", 2), ("e1", 2), ("e0", 2)]


@pytest.mark.parametrize("old", [1, 9])
def test_an_event_under_two_numbers_has_one_rank_by_its_number_in_the_table(old: int) -> None:
    base = store_moved({"status": "new", "mag": old}, {"status": "new", "mag": 5})
    ranking = parse_ranking(TIMELY, {**SPAN, "index": ["best"], "value": ["new"]}, NOW, SEAL)
    rows = find_top(ranking, TIMELY, base.reader, NOW, lambda: 100.0).rows
    assert [(row["rank"], row["value"], row["id"]) for row in rows] == [
        (1, Decimal(5), "e2"),
        (2, Decimal(5), "e1"),
        (3, Decimal(5), "e0"),
    ]
