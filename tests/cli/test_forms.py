"""Texts that callers choose, in the tables and files of the command line: each is shown as it is."""

from __future__ import annotations

import csv
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from cli.common import show_report
from cli.forms import make_chart, make_table, write_csv

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
