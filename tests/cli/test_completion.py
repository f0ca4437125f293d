"""The names that a shell completes, as the shell asks for them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from typer.testing import CliRunner

from cli import completion, connection, start
from cli.app import app
from tests.worlds.served import Served, serve
from tidetable_client import Client


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("served"))


def complete(line: str, **variables: str) -> tuple[list[str], str]:
    """What the shell gets for a line, and what the user would see of errors."""
    asked = {"_TIDETABLE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    done = CliRunner().invoke(app, [], env=asked | variables, prog_name="tidetable")
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize(
    "line",
    [
        "query sta",
        "tail sta",
        "import rows.csv --stream sta",
        "archive sta",
        "backfill sta",
        "restore sta",
        "rollup sta",
        "advise --stream sta",
        "status --stream sta",
    ],
)
def test_a_stream_is_completed_from_the_stages_own(served: Served, line: str) -> None:
    found = complete(f"tidetable {line}", TIDETABLE_URL=served.url, TIDETABLE_KEY="k")
    assert (found[0][:1], found[1]) == (["stations"], "")


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("query stations", ["stations", "stations-days"]),
        # Only the pipeline writes into a rollup.
        ("import rows.csv --stream stations", ["stations"]),
        ("rollup stations --name ", ["days"]),
        ("rollup stations --name h", []),
        ("rollup quakes --name ", []),
    ],
)
def test_rollups_are_completed_where_they_are_meant(served: Served, line: str, names: list[str]) -> None:
    found = complete(f"tidetable {line}", TIDETABLE_URL=served.url, TIDETABLE_KEY="k")
    assert found == (names, "")


def test_cost_completes_the_streams_of_its_file(tmp_path: Path) -> None:
    """The file may be a folder, and need not be deployed; rollups get no events."""
    stream = '[streams.{}]\nperiod = "day"\nlate = "1h"\nretention = 4\nkey = {{ partition_by = "series" }}\n'
    rollup = '[[streams.stations.rollup]]\nname = "h"\nevery = "1h"\nretention = "9d"\n'
    (tmp_path / "tidetable.toml").write_text(stream.format("stations") + rollup + stream.format("quakes"))
    for named in (tmp_path, tmp_path / "tidetable.toml"):
        assert complete(f"tidetable cost {named} --stream sta") == (["stations"], "")
    assert complete(f"tidetable cost {tmp_path} --stream ") == (["quakes", "stations"], "")
    assert complete(f"tidetable cost {tmp_path}/none.toml --stream ") == ([], "")


def test_without_a_beginning_all_streams_are_listed_in_order(served: Served) -> None:
    names, _ = complete("tidetable query ", TIDETABLE_URL=served.url, TIDETABLE_KEY="k")
    assert "stations" in names
    assert names == sorted(names)


def test_options_of_the_line_name_the_stage(served: Served) -> None:
    assert complete(f"tidetable query --url {served.url} --key k stations-")[0] == ["stations-days"]


@pytest.mark.parametrize("line", ["query sta", "query stations --series b", "keys create --stream s"])
def test_a_stage_that_cannot_be_reached_gives_no_names_and_no_words(line: str) -> None:
    url = "http://127.0.0.1:9"
    assert complete(f"tidetable {line}", TIDETABLE_URL=url, TIDETABLE_KEY="k") == ([], "")
    variables = {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "",
        "AWS_CONFIG_FILE": "/none",
    }
    assert complete(f"tidetable {line}", **variables) == ([], "")


def test_nobody_waits_for_a_stage_that_is_slow(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    release, ended = Event(), Event()

    def wait(*_: Any, **__: Any) -> Any:
        release.wait(60)
        ended.set()

    monkeypatch.setattr(connection, "Client", wait)
    monkeypatch.setattr(completion, "_LONGEST", 0.05)
    assert complete("tidetable query sta", TIDETABLE_URL=served.url, TIDETABLE_KEY="k") == ([], "")
    assert not ended.is_set(), "the stage has still not answered"
    release.set()


def test_series_are_asked_of_the_stream_with_the_words_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    class Api(Client):
        def series(self, stream: str, **parameters: Any) -> Any:
            asked.append((stream, parameters))
            return _Pages([{"series": "boiler"}, {"series": "burner"}])

    monkeypatch.setattr(connection, "Client", Api)
    found = complete("tidetable query stations --series b", TIDETABLE_URL="http://127.0.0.1:9", TIDETABLE_KEY="k")
    assert found == (["boiler", "burner"], "")
    assert asked == [("stations", {"start": "-1d", "limit": 50, "prefix": "b"})]


class _Pages:
    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = rows

    def pages(self) -> Iterator[Any]:
        yield self


@pytest.mark.parametrize(
    ("variables", "module"),
    [
        ({"_TIDETABLE_COMPLETE": "complete_bash", "COMP_WORDS": "tidetable query sta"}, "cli.reading"),
        ({"_TIDETABLE_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "tidetable archive "}, "cli.act"),
        # The command itself is being typed: all of them are needed.
        ({"_TIDETABLE_COMPLETE": "complete_bash", "COMP_WORDS": "tidetable que"}, "cli.app"),
        ({"COMP_WORDS": "tidetable query sta"}, "cli.app"),
    ],
)
def test_a_completion_loads_only_the_command_that_is_typed(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], module: str
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(start, "import_module", loaded.append)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    start.load_app([])
    assert loaded == [module]
