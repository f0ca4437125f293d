"""Rows of files as events: exports of this stage, and columns that contradict each other."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from cli.forms import write_csv, write_lines
from cli.sources import Columns, Row, SourceError, open_source
from tidetable.layout import Key, Ref
from tidetable.periods import parse_label

EVENT: dict[str, Any] = {
    "series": "a",
    "time": "2026-03-15T12:00:00.000000Z",
    "id": "e",
    "data": {"v1.5": {"load": 1, 'say "hi"': 2, "at": {"x.y": 3}}, "plain": 4},
}


REF = Ref("quakes", parse_label("2026-03-15"), Key("a", "2026-03-15T12:00:00.000000Z#a#e")).encode()


def read_events(path: Path) -> list[dict[str, Any] | None]:
    return [row.event for row in open_source(path, None, Columns()).read()]


@pytest.mark.parametrize(("name", "write"), [("rows.csv", write_csv), ("rows.ndjson", write_lines)])
def test_an_export_is_read_as_the_events_that_it_was_made_of(tmp_path: Path, name: str, write: Any) -> None:
    path = tmp_path / name
    with path.open("w", newline="") as file:
        write([{**EVENT, "ref": REF}], file)
    assert read_events(path) == [EVENT]


@pytest.mark.parametrize(
    "header", ["data.place,data.place.state", "data.place.state,data.place", "place,data.place", "data.a,data.a.b.c"]
)
def test_columns_that_contradict_each_other_spoil_their_row_alone(tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"series,time,{header}\na,1000,x,y\na,2000,x,\n")
    first, second = open_source(path, None, Columns()).read()
    assert (first.event, "cannot both be stored" in first.problem) == (None, True)
    assert second.event is not None


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("series,time,mag,mag,,\na,1000,1,2,,\n")
    with pytest.raises(SourceError, match="two columns are called 'mag': rename one"):
        read_events(path)


@pytest.mark.parametrize("ref", ["PAY-17", "r1", "17", REF[:-4]])
def test_a_column_of_ones_own_called_ref_is_data(tmp_path: Path, ref: str) -> None:
    """Payments, for example, have refs."""
    value: Any = 17 if ref == "17" else ref
    expected = {"series": "a", "time": 1000, "data": {"ref": value, "n": 1}}
    (tmp_path / "rows.csv").write_text(f"series,time,ref,n\na,1000,{ref},1\n")
    lines = [{"series": "a", "time": 1000, "ref": value, "n": 1}, {"series": "a", "time": 1000, "ref": value}]
    (tmp_path / "rows.ndjson").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert read_events(tmp_path / "rows.csv") == [expected]
    assert read_events(tmp_path / "rows.ndjson") == [expected, {**expected, "data": {"ref": value}}]


@pytest.mark.parametrize("value", ["true", "false", "[1]", '{"a": 1}', '[""]', "{}"])
@pytest.mark.parametrize("name", ["series", "id"])
def test_a_series_or_id_is_a_text_or_a_number(tmp_path: Path, name: str, value: str) -> None:
    (tmp_path / "rows.ndjson").write_text(f'{{"series": "a", "time": 1000, "id": "e", "n": 1, "{name}2": {value}}}\n')
    columns = Columns(series="series2") if name == "series" else Columns(id="id2")
    (row,) = open_source(tmp_path / "rows.ndjson", None, columns).read()
    assert row.event is None
    assert row.problem.startswith(f"{name}2: a series or id is a text or a number, not ")


def list_rows(tmp_path: Path, name: str, content: bytes | str, columns: Columns | None = None) -> list[Row]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return list(open_source(path, None, columns or Columns()).read())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("a.ndjson", "ndjson"),
        ("a.jsonl", "ndjson"),
        ("a.json", "ndjson"),
        ("a.CSV", "csv"),
        ("a.jsonl.GZ", "ndjson"),
        ("a.b.csv.gz", "csv"),
        ("a.pq", "parquet"),
        ("a.parquet", "parquet"),
    ],
)
def test_a_files_name_says_its_format(tmp_path: Path, name: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.sources.open.count_rows", lambda _: 7)
    path = tmp_path / name
    path.write_text("abc")
    source = open_source(path, None, Columns())
    assert (source.kind, source.total) == (kind, 7 if kind == "parquet" else 3)
    assert open_source(path, "csv", Columns()).kind == "csv"


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson"])
def test_a_compressed_file_whose_name_does_not_say_so_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match=r"is compressed, but its name does not end with \.gz: rename it"):
        list_rows(tmp_path, name, gzip.compress(b"series,time\na,1000\n"))


BOM = b"\xef\xbb\xbf"
TIMED = '{"series": "a", "time": 1000}'


def test_marks_of_the_byte_order_and_empty_lines_are_left_out(tmp_path: Path) -> None:
    lines = list_rows(tmp_path, "a.ndjson", BOM + f"{TIMED}\n\n  \n{TIMED}\n".encode())
    assert [(row.number, row.event and row.event["series"]) for row in lines] == [(0, "a"), (1, "a")]
    (row,) = list_rows(tmp_path, "a.csv", BOM + b"series,time\na,1000\n")
    assert row.event == {"series": "a", "time": 1000, "data": {}}


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("1", 1), ("-0.5", -0.5), ("1e3", 1000.0), ("007", "007"), ("1.", "1."), ("+1", "+1"), ("true", True),
        ("false", False), ("True", "True"), ("x", "x"),
    ],
)  # fmt: skip
def test_a_cell_is_a_number_only_in_the_form_of_json(tmp_path: Path, cell: str, value: Any) -> None:
    (row,) = list_rows(tmp_path, "a.csv", f"series,time,v,none\na,1000,{cell},\n")
    assert row.event is not None
    assert row.event["data"] == {"v": value}


def test_series_and_ids_stay_text(tmp_path: Path) -> None:
    """Numbers of JSON become text, and those of CSV are text."""
    own = {"series": "7", "time": 1000, "id": "1e3", "data": {"zip": "5", "n": 5}}
    (row,) = list_rows(tmp_path, "a.csv", "series,time,id,zip,n\n7,1000,1e3,5,5\n", Columns(text=("zip",)))
    assert row.event == own
    (row,) = list_rows(tmp_path, "a.csv", "s,t,i,zip,n\n7,1000,1e3,5,5\n", Columns("s", "t", "i", text=("zip",)))
    assert row.event == own
    (row,) = list_rows(tmp_path, "a.ndjson", '{"s": 7.50, "time": 1000, "id": -3}', Columns(series="s"))
    assert row.event == {"series": "7.50", "time": 1000, "id": "-3", "data": {}}
    (row,) = list_rows(tmp_path, "a.ndjson", '{"s": 7, "time": 1000, "id": 3}', Columns(series="s"))
    assert row.event == {"series": "7", "time": 1000, "id": "3", "data": {}}


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.csv", "series,time\na,1000,more\n", "the row has 3 cells, but the header has 2 columns"),
        ("a.csv", "series\na\n", "the row has no time: name its column with --time"),
        ("a.csv", "time\n1000\n", "the row has no series: name its column with --series"),
        ("a.ndjson", '{"series": "a", "time": null, "data": {}}', "the event has no time"),
        ("a.ndjson", "1", "the line is not a JSON object"),
        ("a.ndjson", '{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_row_that_is_no_event_says_what_it_lacks(tmp_path: Path, name: str, content: str, problem: str) -> None:
    (row,) = list_rows(tmp_path, name, content)
    assert (row.event, problem in row.problem) == (None, True), row.problem
    assert row.text == content.splitlines()[-1].encode()


@pytest.mark.parametrize("number", ["1e999999999", f"0.{'9' * 400}"], ids=["exponent", "digits"])
def test_a_number_that_no_event_can_hold_spoils_its_row_alone(tmp_path: Path, number: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"series,time,v\na,1000,{number}\na,2000,2\na,3000,3\n")
    numeral, _, good = open_source(path, None, Columns()).read()
    problem = f"v: {number[:40]} is a number that cannot be stored: --text v keeps it as text"
    assert (numeral.event, numeral.problem) == (None, problem)
    assert good.event == {"series": "a", "time": 3000, "data": {"v": 3}}
    kept, _, _ = open_source(path, None, Columns(text=("v",))).read()
    assert kept.event == {"series": "a", "time": 1000, "data": {"v": number}}


def test_a_time_of_many_digits_spoils_its_row_alone(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("series,time,v\na,1e999999999,1\na,3000,3\n")
    far, good = open_source(path, None, Columns()).read()
    assert (far.event, far.problem) == (None, "the time 1e999999999 lies outside the years 1970 to 9998")
    assert good.event is not None
