"""What only the client for asyncio has: asynchronous iterables, tasks side by side, cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from doubles import ManualClock, Server, answer, event
from tidetable_client import AsyncClient, Policy


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
