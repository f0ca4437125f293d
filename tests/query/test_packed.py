"""Queries of packed, plain and archived periods: every route gives the same answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import SEAL
from tests.worlds.packed import NOW, START, STREAMS, PackedDays, Request, show_event
from tidetable.events import Event
from tidetable.layout import Key, Ref
from tidetable.periods import Kind, find_containing
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.get import get_event
from tidetable.query.latest import find_latest
from tidetable.times import to_text

_DAY = 86_400
# Times around the edges of spans, buckets and days; instants repeat often.
_SECONDS = [0, 0.000001, 1, 30, 59.999999, 60, 60.000001, 3599.999999, 3600, 3600.000001, 21_599.999999, 21_600, 25_000]
_DAYS = st.integers(0, 3)
_TIMES = st.tuples(_DAYS, st.sampled_from([*_SECONDS, _DAY - 0.000001])).map(lambda time: time[0] * _DAY + time[1])
# Ranges within a day, or between any two times.
_WITHIN = st.tuples(_DAYS, st.sampled_from(_SECONDS), st.sampled_from(_SECONDS))
_RANGES = st.one_of(
    st.tuples(_TIMES, _TIMES),
    _WITHIN.map(lambda within: (within[0] * _DAY + within[1], within[0] * _DAY + within[2])),
    st.just((0.0, 4 * _DAY - 1.0)),
)
_SERIES = ["a", "a!", "b#1", "ü%"]
# Most events of a request are of one day; otherwise none would share a pack.
_EVENT = st.tuples(
    st.sampled_from([0, 0, 0, 0, _DAY]),
    st.sampled_from(_SECONDS),
    st.sampled_from(_SERIES),
    st.sampled_from(["1", "2#", "%"]),
    st.integers(0, 3),
)
# A day, its events, and whether they are repeated in other batches, written later by the drain, or written as plain items.
_REQUEST = st.tuples(
    st.tuples(_DAYS, st.lists(_EVENT, min_size=1, max_size=10)),
    st.booleans(),
    st.booleans(),
    st.sampled_from([False, False, True]),
)


@st.composite
def histories(draw: st.DrawFn) -> list[Request]:
    written: list[Request] = []
    delayed: list[Request] = []
    at = 0
    for (day, sent), again, drained, alone in draw(st.lists(_REQUEST, max_size=8)):
        at += 1
        events = [
            Event(series, START + timedelta(seconds=(day * _DAY + more + time) % (4 * _DAY)), id, {"v": v})
            for more, time, series, id, v in sent
        ]
        (delayed if drained else written).append(Request(events, at, alone))
        if again:
            cut = draw(st.integers(0, len(events)))
            for some in (events[:cut], events[cut:]):
                at += 1
                if some:
                    written.append(Request(some, at))
    return written + draw(st.permutations(delayed))


def walk(base: PackedDays, limit: int, *, seconds: Any = 100.0, **parameters: Any) -> list[dict[str, Any]]:
    """Every event of a query, page by page; each page has ``seconds`` of time."""
    events: list[dict[str, Any]] = []
    policy, query_string = STREAMS[base.by], dict(parameters)
    for _ in range(2_000):
        query = parse_query(policy, {**query_string, "limit": [str(limit)]}, NOW, SEAL)
        answer = run_query(query, policy, base.days.reader, NOW, lambda: seconds)
        rows = answer.document()["events"]
        assert not answer.gaps
        assert len(rows) <= limit
        events += rows
        if answer.next is None:
            return events
        assert rows or not seconds, "a page that is not the last holds something"
        query_string = {"cursor": [answer.next]}
    raise AssertionError("the walk has no end")


def without_refs(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "ref"} for row in rows]


@pytest.mark.parametrize("by", ["time", "series", "suffix"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_a_range_is_read_up_to_span_beyond_its_end(by: str, order: str) -> None:
    """The newest event of a pack lies beyond the range, and so does the copy of an event that counts."""
    times = (0, 30, 3599.999999)
    events = [Event("a", START + timedelta(seconds=time), str(time), {"v": 1}) for time in times]
    again = Event("a", events[1].time, events[1].id, {"v": 2})
    base = PackedDays(by, [Request([events[0], events[1]], 1), Request([again, events[2]], 2)])
    query_string = {"from": [START.isoformat()], "to": [(START + timedelta(seconds=31)).isoformat()], "order": [order]}
    rows = without_refs(walk(base, 1, series=["a"], **query_string))
    expected = [show_event(events[0]), show_event(again)]
    assert rows == (expected if order == "asc" else expected[::-1])


@settings(deadline=None, max_examples=100)
@given(
    st.sampled_from(["time", "series", "suffix"]),
    histories(),
    _RANGES,
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 12),
    st.sampled_from([[], [], ["a"], ["b#1", "a!"], _SERIES]),
    st.sampled_from([None, None, None, 1]),
    st.sampled_from(["", "", "", "2"]),
    st.sampled_from(["", "", "a", "b#", "b#1"]),
    st.booleans(),
)
def test_every_page_of_every_query_is_what_was_sent(
    by: str,
    requests: list[Request],
    times: tuple[float, float],
    order: str,
    limit: int,
    series: list[str],
    v: int | None,
    prefix: str,
    head: str,
    fields: bool,
) -> None:
    base = PackedDays(by, requests)
    series = series or (_SERIES if by == "series" else [])
    start, end = START + timedelta(seconds=min(times)), START + timedelta(seconds=max(times) + 0.000001)
    query_string = {"from": [start.isoformat()], "to": [end.isoformat()], "order": [order]}
    query_string |= {"series": series} if series else {}
    query_string |= {"where.v": [str(v)]} if v is not None else {}
    query_string |= {"id:prefix": [prefix]} if prefix else {}
    query_string |= {"series:prefix": [head]} if head else {}
    query_string |= {"fields": ["v"]} if fields else {}
    expected = [
        show_event(event)
        for event in base.counting()
        if start <= event.time < end
        and event.series in (series or _SERIES)
        and v in (None, event.data["v"])
        and event.id.startswith(prefix)
        and event.series.startswith(head)
    ]
    rows = walk(base, limit, **query_string)
    assert without_refs(rows) == (expected if order == "asc" else expected[::-1])
    # Many pages give the same events as one page.
    assert walk(base, 10_000, **query_string) == rows
    # So are pages that end because the time is up.
    assert walk(base, limit, seconds=0.0, **query_string) == rows


@pytest.mark.parametrize(
    "time",
    [
        "2026-03-01",
        "2026-03-01T00:00:00.000000",
        "2026-03-01T00:00:00.000000+00:00",
        "2026-03-02T00:00:00.000000Z",
        "9999-12-31T23:59:59.999999Z",
    ],
)
def test_a_ref_with_a_time_that_no_event_of_its_period_has_is_unknown(time: str) -> None:
    base = PackedDays("time", [Request([Event("a", START, "1", {"v": 1})], 1)])
    text = Ref("s", find_containing(START, Kind.DAY), Key(f"{to_text(START)}#0", f"{time}#a#1")).encode()
    with pytest.raises(ProblemError, match="404 unknown_event"):
        get_event(STREAMS["time"], text, base.days.reader)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(["time", "series", "suffix"]), histories())
def test_every_ref_and_every_other_route_say_the_same(by: str, requests: list[Request]) -> None:
    base = PackedDays(by, requests)
    policy, reader, counting = STREAMS[by], base.days.reader, base.counting()
    query_string = {"from": [START.isoformat()], "to": [NOW.isoformat()], "series": _SERIES}
    for row in walk(base, 100, **query_string):
        assert get_event(policy, row["ref"], reader) == row
        assert without_refs([get_event(policy, row["ref"], reader, {"consistent": ["true"]})]) == without_refs([row])
    aggregation = parse_aggregation(
        policy, query_string | {"stat": ["count,sum"], "field": ["v"], "by": ["series"], "step": ["1d"]}, NOW, SEAL
    )
    rows = find_aggregate(aggregation, policy, reader, NOW, lambda: 100.0).rows
    totals = {(row["start"][:10], row["group"]["series"]): (row["count"], row["sum"]) for row in rows}
    counts = Counter((f"{event.time:%Y-%m-%d}", event.series) for event in counting)
    sums: Counter[tuple[str, str]] = Counter()
    for event in counting:
        sums[f"{event.time:%Y-%m-%d}", event.series] += event.data["v"]
    assert totals == {group: (count, sums[group]) for group, count in counts.items()}
    if by != "time":
        # latest searches tables alone, and the newest day is archived: so that day is removed from the catalog.
        edge = START + timedelta(days=3)
        del base.days.catalog.items["s", find_containing(edge, Kind.DAY)]
        latest = find_latest(policy, {"series": _SERIES}, reader, NOW, lambda: 100.0).document()["latest"]
        # The first day of the last stream has packs by their content, in which only a scan finds a series.
        begin = START + timedelta(days=by == "suffix")
        newest = {event.series: show_event(event) for event in counting if begin <= event.time < edge}
        answered = {row["series"]: row["event"] for row in latest}
        assert {name: event and without_refs([event])[0] for name, event in answered.items()} == {
            name: newest.get(name) for name in _SERIES
        }
