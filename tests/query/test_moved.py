"""Indexes that hold an event twice for a moment: under its old value and under its new value."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.query.stored_events import DAYS, NOW, START, TIMELY, StoredEvents
from tidetable.events import Event
from tidetable.keys import Key
from tidetable.query import parse_query, run_query
from tidetable.query.rankings import find_top, parse_ranking
from tidetable.times import to_text

SPAN = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=DAYS))]}


def store_moved(before: dict[str, Any], after: dict[str, Any]) -> StoredEvents:
    """Store an event with other data before and after it; the index still has its entry of the data ``before``."""
    times = [START + timedelta(days=1, seconds=second) for second in range(3)]
    events = [Event("a", time, f"e{number}", after) for number, time in enumerate(times)]
    base = StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)
    item = TIMELY.layout.make_item(Event("a", times[1], "e1", before))
    base.store.tables["tidetable-t.s.2026-03-02"][Key("old entry", item["sk"])] = item
    return base


@pytest.mark.parametrize("states", ["CA,NV", "NV,CA"])
def test_an_event_under_two_values_is_shown_once_with_its_data_from_the_table(states: str) -> None:
    base = store_moved({"place": {"state": "CA"}, "n": 1}, {"place": {"state": "NV"}, "n": 2})
    query = parse_query(TIMELY, {**SPAN, "where.place.state:in": [states]}, NOW, SEAL)
    events = run_query(query, TIMELY, base.reader, NOW, lambda: 100.0).document()["events"]
    assert [(event["id"], event["data"]["n"]) for event in events] == [("e2", 2), ("e1", 2), ("e0", 2)]


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
