"""The forms of an answer: the same events in each."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from aws.arrow import encode_stream
from tests.fakes import SEAL
from tests.worlds.days import NOW, START, STREAM, Fixture
from tidetable.events import Event
from tidetable.exact_json import decode_json
from tidetable.problems import ProblemError
from tidetable.query import Answer, AnswerForm, choose_form, parse_query, render_answer, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.model import Cost
from tidetable.query.page import ComputedRows, count_body_bytes
from tidetable.times import from_text, to_text

EVENTS = [
    Event("a", from_text("2026-03-01T00:00:01.000000Z"), "1", {"n": 1, "place": {"state": "CA", "at": [1, 2]}}),
    Event("b,\n", from_text("2026-03-01T00:00:02.000000Z"), '"2"', {"text": 'said "é"\n', "ok": True, "none": None}),
]


def answer() -> Answer:
    query = parse_query(STREAM, {"from": ["2026-03-01T00:00:00Z"], "to": ["2026-03-02T00:00:00Z"]}, NOW, SEAL)
    return run_query(query, STREAM, Fixture(EVENTS).reader, NOW, lambda: 100.0)


def test_ndjson_has_an_event_in_each_line() -> None:
    _, kind, body, *_ = render_answer(answer(), AnswerForm("ndjson"), encode_stream)
    assert kind == "application/x-ndjson"
    assert [decode_json(line)["id"] for line in body.splitlines()] == ['"2"', "1"]
    assert [json.loads(line) for line in body.splitlines()] == json.loads(
        render_answer(answer(), AnswerForm(), encode_stream).body
    )["events"]


def test_csv_has_a_column_for_each_path() -> None:
    _, kind, body, *_ = render_answer(answer(), AnswerForm("csv"), encode_stream)
    assert kind.startswith("text/csv")
    first, second = csv.DictReader(io.StringIO(body, newline=""))
    wanted: dict[str, Any] = {
        "series": "b,\n",
        "id": '"2"',
        "data.text": 'said "é"\n',
        "data.ok": "true",
        "data.none": "",
    }
    assert {name: first[name] for name in wanted} == wanted
    assert (second["data.n"], second["data.place.state"], second["data.place.at"]) == ("1", "CA", "[1,2]")
    assert first["data.n"] == ""
    assert first["ref"]


DANGEROUS = ["=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1", "\r=1", "\uff1d1", "=cmd|' /C calc'!A0"]
HARMLESS = ["-5", "+5.25", "-1e9", "a=1", "'quoted'", "", "1-2", "é"]


@pytest.mark.parametrize("escape", [True, False])
@pytest.mark.parametrize("text", DANGEROUS + HARMLESS)
def test_no_cell_of_csv_is_a_formula_and_numbers_stay_numbers(text: str, escape: bool) -> None:
    """In values, series, ids and the names of fields."""
    name = text.replace(".", "") or "n"
    data = {name: text, "low": -5, "exact": Decimal("-1.50"), "list": [-1]}
    event = Event(name, from_text("2026-03-01T00:00:01.000000Z"), name, data)
    query = parse_query(STREAM, {"from": ["2026-03-01T00:00:00Z"], "to": ["2026-03-02T00:00:00Z"]}, NOW, SEAL)
    answer = run_query(query, STREAM, Fixture([event]).reader, NOW, lambda: 100.0)
    (row,) = csv.DictReader(
        io.StringIO(render_answer(answer, AnswerForm("csv", escape=escape), encode_stream).body, newline="")
    )
    mark = "'" if escape and text in DANGEROUS else ""
    assert (row["series"], row["id"]) == (mark + name, mark + name)
    assert row[f"data.{name}"] == mark + text
    assert (row["data.low"], row["data.exact"], row["data.list"]) == ("-5", "-1.50", "[-1]")


@pytest.mark.parametrize(
    ("parameter", "accept", "kind"),
    [
        (None, "", "json"),
        (None, "*/*", "json"),
        (None, "text/csv", "csv"),
        (None, "application/json, text/csv;q=0.5", "json"),
        (None, "text/html, application/x-ndjson;q=0.9", "ndjson"),
        ("csv", "application/x-ndjson", "csv"),
    ],
)
def test_the_parameter_comes_before_the_header(parameter: str | None, accept: str, kind: str) -> None:
    assert choose_form({} if parameter is None else {"format": parameter}, accept).kind == kind


@pytest.mark.parametrize("parameters", [{"format": "xml"}, {"flat": "yes"}, {"escape": "no"}])
def test_an_unknown_form_is_refused(parameters: dict[str, str]) -> None:
    with pytest.raises(ProblemError, match="bad_parameter"):
        choose_form(parameters, "")


def test_flat_rows_have_their_fields_by_path_and_numbers_as_they_are() -> None:
    for kind in ("json", "ndjson"):
        body = render_answer(answer(), AnswerForm(kind, flat=True), encode_stream).body
        rows = decode_json(body)["events"] if kind == "json" else [decode_json(line) for line in body.splitlines()]
        last = rows[1]
        assert list(last) == ["series", "time", "id", "data.n", "data.place.state", "data.place.at", "ref"]
        assert (last["data.n"], last["data.place.at"]) == (1, [1, 2])


def test_a_group_by_a_nested_field_has_one_column_named_by_its_path() -> None:
    parameters = {"from": ["2026-03-01T00:00:00Z"], "to": ["2026-03-02T00:00:00Z"], "by": ["place.state,series"]}
    aggregation = parse_aggregation(STREAM, parameters, NOW, SEAL)
    found = find_aggregate(aggregation, STREAM, Fixture(EVENTS[:1]).reader, NOW, lambda: 100.0)
    header, line = render_answer(found, AnswerForm("csv"), encode_stream).body.splitlines()
    assert header == "start,end,group.place.state,group.series,count"
    assert line == "2026-03-01T00:00:00.000000Z,2026-03-02T00:00:00.000000Z,CA,a,1"
    row = decode_json(render_answer(found, AnswerForm("ndjson", flat=True), encode_stream).body)
    assert (row["group.place.state"], row["group.series"]) == ("CA", "a")


@pytest.mark.parametrize(
    ("body", "size"),
    [("x" * 10, 10), ('"' * 10, 20), ("\n" * 10, 20), ("\\" * 10, 20), ("é" * 10, 20)],
    ids=["text", "quotes", "lines", "backslashes", "two bytes each"],
)
def test_a_quote_and_the_end_of_a_line_take_two_bytes_on_the_way(body: str, size: int) -> None:
    assert count_body_bytes(body) == size


def wide(count: int, **data: Any) -> Fixture:
    return Fixture([Event("a", START + timedelta(minutes=n), str(n), data) for n in range(count)])


def read_pages(fixture: Fixture, form: AnswerForm, **parameters: str) -> tuple[list[list[str]], list[int]]:
    """The ids on each page of a range in a form, and the number of items that each page read."""
    pages: list[list[str]] = []
    reads: list[int] = []
    query_string = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=1))], "order": ["asc"]}
    query_string |= {name: [value] for name, value in parameters.items()}
    while True:
        before = fixture.store.items_read
        query = parse_query(STREAM, query_string, NOW, SEAL)
        found = run_query(query, STREAM, fixture.reader, NOW, lambda: 100.0)
        answer, _, body, *_ = render_answer(found, form, encode_stream)
        assert len(body.encode()) + body.count('"') + body.count("\n") + body.count("\\") <= 20_000
        lines = (
            body.splitlines()
            if form.kind == "ndjson"
            else [json.dumps(row) for row in csv.DictReader(io.StringIO(body))]
        )
        pages.append([json.loads(line)["id"] for line in lines])
        reads.append(fixture.store.items_read - before)
        if answer.next is None:
            return pages, reads
        query_string = {"cursor": [answer.next], "limit": [parameters["limit"]]}


@pytest.mark.parametrize("kind", ["ndjson", "csv"])
def test_a_page_whose_body_does_not_fit_is_cut_and_nothing_is_read_again(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Forty events of about 1,400 bytes exceed a body of 20,000; all pages together read as much as a page of forty."""
    monkeypatch.setattr("tidetable.query.page.MAX_BODY_BYTES", 20_000)
    fixture = wide(40, text="x" * 1_000)
    fewest = wide(40, text="x" * 1_000)
    run_query(
        parse_query(STREAM, {"from": [to_text(START)], "to": [to_text(NOW)], "limit": ["40"]}, NOW, SEAL),
        STREAM,
        fewest.reader,
        NOW,
        lambda: 100.0,
    )
    pages, reads = read_pages(fixture, AnswerForm(kind), limit="40")
    assert [id for page in pages for id in page] == [str(n) for n in range(40)]
    assert len(pages) > 2
    assert reads[0] == fewest.store.items_read == 40


def test_an_event_that_no_body_holds_in_its_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.query.page.MAX_BODY_BYTES", 900)
    with pytest.raises(ProblemError, match="belong into one page"):
        read_pages(wide(3, text="x" * 1_000), AnswerForm("csv"), limit="40")


def header_of(rows: list[dict[str, Any]], *columns: str) -> list[str]:
    """The names of the columns of rows as CSV."""

    @dataclass(slots=True, kw_only=True)
    class Made(ComputedRows):
        @property
        def columns(self) -> Sequence[str]:
            return columns

        def cut_to(self, count: int) -> None:
            raise NotImplementedError(count)

    made = Made(stream="s", next=None, gaps=(), cost=Cost(), sources=(), rows=rows)
    return render_answer(made, AnswerForm("csv"), encode_stream).body.splitlines()[0].split(",")


def test_the_columns_of_csv_are_the_same_whatever_a_pages_rows_have() -> None:
    """First those that every page has, in their order, then others of the event, then its data, at last the ref."""
    rows: list[dict[str, Any]] = [
        {"id": "1", "data": {"m": 1, "a": 2}, "ref": "r"},
        {"id": "2", "data": {"n": 3}, "incomplete": True, "ref": "s"},
    ]
    wanted = ["id", "data.n", "data.m", "ref"]
    assert header_of([], *wanted) == wanted
    assert header_of(rows, *wanted) == ["id", "incomplete", "data.n", "data.m", "data.a", "ref"]
