"""npm's clients before the function on fakes: an outage loses nothing and stores nothing twice."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator

import pytest

from tests.worlds.configs import ROOT
from tests.worlds.doors import LiveDoors, Server, config


@pytest.fixture
def server() -> Iterator[Server]:
    world = LiveDoors(config({"max_events": 1000, "max_body": 4_000_000}))
    with Server(world).serving() as serving:
        yield serving


def send(server: Server, kind: str) -> None:
    """Let a client of clients.mjs send to the server; it ends with an error if anything was given up."""
    at = str(int(server.world.clock.now().timestamp()))
    done = subprocess.run(  # noqa: S603 - our own script
        ["node", str(ROOT / "tests" / "doors" / "clients.mjs"), kind, server.url, at],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_client_of_influxdb(server: Server) -> None:
    fates: dict[int, int | str] = {1: 503, 2: 503, 3: "lost", 4: 429}
    server.outage = fates.get
    send(server, "influx")
    events = server.world.events()
    assert sorted(int(event["data"]["idle"]) for event in events) == list(range(1200))
    assert {event["series"] for event in events} == {f"cpu,host=h{n}" for n in range(7)}
    assert len(server.requests) > 4


@pytest.mark.parametrize("form", ["proto", "json"])
def test_the_metrics_of_opentelemetry(server: Server, form: str) -> None:
    server.outage = {1: 503}.get
    send(server, f"metrics-{form}")
    events = [event["data"] for event in server.world.events()]
    assert sum(float(data["value"]) for data in events if data["metric"] == "orders") == 50
    (latency,) = [data for data in events if data["metric"] == "latency"]
    assert (latency["count"], latency["sum"], latency["max"]) == (50, 1225, 49)
    assert len(events) == 51
    assert len(server.requests) == 2


@pytest.mark.parametrize("form", ["proto", "json"])
def test_the_logs_of_opentelemetry(server: Server, form: str) -> None:
    server.outage = {1: 503}.get
    send(server, f"logs-{form}")
    found = sorted(int(event["data"]["attributes"]["n"]) for event in server.world.events())
    assert found == list(range(600))


def test_the_messages_of_cloudevents(server: Server) -> None:
    send(server, "cloudevents")
    assert len(server.requests) == 3
    (stored,) = server.world.events()
    assert (stored["series"], stored["id"]) == ("café", "/shop e-1")
    assert float(stored["data"]["total"]) == 4.5
