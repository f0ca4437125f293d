"""The page of an answer as it fills, and as it is cut: whole events, in order, with their earlier versions."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws.arrow import encode_stream
from tidetable.catalog import Entry, GapReason, State
from tidetable.layout import Layout
from tidetable.periods import parse_label
from tidetable.query import AnswerForm, render_answer
from tidetable.query import page as pages
from tidetable.query.model import EVERYTHING, Cost, Position, Projection
from tidetable.query.page import Events, EventsPage, Room, count_body_bytes
from tidetable.query.rows import Row, Rows
from tidetable.query.scans import Gap

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
SHOWN = Projection(versions=True)
ENTRY = Entry("s", parse_label("2026-03-05"), "t", Layout("series", 1, "id", versioned=True), State.OPEN, NOON)


def row(id: str, earlier: int = 0, text: str = "") -> Row:
    """An event with so many earlier versions."""

    def item(version: int) -> dict[str, Any]:
        return {"pk": "a#0", "sk": f"v{version}#2026-03-05T12:00:00.000000Z#{id}", "data": {"text": text}}

    return Row(
        ENTRY, item(0), SHOWN, earlier=tuple(Row(ENTRY, item(number), SHOWN) for number in range(earlier, 0, -1))
    )


def rows(*some: Row) -> Rows:
    return Rows.of_rows(some, ENTRY)


def ids(some: list[Rows]) -> list[str]:
    return [row.names[2] for page in some for row in page.rows]


def test_a_page_has_room_for_as_many_events_as_its_limit() -> None:
    room = Room(limit=2)
    assert [room.take(1) for _ in range(3)] == [True, True, False]
    assert room.count == 2


def test_a_page_has_room_for_five_million_bytes_to_the_byte() -> None:
    """AWS: an answer has 6 MB; the sizes of rows are estimates."""
    room = Room()
    assert room.take(3_000_000)
    assert [room.take(2_000_001), room.take_all(2_000_001, 2)] == [False, False]
    assert [room.take_all(1_000_000, 2), room.take(1_000_000)] == [True, True]
    assert (room.count, room.size, room.exceeded) == (4, 5_000_000, False)
    large = Room()
    assert large.take(5_000_001), "the first in any case"
    assert large.exceeded


def test_a_full_page_takes_an_empty_batch_and_no_event() -> None:
    """The next page would begin with nothing, if the batch were the last."""
    page = EventsPage(1)
    assert page.take(rows(row("1")))
    assert page.take(rows())
    assert not page.take(rows(row("2")))
    assert ids(page.rows) == ["1"]


def test_a_page_goes_on_filling_after_events_that_did_not_fit_at_once() -> None:
    page = EventsPage(4)
    assert page.take(rows(row("1"), row("2", earlier=1)))
    assert not page.take(rows(row("3"), row("4")))
    assert (ids(page.rows), page.count) == (["1", "2", "3"], 4)


def test_an_event_with_more_versions_than_an_answer_holds_leaves_out_the_oldest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pages, "MAX_PAGE_BYTES", 5_000)
    page = EventsPage(100)
    assert page.take(rows(row("1", earlier=9, text="x" * 1_000)))
    (found,) = page.rows[0].rows
    # Each takes 1,000 bytes and some 400 more: three fit, of which two are earlier versions.
    assert (len(found.earlier), found.left_out) == (2, 7)
    assert [row.item["sk"][:2] for row in found.earlier] == ["v9", "v8"]


def answer(*batches: Rows) -> Events:
    def make_cursor(position: Position) -> str:
        return f"after {position.id}"

    return Events(
        stream="s",
        next=None,
        gaps=[],
        cost=Cost(),
        sources=[],
        rows=batches,
        projection=EVERYTHING,
        make_cursor=make_cursor,
    )


def test_an_answer_is_cut_before_an_event_that_does_not_fit_and_what_comes_after_it() -> None:
    """What is behind the cut comes with the next page, or it would come before what is in between."""
    whole = answer(rows(row("1"), row("2", earlier=2)), rows(row("3")))
    cut = whole.cut_to(2)
    assert cut is not None
    assert (ids(list(cut.rows)), cut.next) == (["1"], "after 1")
    assert whole.cut_to(0) is None
    # An event and its two earlier versions are three events, also of the next batch's share.
    both = whole.cut_to(4)
    assert both is not None
    assert (ids(list(both.rows)), both.next) == (["1", "2"], "after 2")


def test_an_answer_that_is_cut_after_several_batches_has_all_of_them() -> None:
    cut = answer(rows(row("1")), rows(row("2")), rows(row("3"), row("4")), rows(row("5"))).cut_to(3)
    assert cut is not None
    assert (ids(list(cut.rows)), cut.next) == (["1", "2", "3"], "after 3")


def test_all_fields_are_no_column_of_their_own() -> None:
    some = replace(answer(), projection=Projection(fields=("*", "raw")))
    assert some.columns == ["series", "time", "id", "data.raw", "ref"]


def test_several_events_of_five_million_bytes_together_fit_into_a_page() -> None:
    assert [Room().take_all(5_000_000, 2), Room().take_all(5_000_001, 2)] == [True, False]


def test_many_gaps_leave_room_for_fewer_events() -> None:
    """AWS: a function answers 6 MB at the most. Two years of hours that were deleted are a gap each."""
    hour = timedelta(hours=1)
    gaps = [Gap(NOON - (number + 1) * hour, NOON - number * hour, GapReason("deleted")) for number in range(17_520)]
    page = EventsPage(100)
    page.take(rows(*[row(f"{number:02d}", text="x" * 98_000) for number in range(50)]))
    whole = replace(answer(*page.rows), gaps=gaps)
    assert (whole.count, render_answer(replace(whole, gaps=gaps[:5_000]), AnswerForm(), encode_stream).answer.next) == (
        50,
        None,
    )
    rendered = render_answer(whole, AnswerForm(), encode_stream)
    assert count_body_bytes(rendered.body) <= 6_000_000
    body = json.loads(rendered.body)
    assert len(body["gaps"]) == 17_520
    assert 30 < len(body["events"]) < 50
    assert body["next"] == f"after {body['events'][-1]['id']}"
