"""Indexes that are sorted by several fields, global and local: random queries are compared with DuckDB."""

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fakes import SEAL
from tests.query.random_queries import KINDS, NAMES, clauses, events, make_parameters, ranges, walk
from tests.query.stored_events import BY_SERIES, BY_TIME, DAYS, NOW, START, StoredEvents, stream
from tidetable.archive import reading
from tidetable.conditions import Condition, NameConditions
from tidetable.events import Event
from tidetable.layout import Index, Key, Layout
from tidetable.problems import ProblemError
from tidetable.query import gather, index_scans, parse_query, run_query, session
from tidetable.query.access_path import choose_access_path
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.rankings import parse_ranking
from tidetable.times import to_text

_LEVELS = 'sort_by = ["place.state", "status", "type"]'
GLOBAL = f'\n[[streams.s.index]]\nname = "places"\npartition_by = "*"\nshards = 3\n{_LEVELS}\n'
NARROW = f'\n[[streams.s.index]]\nname = "narrow"\npartition_by = "*"\nproject = ["status"]\n{_LEVELS}\n'
OWN = '\n[[streams.s.index]]\nname = "own"\npartition_by = "customer"\nsort_by = ["status", "type"]\nproject = "keys"\n'
LOCAL = f'\n[[streams.s.index]]\nname = "near"\nlocal = true\n{_LEVELS}\n'
LOCAL_KEYS = f'\n[[streams.s.index]]\nname = "near"\nlocal = true\nproject = "keys"\n{_LEVELS}\n'
ALL = '\n[[streams.s.index]]\nname = "all"\npartition_by = "*"\n'

TIMELY, SERIAL = stream(BY_TIME, GLOBAL + OWN), stream(BY_SERIES, GLOBAL + OWN + ALL)
TIME_LOCAL, SERIES_LOCAL = stream(BY_TIME, LOCAL), stream(BY_SERIES, LOCAL + ALL)
BARE, NARROWED = stream(BY_TIME, "").layout, stream(BY_TIME, NARROW).layout
# The days' layouts, two of which are archived; the last day has the policy's own. Some have no such index.
WORLDS = {
    "global, by time": (TIMELY, [TIMELY.layout, TIMELY.layout, BARE, NARROWED, TIMELY.layout]),
    "global, by series": (SERIAL, [BARE, SERIAL.layout, NARROWED, SERIAL.layout, SERIAL.layout]),
    "local, by time": (TIME_LOCAL, [TIME_LOCAL.layout, stream(BY_TIME, LOCAL_KEYS).layout, BARE, BARE, TIME_LOCAL.layout]),
    "local, by series": (
        SERIES_LOCAL,
        [BARE, stream(BY_SERIES, LOCAL_KEYS + ALL).layout, BARE, SERIES_LOCAL.layout, SERIES_LOCAL.layout],
    ),
}  # fmt: skip
FIRST = [
    ("where.place.state", "CA", "state = 'CA'"),
    ("where.place.state:in", "CA,NY,XX", "state IN ('CA', 'NY', 'XX')"),
    ("where.place.state:prefix", "N", "starts_with(state, 'N')"),
]
SECOND = [
    ("where.status", "new", "status = 'new'"),
    ("where.status:in", "new,odd,,old", "status IN ('new', 'odd', 'old')"),
    ("where.status:prefix", "o", "starts_with(status, 'o')"),
    ("where.status:ne", "old", "status <> 'old'"),
]
conditions = st.tuples(
    st.sampled_from(FIRST),
    st.none() | st.sampled_from(SECOND),
    st.none() | st.sampled_from(KINDS[:1]),
    st.none() | st.sampled_from(KINDS[1:]),
).map(lambda some: [condition for condition in some if condition is not None])
Condition_ = tuple[str, str, str]


@pytest.fixture(autouse=True, scope="module")
def small_reads() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "MAX_READ", 5)
        yield


@settings(max_examples=200, deadline=None)
@given(
    events,
    st.sampled_from(list(WORLDS)),
    ranges,
    conditions,
    st.none() | st.sampled_from(NAMES),
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 70),
    st.sampled_from([1, 700, 10**6]),
    st.sampled_from([{}, {"fields": "status"}, {"consistent": "true"}]),
)
def test_every_level_answers_what_sql_does(
    many: list[Event],
    world: str,
    span: Any,
    some: Sequence[Condition_],
    names: Any,
    order: str,
    limit: int,
    kept: int,
    more: dict[str, str],
) -> None:
    """In order, page by page, each event once; also if only a few events fit into memory at once."""
    policy, layouts = WORLDS[world]
    if "by series" in world and names is None and "consistent" in more:
        names = NAMES[0]
    base = StoredEvents(policy, many, layouts)
    named, sql = names or ({}, "true")
    parameters = make_parameters(span, some, order=order, limit=str(limit), **more) | named
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gather, "KEPT_BYTES", kept)
        found = [row["id"] for row in walk(base, parameters)]
    where = clauses(span, sql, *(condition for _, _, condition in some))
    rows = base.sql(f"SELECT id FROM e WHERE {where} ORDER BY time {order}, series {order}, id {order}")  # noqa: S608
    assert found == [row[0] for row in rows]


@pytest.mark.parametrize("limit", ["1", "4", "100"])
def test_events_of_several_values_of_the_last_level_are_in_the_order_of_time(limit: str) -> None:
    levels = '\n[[streams.s.index]]\nname = "both"\npartition_by = "v"\nsort_by = ["w", "u"]\n'
    policy = stream(BY_TIME, levels)
    many = [
        Event("a", START + timedelta(days=1, minutes=n), f"e{n}", {"v": "k", "w": "a", "u": "xyz"[n % 3]})
        for n in range(9)
    ]
    base = StoredEvents(policy, many, [policy.layout] * DAYS)
    span = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=2))], "limit": [limit]}
    rows = walk(base, span | {"where.v": ["k"], "where.w": ["a"], "where.u:in": ["x,z"]})
    assert [row["id"] for row in rows] == ["e8", "e6", "e5", "e3", "e2", "e0"]


def test_pages_that_are_gathered_are_never_shortened_to_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shortened page does not name the key at which its range goes on."""
    policy = stream(BY_TIME, '\n[[streams.s.index]]\nname = "both"\npartition_by = "v"\nsort_by = ["w", "u"]\n')
    last = START + timedelta(days=DAYS - 1)
    many = [Event("a", last + timedelta(minutes=n), f"e{n}", {"v": "kl"[n % 2], "w": "a"}) for n in range(6)]
    base = StoredEvents(policy, many, [policy.layout] * DAYS)
    monkeypatch.setattr(session, "TEXTS_AT_ONCE", 0)
    monkeypatch.setattr(session, "cut_reads", lambda *_, **__: pytest.fail("the pages are shortened"))
    span = {"from": [to_text(last)], "to": [to_text(last + timedelta(days=1))]}
    rows = walk(base, span | {"where.v:in": ["k,l"], "where.w": ["a"]})
    assert [row["id"] for row in rows] == ["e5", "e4", "e3", "e2", "e1", "e0"]


def test_values_of_every_type_are_found_as_without_the_index() -> None:
    """The text "5", the number 5, the empty text and a missing field are four different things."""
    values: list[Any] = ["5", 5, "", None, True, "true", "5x", 50, "a\x01b", ["x"]]
    many = [
        Event("a", START + timedelta(days=1, minutes=number), f"e{number}", {"v": "k", "w": value})
        for number, value in enumerate(values)
    ]
    levels = '\n[[streams.s.index]]\nname = "both"\npartition_by = "v"\nsort_by = ["w"]\n'
    bases = [
        StoredEvents(policy, many, [policy.layout] * DAYS) for policy in (stream(BY_TIME, levels), stream(BY_TIME, ""))
    ]
    span = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=2))], "limit": ["100"], "where.v": ["k"]}
    for condition, wanted in (
        ({"where.w": ["5"]}, ["e1", "e0"]),
        ({"where.w": ["5.0"]}, ["e1"]),
        ({"where.w": [""]}, ["e2"]),
        ({"where.w": ["true"]}, ["e5", "e4"]),
        ({"where.w:prefix": ["5"]}, ["e6", "e0"]),
        ({"where.w:in": ["5,true,a\x01b"]}, ["e8", "e5", "e4", "e1", "e0"]),
        ({}, [f"e{number}" for number in range(9, -1, -1)]),
    ):
        assert [[row["id"] for row in walk(base, span | condition)] for base in bases] == [wanted, wanted]


LAYOUT = Layout(
    "time", 4, "id", 3_600,
    (
        Index("by_status", "status", 2),
        Index("places", "*", 2, levels=("country", "region", "city")),
        Index("mine", "status", 2, levels=("country",)),
        Index("near", local=True, levels=("region", "kind")),
    ),
)  # fmt: skip


def eq(field: str, *values: str) -> Condition:
    return Condition(field, "eq" if len(values) == 1 else "in", values)


def prefix(field: str, value: str) -> Condition:
    return Condition(field, "prefix", (value,))


@pytest.mark.parametrize(
    ("conditions", "wanted"),
    [
        # The index, the beginnings of its keys, whether it must be gathered, and what is left to filter.
        ([eq("country", "US")], ("places", ["US\x01"], True, [])),
        ([prefix("country", "U")], ("places", ["U"], True, [])),
        ([eq("country", "US"), eq("region", "CA")], ("places", ["US\x01CA\x01"], True, [])),
        ([eq("country", "US"), prefix("region", "C")], ("places", ["US\x01C"], True, [])),
        ([eq("country", "US"), eq("city", "LA")], ("places", ["US\x01"], True, ["city"])),
        (
            [eq("country", "US"), eq("region", "CA", "NV"), eq("city", "LA")],
            ("places", ["US\x01CA\x01LA\x01", "US\x01NV\x01LA\x01"], False, []),
        ),
        ([prefix("country", "U"), eq("region", "CA")], ("places", ["U"], True, ["region"])),
        ([eq("country", "7")], ("places", ["7\x01", "\x02\x037\x01"], True, [])),
        # What answers more conditions, and what is in order, comes first.
        ([eq("status", "new")], ("by_status", [""], False, [])),
        ([eq("status", "new"), eq("country", "US")], ("mine", ["US\x01"], False, [])),
        ([eq("status", "new"), prefix("country", "U")], ("by_status", [""], False, ["country"])),
        ([eq("region", "CA"), eq("kind", "x")], ("near", ["CA\x01x\x01"], False, [])),
        ([eq("region", "CA")], ("near", ["CA\x01"], True, [])),
        # Neither begins with the city or the kind.
        ([eq("city", "LA")], (None, [""], False, ["city"])),
        ([prefix("kind", "x")], (None, [""], False, ["kind"])),
        ([Condition("country", "ge", ("U",))], (None, [""], False, ["country"])),
        ([eq("country", *(f"c{n}" for n in range(31)))], (None, [""], False, ["country"])),
    ],
)  # fmt: skip
def test_the_planner_takes_as_many_levels_as_the_conditions_name(
    conditions: list[Condition], wanted: tuple[Any, ...]
) -> None:
    path = choose_access_path(LAYOUT, NameConditions(), tuple(conditions), consistent=False, low=False)
    assert path is not None
    name = None if path.index is None else path.index.name
    left = [condition.field for condition in path.conditions]
    assert (name, list(path.heads), path.gathers, left) == wanted


def test_a_consistent_query_takes_a_local_index_and_one_of_low_priority_the_replica() -> None:
    both = (eq("region", "CA"), eq("kind", "x"))

    def taken(layout: Layout, **options: Any) -> str | None:
        path = choose_access_path(layout, NameConditions(), both, **{"consistent": False, "low": False, **options})
        return None if path is None or path.index is None else path.index.name

    copied = Layout("time", 4, "id", 3_600, (*LAYOUT.indexes, Index("copy", replica=True)))
    assert taken(LAYOUT, consistent=True) == "near"
    assert taken(copied, low=True) == "copy"


def test_a_short_range_is_read_from_the_table_rather_than_gathered() -> None:
    """A gathered range has all of its bucket or period, a table a minute of it."""
    part = (eq("region", "CA"),)
    for share, index in ((0.05, None), (0.2, "near")):
        path = choose_access_path(LAYOUT, NameConditions(), part, consistent=False, low=False, share=share)
        assert path is not None
        assert (path.index.name if path.index else None) == index


def test_a_series_has_its_local_index_and_no_global_one() -> None:
    layout = Layout("series", 2, "id", indexes=LAYOUT.indexes)
    for names, index in ((NameConditions(series=("a",)), "near"), (NameConditions(), None)):
        path = choose_access_path(layout, names, (eq("region", "CA"), eq("kind", "x")), consistent=False, low=False)
        assert (path and path.index and path.index.name) == index


def test_a_query_by_a_later_level_is_refused_with_what_lacks() -> None:
    """A stream partitioned by series would have to be scanned; one partitioned by time filters its table."""
    levels = '\n[[streams.s.index]]\nname = "places"\npartition_by = "*"\nsort_by = ["country", "region"]\n'
    own = levels.replace('"*"', '"owner"').replace("places", "owned")
    for indexes, condition, detail in (
        (
            levels,
            {"where.region": "CA"},
            "where.country: the index places is sorted by country, region in this order, so",
        ),
        (levels, {"where.region:gt": "C"}, "(where.region:gt is applied after reading)"),
        (levels, {"where.region:prefix": "C"}, 'an index with sort_by = ["region"] would serve it'),
        (own, {"where.country": "US"}, "where.owner: the index owned is sorted by"),
        (own, {"where.owner": "me", "where.region": "US"}, "whole tables; or where.country: the index owned is"),
        (own, {"where.region": "US"}, "where.owner and where.country: the index owned"),
        (levels, {"where.kind": "x"}, 'partition_by = "kind" would serve where.kind'),
        (levels, {}, "where.country is served now"),
        (own, {}, "where.owner with where.country is served now"),
    ):
        policy = stream(BY_SERIES, indexes)
        with pytest.raises(ProblemError) as caught:
            parse_query(policy, {name: [value] for name, value in condition.items()}, NOW, SEAL)
        assert (caught.value.problem.status, detail in caught.value.problem.detail) == (400, True), caught.value
    local = stream(BY_SERIES, levels.replace('partition_by = "*"', "local = true"))
    with pytest.raises(ProblemError, match="add series="):
        parse_query(local, {"where.country": ["US"]}, NOW, SEAL)
    for policy, parameters in ((local, {"series": ["a"]}), (stream(BY_TIME, levels), {})):
        parse_query(policy, {"where.region": ["CA"]} | parameters, NOW, SEAL)


BY_TEXT = ", and a ranking has the order of numbers: query events with {}, or ask aggregate with by=country, whose rows are in"
NO_RANKINGS = {
    'partition_by = "*"\nsort_by = ["country", "region"]': (
        "the text of country, region" + BY_TEXT.format("where.country=") + " the order of text"
    ),
    'partition_by = "owner"\nsort_by = ["country"]': (
        "the text of country" + BY_TEXT.format("where.owner= and where.country=") + " the order of text"
    ),
    'partition_by = "owner"': (
        "time, and a ranking has the order of numbers: query events, which are in the order of time"
    ),
}


@pytest.mark.parametrize("index", NO_RANKINGS)
def test_an_index_without_numbers_is_no_ranking_and_says_what_to_do(index: str) -> None:
    detail = f"the index places is sorted by {NO_RANKINGS[index]}"
    ranked = '\n[[streams.s.index]]\nname = "best"\npartition_by = "*"\nsort_by = "score"\n'
    for more, rankings in (("", ""), (ranked, "; the stream's rankings are best")):
        policy = stream(BY_TIME, f'\n[[streams.s.index]]\nname = "places"\n{index}\n{more}')
        with pytest.raises(ProblemError) as caught:
            parse_ranking(policy, {"index": ["places"]}, NOW, SEAL)
        problem = caught.value.problem
        assert (problem.status, problem.code, problem.detail) == (400, "bad_parameter", detail + rankings)


def test_rows_of_groups_are_in_the_order_of_text() -> None:
    """What a ranking by text is told to ask instead."""
    countries = ("US", "AT", "de", "CH", "Z")
    many = [
        Event("a", START + timedelta(days=1, minutes=number), f"e{number}", {"country": country})
        for number, country in enumerate(countries)
    ]
    base = StoredEvents(TIMELY, many, [TIMELY.layout] * DAYS)
    span = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=2))], "by": ["country"]}
    aggregation = parse_aggregation(TIMELY, span, NOW, SEAL)
    rows = find_aggregate(aggregation, TIMELY, base.reader, NOW, lambda: 100.0).rows
    assert [row["group"]["country"] for row in rows] == ["AT", "CH", "US", "Z", "de"]


def test_a_range_that_takes_too_long_to_gather_is_refused_with_what_to_do() -> None:
    many = [
        Event("a", START + timedelta(days=1, minutes=number), f"e{number}", {"place": {"state": "CA"}})
        for number in range(30)
    ]
    base = StoredEvents(TIMELY, many, [TIMELY.layout] * DAYS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_scans, "GATHERED", 5)
        query = parse_query(
            TIMELY, make_parameters((START, START + timedelta(days=2)), FIRST[:1], limit="9"), NOW, SEAL
        )
        with pytest.raises(ProblemError, match="name all of its levels") as caught:
            run_query(query, TIMELY, base.reader, NOW, lambda: 1.0)
        assert (caught.value.problem.status, caught.value.problem.code) == (422, "too_much")
        assert run_query(query, TIMELY, base.reader, NOW, lambda: 100.0).count == 9


def test_an_event_under_two_levels_of_a_moment_is_shown_once() -> None:
    """The index still has it under its old value."""
    data = {"place": {"state": "CA"}, "status": "new", "type": "order"}
    many = [Event("a", START + timedelta(days=1, minutes=number), f"e{number}", data) for number in range(4)]
    base = StoredEvents(TIMELY, many, [TIMELY.layout] * DAYS)
    table = base.store.tables["tidetable-t.s.2026-03-02"]
    key, item = next(iter(table.items()))
    index = next(own for own in TIMELY.layout.indexes if own.name == "places")
    table[Key("elsewhere", key.sk)] = {**item, index.sk: item[index.sk].replace("CA", "NY")}
    every_level = [("where.place.state:in", "CA,NY", ""), ("where.status", "new", ""), ("where.type", "order", "")]
    rows = walk(base, make_parameters((START, START + timedelta(days=2)), every_level, limit="100"))
    assert [row["id"] for row in rows] == ["e3", "e2", "e1", "e0"]


def test_a_page_of_an_aggregate_that_gathers_begins_after_the_page_before() -> None:
    """All events of the value are read for each page: those of earlier steps are on earlier pages."""
    many = [
        Event("a", START + timedelta(days=1, minutes=number), f"e{number}", {"place": {"state": "CA"}, "mag": number})
        for number in range(30)
    ]
    base = StoredEvents(TIMELY, many, [TIMELY.layout] * DAYS)
    span = (START + timedelta(days=1), START + timedelta(days=2))
    parameters = make_parameters(
        span, FIRST[:1], step="10m", by="place.state", stat="count,sum", field="mag", limit="1"
    )
    pages: list[list[tuple[str, int, int]]] = []
    while len(pages) < 5:
        answer = find_aggregate(
            parse_aggregation(TIMELY, parameters, NOW, SEAL), TIMELY, base.reader, NOW, lambda: 100.0
        )
        pages.append([(row["start"][11:16], row["count"], row["sum"]) for row in answer.rows])
        if answer.next is None:
            break
        parameters = {"cursor": [answer.next], "limit": ["1"]}
    assert pages == [[("00:00", 10, 45)], [("00:10", 10, 145)], [("00:20", 10, 245)]]
