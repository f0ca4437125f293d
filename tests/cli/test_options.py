"""Options of `query` that a route does not know: the API refuses them, instead of rows that they do not narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import connection
from tests.worlds.commands import run
from tests.worlds.served import Served, serve
from tidetable_client import Client


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("served"))


@pytest.fixture(autouse=True)
def inline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def make(*arguments: Any, **options: Any) -> Client:
        return Client(*arguments, background=False, **options)

    monkeypatch.setattr(connection, "Client", make)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (("--latest", "--series", "boiler", "--where", "celsius:ge=99"), "where.celsius:ge"),
        (("--latest", "--series", "boiler", "--from", "-1h"), "from"),
        (("--top", "hottest", "--series", "boiler"), "series"),
        (("--stat", "count", "--series", "boiler", "--fields", "celsius"), "fields"),
    ],
)
def test_an_option_that_a_route_does_not_know_is_refused(served: Served, words: tuple[str, ...], name: str) -> None:
    result = run("query", "stations", *words, "--url", served.url, "--key", "k")
    assert (result.exit_code, f"400 unknown_parameter: unknown parameter '{name}'" in result.output) == (1, True), (
        result.output
    )
