"""The command `import`, on a stage behind an HTTP server."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from cli import clock, connection
from tests.api.gateway import NOON
from tests.worlds.commands import run
from tests.worlds.served import Served
from tidetable_client import Client, Clock


class Quick(Clock):
    """Waits that only move the clock."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def read(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def send_inline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands' clients send within their calls, so that the order is known and nothing waits."""

    def make(*arguments: Any, **options: Any) -> Client:
        return Client(*arguments, background=False, clock=Quick(), random=lambda: 0.0, **options)

    monkeypatch.setattr(connection, "Client", make)
    monkeypatch.setattr(clock, "read_clock", lambda: NOON)


def import_file(served: Served, *words: str) -> Result:
    return run("import", *words, "--url", served.url, "--key", "k")


def read_series(served: Served, series: str) -> list[dict[str, Any]]:
    for _ in range(4):  # a table on demand throttles what comes in one moment: this waits in the queue
        served.stage.clock.sleep(30)
        served.stage.drain()
    client = Client(served.url, "k", background=False, clock=Quick())
    rows = client.events("stations", series=series, start="-8d", order="asc")
    return [{name: row[name] for name in ("time", "id", "data")} for row in rows]


def make_lines(count: int, series: str, **fields: Any) -> list[dict[str, Any]]:
    at = NOON - timedelta(hours=1)
    return [
        {"series": series, "time": (at + timedelta(seconds=number)).isoformat(), "data": {"n": number}, **fields}
        for number in range(count)
    ]


def write_lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path
