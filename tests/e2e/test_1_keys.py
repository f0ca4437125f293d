"""Keys of the deployed stage: made, rotated and revoked by the command line, and checked by the authorizer."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from local import Deployed, Emulator
from local.emulator import ROOT, clean_environment, clock_can_move
from local.http import Api
from tests.e2e.clock import OFFSET
from tests.e2e.conftest import eventually

Keys = Callable[..., Any]
ROUTES = (
    "events",
    "latest?series=a",
    "top",
    "aggregate",
    "series",
    "fields",
    "fields/n/values",
    "periods",
    "events/none",
)


@pytest.fixture
def keys(stage: tuple[Emulator, Deployed]) -> Keys:
    emulator, deployed = stage
    environment = clean_environment() | emulator.time_environment | deployed.environment

    def run(*words: str) -> Any:
        command = [str(ROOT / "bin" / "tidetable"), "keys", *words]
        done = subprocess.run(  # noqa: S603 - our own command
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout) if "--json" in words else done.stdout

    return run


def statuses(api: Api, key: str, stream: str) -> set[int]:
    """The statuses of every route of a stream."""
    answers = [api.call(f"/v1/streams/{stream}/{route}", key=key) for route in ROUTES]
    answers.append(api.call(f"/v1/streams/{stream}/events", b'{"series": "a"}', key=key))
    return {answer.status for answer in answers}


def status(api: Api, **headers: str) -> int:
    return api.call("/v1/streams/quakes/events", key="", headers=headers).status


def test_a_key_of_one_stream_opens_no_route_of_another(api: Api, keys: Keys) -> None:
    key = keys("create", "--name", "one", "--stream", "stations", "--can", "write,read,operate", "--json")["key"]
    assert statuses(api, key, "quakes") == statuses(api, key, "reports") == {403}
    assert 403 not in statuses(api, key, "stations")
    listed = api.call("/v1/streams", key=key)
    assert [entry["stream"] for entry in listed.body["streams"]] == ["stations"]
    refused = api.call("/v1/streams/quakes/events", key=key)
    assert (refused.body["code"], refused.headers["content-type"]) == ("forbidden", "application/problem+json")


def test_a_key_that_writes_does_not_read(api: Api, keys: Keys) -> None:
    key = keys("create", "--name", "writer", "--stream", "quakes", "--can", "write", "--json")["key"]
    body, json_body = b'{"series": "a", "id": "keyed"}', {"Content-Type": "application/json"}
    assert api.call("/v1/streams/quakes/events", body, json_body, key=key).status == 200
    assert api.call("/v1/streams/quakes/events", key=key).status == 403


def test_a_key_of_some_series_writes_and_reads_those(api: Api, keys: Keys) -> None:
    key = keys("create", "--name", "tenant", "--all-streams", "--series-prefix", "t é/", "--json")["key"]
    events = [{"series": series, "id": "1"} for series in ("t é/1", "other/1")]
    for sender in (key, None):
        answer = api.call(
            "/v1/streams/quakes/events", json.dumps(events).encode(), {"Content-Type": "application/json"}, key=sender
        )
        codes = [error["code"] for error in answer.body.get("errors", [])]
        assert codes == (["forbidden_series"] if sender else [])
    found = api.call("/v1/streams/quakes/events?from=-1h&limit=1000", key=key).body["events"]
    assert {event["series"] for event in found} == {"t é/1"}
    assert api.call("/v1/streams/quakes/events?series=other/1", key=key).body["code"] == "forbidden_series"


def test_a_key_may_come_in_any_of_its_headers(api: Api, keys: Keys) -> None:
    key = keys("create", "--name", "headers", "--stream", "quakes", "--json")["key"]
    encoded = b64encode(f"any:{key}".encode()).decode()
    alone = b64encode(f"{key}:".encode()).decode()
    assert status(api, Authorization=f"Bearer {key}") == 200
    assert status(api, Authorization=f"Token {key}") == 200
    assert status(api, Authorization=f"Basic {encoded}") == 200
    assert status(api, Authorization=f"Basic {alone}") == 200
    assert status(api, **{"X-Amz-Firehose-Access-Key": key}) == 200
    assert status(api) == status(api, Authorization=f"Bearer {key[:-1]}!") == 403
    two = {"Authorization": f"Bearer {key}", "x-api-key": f"tt_{'0' * 10}_{'0' * 32}"}
    assert status(api, **two) == 403


def test_a_revoked_key_is_refused_within_a_minute(api: Api, keys: Keys) -> None:
    made = keys("create", "--name", "leaked", "--stream", "quakes", "--json")
    assert api.call("/v1/streams/quakes/events", key=made["key"]).status == 200
    keys("revoke", made["id"])
    eventually(lambda: api.call("/v1/streams/quakes/events", key=made["key"]).status, lambda found: found == 403, 70)
    (shown,) = [entry for entry in keys("list", "--json") if entry["id"] == made["id"]]
    assert shown["state"] == "revoked"


@pytest.fixture
def passing(stage: tuple[Emulator, Deployed]) -> Iterator[Callable[[timedelta], None]]:
    """Lets time pass for the emulator and its functions, and sets it back."""
    if not clock_can_move():
        pytest.skip("the clock cannot be moved here")
    yield lambda time: stage[0].move_clock(OFFSET + time)
    stage[0].move_clock(OFFSET)


def test_rotated_and_expired_keys_end_at_their_time(api: Api, keys: Keys, passing: Callable[[timedelta], None]) -> None:
    old = keys("create", "--name", "turned", "--stream", "quakes", "--json")
    short = keys("create", "--name", "short", "--stream", "quakes", "--expires", "10m", "--json")
    new = keys("rotate", old["id"], "--overlap", "5m", "--json")

    def found() -> list[int]:
        return [api.call("/v1/streams/quakes/events", key=entry["key"]).status for entry in (old, new, short)]

    assert found() == [200, 200, 200]
    passing(timedelta(minutes=6))
    assert found() == [403, 200, 200]
    passing(timedelta(minutes=11))
    assert found() == [403, 200, 403]
