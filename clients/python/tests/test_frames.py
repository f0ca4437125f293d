"""Frames: which columns are instants, and what a reading that failed leaves behind."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import httpx
import pyarrow as pa
import pytest

from doubles import ManualClock
from tidetable_client import ApiError, AsyncClient, Client


def connect(clock: ManualClock, *answers: httpx.Response) -> Client:
    """A client whose requests get these answers in turn."""
    left = list(answers)
    transport = httpx.MockTransport(lambda _: left.pop(0))
    return Client("http://tides.test/", "key", transport=transport, clock=clock, random=lambda: 0.5)


def page(rows: list[dict[str, Any]], following: str | None = None, name: str = "events") -> httpx.Response:
    return httpx.Response(200, json={name: rows, "next": following, "gaps": [], "sources": []})


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
    answers = [page([row], name="aggregates") for _ in range(3)]
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
    client = connect(clock, page([row], name="aggregates"), page([row], name="aggregates"))
    parameters: dict[str, Any] = {"stat": ["first_at", "last_at"], "limit": 1}
    assert client.aggregate("quakes", **parameters).to_pandas()["first_at"][0].minute == 5
    table = pa.table(client.aggregate("quakes", **parameters).to_arrow())
    assert [table.schema.field(name).type for name in ("first_at", "last_at")] == [pa.timestamp("us", "UTC")] * 2


def test_a_frame_that_failed_begins_again_with_all_of_its_rows(clock: ManualClock) -> None:
    gap = {"from": "a", "to": "b", "reason": "table missing"}
    first = httpx.Response(200, json={"events": [{"data.n": 0}], "next": "c1", "gaps": [gap]})
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
    table = pa.table(connect(clock, page(rows, name="series")).series("quakes", limit=2).to_arrow())
    assert table.schema.field("first").type == pa.timestamp("us", "UTC")
    assert [at and at.year for at in table["first"].to_pylist()] == [2026, None]


def test_whole_numbers_beside_fractions_keep_their_digits_in_an_arrow_table(clock: ManualClock) -> None:
    """Arrow refuses a mixed column if a whole number has more digits than a double has."""
    rows: list[dict[str, Any]] = [{"series": "a", "data.n": 2**60 + 1}, {"series": "b", "data.n": 0.5}, {"series": "c"}]
    table = pa.table(connect(clock, page(rows)).events("quakes", limit=3).to_arrow())
    assert table["n"].to_pylist() == [Decimal(2**60 + 1), Decimal("0.5"), None]
    assert table["n"].type == pa.decimal128(20, 1)
