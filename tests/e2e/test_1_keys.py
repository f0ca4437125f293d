"""Keys of the deployed stage: made, rotated and revoked by the command line, and checked by the authorizer."""

from __future__ import annotations

import json
from base64 import b64encode

from local.http import Api
from tests.e2e.conftest import Keys

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
