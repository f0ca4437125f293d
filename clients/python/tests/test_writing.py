"""Writing through outages: all that is acknowledged is stored once, all else is reported.

The server is a function, and time moves only when the client waits: an hour takes no time.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doubles import WINDOW, ManualClock, Server, answer, event, problem
from halves import HALVES, Connect, make_client, measure_buffer
from tidetable_client import Failure, Policy, Settled, WriteFailed

# How long each wait takes is tested with the half that waits within its calls: with asyncio, the manual clock moves while
# other tasks run.
in_calls = pytest.mark.parametrize("connect", ["threads"], indirect=True)


def test_events_arrive_in_batches_of_500_compressed(server: Server, clock: ManualClock, connect: Connect) -> None:
    with connect(server, clock) as client:
        assert client.write("quakes", [event(number) for number in range(1200)]) == 1200
        assert client.write("quakes", event(1200)) == 1
    assert server.values() == list(range(1201))
    sizes = [len(gzip.decompress(body).split(b"\n")) for body in server.bodies]
    assert (sizes[:2], sum(sizes)) == ([500, 500], 1201)
    assert sum(map(len, server.bodies)) < sum(len(gzip.decompress(body)) for body in server.bodies) / 5
    (request, *_) = server.requests
    assert str(request.url) == "http://tides.test/v1/streams/quakes/events"
    assert (request.headers["x-api-key"], request.headers["Content-Type"]) == ("key", "application/x-ndjson")
    assert "Content-Encoding" not in request.headers
    assert clock.waits == []


def test_a_key_may_be_sent_as_bearer(server: Server, clock: ManualClock, connect: Connect) -> None:
    with connect(server, clock, bearer=True) as client:
        client.write("quakes", event(1))
    assert server.requests[0].headers["Authorization"] == "Bearer key"
    assert "x-api-key" not in server.requests[0].headers


def test_a_server_that_is_killed_mid_batch_gets_the_same_body_again(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    server.faults = [server.dies_before, server.dies_after, server.answers_half, server.answers_nothing]
    with connect(server, clock) as client:
        client.write("quakes", [event(number) for number in range(10)])
        clock.sleep(5)
    assert len(server.bodies) == 5
    assert len(set(server.bodies)) == 1
    assert server.values() == list(range(10))


@in_calls
def test_503_for_a_minute_delays_and_loses_nothing(server: Server, clock: ManualClock, connect: Connect) -> None:
    began, bodies = clock.read(), server.store

    def store(request: httpx.Request) -> httpx.Response:
        return problem(503, "unavailable", Retry_After="2") if clock.read() < began + 60 else bodies(request)

    server.store = store  # type: ignore[method-assign]
    with connect(server, clock) as client:
        client.write("quakes", [event(number) for number in range(2000)])
    assert server.values() == list(range(2000))
    assert 60 <= clock.read() - began < 120
    # At first 2 seconds and half of 1, then the wait grows to half a minute.
    assert clock.waits[:4] == [2.5, 3.0, 4.0, 6.0]
    assert len(server.requests) < 16


@in_calls
def test_an_hour_without_a_server_is_survived_in_bounded_memory(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    """One event per second; the client tries for two hours. The buffer bounds its memory, and back-pressure the writer."""
    began, outage = clock.read(), 3600
    store = server.store

    def fail(request: httpx.Request) -> httpx.Response:
        return server.dies_before(request) if clock.read() < began + outage else store(request)

    server.store = fail  # type: ignore[method-assign]
    policy = Policy(retry_for=7200, buffer_bytes=100_000, block_for=None, batch_events=50, linger=60)
    with connect(server, clock, policy=policy) as client:
        for number in range(outage):
            client.write("quakes", event(number))
            clock.seconds += 1
            assert measure_buffer(client) <= 100_000
    assert server.values() == list(range(outage))
    # During the outage one in 15 seconds, half of the longest wait, and then batches of 50.
    assert len(server.requests) < 340


@in_calls
def test_an_hour_without_a_server_and_less_patience_reports_what_is_not_stored(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    began, reported = clock.read(), list[Failure]()
    store = server.store

    def fail(request: httpx.Request) -> httpx.Response:
        return server.dies_before(request) if clock.read() < began + 3600 else store(request)

    server.store = fail  # type: ignore[method-assign]
    policy = Policy(retry_for=300, buffer_bytes=50_000, block_for=None)
    with connect(server, clock, policy=policy, on_refused=reported.append) as client:
        for number in range(4000):
            client.write("quakes", event(number))
            clock.seconds += 1
    assert sorted([*server.values(), *(failure.event["data"]["n"] for failure in reported)]) == list(range(4000))
    assert {failure.code for failure in reported} == {"unsent"}
    assert len(reported) > 1000
    assert "no answer: ConnectError: refused" in reported[0].detail


def test_refused_events_are_raised_when_the_block_ends(server: Server, clock: ManualClock, connect: Connect) -> None:
    with pytest.raises(WriteFailed) as failed, connect(server, clock) as client:
        client.write("quakes", [event(0), event(1, "bad"), event(2), event(3, "old", id="mine")])
    first, second = failed.value.failures
    assert (first.stream, first.index, first.code, first.detail) == ("quakes", 1, "invalid", "of this event")
    assert (second.index, second.code, second.window) == (3, "too_old", WINDOW)
    assert second.event == {"series": "old", "time": "2026-03-15T12:00:00Z", "id": "mine", "data": {"n": 3}}
    assert (
        str(failed.value) == "2 events are not stored (quakes: invalid 1, quakes: too_old 1); the first: of this event"
    )
    assert server.values() == [0, 2]


def test_refused_events_are_raised_by_flush_once(server: Server, clock: ManualClock, connect: Connect) -> None:
    with connect(server, clock) as client:
        client.write("quakes", event(0, "bad"))
        with pytest.raises(WriteFailed):
            client.flush()
        client.flush()


def test_refused_events_may_be_handed_to_a_function(
    server: Server, clock: ManualClock, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    refused: list[Failure] = []
    with connect(server, clock, on_refused=refused.append) as client:
        client.write("quakes", [event(number, "old") for number in range(250)])
    # The API lists a hundred at a time.
    assert [failure.index for failure in refused] == list(range(250))
    assert {failure.code for failure in refused} == {"too_old"}
    assert len(server.requests) == 3
    assert caplog.records == []


def test_a_function_that_fails_loses_no_report_and_is_logged(
    server: Server, clock: ManualClock, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(failure: Failure) -> None:
        if failure.index == 1:
            raise RuntimeError("full disk")

    with pytest.raises(WriteFailed) as failed, connect(server, clock, on_refused=fail) as client:
        client.write("quakes", [event(number, "bad") for number in range(4)])
    assert [failure.index for failure in failed.value.failures] == [1, 2, 3]
    (record,) = caplog.records
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "full disk"


def test_an_error_in_the_block_is_raised_with_a_note_of_what_is_not_stored(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    def fail() -> Any:
        yield event(0)
        yield event(1, "bad")
        raise KeyError("of the program")

    with pytest.raises(KeyError) as raised, connect(server, clock) as client:
        client.write("quakes", fail())
    assert server.values() == [0]
    assert raised.value.__notes__ == [
        "tidetable_client: 1 events are not stored (quakes: invalid 1); the first: of this event"
    ]


def test_a_request_that_is_refused_whole_reports_each_of_its_events(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    server.faults = [answer(403, "forbidden")]
    with pytest.raises(WriteFailed) as failed, connect(server, clock) as client:
        client.write("quakes", [event(0), event(1)])
    assert [(failure.index, failure.status, failure.code) for failure in failed.value.failures] == [
        (0, 403, "forbidden"),
        (1, 403, "forbidden"),
    ]
    assert len(server.requests) == 1


def test_a_request_that_is_too_large_is_halved_until_it_fits(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    server.most_events = 60
    with connect(server, clock) as client:
        client.write("quakes", [event(number) for number in range(500)])
    assert server.values() == list(range(500))
    sizes = Counter(len(gzip.decompress(body).split(b"\n")) for body in server.bodies)
    assert sizes == {500: 1, 250: 2, 125: 4, 62: 4, 63: 4, 31: 12, 32: 4}


def test_one_event_that_is_too_large_is_refused_alone(server: Server, clock: ManualClock, connect: Connect) -> None:
    def serve(request: httpx.Request) -> httpx.Response | None:
        return problem(413, "too_large", "4 MB") if b'"n":3' in gzip.decompress(request.content) else None

    server.faults = [serve] * 100
    with pytest.raises(WriteFailed) as failed, connect(server, clock) as client:
        client.write("quakes", [event(number) for number in range(8)])
    assert [(failure.index, failure.code, failure.detail) for failure in failed.value.failures] == [
        (3, "too_large", "4 MB")
    ]
    assert server.values() == [0, 1, 2, 4, 5, 6, 7]


def test_settled_events_are_reported_with_their_indexes(server: Server, clock: ManualClock, connect: Connect) -> None:
    settled: list[Settled] = []
    client = connect(server, clock, on_settled=settled.append)
    client.write("quakes", [event(0), event(1, "bad")])
    client.write("stations", event(2))
    with pytest.raises(WriteFailed):
        client.close()
    assert [(outcome.stream, list(outcome.indexes), len(outcome.failures)) for outcome in settled] == [
        ("quakes", [0, 1], 1),
        ("stations", [2], 0),
    ]


def test_what_cannot_be_sent_for_another_reason_is_reported_at_once(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise LookupError("no credentials")

    server.faults = [fail]
    with pytest.raises(WriteFailed, match=r"not_sent 1.*LookupError: no credentials"), connect(server, clock) as client:
        client.write("quakes", event(0))


FATES = ("serves", "dies_before", "dies_after", "answers_half", "answers_nothing", "429", "500", "503", "403", "413")


@given(
    st.lists(st.sampled_from(FATES), max_size=60),
    st.lists(st.sampled_from(["s", "s", "s", "bad", "old"]), min_size=1, max_size=60),
    st.integers(1, 9),
    st.booleans(),
)
@pytest.mark.parametrize("half", HALVES)
@settings(max_examples=200, deadline=None)
def test_stored_and_reported_are_all_events_and_an_acknowledged_one_is_not_reported(
    half: str, fates: list[str], kinds: list[str], size: int, patient: bool
) -> None:
    server, clock = Server(), ManualClock()
    server.faults = [answer(int(fate)) if fate.isdigit() else getattr(server, fate) for fate in fates]
    settled: Counter[int] = Counter()
    reported: list[int] = []

    def note(outcome: Settled) -> None:
        settled.update(outcome.indexes)
        reported.extend(failure.index for failure in outcome.failures)

    policy = Policy(batch_events=size, retry_for=3600 if patient else 5, buffer_bytes=2000, block_for=None)
    options: dict[str, Any] = {"transport": server.transport, "clock": clock, "policy": policy, "on_settled": note}
    with make_client(half, **options, on_refused=lambda _: None) as client:
        client.write("quakes", [event(number, kind) for number, kind in enumerate(kinds)])
    assert settled == Counter(range(len(kinds)))
    stored = server.values()
    assert set(stored) | set(reported) == set(range(len(kinds)))
    assert len(stored) == len(set(stored))
    assert len(reported) == len(set(reported))
    # An event may be stored and reported only if its answer was lost and the client gave up.
    if patient and not {"403", "413"} & set(fates):
        assert not set(stored) & set(reported)
        assert reported == [number for number, kind in enumerate(kinds) if kind != "s"]


def test_the_same_batch_gives_the_same_body_in_every_process(
    server: Server, clock: ManualClock, connect: Connect
) -> None:
    """gzip writes the time into its header unless it is told not to: the body would differ from try to try."""
    server.faults = [server.dies_after]
    with connect(server, clock) as client:
        client.write("quakes", event(1, time="2026-03-15T12:00:00Z"))
    assert server.bodies[0][4:8] == b"\0\0\0\0"
    assert json.loads(gzip.decompress(server.bodies[0])) == {
        "series": "s",
        "time": "2026-03-15T12:00:00Z",
        "data": {"n": 1},
    }
