"""The ways of an event, to its item and to an answer, as docs/inside/architecture.md lists them: every function there is
really called, and the ways stay short enough to be walked.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.api.gateway import NOON, Gateway, serving
from tests.fakes.stage import Stage
from tests.worlds.configs import CONFIG
from tests.worlds.gateway_events import QUAKES, ask, event

ROOT = Path(__file__).parents[2]
ROUTE = "/v1/streams/{stream}/events"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    stage = Stage(NOON, CONFIG.read_text())
    while stage.run_lifecycle().done:
        pass
    yield from serving(stage, CONFIG)


def read_way(beginning: str) -> list[tuple[str, str]]:
    """Read the table after a line of the page: pairs of the end of a file's path and a function of the file."""
    text = (ROOT / "docs/inside/architecture.md").read_text()
    table = text[text.index(beginning) :].split("\n\n")[1]
    steps = [
        (file, function)
        for file, functions in re.findall(r"`([\w/]+\.py)`: ((?:`[\w.]+`(?:, )?)+)", table)
        for function in re.findall(r"`([\w.]+)`", functions)
    ]
    assert len(steps) > 10, table
    return steps


def follow(sent: dict[str, Any]) -> tuple[Any, set[tuple[str, str]]]:
    """Answer a request; return the answer and the functions that were called, with the paths of their files."""
    called: set[tuple[str, str]] = set()

    def note(frame: FrameType, what: str, _: Any) -> None:
        if what == "call":
            called.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        status, _, document = ask(sent)
    finally:
        sys.setprofile(None)
    assert status == 200, document
    return document, called


def list_missing(steps: list[tuple[str, str]], called: set[tuple[str, str]]) -> list[tuple[str, str]]:
    return [
        (file, function)
        for file, function in steps
        if not any(path.endswith(f"/{file}") and name == function for path, name in called)
    ]


def test_the_functions_of_an_events_ways_are_called_and_are_few(gateway: Gateway) -> None:
    body = json.dumps([{"series": "ways", "id": str(number), "data": {"mag": 4.2}} for number in range(3)])
    document, called = follow(event(ROUTE, QUAKES, body=body))
    assert document["accepted"] == 3
    written = read_way("The functions that an event passes, from the request's body")
    assert list_missing(written, called) == []
    gateway.stage.settle()
    sent = event(ROUTE, QUAKES) | {"multiValueQueryStringParameters": {"series": ["ways"]}}
    document, called = follow(sent)
    assert len(document["events"]) == 3
    read = read_way("The functions that a plain event passes, from")
    assert list_missing(read, called) == []
    for steps in (written, read):
        assert len(steps) <= 18, steps
        assert len({file for file, _ in steps}) <= 9, steps
