"""Options of `query` that a route does not know: the API refuses them, instead of rows that they do not narrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import connection, reading
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


class Recorder:
    """A client that keeps the call of a command, and answers one row."""

    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.made: dict[str, Any] = {}
        self.gaps = [{"from": "a", "to": "b", "reason": "its table is gone"}]

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        """Close nothing."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter([{"n": 1}])

    def __getattr__(self, name: str) -> Any:
        def call(stream: str, *words: Any, **options: Any) -> Any:
            assert options.pop("decimals") is True  # every form but the chart shows all digits
            self.calls.append((name, stream, *words, {name: value for name, value in options.items() if value}))
            event = {"series": "a", "time": "t", "id": "i", "data": {"n": 1, "o": {"p": None}}}
            return {"latest": {"a": event, "b": None}, "tail": iter([event] * 3)}.get(name, self)

        return call


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder()

    def make(*_: Any, **options: Any) -> Recorder:
        recorder.made = options
        return recorder

    monkeypatch.setattr(reading, "open_client", make)
    return recorder


RANGE = ("--from", "-1h", "--to", "-1m", "--order", "asc", "--where", "mag:ge=4.5", "--where", "status=a=b")
SHARED = {"start": "-1h", "end": "-1m", "order": "asc", "where": {"mag:ge": "4.5", "status": "a=b"}}


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ((), ("events", "s", {"limit": 100})),
        (("--limit", "0"), ("events", "s", {})),
        (
            (*RANGE, "--series", "a", "--series", "b", "--fields", "mag", "--limit", "7"),
            ("events", "s", {**SHARED, "series": ["a", "b"], "fields": "mag", "limit": 7}),
        ),
        ((*RANGE, "--latest", "--series", "a"), ("latest", "s", ["a"], SHARED)),
        (("--latest", "--series", "a", "--fields", "mag"), ("latest", "s", ["a"], {"fields": "mag"})),
        (
            (*RANGE, "--top", "hottest", "--value", "CA", "--limit", "3", "--fields", "mag"),
            ("top", "s", {**SHARED, "index": "hottest", "value": "CA", "limit": 3, "fields": "mag"}),
        ),
        (
            (*RANGE, "--stat", "max", "--field", "mag", "--step", "1h", "--by", "series", "--series", "a"),
            (
                "aggregate",
                "s",
                {**SHARED, "stat": "max", "field": "mag", "step": "1h", "by": "series", "series": ["a"], "limit": 100},
            ),
        ),
        (
            (
                "--stat",
                "max",
                "--field",
                "mag",
                "--step",
                "1h",
                "--by",
                "net",
                "--top",
                "3",
                "--fill",
                "zero",
                "--id",
                "x",
            ),
            (
                "aggregate",
                "s",
                {"stat": "max", "field": "mag", "step": "1h", "by": "net", "top": "3", "fill": "zero", "id": ["x"]}
                | {"limit": 100},
            ),
        ),
        (("--id", "x", "--id", "y"), ("events", "s", {"id": ["x", "y"], "limit": 100})),
        # One of them suffices for an aggregate.
        (("--step", "1h", "--limit", "0"), ("aggregate", "s", {"step": "1h"})),
        (("--by", "place"), ("aggregate", "s", {"by": "place", "limit": 100})),
        (("--stat", "count"), ("aggregate", "s", {"stat": "count", "limit": 100})),
    ],
)
def test_each_option_of_a_query_reaches_the_api(recorder: Recorder, words: tuple[str, ...], call: Any) -> None:
    result = run("query", "s", *words, "--form", "ndjson")
    assert result.exit_code == 0, result.output
    assert recorder.calls == [call]


def test_what_could_not_be_read_is_told(recorder: Recorder) -> None:
    result = run("query", "s")
    assert (result.exit_code, result.stderr) == (0, "not read: a to b: its table is gone\n")


def test_every_statistic_of_an_aggregate_is_drawn(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: Any = []
    monkeypatch.setattr(reading, "make_chart", lambda _, field: drawn.append(field) or "")
    for words in (("--stat", "max,count", "--field", "mag"), ("--step", "1h", "--field", "mag"), ("--field", "mag")):
        assert run("query", "s", *words, "--form", "chart").exit_code == 0
    assert drawn == ["max", "count", "count", "mag"]


@pytest.mark.parametrize("where", ["mag", "=4"])
def test_a_condition_has_a_field_and_a_value(recorder: Recorder, where: str) -> None:
    result = run("query", "s", "--where", where)
    assert (result.exit_code, f"--where {where}: write FIELD=VALUE" in result.output) == (1, True)


def test_each_option_of_tail_reaches_the_api_which_may_be_away_for_a_day(recorder: Recorder) -> None:
    result = run("tail", "s", "--series", "a", "--where", "mag:ge=4", "--overlap", "9", "--interval", "3")
    options = {"overlap": 9.0, "interval": 3.0, "series": ["a"], "where": {"mag:ge": "4"}}
    assert recorder.calls == [("tail", "s", options)]
    assert recorder.made["policy"].retry_for == 86_400
    assert result.stdout.splitlines() == ['t a i n=1 o={"p":null}'] * 3
    assert len(run("tail", "s", "--count", "2").stdout.splitlines()) == 2
    plain = {"overlap": 60.0, "interval": 2.0}
    assert recorder.calls[1] == ("tail", "s", plain)


def test_tail_ends_with_ctrl_c(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Recorder, "tail", stop, raising=False)
    assert run("tail", "s").exit_code == 0
