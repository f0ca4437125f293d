"""What an answer about archived time depends on, by the catalog's entries; and the bounds of the pages that are kept."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fakes import SEAL, FakeCatalog
from tests.worlds.entries import change_entry
from tidetable.access import FULL
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import parse
from tidetable.layout import Layout
from tidetable.periods import parse_label
from tidetable.query import AnswerForm, Reader, parse_query, past
from tidetable.query.past import KeptPages, PastQuestion

NOW = datetime(2026, 3, 18, 12, tzinfo=UTC)
STREAM = parse(
    """
    [streams.s]
    period = "day"
    late = "1h"
    retention = 3
    key = { partition_by = "time", bucket = "24h" }
    """
).streams["s"]


def make_entry(day: int, state: State = State.ARCHIVED, hour: int = 1) -> Entry:
    period = parse_label(f"2026-03-{day:02}")
    facts = ArchiveFacts("manifest", 10, 1_000, datetime(2026, 3, 17, hour, tzinfo=UTC))
    entry = Entry("s", period, f"t-{day}", Layout("time", 1, "id", 86_400), state, period.start)
    return change_entry(entry, archive=facts) if state is State.ARCHIVED else entry


def make_question(entries: Sequence[Entry], *, ascending: bool = False) -> PastQuestion:
    catalog, nothing = FakeCatalog(), None
    catalog.items = {("s", entry.period): entry for entry in entries}
    reader: Any = Reader(catalog, nothing, nothing, nothing, SEAL, nothing, nothing)  # type: ignore[arg-type]
    asked = {"from": ["2026-03-02"], "to": ["2026-03-06"], "order": ["asc" if ascending else "desc"]}
    return PastQuestion.make(parse_query(STREAM, asked, NOW, SEAL), AnswerForm(), STREAM, reader, FULL)


def read_page(question: PastQuestion, count: int, more: str | None) -> str | None:
    """Read some entries as a page does, and make the tag of an answer with this cursor."""
    query: Any = question.query
    walk = question.reader.catalog.walk("s", query.start, query.end, ascending=query.ascending)
    assert len(list(islice(walk, count))) == min(count, 4)
    answer: Any = SimpleNamespace(next=more)
    return question.make_tag(answer)


FOUR = [make_entry(day) for day in (2, 3, 4, 5)]
CLOSED = make_entry(4, State.CLOSED)


@pytest.mark.parametrize(
    ("present", "count", "more", "ascending", "valid"),
    [
        (FOUR, 9, None, False, True),
        (FOUR, 9, None, True, True),
        (FOUR, 2, "next", False, True),
        # Periods beyond the page, and beyond the range.
        ([make_entry(2, State.CLOSED), *FOUR[1:]], 2, "next", False, True),
        ([*FOUR[:3], make_entry(5, State.CLOSED)], 2, "next", True, True),
        ([make_entry(1, State.CLOSED), *FOUR, make_entry(6, State.CLOSED)], 9, None, False, True),
        ([make_entry(1, State.CLOSED), *FOUR, make_entry(6, State.CLOSED)], 9, None, True, True),
        # A period was restored; archived anew; deleted; its entry is gone.
        ([*FOUR[:2], CLOSED, FOUR[3]], 9, None, False, False),
        ([*FOUR[:2], make_entry(4, State.RESTORING), FOUR[3]], 2, "next", False, False),
        ([*FOUR[:2], make_entry(4, hour=2), FOUR[3]], 2, "next", False, False),
        ([*FOUR[:2], make_entry(4, State.DELETED), FOUR[3]], 9, None, True, False),
        (FOUR[1:], 9, None, True, False),
        (FOUR[:3], 2, "next", False, False),
    ],
)
def test_a_tag_holds_as_long_as_the_entries_of_its_page_are_the_same(
    present: list[Entry], count: int, more: str | None, ascending: bool, valid: bool
) -> None:
    tag = read_page(make_question(FOUR, ascending=ascending), count, more)
    assert tag is not None
    assert make_question(present, ascending=ascending).find_valid(["else", tag]) == (tag if valid else None)
    assert make_question(present, ascending=not ascending).find_valid([tag]) is None


@pytest.mark.parametrize(("days", "ascending"), [((2, 3, 4), False), ((3, 4, 5), True), ((2, 4, 5), False), ((), True)])
def test_a_period_that_is_new_changes_an_answer_with_the_end_of_its_range(
    days: tuple[int, ...], ascending: bool
) -> None:
    before = [make_entry(day) for day in days]
    question = make_question(before, ascending=ascending)
    walk = question.reader.catalog.walk("s", question.query.start, question.query.end, ascending=ascending)
    list(walk)
    answer: Any = SimpleNamespace(next=None)
    tag = question.make_tag(answer)
    assert tag is not None
    assert make_question(before, ascending=ascending).find_valid([tag]) == tag
    assert make_question(FOUR, ascending=ascending).find_valid([tag]) is None


def test_a_page_that_read_a_table_or_the_catalog_twice_has_no_tag() -> None:
    mixed = make_question([*FOUR[:2], CLOSED, FOUR[3]])
    assert read_page(mixed, 1, "next") is not None
    # A table was missing, so the entries were read anew.
    assert read_page(mixed, 1, "next") is None
    assert read_page(make_question([*FOUR[:2], CLOSED, FOUR[3]]), 2, "next") is None


def test_the_entries_of_a_tag_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tag = read_page(make_question(FOUR), 9, None)
    assert tag is not None
    monkeypatch.setattr(past, "MOST_ENTRIES", 3)
    assert [read_page(make_question(FOUR), count, "next") is None for count in (3, 4)] == [False, True]
    assert make_question(FOUR).find_valid([tag]) is None


def test_a_process_keeps_the_newest_pages_within_its_bounds() -> None:
    pages = KeptPages[str]()
    for number in range(70):
        pages.keep(str(number), f"page {number}", 1_000, NOW)
    assert [pages.find(str(number), NOW) is None for number in (5, 6)] == [True, False]
    assert pages.find("69", NOW + timedelta(seconds=3)) == ("page 69", timedelta(seconds=3))
    pages.keep("6", "page 6", 1_000, NOW)
    pages.keep("70", "page 70", 1_000, NOW)
    assert [pages.find(number, NOW) is None for number in ("6", "7")] == [False, True]
    pages.keep("69", "page 69", 1_000, NOW)
    pages.keep("large", "large", 15_998_000, NOW)
    assert [pages.find(name, NOW) is None for name in ("6", "70", "69", "large")] == [True, False, False, False]
    pages.keep("69", "again", 1_000, NOW)
    pages.keep("larger", "larger", 16_000_001, NOW)
    assert [pages.find(name, NOW) for name in ("69", "large", "larger")] == [None] * 3
    pages.keep("old", "old", 16_000_000, NOW)
    pages.keep("new", "new", 16_000_000, NOW + timedelta(seconds=5))
    assert pages.find("new", NOW + timedelta(seconds=5)) == ("new", timedelta(0))
