"""The client against the real handlers, on the strict service, over HTTP."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from tests.api.gateway import NOON
from tests.worlds.served import Served, serve
from tidetable_client import AsyncClient, Client, Clock, Failure, Policy, WriteFailed


class Noon(Clock):
    """The date of the handlers, and waits that only move the clock."""

    def __init__(self) -> None:
        self.seconds, self.waits = 0.0, 0

    def read(self) -> float:
        return self.seconds

    def read_date(self) -> datetime:
        return NOON

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.waits += 1
        assert self.waits < 100, "the client waits for ever"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    yield from serve(tmp_path_factory.mktemp("served"))


def connect(served: Served, **options: Any) -> Client:
    """A client that sends within its calls, and so in a known order."""
    plain: dict[str, Any] = {"clock": Noon(), "background": False, "random": lambda: 0.0}
    return Client(served.url, "key", **(plain | options))


def events(count: int, name: str, **fields: Any) -> list[dict[str, Any]]:
    return [
        {"series": "ci", "id": f"{name}{number}", "time": NOON, "data": {"mag": number / 10}, **fields}
        for number in range(count)
    ]


def read_ids(served: Served, name: str, stream: str = "quakes", **parameters: Any) -> list[str]:
    query = connect(served).events(stream, start="-1h", **parameters)
    return sorted(row["id"] for row in query if row["id"].startswith(name))


def test_what_is_written_through_faults_is_there_once(served: Served) -> None:
    # Refused at the gateway, stored with a lost answer, and an answer that is not the API's.
    served.troubles = [(429, {"Retry-After": "7"}, False), (502, {}, True), (200, {}, True), (503, {}, True)]
    with connect(served) as client:
        client.write("quakes", events(1200, "a"))
    assert read_ids(served, "a") == sorted(f"a{number}" for number in range(1200))


def test_events_without_a_time_or_an_id_are_stored_once_though_sent_twice(served: Served) -> None:
    served.troubles = [(502, {}, True)]
    alike = [{"series": "alike", "data": {"mag": 1}} for _ in range(5)]
    with connect(served) as client:
        client.write("stations", alike)
    assert len(list(connect(served).events("stations", start="-1h", series="alike"))) == 5


def test_refused_events_come_back_with_index_code_and_window(served: Served) -> None:
    old = NOON - timedelta(days=400)
    with pytest.raises(WriteFailed) as failed, connect(served) as client:
        client.write("quakes", [*events(2, "b"), *events(1, "bold", time=old), *events(1, "bx", series="x" * 500)])
    assert [(failure.index, failure.code) for failure in failed.value.failures] == [(2, "too_old"), (3, "invalid")]
    assert failed.value.failures[0].window is not None
    assert failed.value.failures[0].window["newest"] > "2026-03-15T12:00:00"
    assert read_ids(served, "b") == ["b0", "b1"]


def test_of_a_batch_that_is_refused_whole_each_event_comes_back(served: Served) -> None:
    refused: list[Failure] = []
    with connect(served, on_refused=refused.append) as client:
        client.write("quakes", events(450, "c", time="2001-01-01T00:00:00Z"))
    assert [failure.index for failure in refused] == list(range(450))
    assert {failure.code for failure in refused} == {"too_old"}
    assert len({failure.event["id"] for failure in refused}) == 450


def test_a_batch_beyond_the_limits_of_the_api_is_split(served: Served) -> None:
    with connect(served, policy=Policy(batch_events=5000, batch_bytes=50_000_000)) as client:
        client.write("quakes", events(2500, "d"))
        client.write("quakes", events(20, "e", data={"text": "x" * 300_000}))
    assert len(read_ids(served, "d")) == 2500
    assert len(read_ids(served, "e", fields="mag")) == 20


def test_an_unknown_stream_is_reported_for_each_event(served: Served) -> None:
    with pytest.raises(WriteFailed, match=r"unknown_stream 3.*there is no stream"), connect(served) as client:
        client.write("nothing", events(3, "f"))


def test_threads_and_asyncio_write_the_same(served: Served) -> None:
    with Client(served.url, "key") as client:
        client.write("quakes", events(700, "g"))

    async def run() -> list[str]:
        async with AsyncClient(served.url, "key") as client:
            await client.write("quakes", events(700, "h"))
            await client.flush()
            return [row["id"] async for row in client.events("quakes", start="-1h", id_prefix="h")]

    assert sorted(asyncio.run(run())) == sorted(f"h{number}" for number in range(700))
    assert len(read_ids(served, "g")) == 700


def test_readers_follow_the_cursors_of_every_route(served: Served) -> None:
    rows = [
        {"series": "boiler", "id": f"r{number}", "time": NOON - timedelta(minutes=number), "data": {"mag": number}}
        for number in range(30)
    ]
    with connect(served) as client:
        client.write("stations", rows)
    client = connect(served)
    found = client.events("stations", series="boiler", start="-1h", order="asc", page_size=7)
    assert [row["id"] for row in found] == [f"r{number}" for number in reversed(range(30))]
    assert found.is_done
    conditions = {"mag:ge": 10, "mag:lt": 13}
    chosen = client.events("stations", series="boiler", start="-1h", where=conditions)
    assert sorted(row["data"]["mag"] for row in chosen) == [10, 11, 12]
    parameters: dict[str, Any] = {"series": "boiler", "start": "-1h", "step": "10m", "field": "mag"}
    steps = client.aggregate("stations", stat=["count", "max"], page_size=2, **parameters)
    assert sum(row["count"] for row in steps) == 30
    assert client.latest("stations", ["boiler", "nobody"])["nobody"] is None
    latest = client.latest("stations", "boiler")["boiler"]
    assert latest is not None
    assert (latest["id"], client.event("stations", latest["ref"])["id"]) == ("r0", "r0")
    assert len(list(client.periods("stations", page_size=1))) > 1
    assert "quakes" in [stream["stream"] for stream in client.streams()]


def test_frames_have_a_column_per_field_and_times_that_are_instants(served: Served) -> None:
    with connect(served) as client:
        client.write("quakes", events(5, "frame"))
    parameters: dict[str, Any] = {"start": "-1h", "id_prefix": "frame", "order": "asc"}
    pandas = connect(served).events("quakes", **parameters).to_pandas(every_field=True)
    polars = connect(served).events("quakes", **parameters).to_polars(every_field=True)
    table = pa.table(connect(served).events("quakes", **parameters).to_arrow(every_field=True))
    mag = "mag"
    expected = [0.0, 0.1, 0.2, 0.3, 0.4]
    for frame in (list(pandas[mag]), polars[mag].to_list(), table.column(mag).to_pylist()):
        assert frame == expected
    assert pandas["time"].iloc[0] == NOON
    assert polars["time"].to_list()[0] == NOON
    # The form that the stage itself prefers has the same rows and the same types of the columns that every event has.
    plain = pa.table(connect(served).events("quakes", **parameters).to_arrow())
    assert plain.column("id").to_pylist() == [f"frame{number}" for number in range(5)]
    assert plain.schema.field("time").type == pa.timestamp("us", "UTC")


def test_a_tail_shows_what_is_written_meanwhile_once(served: Served) -> None:
    with connect(served) as client:
        client.write("quakes", events(3, "t"))
    follower = connect(served).tail("quakes", id_prefix="t", overlap=3600)
    assert sorted(next(follower)["id"] for _ in range(3)) == ["t0", "t1", "t2"]
    with connect(served) as client:
        client.write("quakes", events(5, "t"))
    assert sorted(next(follower)["id"] for _ in range(2)) == ["t3", "t4"]
