"""Random events and queries, for the API and in SQL."""

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st

from tests.fakes import SEAL
from tests.query.stored_events import DAYS, NOW, START, StoredEvents
from tidetable.events import Event
from tidetable.query import parse_query, run_query
from tidetable.times import to_text

SERIES, STATES, STATUSES = ["a", "ab", "b", "c#"], ["CA", "NV", "NY"], ["new", "old", "odd,"]


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


_DATA = st.fixed_dictionaries(
    {
        "mag": optional(st.decimals(-3, 9, places=1)),
        "status": optional(st.sampled_from(STATUSES)),
        "place": st.fixed_dictionaries({"state": st.sampled_from(STATES)}),
        "type": st.sampled_from(["order", "refund"]),
        "customer": st.sampled_from(["c1", "c2"]),
        "ok": optional(st.booleans()),
    }
)
# The series, the time as a number of half hours, and the data, of which some fields are left out.
_CONTENT = st.tuples(st.sampled_from(SERIES), st.integers(0, DAYS * 48 - 1), _DATA)
# A list without a least size has five elements on the average.
_CONTENTS = st.integers(0, 60).flatmap(lambda count: st.lists(_CONTENT, min_size=count, max_size=count))


def _event_of(number: int, series: str, half_hours: int, data: dict[str, Any]) -> Event:
    fields = {name: value for name, value in data.items() if value is not None}
    return Event(series, START + timedelta(minutes=30 * half_hours), f"e{number}", fields)


# Events with distinct keys; some of them lack fields.
events = _CONTENTS.map(lambda contents: [_event_of(number, *content) for number, content in enumerate(contents)])


# Conditions for the API and in SQL. Equalities come first, because an index may answer them.
EQUAL = [
    ("where.status", "new", "status = 'new'"),
    ("where.status:in", "new,old", "status IN ('new', 'old')"),
    ("where.place.state", "CA", "state = 'CA'"),
    ("where.mag", "1.50", "mag = 1.5"),
    ("where.ok", "true", "ok"),
]
OTHERS = [
    ("where.mag:ge", "2", "mag >= 2"),
    ("where.mag:lt", "4.5", "mag < 4.5"),
    ("where.mag:ne", "1", "mag <> 1"),
    ("where.status:prefix", "o", "status LIKE 'o%'"),
    ("where.place.state:gt", "CA", "state > 'CA'"),
    ("where.ok:ne", "false", "ok"),
    ("where.customer:in", "c1,c3", "customer IN ('c1', 'c3')"),
]
KINDS = [("where.type", "order", "type = 'order'"), ("where.customer", "c2", "customer = 'c2'")]

conditions = st.one_of(
    st.tuples(st.sampled_from(EQUAL), st.sampled_from(OTHERS)).map(list),
    st.lists(st.sampled_from(EQUAL + OTHERS), max_size=2, unique_by=lambda condition: condition[0]),
    st.just(KINDS),
)
# Conditions on names for the API and in SQL.
NAMES: list[tuple[dict[str, list[str]], str]] = [
    ({"series": ["a"]}, "series = 'a'"),
    ({"series": ["c#"]}, "series = 'c#'"),
    ({"series": ["b", "a"]}, "series IN ('a', 'b')"),
    ({"series": ["a", "ab", "b", "c#", "nobody"]}, "true"),
    ({"series": ["ab", "c#"], "id:prefix": ["e2"]}, "series IN ('ab', 'c#') AND starts_with(id, 'e2')"),
    ({"series": ["a", "ab"], "series:prefix": ["ab"]}, "series = 'ab'"),
    ({"series": ["a", "b"], "id": ["e1", "e3", "e5", "e7"]}, "series IN ('a', 'b') AND id IN ('e1', 'e3', 'e5', 'e7')"),
]
WIDE: list[tuple[dict[str, list[str]], str]] = [
    ({}, "true"),
    ({"series:prefix": ["a"]}, "starts_with(series, 'a')"),
    ({"series:prefix": ["c"], "id:prefix": ["e"]}, "starts_with(series, 'c')"),
    ({"id": ["e4"]}, "id = 'e4'"),
    ({"id": ["e4", "e5", "e6", "none"]}, "id IN ('e4', 'e5', 'e6')"),
    ({"id:prefix": ["e1"]}, "starts_with(id, 'e1')"),
]


ranges = st.tuples(st.integers(0, 119), st.integers(1, 120)).map(
    lambda pair: (START + timedelta(hours=pair[0]), START + timedelta(hours=min(pair[0] + pair[1], 24 * DAYS)))
)


def clauses(span: Any, *more: str) -> str:
    start, end = span
    return " AND ".join([f"time >= '{to_text(start)}'", f"time < '{to_text(end)}'", *more])


def make_parameters(span: Any, some: Any, **more: str) -> dict[str, list[str]]:
    start, end = span
    values = {"from": to_text(start), "to": to_text(end), **{name: value for name, value, _ in some}, **more}
    return {name: [value] for name, value in values.items()}


def walk(base: StoredEvents, parameters: dict[str, list[str]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    while True:
        query = parse_query(base.policy, parameters, NOW, SEAL)
        answer = run_query(query, base.policy, base.reader, NOW, lambda: 100.0)
        assert answer.count <= query.limit
        rows += answer.document()["events"]
        if answer.next is None:
            assert answer.gaps == []
            return rows
        parameters = {"cursor": [answer.next], "limit": parameters["limit"]}
