"""Texts that callers choose, in the tables and files of the command line: each is shown as it is."""

from __future__ import annotations

import csv
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from cli.common import show_report
from cli.forms import choose_form, make_chart, make_table, write_cell, write_csv, write_lines

# Rich would read these as its own marks: an end without a beginning is an error, and the others are left out.
TEXTS = ("[/a]", "[north]", ":warning:")


def draw(table: Any) -> str:
    file = StringIO()
    Console(file=file, width=160).print(table)
    return file.getvalue()


@pytest.mark.parametrize("text", TEXTS)
def test_a_table_shows_names_and_values_as_they_are(text: str) -> None:
    shown = draw(make_table([{"series": text, "data": {f"n{text}": 1, "list": [text]}}]))
    assert shown.count(text) == 3


@pytest.mark.parametrize("text", TEXTS)
def test_a_chart_shows_a_series_as_it_is(text: str) -> None:
    assert text in draw(make_chart([{"series": text, "count": 2}], "count"))


@pytest.mark.parametrize("text", TEXTS)
def test_a_report_shows_reasons_as_they_are(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    action = {"action": "create", "stream": "s", "period": "2026-03-15", "outcome": "failed"}
    step = action | {"reason": f"reason {text}", "detail": f"detail {text}"}
    show_report({"actions": [step], "skipped": "", "troubles": [f"trouble {text}"]}, as_json=False)
    shown = capsys.readouterr().out
    for word in ("reason", "detail", "trouble"):
        assert f"{word} {text}" in shown


@pytest.mark.parametrize("text", ["=1+1", "+1+1", "-1+1", "@a", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20a"])
def test_csv_has_no_text_that_a_spreadsheet_executes(text: str) -> None:
    """Spreadsheets read the wide forms of Chinese and Japanese keyboards, too."""
    file = StringIO()
    assert write_csv([{"data": {"note": text}}], file) == 1
    assert list(csv.reader(StringIO(file.getvalue()))) == [["data.note"], [f"'{text}"]]


@pytest.mark.parametrize("text", ["\t=1", "\r=1", "\n=1"])
def test_csv_protects_what_is_a_formula_after_white_space(text: str) -> None:
    file = StringIO(newline="")
    write_csv([{"note": text}], file)
    assert list(csv.reader(StringIO(file.getvalue(), newline=""))) == [["note"], [f"'{text}"]]


def test_numbers_stay_numbers_in_every_form() -> None:
    """A negative number is no formula, and decimals of an answer have all their digits as text."""
    rows: list[dict[str, Any]] = [{"data": {"n": -1.5, "d": Decimal("-0.10"), "yes": True, "list": [1, None]}}, {}]
    file = StringIO(newline="")
    assert write_csv(rows, file) == 2
    assert file.getvalue().splitlines() == [
        "data.n,data.d,data.yes,data.list", '-1.5,-0.10,true,"[1,null]"', ",,,",
    ]  # fmt: skip
    lines = StringIO()
    assert write_lines([{"d": Decimal("1.5")}, {}], lines) == 2
    assert lines.getvalue() == '{"d":1.5}\n{}\n'
    assert write_cell({"d": Decimal("0.12345678901234567890123")}) == '{"d":0.12345678901234567890123}'


def test_a_table_has_numbers_to_the_right_and_no_refs() -> None:
    table = make_table([{"ref": "r", "data": {"n": 1, "t": "x", "m": 1}}, {"data": {"n": Decimal(2), "m": "y"}}])
    assert [(str(column.header), column.justify) for column in table.columns] == [
        ("n", "right"), ("t", "left"), ("m", "left"),
    ]  # fmt: skip


def test_bars_begin_at_zero_to_either_side() -> None:
    """Fifty characters are from -10 to 10, so that each ten is 25 of them; a truth is no number."""
    shown = draw(make_chart([{"n": 10}, {"n": -10}, {"n": 5}, {"n": None}, {"n": True}], "n"))
    bars = [line.count("\u2588") for line in shown.splitlines()]
    assert bars[:2] == [25, 25]
    assert bars[2] in (12, 13)
    assert bars[3:] == [0, 0]
    first, second, *_ = shown.splitlines()
    assert first.index("\u2588") > second.rindex("\u2588")
    # Of zeros alone there is no bar, and of equal numbers each is as long as can be.
    assert draw(make_chart([{"n": 0}, {"n": 0}], "n")).count("\u2588") == 0
    assert draw(make_chart([{"n": 3}, {"n": 3}], "n")).count("\u2588") == 100


@pytest.mark.parametrize(
    ("form", "name", "chosen"),
    [
        (None, None, "table"),
        (None, "a.csv", "csv"),
        (None, "a.CSV", "csv"),
        (None, "a.parquet", "parquet"),
        (None, "a.ndjson", "ndjson"),
        (None, "a.jsonl", "ndjson"),
        (None, "a.json", "json"),
        ("csv", "a.txt", "csv"),
        ("chart", None, "chart"),
    ],
)
def test_the_form_is_that_of_the_option_or_of_the_files_name(form: str | None, name: str | None, chosen: str) -> None:
    assert choose_form(form, None if name is None else Path(name)) == chosen
