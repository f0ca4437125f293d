"""Keys at every route of the API's description: scopes, streams, each way to send a key, and a key's life."""

from __future__ import annotations

import json
from base64 import b64encode
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest

from aws.dynamodb import credential_items
from aws.dynamodb.credentials import LeanCredentials
from tests.api.gateway import DESCRIPTION, Context
from tests.credentials.records import SALT, record
from tests.worlds.keyed import EVENTS, SECRET, Answered, Door
from tidetable.access import Access
from tidetable.credentials import Decision, Secret
from tidetable.errors import TableMissing
from tidetable.query.confine import _ROUTES, _WHOLE

OPERATIONS = {
    (method.upper(), path): described[method]
    for path, described in DESCRIPTION["paths"].items()
    for method in ("get", "post", "put", "delete", "patch", "options", "head")
    if method in described
}
# The scopes of which a key needs one. Every route of the description must be here.
WRITE, READ, ANY = {"write"}, {"read"}, {"write", "read", "operate"}
NEEDED: dict[tuple[str, str], set[str] | None] = {
    ("POST", EVENTS): WRITE,
    ("GET", EVENTS): READ,
    ("GET", f"{EVENTS}/{{ref}}"): READ,
    ("GET", "/v1/streams/{stream}/latest"): READ,
    ("GET", "/v1/streams/{stream}/top"): READ,
    ("GET", "/v1/streams/{stream}/aggregate"): READ,
    ("GET", "/v1/streams/{stream}/series"): READ,
    ("GET", "/v1/streams/{stream}/fields"): READ,
    ("GET", "/v1/streams/{stream}/fields/{field}/values"): READ,
    ("GET", "/v1/streams/{stream}/periods"): {"read", "operate"},
    ("GET", "/v1/streams"): ANY,
    ("GET", "/v1/plan"): {"operate"},
    ("GET", "/v1/alarms"): {"operate"},
    ("GET", "/v1/activity"): {"operate"},
    ("GET", "/v1/cost"): {"operate"},
    ("GET", "/v1/health"): None,
}
LOCKED = [route for route, needed in NEEDED.items() if needed is not None]


def of(route: tuple[str, str]) -> dict[str, str]:
    """The parameters of a route's path."""
    values = {"stream": "quakes", "ref": "none", "field": "t"}
    return {name: value for name, value in values.items() if f"{{{name}}}" in route[1]}


def called(door: Door, route: tuple[str, str], key: str | None, **more: Any) -> Answered:
    body = {"series": "a/1", "id": "again"} if route[0] == "POST" else None
    return door.call(*route, key, body, **{**of(route), **more})


def test_every_route_of_the_description_is_thought_about() -> None:
    assert NEEDED.keys() == OPERATIONS.keys()
    open_routes = [route for route, needed in NEEDED.items() if needed is None]
    assert [route for route, described in OPERATIONS.items() if described.get("security") == []] == open_routes
    # Of a series prefix, too: what is in neither is refused.
    refused = {f"/v1/streams/{{stream}}/{name}" for name in ("top", "fields", "fields/{field}/values")}
    assert _ROUTES.keys() | _WHOLE | refused == {path for _, path in OPERATIONS}


@pytest.mark.parametrize("scope", ["write", "read", "operate"])
@pytest.mark.parametrize("route", LOCKED, ids=" ".join)
def test_a_key_calls_the_routes_of_its_scope_alone(door: Door, route: tuple[str, str], scope: str) -> None:
    answer = called(door, route, f"tt_{scope:0<10}_{SECRET}")
    needed = NEEDED[route]
    assert needed is not None
    assert (answer.by == "function") is (scope in needed)
    assert answer.status != 403 if scope in needed else answer.status == 403


@pytest.mark.parametrize("route", [route for route in LOCKED if "{stream}" in route[1]], ids=" ".join)
def test_a_key_of_another_stream_calls_no_route_of_this_one(door: Door, route: tuple[str, str]) -> None:
    answer = called(door, route, f"tt_elsewhere0_{SECRET}")
    assert (answer.status, answer.by, door.context["refusal"]) == (403, "gateway", "another stream")
    assert called(door, route, f"tt_elsewhere0_{SECRET}", stream="packed").by == "function"


def test_a_key_sees_its_streams_alone(door: Door) -> None:
    def listed(key: str) -> list[str]:
        return [stream["stream"] for stream in door.call("GET", "/v1/streams", key).body["streams"]]

    assert listed(f"tt_elsewhere0_{SECRET}") == ["packed"]
    assert listed(f"tt_everything_{SECRET}") == ["quakes", "packed", "devices"]


@pytest.mark.parametrize("route", LOCKED, ids=" ".join)
@pytest.mark.parametrize(
    "key", [None, "", "nonsense", f"tt_everything_{SECRET[:-1]}x", f"tt_nosuchkey0_{SECRET}", SECRET]
)
def test_without_a_key_or_with_a_wrong_one_no_route_answers(
    door: Door, route: tuple[str, str], key: str | None
) -> None:
    assert called(door, route, key)[:3] == (403, None, "gateway")


@pytest.mark.parametrize("stream", ["quakes", "%71uakes", "quake%73"], ids=["plain", "encoded", "encoded at the end"])
def test_a_function_decides_by_the_stream_that_it_uses(door: Door, stream: str) -> None:
    """Whatever the authorizer made of the path: here it let the request through."""
    from handlers import ingest, query

    context = Access("x", frozenset({"packed"}), frozenset({"write", "read"})).context()
    event = {
        "httpMethod": "GET",
        "resource": EVENTS,
        "pathParameters": {"stream": stream},
        "requestContext": {"authorizer": context},
        "body": '{"series": "a/1"}',
    }
    for handler in (ingest.handler, query.handler):
        answer = handler(event, Context())  # type: ignore[arg-type]
        assert (answer["statusCode"], json.loads(answer["body"])["code"]) == (403, "forbidden")


@pytest.mark.parametrize(
    ("name", "method", "route"),
    [("query", "GET", EVENTS), ("ingest", "POST", EVENTS), ("doors", "POST", "/v1/streams/{stream}/cloudevents")],
)
def test_a_key_of_a_stream_that_is_gone_learns_no_other_streams_name(
    door: Door, name: str, method: str, route: str
) -> None:
    handler = import_module(f"handlers.{name}").handler
    event = {
        "httpMethod": method,
        "resource": route,
        "pathParameters": {"stream": "removed"},
        "requestContext": {"authorizer": Access("x", frozenset({"packed", "removed"})).context()},
        "body": '{"series": "a/1"}',
    }
    answer = handler(event, Context())
    problem = json.loads(answer["body"])
    assert (answer["statusCode"], problem["code"]) == (404, "unknown_stream")
    assert problem["detail"] == "there is no stream 'removed'; there are: packed"


def basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


@pytest.mark.parametrize(
    "headers",
    [
        {"Authorization": f"Bearer tt_everything_{SECRET}"},
        {"Authorization": f"Token tt_everything_{SECRET}"},
        {"Authorization": basic(f"me:tt_everything_{SECRET}")},
        {"Authorization": basic(f"tt_everything_{SECRET}:")},
        {"X-Amz-Firehose-Access-Key": f"tt_everything_{SECRET}"},
    ],
    ids=["bearer", "token", "basic password", "basic user", "firehose"],
)
def test_a_key_may_come_in_any_of_its_places(door: Door, headers: dict[str, str]) -> None:
    assert door.call("GET", EVENTS, headers=headers, stream="quakes").status == 200


def test_two_keys_in_one_request_are_refused_although_both_are_good(door: Door) -> None:
    headers = {"Authorization": f"Bearer tt_everything_{SECRET}"}
    key = f"tt_{'read':0<10}_{SECRET}"
    assert door.call("GET", EVENTS, key, headers=headers, stream="quakes").status == 403
    assert door.context == {"refusal": "two keys"}


# The life of a key.


def test_a_revoked_key_is_refused_within_a_minute_and_in_a_new_process_at_once(door: Door) -> None:
    key = door.make(f"tt_revokedkey_{SECRET}", "quakes")
    assert door.call("GET", EVENTS, key, stream="quakes").status == 200
    assert door.stage.keys.revoke("revokedkey", door.stage.clock.now())
    door.stage.clock.sleep(50)
    assert door.call("GET", EVENTS, key, stream="quakes").status == 200
    door.stage.clock.sleep(10)
    assert door.call("GET", EVENTS, key, stream="quakes").status == 403
    assert (door.context["refusal"], door.context["key_id"]) == ("revoked", "revokedkey")


def test_a_rotated_key_has_two_texts_for_a_while_and_then_one(door: Door) -> None:
    old, new = f"tt_rotatedkey_{SECRET}", f"tt_rotatedkey_{SECRET[::-1]}"
    door.make(old, "quakes")
    before = door.stage.keys.find("rotatedkey")
    assert before is not None
    now = door.stage.clock.now()
    assert door.stage.keys.rotate(before.rotate(Secret.of(new, SALT), now, timedelta(hours=1)), before)

    def statuses() -> list[int]:
        return [door.call("GET", EVENTS, key, stream="quakes").status for key in (old, new)]

    assert statuses() == [200, 200]
    door.stage.clock.sleep(3_700)
    assert statuses() == [403, 200]


def test_an_expired_key_is_refused_at_its_time_and_counted(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    from handlers import _observe

    counted: list[str] = []
    monkeypatch.setattr(_observe.metrics, "add_metric", lambda name, *_: counted.append(name))

    def former() -> int:
        return counted.count("FormerKeysUsed")

    end = door.stage.clock.now() + timedelta(minutes=5)
    key = door.make(f"tt_expiredkey_{SECRET}", "quakes", expires=end)
    assert door.call("GET", EVENTS, key, stream="quakes").status == 200
    assert former() == 0
    door.stage.clock.sleep(300)
    assert door.call("GET", EVENTS, key, stream="quakes").status == 403
    assert (door.context["refusal"], former()) == ("expired", 1)


def test_a_key_of_a_newer_version_is_refused_and_counted(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older functions do not know what a newer record restricts. The key's secret is right, and its rights seem enough."""
    from handlers import _observe

    counted: list[str] = []
    monkeypatch.setattr(_observe.metrics, "add_metric", lambda name, *_: counted.append(name))
    with monkeypatch.context() as later:
        later.setattr(credential_items, "KEY_FORMAT", 2)
        key = door.make(f"tt_newerkey00_{SECRET}", "quakes")
    older = door.make(f"tt_olderkey00_{SECRET}", "quakes")
    assert [door.call("GET", EVENTS, text, stream="quakes").status for text in (older, key)] == [200, 403]
    assert door.context == {"refusal": "key newerkey00 has format 2, and this version reads 1"}
    assert [name for name in counted if "Key" in name] == ["NewerKeysRefused"]


def test_if_the_catalog_cannot_be_read_nobody_is_let_in(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authorizer raises, and the gateway answers 503 by the response of AUTHORIZER_FAILURE."""
    key = door.make(f"tt_unreadable_{SECRET}", "quakes")
    unknown = LeanCredentials(door.stage.keys._client, "none")
    monkeypatch.setattr(door.stage.key_ring, "_read", unknown.find)
    with pytest.raises(TableMissing):
        door.call("GET", EVENTS, key, stream="quakes")


def test_the_authorizer_reads_every_value_of_a_header_and_the_name_of_the_stream() -> None:
    """The single form of the gateway has the last value alone: a second key would not be seen."""
    from handlers import authorizer

    call = authorizer._read_call(
        {
            "httpMethod": "GET",
            "resource": EVENTS,
            "pathParameters": {"stream": "a%2Fb"},
            "headers": {"X-Api-Key": "two"},
            "multiValueHeaders": {"X-Api-Key": ["one", "two"]},
            "queryStringParameters": {"p": "four"},
            "multiValueQueryStringParameters": {"p": ["three", "four"]},
        }
    )
    assert (call.stream, call.headers, call.parameters) == (
        "a/b",
        {"X-Api-Key": ["one", "two"]},
        {"p": ["three", "four"]},
    )
    single = authorizer._read_call({"httpMethod": "GET", "resource": "/v1/streams", "headers": {"X-Api-Key": "one"}})
    assert (single.stream, single.headers, single.parameters) == (None, {"X-Api-Key": ["one"]}, {})


def test_a_refused_request_is_counted_for_nobody() -> None:
    from handlers import authorizer

    text = f"tt_0123456789_{SECRET}"
    known = record(text, None, ("read",), "")
    refused = authorizer._make_answer(Decision("expired", known, text, former=True), "arn:route")
    assert "usageIdentifierKey" not in refused
    assert refused["policyDocument"]["Statement"] == [
        {"Action": "execute-api:Invoke", "Effect": "Deny", "Resource": "arn:route"}
    ]
    allowed = authorizer._make_answer(Decision("", known, text), "arn:route")
    assert allowed["usageIdentifierKey"] == "meter-of-0123456789"
    assert allowed["policyDocument"]["Statement"][0]["Effect"] == "Allow"
    # AWS: a policy without this version is of 2008.
    assert {answer["policyDocument"]["Version"] for answer in (refused, allowed)} == {"2012-10-17"}
    assert (refused["principalId"], refused["context"]["key_id"]) == ("0123456789", "0123456789")
    assert authorizer._make_answer(Decision("no key"), "arn:route")["principalId"] == "nobody"
