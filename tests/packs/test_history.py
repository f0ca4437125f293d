"""Random histories of requests, compared with a dictionary: every read is exact."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.packs.table import NOON, PackTable
from tests.worlds.places import stored_partition, stored_place
from tidetable.events import Event
from tidetable.layout import Layout, Packing
from tidetable.layout.pack import find_key_range
from tidetable.packs import walk
from tidetable.times import to_text

SPAN = 60
# Times around the edges of the span and of a bucket; instants repeat often.
_SECONDS = st.sampled_from(
    [0, 0.000001, 1, 30, 59.999999, 60, 60.000001, 90, 119, 120, 600, 3540, 3599.999999, 3600, 3660]
)
_EVENT = st.tuples(_SECONDS, st.sampled_from(["s", "t#", "!"]), st.sampled_from(["a", "b#", "%"]), st.integers(0, 3))
# A request: its events, whether it is sent again at once, and whether the drain writes it later than it was accepted.
_REQUEST = st.tuples(st.lists(_EVENT, min_size=1, max_size=8), st.booleans(), st.booleans())


class Request(NamedTuple):
    events: Sequence[Event]
    at: int


@st.composite
def histories(draw: st.DrawFn) -> tuple[Layout, list[Request]]:
    by = draw(st.sampled_from(["time", "series"]))
    layout = Layout(
        by,  # type: ignore[arg-type]
        draw(st.sampled_from([1, 3])),
        draw(st.sampled_from(["id", "series"])) if by == "time" else "id",
        3600 if by == "time" else 0,
        pack=Packing(SPAN, draw(st.sampled_from([65_536, 150]))),
    )
    written: list[Request] = []
    delayed: list[Request] = []
    at = 0
    for sent, again, drained in draw(st.lists(_REQUEST, max_size=10)):
        at += 1
        events = [Event(series, NOON + timedelta(seconds=time), id, {"v": v}) for time, series, id, v in sent]
        (delayed if drained else written).append(Request(events, at))
        if again:
            # A sender without an answer sends the events again, in batches of another size.
            cut = draw(st.integers(0, len(events)))
            for some in (events[:cut], events[cut:]):
                at += 1
                if some:
                    written.append(Request(some, at))
    return layout, written + draw(st.permutations(delayed))


def history(requests: Sequence[Request]) -> dict[tuple[datetime, str, str], tuple[int, object]]:
    """The events by series, time and id: the copy that was accepted last; within one request, the last copy."""
    held: dict[tuple[datetime, str, str], tuple[int, object]] = {}
    for request in requests:
        for event in request.events:
            place = (event.time, event.series, event.id)
            if place not in held or held[place][0] <= request.at:
                held[place] = (request.at, event.data["v"])
    return held


@settings(deadline=None, max_examples=150)
@given(
    histories(),
    st.booleans(),
    _SECONDS,
    _SECONDS,
    st.integers(1, 5),
    st.sampled_from([(1, 1), (3, 2), (50_000, 1_000)]),
)
def test_every_page_of_every_range_is_what_was_sent(
    past: tuple[Layout, list[Request]],
    ascending: bool,
    one: float,
    other: float,
    limit: int,
    merging: tuple[int, int],
) -> None:
    with mock.patch.multiple(walk, _MERGE_ABOVE=merging[0], _RUN=merging[1]):
        check_pages(*past, ascending=ascending, one=one, other=other, limit=limit)


def check_pages(
    layout: Layout, requests: Sequence[Request], *, ascending: bool, one: float, other: float, limit: int
) -> None:
    table = PackTable(layout)
    for request in requests:
        table.send(request.events, request.at)
    start, end = (NOON + timedelta(seconds=seconds) for seconds in (min(one, other), max(one, other)))
    held = history(requests)
    for logical in table.logicals():
        expected = sorted(
            (stored_place(layout.partition_by, *place), at, f'{{"v":{v}}}')
            for place, (at, v) in held.items()
            if stored_partition(layout.partition_by, layout.bucket, *place[:2]) == logical and start <= place[0] < end
        )
        if not ascending:
            expected.reverse()
        answer = _pages(table, logical, start, end, limit, ascending=ascending)
        assert [(place, value) for place, _, value in answer] == [(place, value) for place, _, value in expected]
        assert [at for _, at, _ in answer] == [at for _, at, _ in expected]
        # Pruned reads give the same events as a read of everything.
        whole = table.read(logical, ascending=ascending, low=to_text(start), high=to_text(end))
        assert [(place, copy.at, copy.value) for place, copy in whole] == answer


def _pages(
    table: PackTable, logical: str, start: datetime, end: datetime, limit: int, *, ascending: bool
) -> list[tuple[str, int, object]]:
    """A range, page by page: each page continues after the last event of the page before, and reads no more than
    necessary.
    """
    answer: list[tuple[str, int, object]] = []
    low, high = to_text(start), to_text(end)
    while True:
        keys = find_key_range(datetime.fromisoformat(low[:27]), datetime.fromisoformat(high[:27]) + _NEXT, SPAN)
        page = table.read(logical, ascending=ascending, low=low, high=high, keys=keys)[:limit]
        answer += [(place, copy.at, copy.value) for place, copy in page]
        if len(page) < limit:
            return answer
        if ascending:
            low = page[-1][0] + "\0"
        else:
            high = page[-1][0]


# A cursor is the position of an event: other events of its instant may come before it.
_NEXT = timedelta(microseconds=1)
