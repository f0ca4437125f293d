"""Frames of a stage that answers Arrow: which requests they need, and answers that are of another kind."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pyarrow as pa
import pytest

from doubles import ManualClock, problem
from tidetable_client import ApiError, AsyncClient, Client

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
NO_FORMAT = "format must be json, ndjson or csv"


def arrow_page(*numbers: int, following: str | None = None) -> httpx.Response:
    table = pa.table({"n": list(numbers)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = ARROW | ({"Tidetable-Next": following} if following else {})
    return httpx.Response(200, content=sink.getvalue().to_pybytes(), headers=headers)


def columns_page(*numbers: int, following: str | None = None) -> httpx.Response:
    return httpx.Response(200, json={"columns": {"data.n": numbers}, "next": following})


def json_page(*numbers: int, following: str | None = None) -> httpx.Response:
    return httpx.Response(200, json={"events": [{"data.n": number} for number in numbers], "next": following})


class Stage:
    """Gives its answers in turn, to a client with threads or to one for asyncio, and keeps the requests."""

    def __init__(self, clock: ManualClock, kind: str) -> None:
        self.answers: list[httpx.Response] = []
        self.requests: list[dict[str, str]] = []
        self._clock, self._kind = clock, kind

    def serve(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(dict(request.url.params) | {"accept": request.headers["Accept"]})
        return self.answers.pop(0)

    def read(self, *answers: httpx.Response, frames: int = 1, every_field: bool = False, **parameters: Any) -> Any:
        """The numbers of each of so many frames of one query, or the error of a frame."""
        self.answers, self.requests = list(answers), []
        options: dict[str, Any] = {"transport": httpx.MockTransport(self.serve), "clock": self._clock}
        if self._kind == "asyncio":
            return asyncio.run(self._read_async(frames, every_field, parameters, options))
        query = Client("http://tides.test", "key", **options).events("quakes", **parameters)
        found: list[Any] = []
        for _ in range(frames):
            try:
                found.append(list_numbers(query.to_arrow(every_field=every_field)))
            except ApiError as error:
                found.append(error.code)
        return found

    async def _read_async(
        self, frames: int, every_field: bool, parameters: dict[str, Any], options: dict[str, Any]
    ) -> Any:
        found: list[Any] = []
        async with AsyncClient("http://tides.test", "key", **options) as client:
            query = client.events("quakes", **parameters)
            for _ in range(frames):
                try:
                    found.append(list_numbers(await query.to_arrow(every_field=every_field)))
                except ApiError as error:
                    found.append(error.code)
        return found


def list_numbers(frame: Any) -> list[int]:
    table = pa.table(frame)
    return list(table["n"].to_pylist()) if "n" in table.column_names else []


@pytest.fixture(params=["threads", "asyncio"])
def stage(request: pytest.FixtureRequest, clock: ManualClock) -> Stage:
    return Stage(clock, request.param)


def test_the_pages_of_a_frame_are_requested_as_arrow_and_joined(stage: Stage) -> None:
    assert stage.read(arrow_page(0, 1, following="c1"), arrow_page(2)) == [[0, 1, 2]]
    assert [request["format"] for request in stage.requests] == ["arrow", "arrow"]
    assert {request["accept"] for request in stage.requests} == {ARROW["Content-Type"]}
    assert [request.get("cursor") for request in stage.requests] == [None, "c1"]


@pytest.mark.parametrize("options", [{"every_field": True}, {"limit": 5}])
def test_a_frame_of_every_field_or_with_a_limit_is_requested_by_columns(stage: Stage, options: dict[str, Any]) -> None:
    assert stage.read(columns_page(0, 1), **options) == [[0, 1]]
    assert [request["format"] for request in stage.requests] == ["columns"]


def test_a_stage_that_does_not_know_arrow_is_asked_for_json(stage: Stage) -> None:
    assert stage.read(problem(400, "bad_parameter", NO_FORMAT), columns_page(0, 1)) == [[0, 1]]


@pytest.mark.parametrize("numbers", [(), (0,)])
def test_a_stage_that_answers_json_to_arrow_is_asked_again_by_columns(stage: Stage, numbers: tuple[int, ...]) -> None:
    first = columns_page(*numbers, following="c1")
    assert stage.read(json_page(*numbers, following="c1"), first, columns_page(1)) == [[*numbers, 1]]
    assert [request.get("cursor") for request in stage.requests] == [None, None, "c1"]


@pytest.mark.parametrize(
    ("code", "detail"),
    [("bad_parameter", "where.mag: not a number"), ("forbidden", "the key may not read in this format")],
)
def test_a_refusal_for_another_reason_than_the_format_is_an_error(stage: Stage, code: str, detail: str) -> None:
    assert stage.read(problem(400, code, detail)) == [code]
    assert len(stage.requests) == 1


def test_a_frame_whose_second_page_is_refused_fails_and_begins_again_with_its_first_row(stage: Stage) -> None:
    """If the stage was exchanged for an earlier version in the meantime, its second page must not be a whole frame."""
    refused = problem(400, "bad_parameter", NO_FORMAT)
    answers = arrow_page(0, following="c1"), refused, arrow_page(0, following="c1"), arrow_page(1)
    assert stage.read(*answers, frames=2) == ["bad_parameter", [0, 1]]


def test_a_query_that_is_done_gives_an_empty_frame(stage: Stage) -> None:
    assert stage.read(arrow_page(0, 1), frames=2) == [[0, 1], []]
    assert len(stage.requests) == 1
