"""The first events of packs that come in any order, compared with a dictionary and with the walk in the order of time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.packs.table import SERIAL, TIMELY, ZSTD, event, rows
from tests.query.positions import find_position
from tests.worlds.pack_copies import Copy, Sent, choose_counting, write_items
from tidetable.events import Event, Item
from tidetable.packs import FirstEvents, open_item, walk_packs

_HUGE = 10**9
# The times of a span of 60 seconds; instants repeat often.
_SECONDS = st.sampled_from([0, 0.000001, 1, 5, 30, 59.999999])
_NAMES = st.tuples(_SECONDS, st.sampled_from(["s", "t#", "!"]), st.sampled_from(["a", "b#", "%"]))
# Events with their values and the times when they were accepted; and whether they are plain items.
_REQUEST = st.tuples(
    st.dictionaries(_NAMES, st.tuples(st.integers(0, 9), st.integers(1, 3)), min_size=1), st.booleans()
)
# An event's place, when it was accepted, its pack's hash, and its data.
Row = tuple[str, int, str, str]


def make_sent(events: dict[Any, tuple[int, int]], alone: bool) -> Sent:
    return Sent([(event(seconds, *names, v=v), at) for (seconds, *names), (v, at) in events.items()], alone)


def show_copies(copies: Iterable[Copy]) -> list[Row]:
    return [(copy.position, copy.at, copy.hash, f'{{"v":{copy.event.data["v"]}}}') for copy in copies]


def collect(
    items: Sequence[Item], count: int, low: str = "", high: str = "~", prefix: str = "", most_bytes: int = _HUGE
) -> FirstEvents:
    first = FirstEvents(
        count,
        low=low,
        high=high,
        holds=(lambda _, place: place.partition("#")[2].startswith(prefix)) if prefix else None,
        measure_item=len,
        most_bytes=most_bytes,
    )
    for item in items:
        first.add_item(open_item(item, TIMELY, ZSTD))
    return first


def show(first: FirstEvents, end: str | None = None) -> list[Row]:
    run = first.list_events(end)
    return [(place, copy.at, copy.hash, str(copy.value)) for place, copy in zip(run.places, run.copies, strict=True)]


@settings(deadline=None, max_examples=200)
@given(
    st.lists(_REQUEST, max_size=6),
    st.randoms(use_true_random=False),
    st.integers(1, 12),
    st.tuples(_SECONDS, _SECONDS),
    st.sampled_from(["", "", "t%23", "!"]),
    st.integers(600, 6_000),
)
def test_the_first_events_are_exact_in_whatever_order_their_packs_come(
    requests: list[Any], order: Any, count: int, edges: tuple[float, float], prefix: str, most_bytes: int
) -> None:
    written = write_items([make_sent(*request) for request in requests], TIMELY)
    counting = show_copies(choose_counting(copy for each in written for copy in each.copies))
    low, high = find_position(event(min(edges))), find_position(event(max(edges), "t"))
    every = [row for row in counting if low <= row[0] < high and row[0].partition("#")[2].startswith(prefix)]
    expected = every[:count]
    items = sorted((each.item for each in written), key=lambda item: str(item["sk"]))
    opened = [open_item(item, TIMELY, ZSTD) for item in items]
    walked = rows(walk_packs(opened, span=60, ascending=True))
    assert [(place, copy.at, copy.hash) for place, copy in walked] == [row[:3] for row in counting]
    order.shuffle(items)
    first = collect(items, count, low, high, prefix)
    assert show(first) == expected
    assert len(first) == len(expected)
    assert first.last == (expected[-1][0] if len(expected) == count else None)
    for end, *_ in every:
        assert show(first, end) == [row for row in expected if row[0] < end]
    # With little memory fewer events are kept, and ``last`` says that more may follow.
    few = collect(items, count, low, high, prefix, most_bytes)
    assert show(few) == every[: len(few)]
    assert (few.last is None) == (len(few) == len(every) < count)
    assert len(few) >= min(len(expected), 1)


THREE = {(seconds, "s", "a"): (number, 1) for number, seconds in enumerate((30, 1, 0))}


@pytest.mark.parametrize(("most_bytes", "kept"), [(2 * 607 - 1, 1), (2 * 607, 2), (3 * 607, 3), (606, 1), (0, 1)])
def test_memory_is_bounded_by_bytes_and_one_event_is_always_kept(most_bytes: int, kept: int) -> None:
    """The text of an event has 7 bytes, and an event takes 600 bytes besides."""
    (written,) = write_items([make_sent(THREE, False)], TIMELY)
    expected = show_copies(choose_counting(written.copies))[:kept]
    # An event that was dropped does not come back, and no later event takes its place.
    for items in ([written.item], [written.item] * 2):
        first = collect(items, 9, most_bytes=most_bytes)
        assert show(first) == expected
        assert first.last == (None if kept == 3 else expected[-1][0])


def test_a_copy_takes_the_place_of_another_in_memory() -> None:
    items = [write_items([make_sent({(0, "s", "a"): (1, at)}, True)], TIMELY)[0].item for at in (1, 3, 2)]
    first = collect(items, 9, most_bytes=607)
    assert [row[1] for row in show(first)] == [3]
    assert first.last is None


def test_an_event_whose_data_is_not_text_is_measured_as_an_item() -> None:
    """Its data is compressed, so it stays an item: 600 bytes and, as ``len`` measures here, its four attributes."""
    items = [TIMELY.make_item(event(second)) | {"z": b"x"} for second in (0, 1)]
    for item in items:
        del item["data"]
        assert len(item) == 4, sorted(item)
    assert [copy.value for copy in collect(items, 9, most_bytes=2 * 604).list_events().copies] == items
    assert len(collect(items, 9, most_bytes=2 * 604 - 1)) == 1


def test_in_a_table_by_series_a_place_names_no_series() -> None:
    events = [(Event("s", event(second).time, id, {"v": 1}), 1) for second, id in ((1, "b"), (0, "a"))]
    (written,) = write_items([Sent(events)], SERIAL)
    first = FirstEvents(1, low="", high="~", holds=None, measure_item=len, most_bytes=_HUGE)
    first.add_item(open_item(written.item, SERIAL, ZSTD))
    assert first.last == "2026-03-05T12:00:00.000000Z#a"
