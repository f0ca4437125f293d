"""The ways of an event that docs/inside/architecture.md describes: each function is there, and an event passes it."""

import json
import re
import sys
import threading
import tomllib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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


def trace(app: Gateway, method: str, body: bytes = b"") -> Counter[tuple[str, str]]:
    """Count the calls of the functions of ``lambdas/`` in a request, by their modules' paths and their own names.

    Lambdas and comprehensions belong to the functions that they stand in.
    """
    called: Counter[tuple[str, str]] = Counter()
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
        path, name = Path(frame.f_code.co_filename), frame.f_code.co_name
        if event == "call" and "lambdas" in path.parts and not name.startswith("<"):
            called[path.as_posix(), name] += 1

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
        ("The functions that a plain event passes", "GET", 16, 9),
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


@pytest.mark.parametrize(("method", "most", "modules"), [("POST", 65, 23), ("GET", 108, 28)], ids=["POST", "GET"])
def test_a_request_of_a_warm_function_enters_few_functions_and_no_long_module(
    method: str, most: int, modules: int
) -> None:
    event = json.dumps([{"series": "a", "id": "a", "data": {"mag": 1}}]).encode()
    with contextmanager(gateway)() as app:
        app.stage.send("quakes", event)
        app.stage.send("quakes", event.replace(b'"id": "a"', b'"id": "b"'))
        for _ in range(2):
            called = trace(app, method, event if method == "POST" else b"")
    entered = sorted({path for path, _ in called})
    for path in entered:
        print(f"{path}: {', '.join(f'{name} {calls}' for (of, name), calls in called.items() if of == path)}")
    print(f"{method}: {len(called)} functions of {len(entered)} modules")
    assert len(called) <= most
    assert len(entered) <= modules
    assert [path for path in entered if len(Path(path).read_text().splitlines()) > 300] == []
    # A function that does everything would be one function: ruff counts the branches of each, by default at most 10.
    lint = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    assert "C90" in lint["select"]
    assert lint.get("mccabe", {}).get("max-complexity", 10) <= 12
