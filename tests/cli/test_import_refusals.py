"""`import` of files with rows that cannot be stored: which rows are refused, with which text, and what is stored."""

import json
from base64 import b64decode
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from tests.worlds.imports import import_file, make_lines, read_series, send_inline, write_lines
from tests.worlds.served import Served, serve


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("served"))


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    send_inline(monkeypatch)
    monkeypatch.chdir(tmp_path)


def test_a_number_that_no_float_can_hold_is_refused_with_its_digits_and_the_import_ends(
    served: Served, tmp_path: Path
) -> None:
    numbers = "1", "1e400", "3", "0.1234567890123456789012345678901234567890123", "-1.50e-140", "1e99999999999999999999"
    stamp = "2026-03-15T11:00:00Z"
    rows = [f'{{"series": "huge", "time": "{stamp}", "id": "{n}",  "data": {{"n": {n}}}}}' for n in numbers]
    file = write_lines(tmp_path / "huge.ndjson", list(rows))
    done = import_file(served, str(file), "--stream", "stations")
    assert (done.exit_code, "6 rows, 2 stored, 4 refused (invalid 3, unreadable 1)" in done.output) == (1, True), (
        done.output
    )
    kept = [json.loads(line) for line in (tmp_path / "huge.ndjson.refused.ndjson").read_text().splitlines()]
    assert sorted((line["row"], line["text"]) for line in kept) == [(row, rows[row]) for row in (1, 3, 4, 5)]
    assert [row["data"]["n"] for row in read_series(served, "huge")] == [1, 3]
    assert import_file(served, str(file), "--stream", "stations").exit_code == 64  # it is done


def test_the_bytes_of_a_row_that_is_not_text_are_kept(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "latin.csv"
    file.write_bytes(b"series,time,note\nlatin,2026-03-15T11:00:00Z,caf\xe9\nlatin,2026-03-15T11:00:01Z,tea\n")
    assert "2 rows, 1 stored, 1 refused (unreadable 1)" in import_file(served, str(file), "--stream", "stations").output
    (line,) = map(json.loads, (tmp_path / "latin.csv.refused.ndjson").read_text().splitlines())
    assert (line["row"], line["text"]) == (0, "latin,2026-03-15T11:00:00Z,caf\\xe9")
    assert b64decode(line["base64"]) == b"latin,2026-03-15T11:00:00Z,caf\xe9"


def test_a_row_of_parquet_that_is_refused_keeps_its_values(served: Served, tmp_path: Path) -> None:
    table = pa.table(
        {"time": ["2026-03-15T11:00:00Z"] * 3, "n": [1.5, float("nan"), 1e300], "d": [Decimal("0.10")] * 3}
    )
    parquet.write_table(table, tmp_path / "nan.parquet")
    done = import_file(served, str(tmp_path / "nan.parquet"), "--stream", "stations", "--series", "=nan")
    assert "3 rows, 1 stored, 2 refused (invalid 2)" in done.output
    kept = [json.loads(line) for line in (tmp_path / "nan.parquet.refused.ndjson").read_text().splitlines()]
    first, second = sorted(kept, key=lambda line: line["row"])
    assert (first["row"], '"n": NaN, "d": "0.10"' in first["text"], "event" in first) == (1, True, False)
    assert (second["row"], second["event"]["data"]) == (2, {"n": 1e300, "d": 0.1})


def test_a_damaged_file_is_imported_up_to_the_damage_and_says_its_line(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "torn.csv"
    file.write_text(
        'series,time,note\ntorn,2026-03-15T11:00:00Z,a\ntorn,2026-03-15T11:00:01Z,"b\ntorn,2026-03-15T11:00:02Z,c\n'
    )
    for words in ((), ("--dry-run",)):
        done = import_file(served, str(file), "--stream", "stations", *words)
        assert done.exit_code == 1
        assert "torn.csv, line 3: a quote is not closed" in done.output
    done = import_file(served, str(file), "--stream", "stations", "--json")
    summary = json.loads(done.stdout)
    assert (summary["rows"], summary["stored"], summary["done"]) == (1, 1, False)
    assert "line 3" in summary["problem"]
    assert [row["data"] for row in read_series(served, "torn")] == [{"note": "a"}]


def test_a_column_that_is_half_numbers_is_named(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "half.csv"
    file.write_text("series,time,mag,note\nhalf,2026-03-15T11:00:00Z,1.5,x\nhalf,2026-03-15T11:00:01Z,+2,y\n")
    done = import_file(served, str(file), "--stream", "stations")
    assert done.exit_code == 0
    assert "column mag: 1 cells are text, such as '+2', and 1 are numbers" in done.output
    assert "column note" not in done.output


def test_rows_that_differ_in_the_last_digits_of_their_time_stay_apart(served: Served, tmp_path: Path) -> None:
    """In each format, three events without an id differ only beyond the microsecond."""
    nanos = [1_773_572_400_123_456_000 + number for number in (1, 2, 3)]
    parquet.write_table(
        pa.table({"time": pa.array(nanos, pa.timestamp("ns", "UTC")), "n": [1] * 3}), tmp_path / "a.parquet"
    )
    (tmp_path / "a.csv").write_text("time,n\n" + "".join(f"{nano},1\n" for nano in nanos))
    stamps = [f"2026-03-15T11:00:00.{number}Z" for number in ("123456001", "123456002", "123456003")]
    (tmp_path / "a.ndjson").write_text("".join(f'{{"time": "{stamp}", "n": 1}}\n' for stamp in stamps))
    for name, words in (("a.parquet", []), ("a.csv", ["--time-unit", "ns"]), ("a.ndjson", [])):
        series = f"digits-{name}"
        done = import_file(served, str(tmp_path / name), "--stream", "stations", "--series", f"={series}", *words)
        assert done.exit_code == 0, done.output
        assert [row["time"] for row in read_series(served, series)] == ["2026-03-15T11:00:00.123456Z"] * 3


def test_refused_rows_are_kept_with_the_reason_and_the_others_are_stored(served: Served, tmp_path: Path) -> None:
    good = make_lines(3, "some")
    old = {"series": "some", "time": "2001-01-01T00:00:00Z", "data": {}}
    nan = '{"series": "some", "time": "2026-03-15T11:00:00Z", "data": {"n": NaN}}'
    rows: list[Any] = [good[0], "{broken", old, {"series": "some", "data": {}}, good[1], nan, good[2]]
    file = write_lines(tmp_path / "mixed.ndjson", rows)
    done = import_file(served, str(file), "--stream", "stations")
    assert done.exit_code == 1
    assert "7 rows, 3 stored, 4 refused (too_old 1, unreadable 3)" in done.output
    kept = [json.loads(line) for line in (tmp_path / "mixed.ndjson.refused.ndjson").read_text().splitlines()]
    assert sorted((line["row"], line["code"]) for line in kept) == [
        (1, "unreadable"),
        (2, "too_old"),
        (3, "unreadable"),
        (5, "unreadable"),
    ]
    assert next(line for line in kept if line["row"] == 2)["event"] == {**old}
    assert "name its column with --time" in next(line for line in kept if line["row"] == 3)["detail"]
    assert len(read_series(served, "some")) == 3
