"""The client for asyncio keeps the same promises."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import ManualClock, Server, answer, event
from tidetable_client import AsyncClient, BufferFull, NotFlushed, Policy, Settled, WriteFailed


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


def test_refused_events_are_raised_when_the_block_ends(server: Server, clock: ManualClock) -> None:
    async def run() -> None:
        async with connect(server, clock) as client:
            await client.write("quakes", [event(0), event(1, "bad")])

    with pytest.raises(WriteFailed) as failed:
        asyncio.run(run())
    assert [(failure.index, failure.code) for failure in failed.value.failures] == [(1, "invalid")]


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


def test_a_full_buffer_raises_and_a_flush_ends_in_time(server: Server, clock: ManualClock) -> None:
    async def run() -> None:
        client = connect(server, clock, policy=Policy(buffer_bytes=2000, when_full="raise", retry_for=1e9))
        with pytest.raises(BufferFull) as full:
            await client.write("quakes", [event(number) for number in range(100)])
        with pytest.raises(NotFlushed):
            await client.flush(timeout=5)
        with pytest.raises(WriteFailed) as failed:
            await client.close(timeout=5)
        assert [failure.code for failure in failed.value.failures] == ["unsent"] * full.value.taken

    server.faults = [server.dies_before] * 10_000
    asyncio.run(run())


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


FATES = ("serves", "dies_before", "dies_after", "answers_half", "429", "500", "503", "403", "413")


@given(
    st.lists(st.sampled_from(FATES), max_size=40),
    st.lists(st.sampled_from(["s", "s", "bad", "old"]), min_size=1, max_size=40),
    st.integers(1, 9),
    st.integers(1, 3),
)
@settings(max_examples=100, deadline=None)
def test_stored_and_reported_are_all_events(fates: list[str], kinds: list[str], size: int, in_flight: int) -> None:
    server, clock = Server(), ManualClock()
    server.faults = [answer(int(fate)) if fate.isdigit() else getattr(server, fate) for fate in fates]
    settled: list[Settled] = []

    async def run() -> None:
        policy = Policy(batch_events=size, in_flight=in_flight, retry_for=20, buffer_bytes=1500, block_for=None)
        options: dict[str, Any] = {"on_settled": settled.append, "on_refused": lambda _: None}
        async with connect(server, clock, policy=policy, **options) as client:
            await client.write("quakes", [event(number, kind) for number, kind in enumerate(kinds)])

    asyncio.run(run())
    assert sorted(index for outcome in settled for index in outcome.indexes) == list(range(len(kinds)))
    reported = [failure.index for outcome in settled for failure in outcome.failures]
    assert set(server.values()) | set(reported) == set(range(len(kinds)))
    assert len(reported) == len(set(reported))
