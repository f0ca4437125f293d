"""Frames: which columns are instants, and what a reading that failed leaves behind."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pyarrow as pa
import pytest

from doubles import ManualClock, make_columns
from tidetable_client import ApiError, AsyncClient, Client


def connect(clock: ManualClock, *answers: httpx.Response) -> Client:
    """A client whose requests get these answers in turn."""
    left = list(answers)
    transport = httpx.MockTransport(lambda _: left.pop(0))
    return Client("http://tides.test/", "key", transport=transport, clock=clock, random=lambda: 0.5)


def page(rows: list[dict[str, Any]], following: str | None = None) -> httpx.Response:
    return httpx.Response(200, json={"columns": make_columns(rows), "next": following, "gaps": [], "sources": []})


def test_a_field_of_data_with_the_name_of_an_instant_stays_as_it_is(clock: ManualClock) -> None:
    row = {"series": "s", "time": "2026-03-15T12:00:00.000000Z", "id": "e", "data.first": "Ada", "data.start": 12}
    client = connect(clock, page([row]), page([row]), page([row]))
    pandas = client.events("people", limit=1).to_pandas()
    assert (pandas["first"][0], pandas["start"][0]) == ("Ada", 12)
    polars = client.events("people", limit=1).to_polars()
    assert (polars["first"][0], polars["start"][0]) == ("Ada", 12)
    arrow = pa.table(client.events("people", limit=1).to_arrow())
    assert (arrow["first"].to_pylist(), arrow["start"].to_pylist()) == (["Ada"], [12])


def test_the_statistics_first_and_last_are_numbers_in_a_frame(clock: ManualClock) -> None:
    row = {"start": "2026-03-15T12:00:00.000000Z", "end": "2026-03-15T13:00:00.000000Z", "first": 4.5, "last": 2.5}
    answers = [page([row]) for _ in range(3)]
    client = connect(clock, *answers)
    parameters: dict[str, Any] = {"stat": ["first", "last"], "field": "mag", "limit": 1}
    pandas = client.aggregate("quakes", **parameters).to_pandas()
    assert (pandas["first"][0], pandas["last"][0], pandas["start"][0].year) == (4.5, 2.5, 2026)
    polars = client.aggregate("quakes", **parameters).to_polars()
    assert (polars["first"][0], polars["last"][0], polars["start"][0].year) == (4.5, 2.5, 2026)
    arrow = pa.table(client.aggregate("quakes", **parameters).to_arrow())
    assert (arrow["first"].to_pylist(), arrow["last"].to_pylist()) == ([4.5], [2.5])


def test_the_times_of_first_and_last_events_are_instants_in_a_frame(clock: ManualClock) -> None:
    row = {"start": "2026-03-15T12:00:00.000000Z", "first_at": "2026-03-15T12:05:00.000000Z", "last_at": None}
    client = connect(clock, page([row]), page([row]))
    parameters: dict[str, Any] = {"stat": ["first_at", "last_at"], "limit": 1}
    assert client.aggregate("quakes", **parameters).to_pandas()["first_at"][0].minute == 5
    table = pa.table(client.aggregate("quakes", **parameters).to_arrow())
    assert [table.schema.field(name).type for name in ("first_at", "last_at")] == [pa.timestamp("us", "UTC")] * 2


def test_a_frame_that_failed_begins_again_with_all_of_its_rows(clock: ManualClock) -> None:
    gap = {"from": "a", "to": "b", "reason": "table missing"}
    first = httpx.Response(200, json={"columns": {"data.n": [0]}, "next": "c1", "gaps": [gap]})
    refused = httpx.Response(403, json={"code": "forbidden", "detail": "the key was revoked"})
    query = connect(clock, first, refused, first, page([{"data.n": 1}])).events("quakes", limit=9)
    with pytest.raises(ApiError, match="403 forbidden"):
        query.to_columns()
    assert (query.cursor, query.is_done, query.gaps) == (None, False, [])
    assert query.to_columns() == {"n": [0, 1]}
    assert (query.is_done, query.gaps) == (True, [gap])


def test_an_asynchronous_frame_that_failed_begins_again_with_all_of_its_rows(clock: ManualClock) -> None:
    refused = httpx.Response(403, json={"code": "forbidden", "detail": "the key was revoked"})
    answers = [page([{"data.n": 0}], "c1"), refused, page([{"data.n": 0}], "c1"), page([{"data.n": 1}])]
    transport = httpx.MockTransport(lambda _: answers.pop(0))

    async def read_twice() -> list[int]:
        async with AsyncClient("http://tides.test", "key", transport=transport, clock=clock) as client:
            query = client.events("quakes", limit=9)
            with pytest.raises(ApiError, match="403 forbidden"):
                await query.to_pandas()
            assert query.cursor is None
            return list((await query.to_pandas())["n"])

    assert asyncio.run(read_twice()) == [0, 1]


def test_an_instant_that_a_row_lacks_is_null_in_an_arrow_table(clock: ManualClock) -> None:
    rows: list[dict[str, Any]] = [
        {"series": "a", "first": "2026-03-15T12:00:00.000000Z"},
        {"series": "b", "first": None},
    ]
    table = pa.table(connect(clock, page(rows)).series("quakes", limit=2).to_arrow())
    assert table.schema.field("first").type == pa.timestamp("us", "UTC")
    assert [at and at.year for at in table["first"].to_pylist()] == [2026, None]


def test_whole_numbers_beside_fractions_keep_their_digits_in_an_arrow_table(clock: ManualClock) -> None:
    """Arrow refuses a mixed column if a whole number has more digits than a double has."""
    rows: list[dict[str, Any]] = [{"series": "a", "data.n": 2**60 + 1}, {"series": "b", "data.n": 0.5}, {"series": "c"}]
    table = pa.table(connect(clock, page(rows)).events("quakes", limit=3).to_arrow())
    assert table["n"].to_pylist() == [Decimal(2**60 + 1), Decimal("0.5"), None]
    assert table["n"].type == pa.decimal128(20, 1)


def test_pages_become_one_frame_with_the_refs_last(clock: ManualClock) -> None:
    """A field that a page lacks is null there, and a page without rows adds none."""
    pages = [
        page([{"series": "a", "id": "1", "data.n": 1, "data.id": "x", "ref": "r1"}], "c1"),
        httpx.Response(200, json={"columns": {"series": [], "id": [], "ref": []}, "next": "c2"}),
        page([{"series": "b", "id": "2", "ref": "r2"}, {"series": "b", "id": "3", "data.m": [1], "ref": "r3"}]),
    ]
    columns = connect(clock, *pages).events("quakes").to_columns()
    assert list(columns.items()) == [
        ("series", ["a", "b", "b"]),
        ("id", ["1", "2", "3"]),
        ("n", [1, None, None]),
        ("data.id", ["x", None, None]),
        ("m", [None, None, [1]]),
        ("ref", ["r1", "r2", "r3"]),
    ]


def test_a_limit_counts_the_rows_of_columns(clock: ManualClock) -> None:
    asked: list[str] = []
    answers = [page([{"data.n": 0}, {"data.n": 1}], "c1"), page([{"data.n": 2}], "c2")]

    def serve(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.query.decode())
        return answers.pop(0)

    transport = httpx.MockTransport(serve)
    query = Client("http://tides.test", "key", transport=transport, clock=clock).events("quakes", limit=3, page_size=2)
    assert query.to_columns() == {"n": [0, 1, 2]}
    assert asked == ["limit=2&format=columns", "limit=1&cursor=c1&format=columns"]
    assert query.is_done


def test_a_frame_without_refs_asks_for_none_on_each_page(clock: ManualClock) -> None:
    """A cursor does not hold the form of its answers."""
    asked: list[str] = []
    answers = [page([{"data.n": 0}], "c1"), page([{"data.n": 1}])]

    def serve(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.query.decode())
        return answers.pop(0)

    transport = httpx.MockTransport(serve)
    client = Client("http://tides.test", "key", transport=transport, clock=clock)
    assert client.events("quakes", refs=False, page_size=1).to_columns() == {"n": [0, 1]}
    assert asked == ["refs=false&limit=1&format=columns", "refs=false&limit=1&cursor=c1&format=columns"]


def test_an_empty_frame_has_the_columns_of_its_query(clock: ManualClock) -> None:
    empty = httpx.Response(200, json={"columns": {"series": [], "time": [], "id": [], "data.mag": [], "ref": []}})
    client = connect(clock, empty, empty, empty, empty)
    names = ["series", "time", "id", "mag", "ref"]
    assert client.events("quakes", limit=5).to_columns() == {name: [] for name in names}
    assert list(client.events("quakes", limit=5).to_pandas().columns) == names
    assert client.events("quakes", limit=5).to_polars().columns == names
    assert pa.table(client.events("quakes", limit=5).to_arrow()).column_names == names


@pytest.mark.parametrize(
    "document",
    [
        {"events": [{"series": "a"}], "next": None},
        {"columns": {"series": ["a"], "id": []}, "next": None},
        {"columns": {"series": "a"}, "next": None},
        [],
    ],
)
def test_an_answer_that_is_not_by_columns_makes_no_frame(clock: ManualClock, document: Any) -> None:
    query = connect(clock, httpx.Response(200, json=document)).events("quakes", limit=5)
    with pytest.raises(ApiError, match="foreign"):
        query.to_columns()
