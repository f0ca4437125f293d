"""Rankings of large events: the table's items are fetched some at a time, and only as many as a page shows."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes import SEAL
from tests.query.stored_events import BY_TIME, DAYS, NOW, START, StoredEvents, stream
from tidetable.config import Stream
from tidetable.events import Event
from tidetable.layout import Key
from tidetable.problems import ProblemError
from tidetable.query.rankings import Top, find_top, parse_ranking
from tidetable.query.waves import measure_item
from tidetable.times import to_text

INDEX = '\n[[streams.s.index]]\nname = "best"\npartition_by = "*"\nsort_by = "mag"\nshards = 4\nproject = "keys"\n'
POLICY = stream(BY_TIME, INDEX)
# The first day is an archive.
LIVE = START + timedelta(days=1)
SPAN = {"from": to_text(LIVE), "to": to_text(LIVE + timedelta(days=1))}


def make_base(count: int, characters: int) -> tuple[StoredEvents, list[int]]:
    """Events whose number is their place in the ranking, and the numbers of the items that are fetched together."""
    text = "x" * characters
    events = [Event("a", LIVE + timedelta(seconds=n), f"e{n}", {"mag": -n, "text": text}) for n in range(count)]
    base, counts = StoredEvents(POLICY, events, [POLICY.layout] * DAYS), list[int]()
    get_many = base.store.get_many

    def count_keys(table: str, keys: Sequence[Key], **options: Any) -> Any:
        counts.append(len(keys))
        return get_many(table, keys, **options)

    base.store.get_many = count_keys  # type: ignore[method-assign]
    return base, counts


def ask(base: StoredEvents, **parameters: str) -> Top:
    asked = ({} if "cursor" in parameters else SPAN) | parameters
    ranking = parse_ranking(POLICY, {name: [value] for name, value in asked.items()}, NOW, SEAL)
    return find_top(ranking, POLICY, base.reader, NOW, lambda: 100.0)


def walk(base: StoredEvents, **parameters: str) -> list[list[str]]:
    """The ids of each page of a ranking."""
    page = ask(base, **parameters)
    pages = [[row["id"] for row in page.rows]]
    while page.next is not None:
        page = ask(base, cursor=page.next, limit=parameters["limit"])
        pages.append([row["id"] for row in page.rows])
    return pages


@pytest.mark.parametrize(("parameters", "first"), [({}, 24), ({"fields": "mag"}, 93)], ids=["whole", "fields"])
def test_pages_of_large_events_end_early_and_have_every_event(parameters: dict[str, str], first: int) -> None:
    """24 events of 200 KB are 5 MB, as much as an answer has; 83 of them are 16 MB, as much as a page compares.

    The data of every tenth event is elsewhere, so that its item is small.
    """
    base, counts = make_base(200, 200_000)
    pages = walk(base, limit="1000", **parameters)
    assert len(pages[0]) == first
    assert [id for page in pages for id in page] == [f"e{n}" for n in range(200)]
    # 48 items at first; then as many as have 16 MB.
    assert counts[0] == 48
    assert max(counts) <= 93


def test_small_events_are_fetched_in_two_waves() -> None:
    base, counts = make_base(1000, 10)
    assert len(ask(base, limit="1000").rows) == 1000
    assert counts == [48, 952]


def test_an_item_that_cannot_be_measured_counts_as_the_largest() -> None:
    assert measure_item({"pk": "a", "sk": "b", "data": {"n": {1, 2}}}) == 409_600


def test_an_index_of_large_events_is_refused_before_its_items_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index with all fields: 300 events of 200 KB are 60 MB, and 40 MB are compared."""
    policy = stream(BY_TIME, INDEX.replace('project = "keys"', 'project = "all"'))
    text = "x" * 200_000
    events = [Event("a", LIVE + timedelta(seconds=n), f"e{n}", {"mag": -n, "text": text}) for n in range(300)]
    base = StoredEvents(policy, events, [policy.layout] * DAYS)
    query_many = base.store.query_many

    def count_units(reads: Any, **options: Any) -> Any:
        pages: Any = query_many(reads, **options)
        return [replace(page, units=page.read * 200_000 / 8_192) for page in pages]

    monkeypatch.setattr(base.store, "query_many", count_units)

    def rank(limit: str) -> Top:
        asked = {name: [value] for name, value in {**SPAN, "limit": limit}.items()}
        return find_top(parse_ranking(policy, asked, NOW, SEAL), policy, base.reader, NOW, lambda: 100.0)

    with pytest.raises(ProblemError, match="422 too_much: the index holds larger events than a function can compare"):
        rank("1000")
    assert [row["id"] for row in rank("20").rows] == [f"e{n}" for n in range(20)]


def make_wide_base(characters: int) -> tuple[Stream, StoredEvents, list[int]]:
    """An index of 100 suffixes with all fields, 200 events, and the numbers of the ranges that are read together."""
    policy = stream(BY_TIME, INDEX.replace('project = "keys"', 'project = "all"').replace("shards = 4", "shards = 100"))
    text = "x" * characters
    events = [Event("a", LIVE + timedelta(seconds=n), f"e{n}", {"mag": -n, "text": text}) for n in range(200)]
    base, counts = StoredEvents(policy, events, [policy.layout] * DAYS), list[int]()
    query_many = base.store.query_many

    def count_ranges(reads: Any, **options: Any) -> Any:
        counts.append(len(reads))
        pages: Any = query_many(reads, **options)
        return [replace(page, units=page.read * characters / 8_192) for page in pages]

    base.store.query_many = count_ranges  # type: ignore[method-assign]
    return policy, base, counts


def rank(policy: Stream, base: StoredEvents, remaining: Callable[[], float] = lambda: 100.0) -> Top:
    asked = {name: [value] for name, value in {**SPAN, "limit": "100"}.items()}
    return find_top(parse_ranking(policy, asked, NOW, SEAL), policy, base.reader, NOW, remaining)


def test_the_first_pages_of_many_ranges_are_counted_before_more_are_read() -> None:
    """The 48 ranges that are read first hold about 96 events of 1,000,000 bytes in this test, and 40 MB are compared."""
    policy, base, counts = make_wide_base(1_000_000)
    with pytest.raises(ProblemError, match="422 too_much: the index holds larger events than a function can compare"):
        rank(policy, base)
    assert counts == [48]


def test_many_ranges_are_ranked_in_waves() -> None:
    policy, base, counts = make_wide_base(1_000)
    assert [row["id"] for row in rank(policy, base).rows] == [f"e{n}" for n in range(100)]
    assert counts[:3] == [48, 48, 4]
    assert max(counts) == 48


def test_a_ranking_whose_time_is_up_between_two_waves_is_refused() -> None:
    policy, base, counts = make_wide_base(1_000)
    with pytest.raises(ProblemError, match="422 too_much: the ranking takes longer than an answer may"):
        rank(policy, base, lambda: 0.0 if counts else 100.0)
    assert counts == [48]
