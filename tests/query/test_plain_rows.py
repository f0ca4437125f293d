"""Rows of plain events: their text is that of every event alone, and a page is filled to its last byte."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from tidetable.catalog import Entry, State
from tidetable.events import Event
from tidetable.layout import Key, Layout, Ref
from tidetable.periods import parse_label
from tidetable.query import AnswerForm, Cost, render_answer
from tidetable.query import page as pages
from tidetable.query.model import EVERYTHING
from tidetable.query.page import Events, EventsPage
from tidetable.query.rows import Rows, count_escaped_bytes

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
BY_TIME, BY_SERIES = Layout("time", 3, "id", 3600), Layout("series", 2, "id")
_NAMES = st.one_of(
    st.sampled_from(
        ["a", "station-7", "50%", "a#b", 'say "so"', "back\\slash", "é", "\U0001f600", "a>b?c~", "\x01\x7f"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
)
_VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(st.characters(exclude_categories=["Cs"]), max_size=20)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)),
    max_leaves=6,
)
_EVENTS = st.lists(st.tuples(_NAMES, _NAMES, st.dictionaries(_NAMES, _VALUES, max_size=4)), min_size=1, max_size=8)
Named = Sequence[tuple[str, str, dict[str, object]]]


def make_rows(layout: Layout, events: Named) -> Rows:
    """The rows of events of which each is a second later than the one before."""
    entry = Entry("quakes", parse_label("2026-03-05"), "t", layout, State.OPEN, NOON)
    keys = [
        layout.make_key(Event(series, NOON + timedelta(seconds=number), id, {}))
        for number, (series, id, _) in enumerate(events)
    ]
    texts = [json.dumps(data, ensure_ascii=False) for _, _, data in events]
    return Rows(entry, [key.pk for key in keys], [key.sk for key in keys], texts)


@settings(deadline=None, max_examples=80)
@given(st.sampled_from([BY_TIME, BY_SERIES]), _EVENTS)
def test_the_pieces_of_rows_are_the_events_and_their_size_is_bounded_closely(layout: Layout, events: Named) -> None:
    rows = make_rows(layout, events)
    whole = rows.join_texts()
    assert json.loads(f"[{whole}]") == [
        {
            "series": series,
            "time": f"2026-03-05T12:00:{number:02d}.000000Z",
            "id": id,
            "data": data,
            "ref": Ref("quakes", rows.entry.period, Key(rows.pks[number], rows.sks[number])).encode(),
        }
        for number, (series, id, data) in enumerate(events)
    ]
    assert ",".join(rows.list_texts()) == whole
    size = len(json.dumps(whole, ensure_ascii=False).encode()) - 2
    assert rows.measure_size() == count_escaped_bytes(whole) == size
    assert size <= rows.bound_size() <= size + 200 * len(events)


def test_a_series_that_is_in_the_partition_key_alone_is_escaped() -> None:
    text = make_rows(BY_SERIES, [('say "so"', "a", {})]).join_texts()
    (event,) = json.loads(f"[{text}]")
    assert (event["series"], event["id"], event["time"]) == ('say "so"', "a", "2026-03-05T12:00:00.000000Z")


def test_the_texts_of_several_periods_are_one_list() -> None:
    """A page has rows for each of its batches."""
    rows = [make_rows(BY_TIME, [("a", id, {}) for id in ids]) for ids in ("12", "3", "45")]
    events = Events(
        stream="quakes",
        rows=rows,
        next=None,
        gaps=[],
        cost=Cost(),
        sources=[],
        projection=EVERYTHING,
        make_cursor=str,
    )
    body = render_answer(events, AnswerForm(), lambda _: b"").body
    assert [event["id"] for event in json.loads(body)["events"]] == list("12345")
    assert json.loads(body)["next"] is None


@settings(deadline=None, max_examples=80)
@given(st.sampled_from([BY_TIME, BY_SERIES]), st.lists(_EVENTS, min_size=1, max_size=5), st.integers(1, 6_000))
def test_a_page_is_filled_to_its_last_event(layout: Layout, batches: Sequence[Named], most: int) -> None:
    """Sizes are bounds at first, and exact when the bounds do not fit. The comma after a batch may be counted or not."""
    page = EventsPage(10_000)
    with mock.patch.object(pages, "MAX_PAGE_BYTES", most):
        all(page.take(make_rows(layout, events)) for events in batches)
    texts = [text for events in batches for text in make_rows(layout, events).list_texts()]
    shown = [text for rows in page.rows for text in rows.list_texts()]
    sizes = [count_escaped_bytes(text) + 1 for text in texts]
    assert shown == texts[: len(shown)]
    assert len(shown) == 1 or sum(sizes[: len(shown)]) - len(batches) <= most
    assert len(shown) == len(texts) or sum(sizes[: len(shown) + 1]) > most
