"""Groups whose values are long texts: every row repeats them, so that rows are counted by their characters, too."""

from datetime import timedelta
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.query.stored_events import DAYS, NOW, START, TIMELY, StoredEvents
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.aggregates.find import Aggregate
from tidetable.query.listings.names import EXACT, Names, Seen
from tidetable.query.listings.parse import find_place
from tidetable.times import to_text

SPAN = {"from": to_text(START), "to": to_text(START + timedelta(days=DAYS))}
SEEN = Seen(to_text(START), to_text(START), EXACT)


def make_text(number: int) -> str:
    return f"{number:03}".ljust(300_000, "x")


def make_base(count: int, minutes: int) -> StoredEvents:
    events = [
        Event("a", START + timedelta(minutes=n * minutes), str(n), {"text": make_text(n), "n": n}) for n in range(count)
    ]
    return StoredEvents(TIMELY, events, [TIMELY.layout] * DAYS)


def ask(base: StoredEvents, **parameters: str) -> Aggregate:
    asked: dict[str, Any] = ({} if "cursor" in parameters else SPAN | {"by": "text"}) | parameters
    query = parse_aggregation(TIMELY, {name: [value] for name, value in asked.items()}, NOW, SEAL)
    return find_aggregate(query, TIMELY, base.reader, NOW, lambda: 100.0)


def test_a_page_ends_before_its_groups_have_more_characters_than_an_answer() -> None:
    """16 texts of 300,000 characters are fewer than 5,000,000, 17 are more."""
    base, cursor, pages = make_base(40, 60), None, list[list[int]]()
    while cursor is not None or not pages:
        page = ask(base, **({"step": "1h"} if cursor is None else {"cursor": cursor}))
        pages.append([int(row["group"]["text"][:3]) for row in page.rows])
        cursor = page.next
    assert [len(page) for page in pages] == [16, 16, 8]
    assert [number for page in pages for number in page] == list(range(40))


@pytest.mark.parametrize(
    ("count", "parameters", "refusal"),
    [
        # Each step has one group, and all of its rows repeat the same text.
        (1, {"step": "1h", "fill": "zero", "top": "1"}, "too_much: the values of by, repeated in each row, have more"),
        (
            17,
            {},
            "too_much: the values of by, repeated in each row, have more than 5000000 characters: group by a field",
        ),
        (17, {"top": "17"}, "too_much: the values of by, repeated in each row"),
        (67, {}, "too_many_groups: the values of by have more than 20000000 characters together"),
        (67, {"top": "1"}, "too_many_groups: the values of by have more than 20000000 characters together"),
        (67, {"step": "1h", "top": "1"}, "too_many_groups: the values of by have more than 20000000 characters"),
    ],
)
def test_groups_with_more_characters_than_that_are_refused(
    count: int, parameters: dict[str, str], refusal: str
) -> None:
    with pytest.raises(ProblemError, match=f"422 {refusal}"):
        ask(make_base(count, 60), **parameters)


def test_as_many_long_groups_as_an_answer_has_space_for_are_answered() -> None:
    assert len(ask(make_base(16, 60)).rows) == 16
    assert len(ask(make_base(66, 60), top="16").rows) == 16


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
    values = [make_text(number) for number in range(100)]
    found, after, held = list[str](), None, 0
    while True:
        names = Names(1000, after)
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
