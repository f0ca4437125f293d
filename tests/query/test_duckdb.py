"""Random queries over random events, compared with the same query in DuckDB."""

import re
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.fakes import SEAL
from tests.query.random_queries import (
    EQUAL,
    NAMES,
    OTHERS,
    WIDE,
    clauses,
    conditions,
    events,
    make_parameters,
    ranges,
    walk,
)
from tests.query.stored_events import BY_TIME, DAYS, NOW, SERIAL, START, TIMELY, StoredEvents, stream
from tidetable.archive import reading
from tidetable.events import Event
from tidetable.problems import ProblemError
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.rankings import find_top, parse_ranking
from tidetable.times import from_text, to_text

BARE = stream(BY_TIME, "").layout
KEPT = [replace(layout, versioned=True) for layout in (TIMELY.layout, SERIAL.layout)]
LAYOUTS = {
    "kept": (TIMELY, [KEPT[0], KEPT[1], KEPT[1], KEPT[0], TIMELY.layout]),
    "time": (TIMELY, [TIMELY.layout, SERIAL.layout, SERIAL.layout, TIMELY.layout, TIMELY.layout]),
    "series": (SERIAL, [BARE, SERIAL.layout, TIMELY.layout, SERIAL.layout, TIMELY.layout]),
}


@pytest.fixture(autouse=True, scope="module")
def small_reads() -> Iterator[None]:
    """Archives are read a few events at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "MAX_READ", 5)
        yield


@settings(max_examples=150, deadline=None)
@given(
    events,
    st.sampled_from(list(LAYOUTS)),
    ranges,
    conditions,
    st.sampled_from(NAMES + WIDE),
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 12),
    st.sampled_from(["normal", "low"]),
)
def test_events_are_those_of_the_same_query_in_sql(
    stored: list[Event],
    kind: str,
    span: Any,
    some: Any,
    names: tuple[dict[str, list[str]], str],
    order: str,
    limit: int,
    priority: str,
) -> None:
    policy, layouts = LAYOUTS[kind]
    parameters = make_parameters(span, some, order=order, limit=str(limit), priority=priority) | names[0]
    base = StoredEvents(policy, stored, layouts)
    ids = [row["id"] for row in walk(base, parameters)]
    where = clauses(span, *(sql for *_, sql in some), names[1])
    sql = f"SELECT id FROM e WHERE {where} ORDER BY time {order}, series {order}, id {order}"
    assert ids == [id for (id,) in base.sql(sql)]


@settings(max_examples=60, deadline=None)
@given(events, ranges, st.sampled_from([*EQUAL[:3], None]), st.lists(st.sampled_from(OTHERS), max_size=1))
def test_a_stream_by_series_is_read_as_a_whole_by_an_index_of_all_events(
    stored: list[Event], span: Any, equal: Any, others: Any
) -> None:
    some = [*([] if equal is None else [equal]), *others]
    base = StoredEvents(SERIAL, stored, [SERIAL.layout] * DAYS)
    ids = [row["id"] for row in walk(base, make_parameters(span, some, limit="7"))]
    sql = f"SELECT id FROM e WHERE {clauses(span, *(sql for *_, sql in some))} ORDER BY time DESC, series DESC, id DESC"
    assert ids == [id for (id,) in base.sql(sql)]


@settings(max_examples=100, deadline=None)
@given(
    events,
    ranges,
    st.sampled_from([("best", "new"), ("best", "odd,"), ("best_of_all", None)]),
    st.lists(st.sampled_from([*OTHERS, EQUAL[2]]), max_size=1),
    st.sampled_from(["asc", "desc"]),
    st.integers(1, 9),
)
def test_the_first_of_a_ranking_are_those_of_sql(
    stored: list[Event], span: Any, ranking: Any, some: Any, order: str, limit: int
) -> None:
    layouts = [TIMELY.layout, SERIAL.layout, BARE, KEPT[1], KEPT[0]]
    base = StoredEvents(TIMELY, stored, layouts)
    index, value = ranking
    parameters = make_parameters(span, some, index=index, order=order, limit=str(limit))
    if value is not None:
        parameters["value"] = [value]
    ranked: list[Any] = []
    while True:
        top = find_top(parse_ranking(TIMELY, parameters, NOW, SEAL), TIMELY, base.reader, NOW, lambda: 100.0)
        assert not top.extras["tied"]
        assert [row["rank"] for row in top.rows] == list(range(1, len(top.rows) + 1))
        assert all(row["value"] == row["data"]["mag"] for row in top.rows)
        ranked += [(row["id"], row["value"]) for row in top.rows]
        if top.next is None:
            break
        assert len(top.rows) == limit
        parameters = {"cursor": [top.next], "limit": [str(limit)]}
    only = [] if value is None else [f"status = '{value}'"]
    where = clauses(span, *(sql for *_, sql in some), *only, "mag IS NOT NULL")
    # Among equal numbers of one time, series and ids decide.
    sql = f"SELECT id, mag FROM e WHERE {where} ORDER BY mag {order}, time {order}, series {order}, id {order}"
    assert ranked == base.sql(sql)


def rows_of_a_step(detail: str, limit: int) -> int:
    """The limit that a refusal proposes."""
    match = re.search(r"set limit=(\d+)", detail)
    assert match, detail
    assert int(match[1]) > limit
    return int(match[1])


STATS = "count,sum,min,max,avg,first,last"


@settings(max_examples=100, deadline=None)
@given(
    events,
    st.sampled_from(list(LAYOUTS)),
    ranges,
    st.lists(st.sampled_from(OTHERS), max_size=1),
    st.sampled_from([None, "90m", "6h", "1d"]),
    st.sampled_from([None, "status", "series,place.state"]),
    st.integers(1, 10_000),
    st.sampled_from(NAMES + WIDE),
)
def test_aggregates_are_those_of_sql(
    stored: list[Event],
    kind: str,
    span: Any,
    some: Any,
    step: str | None,
    by: str | None,
    limit: int,
    names: tuple[dict[str, list[str]], str],
) -> None:
    policy, layouts = LAYOUTS[kind]
    base = StoredEvents(policy, stored, layouts)
    more = {name: value for name, value in (("step", step), ("by", by)) if value is not None}
    parameters = make_parameters(span, some, stat=STATS, field="mag", limit=str(limit), **more) | names[0]
    rows: list[dict[str, Any]] = []
    while True:
        query = parse_aggregation(policy, parameters, NOW, SEAL)
        try:
            answer = find_aggregate(query, policy, base.reader, NOW, lambda: 100.0)
        except ProblemError as error:
            # One step has more groups than a page may have rows: the refusal says how many.
            limit = rows_of_a_step(error.problem.detail, limit)
            parameters |= {"limit": [str(limit)]}
            continue
        assert len(answer.rows) <= limit
        rows += answer.rows
        if answer.next is None:
            break
        assert answer.rows
        parameters = {"cursor": [answer.next], "limit": [str(limit)]}
    groups = {None: [], "status": ["status"], "series,place.state": ["series", "state"]}[by]
    width = {None: "NULL", "90m": "90 minutes", "6h": "6 hours", "1d": "1 day"}[step]
    bucket = "NULL" if step is None else f"time_bucket(INTERVAL '{width}', time)"
    order = "time, series, id"
    where = clauses(span, *(sql for *_, sql in some), names[1], "mag IS NOT NULL")
    sql = (
        f"SELECT {', '.join([bucket, *groups])}, count(*), sum(mag), min(mag), max(mag), avg(mag), "
        f"arg_min(mag, ({order})), arg_max(mag, ({order})) FROM e WHERE {where} "
        f"GROUP BY {', '.join([bucket, *groups])}"
    )
    wanted = {}
    for bucket_start, *cells in base.sql(sql):
        group, (*exact, average, first, last) = tuple(cells[: len(groups)]), cells[len(groups) :]
        start = span[0] if bucket_start is None else max(bucket_start, span[0])
        wanted[start, group] = [*exact, pytest.approx(average), first, last]
    fields = [] if by is None else by.split(",")
    cells_by_group = {
        (from_text(row["start"]), tuple(row.get("group", {}).get(name) for name in fields)): [
            float(row[stat]) if stat == "avg" else row[stat] for stat in STATS.split(",")
        ]
        for row in rows
    }
    assert cells_by_group == wanted
    starts = [row["start"] for row in rows]
    assert starts == sorted(starts)


@settings(max_examples=60, deadline=None)
@given(events, ranges, st.sampled_from(["p50", "p95", "p99", "p0", "p100", "p12.5"]))
def test_percentiles_lie_within_their_bound(stored: list[Event], span: Any, stat: str) -> None:
    base = StoredEvents(TIMELY, stored, [TIMELY.layout] * DAYS)
    query = parse_aggregation(TIMELY, make_parameters(span, [], stat=stat, field="mag"), NOW, SEAL)
    answer = find_aggregate(query, TIMELY, base.reader, NOW, lambda: 100.0)
    values = sorted(
        Decimal(number) for (number,) in base.sql(f"SELECT mag FROM e WHERE {clauses(span)} AND mag IS NOT NULL")
    )
    if not values:
        assert answer.rows == []
        return
    assert answer.describe_rest()["approximate"] == {stat: {"relative_error": 0.01}}
    rank = float(stat[1:]) / 100 * (len(values) - 1)
    exact = [values[int(rank)], values[min(int(rank) + 1, len(values) - 1)]]
    estimate = float(answer.rows[0][stat])
    assert any(abs(estimate - float(number)) <= 0.01 * abs(float(number)) + 1e-9 for number in exact)


def test_events_of_several_series_that_share_time_and_id_are_told_apart_in_an_archive() -> None:
    stored = [Event(series, START + timedelta(minutes=minute), "same", {}) for series in "ab" for minute in range(3)]
    base = StoredEvents(SERIAL, stored, [SERIAL.layout] * DAYS)
    for order in ("asc", "desc"):
        span = (START, START + timedelta(days=1))
        names = [(row["time"], row["series"]) for row in walk(base, make_parameters(span, [], order=order, limit="1"))]
        assert names == sorted(((to_text(event.time), event.series) for event in stored), reverse=order == "desc")
