"""What an import records of each answer, whichever order answers have, and what it tells the client and its caller."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import typer

from cli import importing
from cli.importing import Transfer
from cli.journal import Journal, JournalError
from cli.sources import Columns, Row, Source, open_source
from tests.worlds.commands import run
from tidetable_client import Failure, Settled

EVENT = b'{"series":"a"}'


def fail_event(index: int, code: str, status: int = 400) -> Failure:
    return Failure("s", index, code, f"{code} it is", EVENT, status)


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    """The journal of an import that has handed out four rows."""
    file = tmp_path / "rows.ndjson"
    file.write_text("{}")
    journal = Journal(file, tmp_path / "state", {}, anew=False)
    for row in range(4):
        journal.expect(row, row)
    return journal


def read_refusals(journal: Journal) -> list[tuple[int, str]]:
    if not journal.refusals.exists():
        return []
    lines = map(json.loads, journal.refusals.read_text().splitlines())
    return [(line["row"], line["code"]) for line in lines]


def make_source(tmp_path: Path) -> Source:
    return Source(tmp_path / "rows.ndjson", "ndjson", 1, lambda: iter([Row(0, 1, {})]))


@pytest.mark.parametrize("code", ["invalid", "too_old", "too_new", "too_large", "forbidden_series"])
def test_an_event_that_is_refused_for_itself_is_settled(journal: Journal, tmp_path: Path, code: str) -> None:
    transfer = Transfer(journal)
    transfer.note(Settled("s", [0, 1, 2, 3], [fail_event(2, code)]))
    assert (journal.progress.rows, journal.progress.stored, journal.progress.refused) == (4, 3, {code: 1})
    assert read_refusals(journal) == [(2, code)]
    with pytest.raises(typer.Exit) as ended:
        transfer.report(make_source(tmp_path), as_json=False)
    assert (ended.value.exit_code, journal.progress.is_done) == (1, True)


def test_any_other_refusal_ends_the_import_and_the_first_is_told(
    journal: Journal, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    transfer = Transfer(journal)
    transfer.note(Settled("s", [0, 1], [fail_event(1, "forbidden", 403)]))
    transfer.note(Settled("s", [2, 3], [fail_event(3, "unsent", 0)]))
    assert (journal.progress.rows, journal.progress.stored, read_refusals(journal)) == (1, 2, [])
    with pytest.raises(typer.Exit):
        transfer.report(make_source(tmp_path), as_json=True)
    said = capsys.readouterr()
    assert json.loads(said.out) == {
        "rows": 1,
        "stored": 2,
        "refused": {},
        "done": False,
        "problem": "forbidden it is",
    }
    assert "ended at row 1: 403 forbidden: forbidden it is. The same command goes on from there" in said.err


def test_an_import_of_which_all_is_stored_ends_well(journal: Journal, tmp_path: Path) -> None:
    transfer = Transfer(journal)
    transfer.note(Settled("s", [3, 2, 1, 0]))
    transfer.report(make_source(tmp_path), as_json=True)
    assert (journal.progress.is_done, journal.progress.stored) == (True, 4)


class Client:
    """A client that takes every event but those without a series; ``made`` has its options."""

    made: dict[str, Any]

    def __init__(self, on_settled: Any = None, policy: Any = None, **_: Any) -> None:
        Client.made = {"policy": policy}
        self.settle, self.count = on_settled, 0

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing."""

    def streams(self) -> list[dict[str, Any]]:
        return [{"stream": "s"}, {"stream": "quakes"}]

    def write(self, stream: str, event: dict[str, Any]) -> None:
        if event["series"] == "none":
            raise ValueError("it has no series")
        self.settle(Settled(stream, [self.count]))
        self.count += 1

    def flush(self) -> None:
        """Send nothing: events are settled at once."""


@pytest.fixture
def inline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(importing, "open_client", lambda *_, **options: Client(**options))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rows.ndjson"
    rows = [{"series": series, "time": 1} for series in ("a", "none", "b")]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def call(*words: str) -> Any:
    return run("import", "rows.ndjson", "--stream", "s", *words)


def test_an_event_that_the_client_refuses_is_kept_with_its_row(inline: Path) -> None:
    done = call("--url", "http://a")
    assert (done.exit_code, "3 rows, 2 stored, 1 refused (invalid 1)" in done.output) == (1, True)
    (line,) = (inline.parent / "rows.ndjson.refused.ndjson").read_text().splitlines()
    assert json.loads(line) == {
        "row": 1,
        "code": "invalid",
        "detail": "it has no series",
        "text": '{"series": "none", "time": 1}',
    }


def test_requests_are_as_large_and_as_many_as_the_options_say(inline: Path) -> None:
    call("--url", "http://a")
    policy = Client.made["policy"]
    assert (policy.batch_events, policy.in_flight, policy.block_for) == (500, 1, None)
    call("--url", "http://a", "--again", "--batch", "7", "--parallel", "3")
    policy = Client.made["policy"]
    assert (policy.batch_events, policy.in_flight) == (7, 3)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--url", "http://b"), "url"),
        (("--stage", "prod"), "url"),
        (("--url", "http://a", "--time-unit", "s"), "columns"),
        (("--url", "http://a", "--format", "csv"), "format"),
    ],
)
def test_an_import_goes_on_only_as_it_began(inline: Path, words: tuple[str, ...], named: str) -> None:
    call("--url", "http://a")
    other = call(*words)
    assert (other.exit_code, f"an import with other options ({named}): --again" in other.output) == (1, True)


def test_the_progress_may_be_kept_elsewhere(inline: Path) -> None:
    call("--url", "http://a", "--state", "elsewhere.json")
    assert (inline.parent / "elsewhere.json").exists()
    assert not (inline.parent / "rows.ndjson.import.json").exists()
    assert "imported already (elsewhere.json)" in call("--url", "http://a", "--state", "elsewhere.json").output


def test_refused_rows_of_an_earlier_import_stay(inline: Path) -> None:
    """The file is mended in another way and imported again: its former rows are nowhere else."""
    call("--url", "http://a")
    first = inline.parent / "rows.ndjson.refused.ndjson"
    before = first.read_bytes()
    inline.write_text('{"series": "a", "time": 1}\n{"series": "b", "time": 2}\n{"series": "none", "time": 3}\n')
    again = call("--url", "http://a", "--again")
    assert "the refused rows are in rows.ndjson.refused.2.ndjson" in again.output.replace("\n", "")
    assert first.read_bytes() == before
    second = inline.parent / "rows.ndjson.refused.2.ndjson"
    assert [json.loads(line)["row"] for line in second.read_text().splitlines()] == [2]
    # Other ways to a new import: the progress was deleted, or is kept elsewhere under the same names.
    (inline.parent / "rows.ndjson.import.json").unlink()
    call("--url", "http://a")
    call("--url", "http://a", "--state", "elsewhere.json")
    kept = {path.name: path.read_text().count("\n") for path in inline.parent.glob("*.refused*")}
    assert kept == {f"rows.ndjson.refused{name}.ndjson": 1 for name in ("", ".2", ".3", ".4")}
    assert first.read_bytes() == before


def test_an_import_without_refusals_leaves_those_of_earlier_imports(inline: Path) -> None:
    call("--url", "http://a")
    first = inline.parent / "rows.ndjson.refused.ndjson"
    inline.write_text('{"series": "a", "time": 1}\n')
    assert call("--url", "http://a", "--again").exit_code == 0
    assert first.read_text().count("\n") == 1


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        ("zz", "there is no stream 'zz'; there are: quakes, s\n"),
        ("quake", "there is no stream 'quake'; there are: quakes, s; did you mean quakes?"),
    ],
)
@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_a_stream_that_the_stage_does_not_have_is_refused_before_a_row_is_read(
    inline: Path, stream: str, said: str, more: tuple[str, ...]
) -> None:
    inline.write_text("no row of this can be read\n")
    done = run("import", "rows.ndjson", "--stream", stream, "--url", "http://a", *more)
    assert (done.exit_code, f"--stream: {said}" in done.output) == (64, True), done.output
    assert sorted(path.name for path in inline.parent.iterdir()) == ["rows.ndjson"]


class Rehearsal:
    """Refuses every event."""

    is_complete = True

    def judge_event(self, event: dict[str, Any]) -> Any:
        return fail_event(0, "too_old")


def test_a_dry_run_shows_ten_rows_and_counts_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.ndjson"
    file.write_text('{"series": "a", "time": 1}\n' * 12)
    rehearsal: Any = Rehearsal()
    with pytest.raises(typer.Exit) as ended:
        importing._rehearse_import(open_source(file, None, Columns()), rehearsal, as_json=False)
    shown = capsys.readouterr().out.splitlines()
    assert ended.value.exit_code == 1
    assert [line.partition(":")[0] for line in shown[:-1]] == [f"row {number}" for number in range(10)]
    assert shown[-1] == "12 rows, 12 would be refused; nothing was sent"


@contextmanager
def limit_files(size: int) -> Iterator[None]:
    """Refuse writes beyond the size, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 40, 250, 300])
def test_a_full_disk_ends_an_import_with_words_and_loses_no_row(inline: Path, size: int) -> None:
    """The disk takes nothing, half a line of the refusals, or half of the progress."""
    with limit_files(size):
        done = call("--url", "http://a")
    assert (done.exit_code, type(done.exception)) == (1, SystemExit), done.output
    assert "cannot be written: File too large. No row is lost: the same command goes on" in done.output.replace(
        "\n", " "
    )
    done = call("--url", "http://a", "--json")
    summary = json.loads(done.stdout)
    assert (summary["rows"], summary["stored"], summary["refused"]) == (3, 2, {"invalid": 1})
    (line,) = (inline.parent / "rows.ndjson.refused.ndjson").read_text().splitlines()
    assert json.loads(line)["row"] == 1


def test_a_disk_that_is_full_when_an_answer_arrives_ends_the_import(journal: Journal) -> None:
    """The client would only log an error of the function that it calls."""
    transfer = Transfer(journal)
    with limit_files(0):
        transfer.note(Settled("s", [0, 1]))
        transfer.note(Settled("s", [2, 3]))
    source = Source(Path("rows.ndjson"), "ndjson", 1, lambda: iter([Row(0, 1, {}), Row(1, 2, {})]))
    client: Any = Client(lambda _: pytest.fail("no row is sent any more"), None)
    with pytest.raises(JournalError, match="state cannot be written: File too large"):
        transfer.run(client, source, "s")


def test_a_folder_that_cannot_be_written_is_named(inline: Path) -> None:
    done = call("--url", "http://a", "--state", "missing/state.json")
    assert (done.exit_code, type(done.exception)) == (1, SystemExit)
    assert "missing/state.json cannot be written: No such file" in done.output.replace("\n", "")
