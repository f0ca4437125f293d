"""Groups whose values are long texts: every row repeats them, so that rows are counted by their characters, too.

A text of more than 2,100 characters is shortened to 2,081.
"""

from datetime import timedelta
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.query.stored_events import DAYS, NOW, START, TIMELY, StoredEvents
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.aggregates.find import Aggregate
from tidetable.query.listings.listing_parameters import find_place
from tidetable.query.listings.names import EXACT, NameCollector, SeenTimes
from tidetable.times import to_text

SPAN = {"from": to_text(START), "to": to_text(START + timedelta(days=DAYS))}
# The first day is an archive.
LIVE = START + timedelta(days=1)
SEEN = SeenTimes(to_text(START), to_text(START), EXACT)


def make_text(number: int) -> str:
    return f"{number:05}".ljust(3_000, "x")


def make_base(count: int, seconds: int = 1) -> StoredEvents:
    events = [
        Event("a", LIVE + timedelta(seconds=n * seconds), str(n), {"text": make_text(n), "n": n}) for n in range(count)
    ]
    return StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)


def ask(base: StoredEvents, **parameters: str) -> Aggregate:
    asked: dict[str, Any] = ({} if "cursor" in parameters else SPAN | {"by": "text"}) | parameters
    query = parse_aggregation(TIMELY, {name: [value] for name, value in asked.items()}, NOW, SEAL)
    return find_aggregate(query, TIMELY, base.reader, NOW, lambda: 100.0)


def test_a_page_ends_before_its_groups_have_more_characters_than_an_answer() -> None:
    """A step has 150 texts. 2,400 shortened texts have fewer than 5,000,000 characters, 2,550 have more."""
    base, cursor, pages = make_base(40 * 150, 4), None, list[list[int]]()
    while cursor is not None or not pages:
        page = ask(base, **({"step": "10m"} if cursor is None else {"cursor": cursor}))
        pages.append([int(row["group"]["text"][:5]) for row in page.rows])
        cursor = page.next
    assert [len(page) for page in pages] == [2_400, 2_400, 1_200]
    assert [number for page in pages for number in page] == list(range(6_000))


@pytest.mark.parametrize(
    ("count", "parameters", "refusal"),
    [
        # Each step has one group, and all of its rows repeat the same text.
        (1, {"step": "2m", "fill": "zero", "top": "1"}, "too_much: the values of by, repeated in each row, have more"),
        (
            2_403,
            {},
            "too_much: the values of by, repeated in each row, have more than 5000000 characters: group by a field",
        ),
        (1_000, {"top": "1000", "step": "2d", "fill": "zero"}, "too_much: the values of by, repeated in each row"),
        (9_611, {}, "too_many_groups: the values of by have more than 20000000 characters together"),
        (9_611, {"top": "1"}, "too_many_groups: the values of by have more than 20000000 characters together"),
        (9_611, {"step": "1h", "top": "1"}, "too_many_groups: the values of by have more than 20000000 characters"),
    ],
)
def test_groups_with_more_characters_than_that_are_refused(
    count: int, parameters: dict[str, str], refusal: str
) -> None:
    with pytest.raises(ProblemError, match=f"422 {refusal}"):
        ask(make_base(count), **parameters)


def test_as_many_long_groups_as_an_answer_has_space_for_are_answered() -> None:
    assert len(ask(make_base(2_402)).rows) == 2_402
    assert len(ask(make_base(9_610), top="1000").rows) == 1_000


def test_rows_of_top_are_counted_before_they_are_made() -> None:
    """10 hours of 100 seconds: 36 rows per group and hour."""
    events = [Event(f"s{n}", START + timedelta(seconds=n), "1", {"n": n}) for n in range(300)]
    base = StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)
    span = {"from": to_text(START), "to": to_text(START + timedelta(hours=10))}
    asked = {"by": "series", "step": "100s", "fill": "zero"}
    assert len(ask(base, **span, **asked, top="27").rows) == 360 * 27
    with pytest.raises(ProblemError, match="422 too_much: 10080 rows, more than 10000"):
        ask(base, **span, **asked, top="28")
    # Exactly as many rows as the limit are shown.
    assert len(ask(base, **span, **asked, top="2", limit="720").rows) == 720
    with pytest.raises(ProblemError, match="422 too_much: 720 rows, more than 719"):
        ask(base, **span, **asked, top="2", limit="719")
    # Without fill, only the steps in which a group has events have rows.
    assert len(ask(base, **span, by="series", step="100s", top="300").rows) == 300


def test_a_listing_holds_long_values_for_a_page_and_its_pages_have_every_value() -> None:
    values = [f"{number:03}".ljust(300_000, "x") for number in range(100)]
    found, after, held = list[str](), None, 0
    while True:
        names = NameCollector(1000, after)
        for value in reversed(values):
            place = find_place(value)
            assert place is not None
            names.add(place, value, SEEN)
            held = max(held, len(names.list_sorted()))
        page = names.list_sorted()
        found += [record.value for _, record in page]
        after = page[-1][0]
        if not names.has_dropped:
            break
    assert found == values
    # 66 texts are fewer than 20,000,000 characters.
    assert held == 66
