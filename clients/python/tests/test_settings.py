"""The settings of a client: which values are refused, and what reaches the requests."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from doubles import ManualClock, Server, event
from tidetable_client import AsyncClient, Client, Policy

COUNTS = ("batch_events", "batch_bytes", "buffer_bytes", "in_flight")
TIMES = ("linger", "retry_for", "backoff", "longest_backoff", "exit_timeout")


@pytest.mark.parametrize("name", COUNTS)
def test_a_policy_has_no_count_below_one(name: str) -> None:
    values: dict[str, Any] = {name: 1}
    assert getattr(Policy(**values), name) == 1
    with pytest.raises(ValueError, match=f"^{name} must be at least 1$"):
        Policy(**values | {name: 0})


@pytest.mark.parametrize("name", TIMES)
def test_a_policy_has_no_negative_time(name: str) -> None:
    values: dict[str, Any] = {name: 0.0}
    assert getattr(Policy(**values), name) == 0.0
    with pytest.raises(ValueError, match=f"^{name} must not be negative$"):
        Policy(**values | {name: -0.5})


def test_a_full_buffer_blocks_or_raises_and_nothing_else() -> None:
    assert [Policy(when_full=word).when_full for word in ("block", "raise")] == ["block", "raise"]
    with pytest.raises(ValueError, match='when_full must be "block" or "raise"'):
        Policy(when_full="drop")


@pytest.mark.parametrize("url", ["ftp://tides.test", "http://", "tides.test", "file:///tides"])
def test_an_address_has_a_scheme_of_http_and_a_host(url: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        Client(url, "key")


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_a_request_ends_after_the_time_of_the_caller_or_after_35_seconds(kind: Any) -> None:
    """The API writes for up to 29 seconds: with a shorter time, events would be sent again that are stored."""
    times = [kind("http://tides.test", "key", **more)._http.timeout for more in ({}, {"timeout": 3.0})]
    assert times == [httpx.Timeout(35.0, connect=10.0), httpx.Timeout(3.0)]


def test_each_event_without_an_id_gets_one_if_the_caller_wants_it(server: Server, clock: ManualClock) -> None:
    options: dict[str, Any] = {"unique_ids": True, "transport": server.transport, "clock": clock}
    with Client("http://tides.test", "key", background=False, **options) as client:
        client.write("quakes", [event(number, time="2026-03-15T12:00:00Z") for number in range(2)])

    async def write() -> None:
        async with AsyncClient("http://tides.test", "key", **options) as client:
            await client.write("quakes", [event(number, time="2026-03-15T12:00:00Z") for number in range(2)])

    asyncio.run(write())
    ids = [key[3] for key in server.events]
    assert None not in ids
    assert len(set(ids)) == 4, json.dumps(ids)
