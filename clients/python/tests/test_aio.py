"""What only the client for asyncio has: asynchronous iterables, tasks side by side, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from doubles import ManualClock, Server, answer, event
from tidetable_client import ApiError, AsyncClient, Client, Policy


def connect(server: Server, clock: ManualClock, **options: Any) -> AsyncClient:
    plain: dict[str, Any] = {"transport": server.transport, "clock": clock, "random": lambda: 0.5}
    return AsyncClient("http://tides.test", "key", **(plain | options))


def test_events_arrive_through_faults(server: Server, clock: ManualClock) -> None:
    async def run() -> None:
        async with connect(server, clock) as client:
            assert await client.write("quakes", [event(number) for number in range(1200)]) == 1200
            assert await client.write("quakes", event(1200)) == 1

            async def more() -> AsyncIterator[dict[str, Any]]:
                for number in range(1201, 1300):
                    yield event(number)

            assert await client.write("quakes", more()) == 99

    server.faults = [server.dies_before, server.dies_after, server.answers_half, answer(503, Retry_After="7")]
    asyncio.run(run())
    assert server.values() == list(range(1300))
    assert clock.read() - 1000 >= 7


def test_tasks_side_by_side_are_held_back_by_a_full_buffer(server: Server, clock: ManualClock) -> None:
    async def run() -> None:
        policy = Policy(batch_events=10, buffer_bytes=4000, block_for=None, in_flight=2, retry_for=1e6)
        async with connect(server, clock, policy=policy) as client:
            parts = [[event(number) for number in range(part * 100, part * 100 + 100)] for part in range(5)]
            await asyncio.gather(*(client.write("quakes", part) for part in parts))
            assert client._outbox.weight <= 4000

    server.faults = [server.dies_before, answer(429), server.dies_after] * 10
    asyncio.run(run())
    assert server.values() == list(range(500))


def test_a_client_whose_task_is_cancelled_while_it_closes_says_what_is_lost(
    server: Server, clock: ManualClock, capsys: pytest.CaptureFixture[str]
) -> None:
    arrived = asyncio.Event()

    async def hold(request: httpx.Request) -> httpx.Response:
        arrived.set()
        await asyncio.Event().wait()
        return server.store(request)

    async def run() -> None:
        client = connect(server, clock, transport=httpx.MockTransport(hold), policy=Policy(linger=0))
        await client.write("quakes", [event(0), event(1)])
        closing = asyncio.create_task(client.close())
        await arrived.wait()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert client.pending == 0

    asyncio.run(run())
    said = capsys.readouterr().err
    assert "the process ends, and 2 events are not stored (quakes: unsent 2)" in said
    assert "the client was closed by CancelledError; it may be stored" in said


def test_a_query_explains_itself_and_reads_nothing(clock: ManualClock) -> None:
    """With both clients. A refusal is an error, as of a page; the query can be read afterwards."""
    plan, refused = {"stages": [], "read_units": 2.5}, {"code": "bad_parameter", "detail": "add field="}
    requests: list[httpx.URL] = []

    def respond(request: httpx.Request) -> httpx.Response:
        requests.append(request.url)
        return httpx.Response(200, json=plan) if "stat" not in request.url.params else httpx.Response(400, json=refused)

    options: dict[str, Any] = {"transport": httpx.MockTransport(respond), "clock": clock, "random": lambda: 0.5}

    async def run() -> None:
        async with AsyncClient("http://tides.test", "key", **options) as client:
            query = client.events("quakes", start="-1d", limit=7)
            assert await query.explain() == plan
            assert (query.cursor, query.is_done) == (None, False)
            with pytest.raises(ApiError, match="add field="):
                await client.aggregate("quakes", stat="max").explain()

    asyncio.run(run())
    with Client("http://tides.test", "key", **options) as client:
        assert client.events("quakes", start="-1d", limit=7).explain() == plan
        with pytest.raises(ApiError, match="add field="):
            client.aggregate("quakes", stat="max").explain()
    assert [url.params.get("explain") for url in requests] == ["true"] * 4
    assert requests[0].params["from"] == requests[2].params["from"] == "-1d"
    assert requests[0].params["limit"] == "7"
