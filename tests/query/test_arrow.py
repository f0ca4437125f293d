"""Answers in Arrow: the rows of the same query in JSON, in columns whose types do not depend on the rows."""

from base64 import b64decode
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from aws.arrow import encode_stream
from tests.fakes import SEAL
from tests.query.arrow_tables import (
    ARROW,
    POLICY,
    SCHEMA,
    SPAN,
    TYPES,
    ask,
    events_of,
    policy_of,
    sample,
    stored,
    table_of,
)
from tests.query.stored_events import BY_TIME, NOW, START
from tests.worlds.large import built, event, send
from tests.worlds.packed import NOW as PACKED_NOW
from tests.worlds.packed import START as PACKED_START
from tests.worlds.packed import STREAMS as PACKED_STREAMS
from tests.worlds.packed import PackedDays, Request
from tidetable.config import parse
from tidetable.events import Event
from tidetable.exact_json import decode_json
from tidetable.problems import ProblemError
from tidetable.query import AnswerForm, Reader, choose_form, parse_query, render_answer, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.rankings import find_top, parse_ranking
from tidetable.times import to_text


def test_declared_fields_are_typed_columns_and_the_rest_is_json() -> None:
    base = stored(
        [sample(1, n=5, mag=Decimal("4.5"), cost=Decimal("1.5"), ok=True, status="é\n", place={"at": [1, 2]})]
    )
    table = table_of(ask(base))
    assert table.schema.equals(SCHEMA)
    (row,) = table.to_pylist()
    assert row.pop("ref")
    assert row == {
        "series": "s1",
        "time": datetime(2026, 3, 1, 1, 0, 0, 1, UTC),
        "id": "1",
        "n": 5,
        "mag": 4.5,
        "cost": Decimal("1.50"),
        "ok": True,
        "status": "é\n",
        "data": '{"place":{"at":[1,2]}}',
        "incomplete": False,
    }


def test_a_page_without_events_is_its_schema() -> None:
    table = table_of(ask(stored([])))
    assert table.schema.equals(SCHEMA)
    assert table.num_rows == 0


@pytest.mark.parametrize(
    ("fields", "typed"), [("mag", ["mag"]), ("place.state", []), ("*", [*TYPES]), ("ok,n.x", ["ok"])]
)
def test_only_fields_that_are_shown_have_a_column(fields: str, typed: list[str]) -> None:
    table = table_of(ask(stored([]), fields=fields))
    assert table.column_names == ["series", "time", "id", *typed, "data", "ref", "incomplete"]


def test_a_cold_field_has_a_column_only_where_it_is_shown() -> None:
    base = stored([sample(30, status="cold", mag=1)], policy_of('cold = ["status"]'))
    assert "status" not in table_of(ask(base)).column_names
    (row,) = table_of(ask(base, fields="*")).to_pylist()
    assert (row["mag"], row["status"]) == (1.0, "cold")


def test_a_declared_field_with_the_name_of_another_column_stays_in_the_json() -> None:
    policy = parse(
        f"""
        [streams.s]
        period = "day"
        late = "5d"
        retention = 9
        {BY_TIME}
        archive = {{ columns = {{ ref = "string", value = "double" }} }}
        """
    ).streams["s"]
    (row,) = table_of(ask(stored([sample(30, ref="mine", value=2)], policy))).to_pylist()
    assert (row["value"], row["data"]) == (2.0, '{"ref":"mine"}')
    assert row["ref"] != "mine"


def test_versions_have_their_columns() -> None:
    stage = built()
    for n in ("one", "two"):
        send(stage, "kept", event(0, {"n": n, "kind": n}))
        stage.clock.sleep(1)
    stage.settle()
    policy, now = stage.config.streams["kept"], stage.clock.now()
    query = parse_query(policy, {"from": ["-2d"], "versions": ["all"]}, now, stage.seal)
    answer = run_query(query, policy, stage.reader(), now, lambda: 100.0)
    table = table_of(answer)
    assert table.column_names == [
        "series", "time", "id", "data", "ref", "incomplete", "version", "newest", "accepted", "versions_left_out",
    ]  # fmt: skip
    assert (table["version"].to_pylist(), table["newest"].to_pylist()) == ([2, 1], [True, False])
    assert events_of(table) == decode_json(render_answer(answer, AnswerForm(), encode_stream).body)["events"]


def test_packed_and_archived_periods_have_the_same_columns() -> None:
    events = [
        Event("a", PACKED_START + timedelta(hours=7 * number), str(number), {"n": number}) for number in range(13)
    ]
    world = PackedDays("time", [Request(events, 1)])
    span = {"from": [to_text(PACKED_START)], "to": [to_text(PACKED_NOW)], "order": ["asc"]}
    query = parse_query(PACKED_STREAMS["time"], span, PACKED_NOW, SEAL)
    reader: Reader = world.days.reader
    table = table_of(run_query(query, PACKED_STREAMS["time"], reader, PACKED_NOW, lambda: 100.0))
    assert table["id"].to_pylist() == [str(number) for number in range(13)]
    assert table["data"].to_pylist() == [f'{{"n":{number}}}' for number in range(13)]


def test_a_page_that_is_too_large_in_arrow_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.query.page.MAX_BODY_BYTES", 20_000)
    base = stored([sample(24 + number, text=f"{number:03}" * 300) for number in range(40)])
    ids: list[str] = []
    parameters = {"limit": "40"}
    pages = 0
    while True:
        found = ask(base, **parameters)
        rendered = render_answer(found, ARROW, encode_stream)
        assert len(rendered.body) <= 20_000, "a function answers bytes as Base64, which counts"
        ids += pa.ipc.open_stream(b64decode(rendered.body)).read_all()["id"].to_pylist()
        pages += 1
        if rendered.answer.next is None:
            break
        parameters = {"cursor": rendered.answer.next, "limit": "40"}
    assert ids == [str(number) for number in range(24, 64)]
    assert pages > 2


def test_an_event_that_no_answer_holds_in_arrow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.query.page.MAX_BODY_BYTES", 900)
    with pytest.raises(ProblemError, match="belong into one page"):
        table_of(ask(stored([sample(24, text="x" * 1_000)])))


def test_aggregates_have_times_groups_and_doubles() -> None:
    base = stored(
        [
            sample(24, mag=1, n=3, status="new", odd="x"),
            sample(25, mag=Decimal("2.5"), n=3, status="new", odd=7),
            sample(26, n=4),
        ]
    )
    query_string = {"from": [to_text(START + timedelta(days=1))], "to": [to_text(START + timedelta(days=2))]}
    query_string |= {"by": ["series,n,odd"], "stat": ["count,avg,first"], "field": ["mag"], "step": ["1d"]}
    found = find_aggregate(parse_aggregation(POLICY, query_string, NOW, SEAL), POLICY, base.reader, NOW, lambda: 9.0)
    table = table_of(found)
    day = pa.timestamp("us", "UTC")
    assert table.schema.equals(
        pa.schema(
            [
                ("start", day),
                ("end", day),
                ("group.series", pa.string()),
                ("group.n", pa.int64()),
                ("group.odd", pa.string()),
                ("count", pa.int64()),
                ("avg", pa.float64()),
                ("first", pa.float64()),
                ("group", pa.string()),
            ]
        )
    )
    rows = table.drop(["start", "end"]).to_pylist()
    assert table["start"].to_pylist() == [START + timedelta(days=1)] * 2
    assert rows == [
        {"group.series": "s0", "group.n": 3, "group.odd": "x", "count": 1, "avg": 1.0, "first": 1.0, "group": "{}"},
        {"group.series": "s1", "group.n": 3, "group.odd": None, "count": 1, "avg": 2.5, "first": 2.5}
        | {"group": '{"odd":7}'},
    ]


def test_an_aggregate_without_groups_has_no_column_for_them() -> None:
    query_string = {"from": [SPAN["from"]], "to": [SPAN["to"]], "fill": ["null"], "step": ["5d"]}
    query_string |= {"stat": ["count,max,p50"], "field": ["mag"]}
    aggregation = parse_aggregation(POLICY, query_string, NOW, SEAL)
    table = table_of(find_aggregate(aggregation, POLICY, stored([]).reader, NOW, lambda: 9.0))
    assert table.column_names == ["start", "end", "count", "max", "p50"]
    assert table["count"].to_pylist()[0] == 0
    assert set(table["max"].to_pylist()) == {None}


def test_a_ranking_has_its_ranks_and_numbers_before_its_events() -> None:
    base = stored([sample(24 + number, mag=number, status="new", more=1) for number in range(3)])
    query_string = {"from": [SPAN["from"]], "to": [SPAN["to"]], "limit": ["2"]}
    top = find_top(parse_ranking(POLICY, query_string, NOW, SEAL), POLICY, base.reader, NOW, lambda: 9.0)
    table = table_of(top)
    assert table.column_names == ["rank", "value", *SCHEMA.names]
    assert table["rank"].to_pylist() == [1, 2]
    assert table["value"].to_pylist() == table["mag"].to_pylist() == [2.0, 1.0]
    assert table["data"].to_pylist() == ['{"more":1}'] * 2


@pytest.mark.parametrize(
    ("parameter", "accept"), [("arrow", ""), (None, "application/vnd.apache.arrow.stream, application/json;q=0.1")]
)
def test_arrow_is_chosen_by_the_parameter_or_by_accept(parameter: str | None, accept: str) -> None:
    assert choose_form({} if parameter is None else {"format": parameter}, accept).kind == "arrow"
