"""Answers in Arrow: the rows of the same query in JSON, in columns whose types do not depend on the rows."""

from base64 import b64decode
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.arrow import encode_stream
from tests.fakes import SEAL
from tests.query.stored_events import BY_TIME, DAYS, NOW, START, StoredEvents
from tests.worlds.large import built, event, send
from tests.worlds.packed import NOW as PACKED_NOW
from tests.worlds.packed import START as PACKED_START
from tests.worlds.packed import STREAMS as PACKED_STREAMS
from tests.worlds.packed import PackedDays, Request
from tidetable.config import Stream, parse
from tidetable.events import Event
from tidetable.exact import decode_json
from tidetable.ports import TypedColumn
from tidetable.problems import ProblemError
from tidetable.query import Answer, Form, Reader, form_of, parse_query, render, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.rankings import find_top, parse_ranking
from tidetable.times import from_text, to_text

ARROW = Form("arrow")
SPAN = {"from": to_text(START), "to": to_text(START + timedelta(days=DAYS)), "order": "asc"}
TYPES = {"n": "integer", "mag": "double", "cost": "decimal(6, 2)", "ok": "boolean", "status": "string"}
_COLUMNS = ", ".join(f'{name} = "{kind}"' for name, kind in TYPES.items())


def policy_of(more: str = "") -> Stream:
    text = f"""
    [streams.s]
    period = "day"
    late = "5d"
    retention = 9
    {BY_TIME}
    {more}
    archive = {{ columns = {{ {_COLUMNS} }} }}
    [[streams.s.index]]
    name = "best"
    partition_by = "*"
    sort_by = "mag"
    """
    return parse(text).streams["s"]


POLICY = policy_of()


def stored(events: list[Event], policy: Stream = POLICY) -> StoredEvents:
    """Five days; the first and the third are archived."""
    return StoredEvents(policy, events, [policy.layout] * DAYS)


def ask(base: StoredEvents, **parameters: str) -> Answer:
    query_string = {name: [value] for name, value in ({} if "cursor" in parameters else SPAN).items()}
    query_string |= {name: [value] for name, value in parameters.items()}
    query = parse_query(base.policy, query_string, NOW, SEAL)
    return run_query(query, base.policy, base.reader, NOW, lambda: 100.0)


def table_of(answer: Answer) -> pa.Table:
    rendered = render(answer, ARROW, encode_stream)
    assert (rendered.encoded, rendered.content_type) == (True, "application/vnd.apache.arrow.stream")
    return pa.ipc.open_stream(b64decode(rendered.body)).read_all()


def exact(value: Any) -> Any:
    return Decimal(repr(value)) if isinstance(value, float) else value


def events_of(table: pa.Table) -> list[dict[str, Any]]:
    """The rows as the JSON of events."""
    events = []
    for row in table.to_pylist():
        data = {name: exact(row.pop(name)) for name in TYPES if name in row and name != "data"}
        typed = {name: value for name, value in data.items() if value is not None}
        rest = decode_json(row.pop("data"))
        assert typed.keys() & rest.keys() <= {"mag"}, "a double may be rounded; the JSON has its digits"
        event = {name: value for name, value in row.items() if value is not None}
        for name in ("time", "accepted"):
            if name in event:
                event[name] = to_text(event[name])
        if not event.pop("incomplete"):
            event.pop("incomplete", None)
        events.append(event | {"data": typed | rest})
    return events


def sample(number: int, **data: Any) -> Event:
    return Event(f"s{number % 3}", START + timedelta(hours=number, microseconds=number), str(number), data)


SCHEMA = pa.schema(
    [
        ("series", pa.string()),
        ("time", pa.timestamp("us", "UTC")),
        ("id", pa.string()),
        ("n", pa.int64()),
        ("mag", pa.float64()),
        ("cost", pa.decimal128(6, 2)),
        ("ok", pa.bool_()),
        ("status", pa.string()),
        ("data", pa.string()),
        ("ref", pa.string()),
        ("incomplete", pa.bool_()),
    ]
)


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


# Values that their column cannot hold exactly: the JSON has them with all their digits, the column null or the nearest double.
MISFITS = [
    ("n", Decimal("1.5"), "1.5"),
    ("n", 2**63, "9223372036854775808"),
    ("n", "5", '"5"'),
    ("n", True, "true"),
    ("mag", 2**53 + 1, "9007199254740993"),
    ("mag", Decimal("0.12345678901234567890123456789012345678"), "0.12345678901234567890123456789012345678"),
    ("mag", "4.5", '"4.5"'),
    ("mag", False, "false"),
    ("cost", Decimal("1.555"), "1.555"),
    ("cost", 10000, "10000"),
    ("ok", 1, "1"),
    ("status", 7, "7"),
    ("status", ["a"], '["a"]'),
]
NEAREST = {"9007199254740993": 9007199254740992.0, "0.12345678901234567890123456789012345678": 0.12345678901234568}


@pytest.mark.parametrize(("field", "value", "text"), MISFITS)
@pytest.mark.parametrize("day", [0, 1], ids=["archive", "table"])
def test_a_value_that_does_not_fit_its_column_stays_in_the_json_and_is_counted(
    field: str, value: Any, text: str, day: int
) -> None:
    answer = ask(stored([sample(24 * day, **{field: value, "other": None})]))
    (row,) = table_of(answer).to_pylist()
    assert row[field] == NEAREST.get(text)
    assert row["data"] == f'{{"{field}":{text},"other":null}}'
    assert render(answer, ARROW, encode_stream).untyped == 1


FITS = [
    ("n", -(2**63), -(2**63)),
    ("mag", 2**53, 2.0**53),
    ("mag", Decimal("0.1"), 0.1),
    ("mag", Decimal("1E+25"), 1e25),
    ("cost", Decimal("-9999.99"), Decimal("-9999.99")),
    ("cost", 0, Decimal("0.00")),
    ("ok", False, False),
    ("status", "", ""),
]


@pytest.mark.parametrize(("field", "value", "shown"), FITS)
def test_a_value_that_fits_its_column_is_there_alone(field: str, value: Any, shown: Any) -> None:
    answer = ask(stored([sample(24, **{field: value}), sample(25)]))
    first, second = table_of(answer).to_pylist()
    assert (first[field], first["data"]) == (shown, "{}")
    assert (second[field], second["data"]) == (None, "{}")
    assert render(answer, ARROW, encode_stream).untyped == 0


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=5),
    st.integers(-(2**65), 2**65),
    st.decimals(-10_000, 10_000, allow_nan=False, places=3),
    st.sampled_from([Decimal("0.1"), Decimal("1E+30"), Decimal("1E-20"), 2**53, 5, Decimal("3.25")]),
)
_DATA = st.dictionaries(st.sampled_from([*TYPES, "data", "ref", "x.y"]), st.one_of(_SCALARS, st.lists(_SCALARS)))


@settings(max_examples=60, deadline=None)
@given(
    data=st.lists(_DATA, max_size=12),
    fields=st.sampled_from(["", "*", "mag", "n,ref,data", "status.x,ok"]),
    limit=st.sampled_from(["1", "3", "100"]),
)
def test_arrow_is_the_json_of_the_same_query(data: list[dict[str, Any]], fields: str, limit: str) -> None:
    base = stored([sample(9 * number, **one) for number, one in enumerate(data)])
    parameters = {"limit": limit} | ({"fields": fields} if fields else {})
    schemas = set()
    while True:
        answer = ask(base, **parameters)
        table = table_of(answer)
        schemas.add(str(table.schema))
        assert events_of(table) == decode_json(render(answer, Form(), encode_stream).body)["events"]
        if answer.next is None:
            break
        parameters = {"cursor": answer.next, "limit": limit}
    assert len(schemas) == 1


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
    assert events_of(table) == decode_json(render(answer, Form(), encode_stream).body)["events"]


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


def test_ten_thousand_events_are_a_table_without_a_loop() -> None:
    count = 10_000
    base = stored(
        [
            Event("a", START + timedelta(days=1, seconds=number), f"{number:05}", {"mag": number, "n": number})
            for number in range(count)
        ]
    )
    table = table_of(ask(base, limit=str(count)))
    assert table.num_rows == count
    assert table["mag"].to_numpy().sum() == 49_995_000.0
    assert table["time"][-1].as_py() - table["time"][0].as_py() == timedelta(seconds=count - 1)
    assert pa.compute.all(pa.compute.equal(table["data"], "{}")).as_py()


def test_a_page_that_is_too_large_in_arrow_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.query.page.MAX_BODY_BYTES", 20_000)
    base = stored([sample(24 + number, text=f"{number:03}" * 300) for number in range(40)])
    ids: list[str] = []
    parameters = {"limit": "40"}
    pages = 0
    while True:
        found = ask(base, **parameters)
        rendered = render(found, ARROW, encode_stream)
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
    with pytest.raises(ProblemError, match="cannot be parted"):
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


def test_nulls_and_every_type_are_written_as_pyarrow_reads_them() -> None:
    columns = [
        TypedColumn("text", "string", [None, "a\0é", ""]),
        TypedColumn("truth", "boolean", [True, None, False]),
        TypedColumn("whole", "integer", [2**63 - 1, -(2**63), None]),
        TypedColumn("number", "double", [None, None, None]),
        TypedColumn("instant", "time", [0, None, 253_370_764_799_999_999]),
        TypedColumn("money", "decimal(38, 2)", [-(10**37), None, 10**38 - 1]),
    ]
    table = pa.ipc.open_stream(encode_stream(columns)).read_all()
    table.validate(full=True)
    assert table["text"].to_pylist() == [None, "a\0é", ""]
    assert table["truth"].to_pylist() == [True, None, False]
    assert table["whole"].to_pylist() == [9_223_372_036_854_775_807, -9_223_372_036_854_775_808, None]
    assert table["number"].to_pylist() == [None, None, None]
    assert table["instant"].to_pylist() == [
        from_text("1970-01-01T00:00:00.000000Z"),
        None,
        from_text("9998-12-31T23:59:59.999999Z"),
    ]
    assert table["money"].to_pylist() == [Decimal("-1E+35"), None, Decimal("9" * 36 + ".99")]


@pytest.mark.parametrize(
    ("parameter", "accept"), [("arrow", ""), (None, "application/vnd.apache.arrow.stream, application/json;q=0.1")]
)
def test_arrow_is_chosen_by_the_parameter_or_by_accept(parameter: str | None, accept: str) -> None:
    assert form_of({} if parameter is None else {"format": parameter}, accept).kind == "arrow"
