"""The client with threads. Servers are real sockets where the network is the subject."""

from __future__ import annotations

import json
import threading

import httpx
import pytest

from doubles import ManualClock, Server, answer, event
from sockets import Api
from tidetable_client import Client, Policy, WriteFailed

QUICK = Policy(batch_events=20, backoff=0.001, linger=0.001)


def test_many_threads_write_through_faults_and_nothing_is_lost_or_doubled(server: Server, clock: ManualClock) -> None:
    server.faults = [server.dies_after, server.dies_before, answer(503), server.answers_half, answer(429)] * 10
    policy = Policy(batch_events=20, in_flight=3, buffer_bytes=20_000, block_for=None, retry_for=1e6)
    with Client("http://t.test", "k", policy=policy, transport=server.transport, clock=clock) as client:

        def write(part: int) -> None:
            for number in range(part * 500, part * 500 + 500):
                client.write("quakes", event(number))

        threads = [threading.Thread(target=write, args=(part,)) for part in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert server.values() == list(range(2000))


def test_events_go_by_themselves_when_they_have_waited(server: Server) -> None:
    arrived = threading.Event()
    store = server.store

    def serve(request: httpx.Request) -> httpx.Response:
        answer = store(request)
        arrived.set()
        return answer

    server.store = serve  # type: ignore[method-assign]
    client = Client("http://t.test", "k", policy=QUICK, transport=server.transport)
    client.write("quakes", event(1))
    assert arrived.wait(30)
    assert server.values() == [1]
    client.close()


class WaitNoted(ManualClock):
    """Says when somebody waits for a change without a limit."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        self.waiting.set()
        super().wait(condition, seconds)


def test_a_flush_waits_while_another_thread_sends_within_its_own(server: Server) -> None:
    arrived, go_on = threading.Event(), threading.Event()

    def hold(request: httpx.Request) -> None:
        arrived.set()
        go_on.wait(60)

    clock = WaitNoted()
    server.faults = [hold]
    client = Client("http://t.test", "k", transport=server.transport, clock=clock, background=False)
    client.write("quakes", event(1))
    threads = [threading.Thread(target=client.flush)]
    threads[0].start()
    assert arrived.wait(60)
    threads += [threading.Thread(target=client.flush)]
    threads[1].start()
    waited = clock.waiting.wait(20)
    go_on.set()
    for thread in threads:
        thread.join()
    assert waited, "a thread that has nothing to send must not use the processor"
    assert server.values() == [1]


def test_refusals_from_a_thread_are_raised_by_flush(server: Server, clock: ManualClock) -> None:
    client = Client("http://t.test", "k", transport=server.transport, clock=clock)
    client.write("quakes", [event(0), event(1, "bad")])
    with pytest.raises(WriteFailed) as failed:
        client.flush()
    assert [failure.index for failure in failed.value.failures] == [1]
    client.close()


def test_killed_connections_and_half_written_answers_over_a_real_socket(api: Api) -> None:
    api.fates = ["kill after", "half", "kill before", "serve"] * 6
    with Client(api.url, "k", policy=QUICK) as client:
        client.write("quakes", [event(number) for number in range(200)])
    assert api.double.values() == list(range(200))
    assert api.fates == []


def test_the_json_of_a_loss_names_what_is_lost(api: Api) -> None:
    """The failure has everything that is needed to store the event elsewhere."""
    client = Client(api.url, "k", policy=QUICK)
    client.write("quakes", event(7, "bad", id="x", time="2026-03-15T12:00:00Z"))
    with pytest.raises(WriteFailed) as failed:
        client.close()
    (failure,) = failed.value.failures
    assert json.loads(failure.line) == event(7, "bad", id="x", time="2026-03-15T12:00:00Z")
