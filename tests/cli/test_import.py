"""`import`: files become events, an interrupted import goes on, and a dry run says what would be refused."""

import csv
import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from cli.sources import Columns, open_source
from tests.api.gateway import NOON
from tests.worlds.commands import run
from tests.worlds.imports import import_file, make_lines, read_series, send_inline, write_lines
from tests.worlds.served import CONFIG, Served, serve
from tidetable.catalog import Backfill, Opening
from tidetable_client import Client


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("served"))


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    send_inline(monkeypatch)
    monkeypatch.chdir(tmp_path)


def test_ndjson_is_imported_in_batches_and_twice_is_once(served: Served, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "events.ndjson", make_lines(1200, "ndjson"))
    served.requests.clear()
    done = import_file(served, str(file), "--stream", "stations")
    assert done.exit_code == 0, done.output
    assert "1,200 rows, 1,200 stored, 0 refused" in done.output
    assert len([request for request in served.requests if request.startswith("POST")]) == 3
    assert [row["data"]["n"] for row in read_series(served, "ndjson")] == list(range(1200))

    again = import_file(served, str(file), "--stream", "stations")
    assert again.exit_code == 64
    assert "imported already" in again.output
    assert import_file(served, str(file), "--stream", "stations", "--again").exit_code == 0
    assert len(read_series(served, "ndjson")) == 1200


def test_csv_with_columns_that_are_mapped(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "readings.csv"
    with file.open("w", newline="") as target:
        writer = csv.writer(target)
        writer.writerow(["device", "at", "celsius", "ok", "zip", "note", "data.place.state"])
        writer.writerow(["csv", "2026-03-15 11:00:00", "21.50", "true", "00501", "", "CA"])
        writer.writerow(["csv", "2026-03-15 11:00:01", "-3e2", "false", "94103", "a, b", "NV"])
    words = "--stream", "stations", "--series", "device", "--time", "at", "--utc", "--text", "zip"
    done = import_file(served, str(file), *words)
    assert done.exit_code == 0, done.output
    assert [(row["time"], row["data"]) for row in read_series(served, "csv")] == [
        (
            "2026-03-15T11:00:00.000000Z",
            {"celsius": 21.5, "ok": True, "zip": "00501", "place": {"state": "CA"}},
        ),
        (
            "2026-03-15T11:00:01.000000Z",
            {"celsius": -300, "ok": False, "zip": "94103", "note": "a, b", "place": {"state": "NV"}},
        ),
    ]


def test_parquet_and_a_series_for_every_row(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "readings.parquet"
    at = [datetime(2026, 3, 15, 11, 0, second, 500, tzinfo=UTC) for second in range(3)]
    parquet.write_table(pa.table({"ts": at, "key": [1, 2, 3], "v": [1.5, None, 3.0], "list": [[1], [], [2, 3]]}), file)
    done = import_file(served, str(file), "--stream", "stations", "--series", "=parquet", "--time", "ts", "--id", "key")
    assert done.exit_code == 0, done.output
    assert read_series(served, "parquet") == [
        {"time": "2026-03-15T11:00:00.000500Z", "id": "1", "data": {"v": 1.5, "list": [1]}},
        {"time": "2026-03-15T11:00:01.000500Z", "id": "2", "data": {"list": []}},
        {"time": "2026-03-15T11:00:02.000500Z", "id": "3", "data": {"v": 3.0, "list": [2, 3]}},
    ]


@pytest.mark.parametrize(
    ("unit", "text", "time"),
    [
        ("s", "1773572400", 1773572400000),
        ("s", "1773572400.25", 1773572400250),
        ("ms", "1773572400001", 1773572400001),
        ("us", "1773572400000001", "2026-03-15T11:00:00.000001Z"),
        ("ns", "1773572400000001999", "2026-03-15T11:00:00.000001999Z"),
        ("s", "-1.5", -1500),
        ("us", "-1", "1969-12-31T23:59:59.999999Z"),
        ("ns", "-1500", "1969-12-31T23:59:59.9999985Z"),
    ],
)
def test_times_that_are_numbers_have_a_unit(unit: str, text: str, time: Any, tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text(f"series,time\ns,{text}\n")
    (row,) = open_source(file, None, Columns(time_unit=unit)).read()
    assert row.event == {"series": "s", "time": time, "data": {}}


def test_numbers_keep_all_their_digits(served: Served, tmp_path: Path) -> None:
    exact = '{"series": "exact", "time": "2026-03-15T11:00:00Z", "data": {"n": 0.1000000000000000000000000001}}'
    with gzip.open(tmp_path / "e.ndjson.gz", "wt") as file:
        file.write(exact)
    assert import_file(served, str(tmp_path / "e.ndjson.gz"), "--stream", "stations").exit_code == 0
    client = Client(served.url, "k", background=False)
    (row,) = client.events("stations", series="exact", start="-8d", decimals=True)
    assert str(row["data"]["n"]) == "0.1000000000000000000000000001"


def test_an_interrupted_import_goes_on_with_the_rows_that_are_not_settled(served: Served, tmp_path: Path) -> None:
    rows = make_lines(1000, "resumed")
    rows[120]["time"] = "2001-01-01T00:00:00Z"
    file = write_lines(tmp_path / "long.ndjson", rows)
    # Five requests of 100 are answered. Then the key is revoked, with a request on its way.
    served.troubles = []
    served.requests.clear()
    words = str(file), "--stream", "stations", "--batch", "100"
    original = served.application
    count = 0

    def revoke(environ: Any, start: Any) -> Any:
        nonlocal count
        count += environ["REQUEST_METHOD"] == "POST"
        if count > 5:
            start("403 Forbidden", [])
            return [b'{"code": "forbidden", "detail": "the key was revoked"}']
        return original(environ, start)

    served.application = revoke  # type: ignore[assignment]
    try:
        done = import_file(served, *words)
    finally:
        served.application = original
    assert done.exit_code == 1
    assert "ended at row 500: 403 forbidden: the key was revoked. The same command goes on from there" in done.output
    assert len(read_series(served, "resumed")) == 499

    served.requests.clear()
    done = import_file(served, *words)
    assert "going on with row 500" in done.output
    assert "1,000 rows, 999 stored, 1 refused (too_old 1)" in done.output
    assert len([request for request in served.requests if request.startswith("POST")]) == 5
    assert [row["data"]["n"] for row in read_series(served, "resumed")] == [n for n in range(1000) if n != 120]


def test_a_crash_between_two_answers_repeats_rows_and_doubles_none(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cli.journal import Journal

    file = write_lines(tmp_path / "crash.ndjson", make_lines(500, "crash"))
    save, saves = Journal._save_progress, 0

    def stop(self: Journal) -> None:
        nonlocal saves
        saves += 1
        if saves == 3:
            raise KeyboardInterrupt
        save(self)

    monkeypatch.setattr(Journal, "_save_progress", stop)
    words = str(file), "--stream", "stations", "--batch", "100"
    assert import_file(served, *words).exit_code != 0
    monkeypatch.setattr(Journal, "_save_progress", save)
    done = import_file(served, *words)
    assert "going on with row 200" in done.output
    assert "500 rows, 500 stored" in done.output
    assert [row["data"]["n"] for row in read_series(served, "crash")] == list(range(500))


def test_a_journal_of_another_file_or_another_task_is_not_taken(served: Served, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "j.ndjson", make_lines(2, "journal"))
    assert import_file(served, str(file), "--stream", "stations").exit_code == 0
    other = import_file(served, str(file), "--stream", "quakes")
    assert other.exit_code == 1
    assert "other options (stream): --again begins a new one" in other.output
    write_lines(file, make_lines(3, "journal"))
    changed = import_file(served, str(file), "--stream", "stations")
    assert "the file has changed" in changed.output
    assert import_file(served, str(file), "--stream", "stations", "--again").exit_code == 0


def test_a_dry_run_says_what_the_api_would_refuse_and_sends_nothing(served: Served, tmp_path: Path) -> None:
    rows: list[Any] = [
        *make_lines(2, "dry"),
        {"series": "dry", "time": "2001-01-01T00:00:00Z"},
        {"series": "dry", "time": "2099-01-01T00:00:00Z"},
        {"series": "x" * 500, "time": "2026-03-15T11:00:00Z"},
        {"series": "dry", "time": "yesterday"},
        {"series": "dry", "time": "2026-03-15T11:00:00Z", "data": {"text": "x" * 500_000}},
        "nothing",
    ]
    file = write_lines(tmp_path / "dry.ndjson", rows)
    words = str(file), "--stream", "stations"
    dry = import_file(served, *words, "--dry-run", "--json")
    assert dry.exit_code == 1, dry.output
    expected = {"too_old": 1, "too_new": 1, "invalid": 1, "unreadable": 2}
    found = json.loads(dry.stdout)
    assert (found["rows"], found["refused"], found["complete"]) == (8, expected, False)
    assert read_series(served, "dry") == []
    assert list(tmp_path.glob("*import*")) == []
    # With the configuration, sizes and indexes are judged, too. The import itself then says the same.
    config = tmp_path / "tidetable.toml"
    config.write_text(CONFIG)
    found = json.loads(import_file(served, *words, "--dry-run", "--json", "--config", str(config)).stdout)
    assert (found["refused"], found["complete"]) == (expected | {"too_large": 1}, True)
    assert json.loads(import_file(served, *words, "--json").stdout)["refused"] == expected | {"too_large": 1}


def test_a_dry_run_knows_the_ranges_that_are_open_for_imports(served: Served, tmp_path: Path) -> None:

    file = write_lines(tmp_path / "old.ndjson", [{"series": "o", "time": "2026-02-01T00:00:00Z"}])
    assert import_file(served, str(file), "--stream", "stations", "--dry-run").exit_code == 1
    opened = Opening(NOON + timedelta(days=1), 10, 10)
    until = datetime(2026, 2, 2, tzinfo=UTC)
    served.stage.catalog.put_backfill(Backfill("stations", datetime(2026, 2, 1, tzinfo=UTC), until, opened))
    assert import_file(served, str(file), "--stream", "stations", "--dry-run").exit_code == 0


@pytest.mark.parametrize(
    ("name", "content", "words", "message"),
    [
        ("events.txt", "", [], "add --format ndjson, csv or parquet"),
        ("none.csv", None, [], "is not a file"),
        ("p.parquet", "no parquet", [], "p.parquet cannot be read as Parquet: "),
        ("t.csv", "", ["--time-unit", "h"], "use s, ms, us or ns"),
    ],
)
def test_a_file_that_cannot_be_imported_says_why(
    served: Served, tmp_path: Path, name: str, content: str | None, words: list[str], message: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(content)
    done = import_file(served, str(tmp_path / name), "--stream", "stations", *words)
    assert done.exit_code == 1
    assert message in done.output.replace("\n", "")


def test_without_a_key_the_command_says_what_to_set(served: Served, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "k.ndjson", make_lines(1, "key"))
    done = run("import", str(file), "--stream", "stations", "--url", served.url)
    assert done.exit_code == 1
    assert "TIDETABLE_KEY" in done.output
