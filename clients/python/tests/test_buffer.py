"""A full buffer, and the end of a flush or a client whose time is over: what is raised, and what stays."""

from __future__ import annotations

import pytest

from doubles import ManualClock, Server, answer, event
from halves import Connect
from tidetable_client import BufferFull, Failure, NotFlushed, Policy, WriteFailed


def test_a_full_buffer_raises_at_once_if_it_is_to(server: Server, clock: ManualClock, connect: Connect) -> None:
    server.faults = [server.dies_before] * 1000
    policy = Policy(buffer_bytes=2000, when_full="raise", retry_for=1e9)
    client = connect(server, clock, policy=policy)
    with pytest.raises(BufferFull) as full:
        client.write("quakes", [event(number) for number in range(100)])
    # 2,000 bytes, of which an event takes 75 of text and 96 of Python.
    assert 8 <= full.value.taken <= 12
    assert client.pending == full.value.taken
    server.faults = []
    client.close()
    assert server.values() == list(range(full.value.taken))


def test_a_full_buffer_blocks_for_so_long(server: Server, clock: ManualClock, connect: Connect) -> None:
    server.faults = [server.dies_before] * 1000
    client = connect(server, clock, policy=Policy(buffer_bytes=2000, block_for=45, retry_for=1e9))
    began = clock.read()
    with pytest.raises(BufferFull, match="is full after 45 s: 1"):
        client.write("quakes", [event(number) for number in range(100)])
    assert 45 <= clock.read() - began < 46  # with asyncio, a request that is due may move the clock once more
    server.faults = []
    client.close()


def test_a_buffer_full_of_failures_raises_them_and_says_how_many_events_it_took(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    server.faults = [answer(404, "unknown_stream")] * 1000
    client = connect(server, clock, policy=Policy(buffer_bytes=2000, batch_events=2))
    with pytest.raises(WriteFailed) as failed:
        client.write("nothing", [event(number) for number in range(100)])
    assert failed.value.taken is not None
    assert [failure.index for failure in failed.value.failures] == list(range(failed.value.taken))
    client.close()


def test_flush_with_a_time_says_how_many_events_wait_and_keeps_them(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    server.faults = [server.dies_before] * 1000
    client = connect(server, clock)
    client.write("quakes", [event(number) for number in range(3)])
    with pytest.raises(NotFlushed) as late:
        client.flush(timeout=10)
    assert (late.value.pending, client.pending) == (3, 3)
    server.faults = []
    client.flush()
    assert server.values() == [0, 1, 2]
    client.close()


def test_close_with_a_time_reports_what_the_api_did_not_take(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    server.faults = [server.dies_before] * 1000
    client = connect(server, clock)
    client.write("quakes", [event(number) for number in range(3)])
    with pytest.raises(WriteFailed) as failed:
        client.close(timeout=10)
    assert [failure.code for failure in failed.value.failures] == ["unsent"] * 3
    with pytest.raises(ValueError, match="closed"):
        client.write("quakes", event(4))


def test_what_on_refused_took_is_not_raised_again_when_the_time_to_close_is_over(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    server.faults = [server.dies_before] * 1000
    refused: list[Failure] = []
    client = connect(server, clock, on_refused=refused.append)
    client.write("quakes", event(0))
    client.close(timeout=5)
    assert [failure.code for failure in refused] == ["unsent"]
