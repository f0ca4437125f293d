"""Conditions on series and id: several series in one walk, ids, prefixes, their price and their refusals."""

import json
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.fakes import SEAL
from tests.query.positions import find_position
from tests.query.stored_events import BY_SERIES, DAYS, NOW, SERIAL, START, TIMELY, StoredEvents, stream
from tidetable.archive.wire import decode_request, encode_request
from tidetable.conditions import NameConditions
from tidetable.events import Event
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange
from tidetable.problems import ProblemError
from tidetable.query import parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.times import to_text

SPAN = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=DAYS))]}
SERIES = ["a", "a!", "ab", "b#1", "ü%"]
BARE = stream(BY_SERIES, "")
# Days 0 and 2 are archived.
BY_HASH_OF_SERIES = replace(BARE.layout, shard_by="series")
KEPT = replace(BARE.layout, versioned=True)

# Two times of a day, so that series and id nearly always decide.
crowded = st.lists(
    st.builds(
        Event,
        series=st.sampled_from(SERIES),
        time=st.integers(0, 2 * DAYS - 1).map(lambda half: START + timedelta(hours=12 * half)),
        id=st.sampled_from(["1", "2", "#", "%23", "12"]),
        data=st.just({}),
    ),
    max_size=60,
    unique_by=find_position,
)


def walk(base: StoredEvents, parameters: dict[str, list[str]], limit: int = 100) -> list[Event]:
    events: list[Event] = []
    query_string = {**SPAN, **parameters, "limit": [str(limit)]}
    for _ in range(200):
        query = parse_query(base.policy, query_string, NOW, SEAL)
        answer = run_query(query, base.policy, base.reader, NOW, lambda: 100.0)
        assert answer.count <= limit
        rows = answer.document()["events"]
        events += [next(event for event in base.events if answers(row, event)) for row in rows]
        if answer.next is None:
            return events
        query_string = {"cursor": [answer.next], "limit": [str(limit)]}
    raise AssertionError("the walk does not end")


def answers(row: dict[str, Any], event: Event) -> bool:
    return (row["series"], row["time"], row["id"]) == (event.series, to_text(event.time), event.id)


@settings(max_examples=150, deadline=None)
@given(
    crowded,
    st.lists(st.sampled_from([*SERIES, "nobody"]), min_size=2, max_size=5, unique=True),
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 6),
    st.sampled_from([BARE.layout, BY_HASH_OF_SERIES, KEPT, TIMELY.layout]),
)
def test_several_series_come_in_one_order_and_a_cursor_goes_on_within_a_moment(
    events: list[Event], series: list[str], order: str, limit: int, layout: Layout
) -> None:
    base = StoredEvents(BARE, events, [BARE.layout, layout, TIMELY.layout, layout, layout])
    wanted = sorted((event for event in events if event.series in series), key=find_position, reverse=order == "desc")
    assert walk(base, {"series": series, "order": [order]}, limit) == wanted


def scattered(count: int = 200) -> list[Event]:
    return [
        Event(SERIES[n % 5], START + timedelta(days=1, minutes=n), f"{'x' if n % 2 else 'y'}{n}", {"mag": n})
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("parameters", "wanted"),
    [
        ({"id": ["x7"]}, ["x7"]),
        ({"id": ["y8", "x7", "none"]}, ["y8", "x7"]),
        ({"id:prefix": ["x19"]}, ["x199", "x197", "x195", "x193", "x191", "x19"]),
        ({"series:prefix": ["a"], "id:prefix": ["y1"], "where.mag:lt": ["19"]}, ["y16", "y12", "y10"]),
        ({"series": ["ab"], "id": ["x7", "y2"]}, ["x7", "y2"]),
    ],
)
@pytest.mark.parametrize("policy", [TIMELY, SERIAL], ids=["by time", "by series"])
def test_ids_and_prefixes_are_conditions_like_others(
    policy: Any, parameters: dict[str, list[str]], wanted: list[str]
) -> None:
    base = StoredEvents(policy, scattered(), [policy.layout] * DAYS)
    assert [event.id for event in walk(base, parameters, 2)] == wanted


def test_an_id_is_looked_for_in_its_own_suffix_alone() -> None:
    """Three of the four suffixes of each bucket are not read."""
    base = StoredEvents(TIMELY, scattered(), [TIMELY.layout] * DAYS)
    span = {"from": [to_text(START + timedelta(days=1))], "to": [to_text(START + timedelta(days=1, hours=6))]}
    query = parse_query(TIMELY, span | {"id": ["x7"]}, NOW, SEAL)
    page = run_query(query, TIMELY, base.reader, NOW, lambda: 100.0)
    whole = run_query(
        parse_query(TIMELY, span | {"limit": ["1000"]}, NOW, SEAL), TIMELY, base.reader, NOW, lambda: 100.0
    )
    assert (page.count, whole.count) == (1, 200)
    assert page.cost.read < 80
    assert whole.cost.read == 200


def test_an_aggregate_of_several_series() -> None:
    base = StoredEvents(BARE, scattered(), [BARE.layout] * DAYS)
    query = parse_aggregation(BARE, SPAN | {"series": ["a", "ü%"], "by": ["series"]}, NOW, SEAL)
    rows = find_aggregate(query, BARE, base.reader, NOW, lambda: 100.0).rows
    assert [(row["group"]["series"], row["count"]) for row in rows] == [("a", 40), ("ü%", 40)]


def test_a_hundred_series_are_one_query() -> None:
    events = [Event(f"s{n:03d}", START + timedelta(days=1, seconds=n), "1", {}) for n in range(150)]
    base = StoredEvents(BARE, events, [BARE.layout] * DAYS)
    names = [f"s{n:03d}" for n in range(100)]
    assert [event.series for event in walk(base, {"series": names, "order": ["asc"]}, 30)] == names


def test_a_cursor_takes_the_same_names_in_any_order_and_no_others() -> None:
    base = StoredEvents(BARE, scattered(), [BARE.layout] * DAYS)
    query = parse_query(BARE, SPAN | {"series": ["b#1", "a"], "limit": ["3"]}, NOW, SEAL)
    following = run_query(query, BARE, base.reader, NOW, lambda: 100.0).next
    assert following
    assert parse_query(BARE, {"cursor": [following], "series": ["a", "b#1", "a"]}, NOW, SEAL).names == query.names
    for other in ({"series": ["a"]}, {"series": ["a", "b#1", "ab"]}, {"id": ["x"]}, {"series:prefix": ["a"]}):
        with pytest.raises(ProblemError, match="another query"):
            parse_query(BARE, {"cursor": [following], **other}, NOW, SEAL)


def test_a_range_of_an_archive_is_the_same_on_its_way_to_the_reader() -> None:
    names = NameConditions(("a", "ü%"), ("1",), "a", "\x01")
    keys = ArchiveRange("m", "low", "high", None, "after", versions=True, names=names, version=3)
    request = encode_request(keys, 10, ascending=True)
    assert decode_request(json.loads(json.dumps(request))) == (keys, 10, True)


@pytest.mark.parametrize(
    ("parameters", "code", "detail"),
    [
        ({"series": [f"s{n}" for n in range(101)]}, "bad_parameter", "at most 100"),
        ({"id": [f"s{n}" for n in range(101)]}, "bad_parameter", "at most 100"),
        ({"series": ["a", ""]}, "bad_parameter", "1 to 480 bytes"),
        ({"id": ["x" * 481]}, "bad_parameter", "1 to 480 bytes"),
        ({"series:prefix": [""]}, "bad_parameter", "1 to 480 bytes"),
        ({"series:prefix": ["a", "b"]}, "bad_parameter", "give it once"),
        ({"series:prefix": ["a"]}, "needs_series", "series:prefix names no series"),
        ({"id": ["a"]}, "needs_series", "add series="),
        ({"series": [f"{n:0480d}" for n in range(11)]}, "bad_parameter", "query less at once"),
    ],
)
def test_names_that_cannot_be_queried_are_refused(parameters: dict[str, list[str]], code: str, detail: str) -> None:
    with pytest.raises(ProblemError) as caught:
        parse_query(BARE, parameters, NOW, SEAL)
    assert (caught.value.problem.status, caught.value.problem.code) == (400, code)
    assert detail in caught.value.problem.detail
