"""The forms of an answer: the same events in each."""

import csv
import io
import json
from decimal import Decimal
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.worlds.days import NOW, STREAM, Fixture
from tidetable.events import Event
from tidetable.exact import decode_json
from tidetable.problems import ProblemError
from tidetable.query import Answer, Form, fits, form_of, parse_query, rendered, run_query
from tidetable.times import from_text

EVENTS = [
    Event("a", from_text("2026-03-01T00:00:01.000000Z"), "1", {"n": 1, "place": {"state": "CA", "at": [1, 2]}}),
    Event("b,\n", from_text("2026-03-01T00:00:02.000000Z"), '"2"', {"text": 'said "é"\n', "ok": True, "none": None}),
]


def answer() -> Answer:
    query = parse_query(STREAM, {"from": ["2026-03-01T00:00:00Z"], "to": ["2026-03-02T00:00:00Z"]}, NOW, SEAL)
    return run_query(query, STREAM, Fixture(EVENTS).reader, NOW, lambda: 100.0)


def test_ndjson_has_an_event_in_each_line() -> None:
    kind, body = rendered(answer(), Form("ndjson"))
    assert kind == "application/x-ndjson"
    assert [decode_json(line)["id"] for line in body.splitlines()] == ['"2"', "1"]
    assert [json.loads(line) for line in body.splitlines()] == json.loads(rendered(answer(), Form())[1])["events"]


def test_csv_has_a_column_for_each_path() -> None:
    kind, body = rendered(answer(), Form("csv"))
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
    found = run_query(query, STREAM, Fixture([event]).reader, NOW, lambda: 100.0)
    (row,) = csv.DictReader(io.StringIO(rendered(found, Form("csv", escape=escape))[1], newline=""))
    mark = "'" if escape and text in DANGEROUS else ""
    assert (row["series"], row["id"]) == (mark + name, mark + name)
    assert row[f"data.{name}"] == mark + text
    assert (row["data.low"], row["data.exact"], row["data.list"]) == ("-5", "-1.50", "[-1]")


@pytest.mark.parametrize(
    ("asked", "accept", "kind"),
    [
        (None, "", "json"),
        (None, "*/*", "json"),
        (None, "text/csv", "csv"),
        (None, "text/html, application/x-ndjson;q=0.9", "ndjson"),
        ("csv", "application/x-ndjson", "csv"),
    ],
)
def test_the_parameter_comes_before_the_header(asked: str | None, accept: str, kind: str) -> None:
    assert form_of({} if asked is None else {"format": asked}, accept).kind == kind


@pytest.mark.parametrize("given", [{"format": "xml"}, {"flat": "yes"}, {"escape": "no"}])
def test_an_unknown_form_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ProblemError, match="bad_parameter"):
        form_of(given, "")


def test_flat_rows_have_their_fields_by_path_and_numbers_as_they_are() -> None:
    for kind in ("json", "ndjson"):
        _, body = rendered(answer(), Form(kind, flat=True))
        rows = decode_json(body)["events"] if kind == "json" else [decode_json(line) for line in body.splitlines()]
        last = rows[1]
        assert list(last) == ["series", "time", "id", "data.n", "data.place.state", "data.place.at", "ref"]
        assert (last["data.n"], last["data.place.at"]) == (1, [1, 2])


@pytest.mark.parametrize(
    ("body", "fit"),
    [
        ("x" * 6_000_000, True),
        ("x" * 6_000_001, False),
        ('"' * 3_000_000, True),
        ('"' * 3_000_001, False),
        ("\n" * 3_000_000, True),
        ("\n" * 3_000_001, False),
        ("é" * 3_000_001, False),
    ],
    ids=["full", "over", "quotes", "a quote over", "lines", "a line over", "two bytes each"],
)
def test_a_body_fits_as_long_as_a_function_may_answer_it(body: str, fit: bool) -> None:
    """AWS: 6 MB; on the way a quote and the end of a line take two bytes."""
    assert fits(answer(), Form("csv"), body) is fit
    assert fits(answer(), Form("json", flat=True), body) is fit
    assert fits(answer(), Form("json"), body) is True, "pages of JSON were cut before"
