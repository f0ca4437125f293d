"""The ways of an event that docs/inside/architecture.md describes: each function is there, and an event passes it."""

import json
import re
import sys
import threading
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.api.gateway import Gateway, gateway
from tests.worlds.configs import ROOT

TEXT = (ROOT / "docs" / "inside" / "architecture.md").read_text()
BODY = json.dumps([{"series": "a", "id": str(n), "data": {"mag": n}} for n in range(30)]).encode()


@pytest.fixture(scope="module")
def app() -> Iterator[Gateway]:
    yield from gateway()


def way_after(sentence: str) -> list[tuple[str, str]]:
    """The functions of a table, each with the end of its module's path."""
    table = TEXT[TEXT.index(sentence) :].split("\n\n")[1]
    return [
        (module, function)
        for module, functions in re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", table)
        for function in re.findall(r"`([\w.]+)`", functions)
    ]


def trace(app: Gateway, method: str, body: bytes = b"") -> set[tuple[str, str]]:
    """The functions of ``lambdas/`` that a request calls, by their modules' paths and their own names."""
    called: set[tuple[str, str]] = set()
    environ: dict[str, Any] = {
        "PATH_INFO": "/v1/streams/quakes/events",
        "REQUEST_METHOD": method,
        "QUERY_STRING": "" if body else "from=-1h",
        "CONTENT_LENGTH": str(len(body)),
        "CONTENT_TYPE": "application/json",
        "wsgi.input": BytesIO(body),
    }
    status: list[str] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and "lambdas" in path.parts:
            called.add((path.as_posix(), frame.f_code.co_name))

    # The store works in threads of its own.
    before = sys.getprofile()
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        b"".join(app(environ, lambda line, _: status.append(line)))
    finally:
        sys.setprofile(before)
        threading.setprofile(None)
    assert status[0].startswith("200")
    return called


@pytest.mark.parametrize(
    ("sentence", "method", "most", "modules"),
    [
        ("The functions that an event passes, from the request's body", "POST", 18, 9),
        ("The functions that a plain event passes", "GET", 18, 9),
    ],
    ids=["in", "out"],
)
def test_an_event_passes_what_the_documentation_says_and_the_way_stays_short(
    app: Gateway, sentence: str, method: str, most: int, modules: int
) -> None:
    way = way_after(sentence)
    app.stage.send("quakes", BODY)
    called = trace(app, method, BODY if method == "POST" else b"")
    missing = [
        (module, function)
        for module, function in way
        if not any(path.endswith(f"/{module}") and name == function.rpartition(".")[2] for path, name in called)
    ]
    assert missing == []
    assert len(way) <= most
    assert len({module for module, _ in way}) <= modules
    assert len(way) > 15, "the table was read"
