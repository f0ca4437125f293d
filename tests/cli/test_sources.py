"""Rows of files as events: exports of this stage, and columns that contradict each other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.forms import write_csv, write_lines
from cli.sources import Columns, SourceError, open_source

EVENT: dict[str, Any] = {
    "series": "a",
    "time": "2026-03-15T12:00:00.000000Z",
    "id": "e",
    "data": {"v1.5": {"load": 1, 'say "hi"': 2, "at": {"x.y": 3}}, "plain": 4},
}


def read_events(path: Path) -> list[dict[str, Any] | None]:
    return [row.event for row in open_source(path, None, Columns()).read()]


@pytest.mark.parametrize(("name", "write"), [("rows.csv", write_csv), ("rows.ndjson", write_lines)])
def test_an_export_is_read_as_the_events_that_it_was_made_of(tmp_path: Path, name: str, write: Any) -> None:
    path = tmp_path / name
    with path.open("w", newline="") as file:
        write([{**EVENT, "ref": "r1"}], file)
    assert read_events(path) == [EVENT]


@pytest.mark.parametrize(
    "header", ["data.place,data.place.state", "data.place.state,data.place", "place,data.place", "data.a,data.a.b.c"]
)
def test_columns_that_contradict_each_other_spoil_their_row_alone(tmp_path: Path, header: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"series,time,{header}\na,1000,x,y\na,2000,x,\n")
    first, second = open_source(path, None, Columns()).read()
    assert (first.event, "have no room for each other" in first.problem) == (None, True)
    assert second.event is not None


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("series,time,mag,mag,,\na,1000,1,2,,\n")
    with pytest.raises(SourceError, match="two columns are called 'mag': rename one"):
        read_events(path)
