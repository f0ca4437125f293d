"""Random pages and aggregates of streams of every form, compared with the same in DuckDB.

The streams have copies of events in other batches, versions, cold and compressed data, rollups, archived periods and a
restored one. ``TIDETABLE_SEED=7`` makes another history and asks other questions, ``TIDETABLE_QUESTIONS=2000`` more.
"""

import os
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import duckdb
import pytest

from aws.archive import column_read
from tests.conftest import SEED
from tests.query.random_queries import NAMES, OTHERS, WIDE, clauses, make_parameters
from tests.worlds.many_forms import HOURS, START, ManyForms, make_database
from tests.worlds.stream_forms import STREAMS
from tidetable.archive import reading
from tidetable.query import parse_query, run_query, units
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.times import from_text, to_text

QUESTIONS = int(os.environ.get("TIDETABLE_QUESTIONS", "40"))
CONDITIONS = [other for other in OTHERS if "customer" not in other[0]]
STATS = "count,sum,min,max,avg,first,last"
WIDTHS = {None: "NULL", "10m": "10 minutes", "1h": "1 hour", "6h": "6 hours"}
GROUPS: dict[str | None, list[str]] = {
    None: [],
    "status": ["status"],
    "series,status": ["series", "status"],
    "place.state": ["state"],
}


@pytest.fixture(scope="module")
def stage() -> Iterator[ManyForms]:
    """The stage. Whole ranges and archives are read a few events at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(units, "_WHOLE_PAGE", 2)
        patch.setattr(column_read, "_MOST_EVENTS", 9)
        patch.setattr(reading, "MAX_READ", 15)
        stage = ManyForms(SEED)
        stage.live()
        yield stage


@pytest.fixture(scope="module")
def databases(stage: ManyForms) -> dict[str, duckdb.DuckDBPyConnection]:
    return {name: make_database(copies) for name, copies in stage.copies.items()}


def choose_span(chance: random.Random) -> tuple[datetime, datetime]:
    start = START + timedelta(minutes=chance.randrange(0, HOURS * 60, chance.choice([1, 10, 60])))
    length = timedelta(minutes=chance.choice([7, 60, 300, HOURS * 60]))
    return start, min(start + length, START + timedelta(hours=HOURS))


def find_pages(stage: ManyForms, name: str, parameters: dict[str, list[str]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    policy, now = stage.config.streams[name], stage.clock.now()
    while True:
        query = parse_query(policy, parameters, now, stage.seal)
        answer = run_query(query, policy, stage.reader(), now, lambda: 100.0)
        rows += answer.document()["events"]
        assert answer.gaps == []
        if answer.next is None:
            return rows
        parameters = {"cursor": [answer.next], "limit": parameters["limit"]}


def check_page(stage: ManyForms, base: duckdb.DuckDBPyConnection, name: str, chance: random.Random) -> None:
    """Compare all pages of a query."""
    span, order = choose_span(chance), chance.choice(["asc", "desc"])
    some = chance.sample(CONDITIONS, chance.randrange(3))
    names, condition = chance.choice(NAMES if 'partition_by = "series"' in STREAMS[name] else NAMES + WIDE)
    limit = chance.choice([1, 3, 20, 1_000])
    if limit < 20:
        span = span[0], min(span[1], span[0] + timedelta(minutes=60))
    parameters = make_parameters(span, some, order=order, limit=str(limit), fields="mag,status,place,ok") | names
    found = [
        (
            row["time"],
            row["series"],
            row["id"],
            row["data"].get("mag"),
            row["data"].get("status"),
            row["data"].get("ok"),
        )
        for row in find_pages(stage, name, parameters)
    ]
    where = clauses(span, *(sql for *_, sql in some), condition)
    sql = f"SELECT time, series, id, mag, status, ok FROM e WHERE {where} ORDER BY time {order}, series {order}, id {order}"
    assert found == [(to_text(time), *rest) for time, *rest in base.sql(sql).fetchall()], (name, parameters)


def find_rows(stage: ManyForms, name: str, parameters: dict[str, list[str]]) -> tuple[list[dict[str, Any]], set[str]]:
    """The rows of an aggregate, and the streams that it has read."""
    rows: list[dict[str, Any]] = []
    streams: set[str] = set()
    policy, now = stage.config.streams[name], stage.clock.now()
    while True:
        aggregation = parse_aggregation(policy, parameters, now, stage.seal)
        answer = find_aggregate(aggregation, policy, stage.reader(), now, lambda: 100.0)
        rows += answer.rows
        streams |= {scan.entry.stream for scan in answer.sources}
        assert answer.gaps == []
        if answer.next is None:
            return rows, streams
        parameters = {"cursor": [answer.next], "limit": parameters["limit"]}


def check_aggregate(stage: ManyForms, base: duckdb.DuckDBPyConnection, name: str, chance: random.Random) -> set[str]:
    """Compare an aggregate; return the streams that it has read."""
    span, step, by = choose_span(chance), chance.choice(list(WIDTHS)), chance.choice(list(GROUPS))
    some = chance.sample(CONDITIONS, chance.randrange(2))
    has_rollups = name != "versions"
    names, condition = chance.choice([*NAMES, *(WIDE if has_rollups or "time" in STREAMS[name] else [])])
    if chance.random() < 0.5:
        names, condition = ({}, "true") if has_rollups else NAMES[0]
    more = {key: value for key, value in (("step", step), ("by", by)) if value is not None}
    if chance.random() < 0.3:
        more["rollups"] = "false"
    parameters = (
        make_parameters(span, some, stat=STATS, field="mag", limit=str(chance.choice([60, 10_000])), **more) | names
    )
    rows, streams = find_rows(stage, name, parameters)
    groups, bucket = GROUPS[by], "NULL" if step is None else f"time_bucket(INTERVAL '{WIDTHS[step]}', time)"
    keys, order = ", ".join([bucket, *groups]), "time, series, id"
    where = clauses(span, *(sql for *_, sql in some), condition, "mag IS NOT NULL")
    sql = (
        f"SELECT {keys}, count(*), sum(mag), min(mag), max(mag), avg(mag), arg_min(mag, ({order})), arg_max(mag, ({order})) "
        f"FROM e WHERE {where} GROUP BY {keys}"
    )
    wanted = {}
    for start, *cells in base.sql(sql).fetchall():
        group, (*exact, average, first, last) = tuple(cells[: len(groups)]), cells[len(groups) :]
        begin = span[0] if start is None else max(start, span[0])
        wanted[begin, group] = [*exact, pytest.approx(average), first, last]
    fields = [] if by is None else by.split(",")
    found = {
        (from_text(row["start"]), tuple(row.get("group", {}).get(field) for field in fields)): [
            float(row[stat]) if stat == "avg" else row[stat] for stat in STATS.split(",")
        ]
        for row in rows
    }
    assert found == wanted, (name, parameters)
    assert len(found) == len(rows)
    return streams


@pytest.mark.parametrize("name", STREAMS)
def test_pages_and_aggregates_of_every_form_are_those_of_sql(
    stage: ManyForms, databases: dict[str, duckdb.DuckDBPyConnection], name: str
) -> None:
    chance = random.Random(f"{SEED} {name}")
    streams: set[str] = set()
    for _ in range(QUESTIONS):
        check_page(stage, databases[name], name, chance)
        streams |= check_aggregate(stage, databases[name], name, chance)
    rollups = set() if name == "versions" else {f"{name}-minutes", f"{name}-hours"}
    assert streams == {name, *rollups}


def test_the_history_has_what_it_is_for(stage: ManyForms) -> None:
    """Copies in other batches, and tables of every state: archived, live and restored."""
    for name, copies in stage.copies.items():
        keys = [(copy["series"], copy["time"], copy["id"]) for copy in copies]
        assert len(copies) > len(set(keys)) + 20
        entries = stage.catalog.entries(name, consistent=True)
        states = {entry.period.label: str(entry.state) for entry in entries}
        assert states["2026-03-01T02"] in ("archived", "deleted")
        assert states["2026-03-01T03"] == "closed"
        assert {"archived", "closed", "open"} <= {*states.values()}
