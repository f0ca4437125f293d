"""The forms of an answer: the same events in each."""

import csv
import io
import json
from typing import Any

import pytest

from tests.fakes import SEAL
from tests.query.test_walk import NOW, STREAM, Fixture
from tidetable.events import Event
from tidetable.exact import decode_json
from tidetable.problems import ProblemError
from tidetable.query import Answer, Form, form_of, parse_query, rendered, run_query
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


@pytest.mark.parametrize("given", [{"format": "xml"}, {"flat": "yes"}])
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
