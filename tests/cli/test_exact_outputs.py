"""`query` and `tail`: every form shows every digit, a column of Parquet is as wide as its numbers, and a full disk."""

import csv
import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from cli import connection
from cli.sources import Columns, open_source
from tests.api.gateway import NOON
from tests.worlds.commands import ROOT, run
from tests.worlds.served import Served, serve
from tidetable_client import Client, Clock

DEEP, BIG = "0.12345678901234567890123", "12345678901234567890123456789012345678"
LINES = [f'{{"n":{DEEP},"big":{BIG},"list":[{DEEP}],"note":"=1+1"}}', f'{{"n":2,"big":{2**63},"note":"-5"}}']


class Quick(Clock):
    """Waits that only move the clock."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def read(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    for served in serve(folder):
        rows = folder / "rows.ndjson"
        times = [(NOON - timedelta(minutes=minutes)).isoformat() for minutes in (2, 1)]
        rows.write_text(
            "".join(
                f'{{"series":"s","id":"{at}","time":"{at}","data":{data}}}\n'
                for at, data in zip(times, LINES, strict=True)
            )
        )
        assert run("import", str(rows), "--stream", "stations", "--url", served.url, "--key", "k").exit_code == 0
        yield served


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def make(*arguments: Any, **options: Any) -> Client:
        return Client(*arguments, background=False, clock=Quick(), random=lambda: 0.0, **options)

    monkeypatch.setattr(connection, "Client", make)
    monkeypatch.chdir(tmp_path)


def query(served: Served, *words: str) -> str:
    done = run(
        "query",
        "stations",
        "--series",
        "s",
        "--from",
        "-3h",
        "--order",
        "asc",
        *words,
        "--url",
        served.url,
        "--key",
        "k",
    )
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("form", ["table", "csv", "ndjson", "json"])
def test_every_form_shows_every_digit(served: Served, form: str) -> None:
    assert query(served, "--form", form, "--fields", "n,list").count(DEEP) == 2
    shown = query(served, "--form", form, "--fields", "big")
    assert (BIG in shown, str(2**63) in shown) == (True, True)


def test_the_latest_event_and_the_tail_show_every_digit(served: Served) -> None:
    read = "--url", served.url, "--key", "k"
    assert str(2**63) in run("query", "stations", "--series", "s", "--latest", "--form", "json", *read).stdout
    tailed = run("tail", "stations", "--series", "s", "--overlap", "3600", "--count", "2", "--json", *read)
    assert DEEP in tailed.stdout
    assert DEEP in run("tail", "stations", "--series", "s", "--overlap", "3600", "--count", "2", *read).stdout


def test_parquet_has_columns_that_are_wide_enough(served: Served, tmp_path: Path) -> None:
    query(served, "--out", "a.parquet")
    table = parquet.read_table(tmp_path / "a.parquet")
    assert table["n"].type == pa.decimal128(24, 23)
    assert table["n"].to_pylist() == [Decimal(DEEP), Decimal(2)]
    assert table["big"].type == pa.decimal128(38, 0)
    assert table["big"].to_pylist() == [int(BIG), 2**63]


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson", "a.parquet"])
def test_an_export_is_imported_with_every_digit_and_text(served: Served, tmp_path: Path, name: str) -> None:
    query(served, "--out", name, "--no-escape")
    first, second = [row.event for row in open_source(tmp_path / name, None, Columns()).read()]
    assert first is not None
    assert second is not None
    assert (str(first["data"]["n"]), str(first["data"]["big"])) == (DEEP, BIG)
    assert (first["data"]["note"], second["data"]["note"]) == ("=1+1", "-5" if name != "a.csv" else -5)


def test_the_apostrophe_before_formulas_can_be_left_out(served: Served) -> None:
    for words, notes in (((), ["'=1+1", "'-5"]), (("--no-escape",), ["=1+1", "-5"])):
        rows = csv.DictReader(query(served, "--form", "csv", *words).splitlines())
        assert [row["data.note"] for row in rows] == notes


@contextmanager
def limit_files(size: int) -> Iterator[None]:
    """Refuse writes beyond the size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["a.csv", "a.ndjson", "a.json", "a.parquet"])
def test_a_full_disk_is_named_and_leaves_the_file_that_was_there(served: Served, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("before")
    words = "query", "stations", "--series", "s", "--from", "-3h", "--out", name, "--url", served.url, "--key", "k"
    with limit_files(60):
        done = run(*words)
    assert (done.exit_code, type(done.exception)) == (1, SystemExit), done.output
    assert f"{name} cannot be written: " in done.output
    assert "File too large" in done.output
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "before"
    assert run(*words).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_pipe_is_written_directly(served: Served, tmp_path: Path) -> None:
    """A pipe or a device must stay what it is. The test takes a pipe of its own: a mistake here replaces the file."""
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()), daemon=True)
    reader.start()
    assert "2 rows in pipe.csv" in query(served, "--out", "pipe.csv")
    reader.join(timeout=10)
    assert pipe.is_fifo()
    assert len(received[0].splitlines()) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["pipe.csv"]


def test_an_output_in_a_folder_that_is_missing_is_named(served: Served) -> None:
    words = "query", "stations", "--series", "s", "--from", "-3h", "--out", "missing/a.json", "--url", served.url
    done = run(*words, "--key", "k")
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "missing/a.json cannot be written: No such file or directory" in done.output


def test_json_is_readable(served: Served) -> None:
    assert [row["series"] for row in json.loads(query(served, "--form", "json"))] == ["s", "s"]


def run_python(program: str, stdout: Any) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", program]
    return subprocess.run(words, cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603


def test_a_full_disk_behind_stdout_is_named_once() -> None:
    program = "from cli.outputs import open_stdout\nwith open_stdout() as target: target.write('x' * 100)"
    with Path("/dev/full").open("w") as full:
        done = run_python(program, full)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ValueError: the output cannot be written: No space left on device"
    assert "Exception ignored" not in done.stderr


def test_a_reader_of_a_pipe_may_end_first() -> None:
    program = "from cli.outputs import open_stdout\nwith open_stdout() as target: target.write('x' * 1_000_000)"
    reading, writing = os.pipe()
    os.close(reading)
    done = run_python(program, writing)
    os.close(writing)
    assert "BrokenPipeError" in done.stderr
    assert "ValueError" not in done.stderr
