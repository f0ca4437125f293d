"""Pages of rankings whose events have very different sizes: each page is full, and no event is lost between two pages."""

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.query.stored_events import ARCHIVED, DAYS, NOW, START, TIMELY, StoredEvents
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query.page import MAX_BODY_BYTES, MAX_PAGE_BYTES
from tidetable.query.rankings import Top, find_top, parse_ranking
from tidetable.times import to_text

SPAN = {"from": to_text(START), "to": to_text(START + timedelta(days=DAYS))}
# An event takes at most this much more than its text: its names, its ref and its value.
_FRAME = 2_000


LIVE = [day for day in range(DAYS) if day not in ARCHIVED]


def sized(number: int, size: int, mag: int, days: Sequence[int] = range(DAYS)) -> Event:
    time = START + timedelta(days=days[number % len(days)], seconds=number)
    return Event("s", time, str(number), {"mag": mag, "text": "x" * size})


def ask(base: StoredEvents, remaining: float = 100.0, /, **parameters: str) -> Top:
    query_string = {name: [value] for name, value in (({} if "cursor" in parameters else SPAN) | parameters).items()}
    ranking = parse_ranking(base.policy, query_string, NOW, SEAL)
    return find_top(ranking, base.policy, base.reader, NOW, lambda: remaining)


def walk(base: StoredEvents, **parameters: str) -> list[list[dict[str, Any]]]:
    """The rows of all pages."""
    pages = []
    for _ in range(200):
        top = ask(base, **parameters)
        pages.append(top.rows)
        if top.next is None:
            return pages
        parameters = {"cursor": top.next, "limit": parameters.get("limit", "100")}
    raise AssertionError("the ranking has no end")


def measure(row: dict[str, Any]) -> int:
    return len(row["data"]["text"]) + _FRAME


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [7, 1_000])
@pytest.mark.parametrize("days", [LIVE, range(DAYS)], ids=["tables", "tables and archives"])
def test_pages_of_events_of_any_sizes_hold_every_event_once(
    seed: int, order: str, limit: int, days: Sequence[int]
) -> None:
    """From 10 bytes to 900 KB, in tables and in archives, with ties."""
    chance = random.Random(seed)
    events = [
        sized(number, chance.choice([10, 10, 1_000, 60_000, 350_000, 900_000]), chance.randrange(25), days)
        for number in range(60)
    ]
    base = StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)
    pages = walk(base, index="best_of_all", order=order, limit=str(limit))
    wanted = sorted(events, key=lambda event: (event.data["mag"], event.time), reverse=order == "desc")
    assert [row["id"] for rows in pages for row in rows] == [event.id for event in wanted]
    for rows, following in zip(pages, [*pages[1:], []], strict=True):
        size = sum(map(measure, rows))
        assert len(rows) <= limit
        assert size < MAX_BODY_BYTES or len(rows) == 1
        # A page ends early because its next event does not fit, or because the page of an archive was full.
        if following and len(rows) < limit and days == LIVE:
            assert size + measure(following[0]) > MAX_PAGE_BYTES


def test_an_event_that_is_larger_than_a_page_is_a_page() -> None:
    """It comes first, last, and between small events."""
    sizes = [MAX_PAGE_BYTES + 1, 10, 10, MAX_PAGE_BYTES + 1, 10, MAX_PAGE_BYTES + 1]
    events = [sized(number, size, number) for number, size in enumerate(sizes)]
    base = StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)
    pages = walk(base, index="best_of_all", order="asc", limit="10")
    assert [[row["id"] for row in rows] for rows in pages] == [["0"], ["1", "2"], ["3"], ["4"], ["5"]]


def test_a_small_event_behind_a_large_one_waits_for_its_page() -> None:
    """The page is full after the first two events, although the third would fit."""
    sizes = [3_000_000, 1_500_000, 1_000_000, 10]
    events = [sized(number, size, -number) for number, size in enumerate(sizes)]
    base = StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)
    pages = walk(base, index="best_of_all", order="desc", limit="10")
    assert [[row["id"] for row in rows] for rows in pages] == [["0", "1"], ["2", "3"]]


def test_a_ranking_without_time_is_refused_with_what_to_change() -> None:
    base = StoredEvents(TIMELY, [sized(number, 10, number) for number in range(30)], [TIMELY.layout] * DAYS)
    with pytest.raises(ProblemError, match="narrow from and to, lower limit") as error:
        ask(base, 0.0, index="best_of_all", limit="5")
    assert (error.value.problem.status, error.value.problem.code) == (422, "too_much")
    assert ask(base, 3.001, index="best_of_all", limit="5").count == 5
