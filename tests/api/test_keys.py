"""Keys at every route of the API's description: scopes, streams, series prefixes, and each way to send a key."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

import pytest

from tests.api.gateway import DESCRIPTION, Context
from tests.credentials.records import SALT, record
from tests.worlds.keyed import Answered, Door, open_door
from tidetable.access import SCOPES, Access
from tidetable.conditions import Condition, Names
from tidetable.credentials import Decision, Secret
from tidetable.errors import TableMissing
from tidetable.problems import ProblemError
from tidetable.query import confine_parameters, confine_query
from tidetable.query.confine import _ROUTES, _WHOLE

SECRET = "abcdefghijklmnopqrstuvwxyz012345"
EVENTS = "/v1/streams/{stream}/events"
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
    ("GET", "/v1/cost"): {"operate"},
    ("GET", "/v1/simulate"): {"operate"},
    ("GET", "/v1/health"): None,
}
LOCKED = [route for route, needed in NEEDED.items() if needed is not None]
TENANT = f"tt_tenantkey0_{SECRET}"


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    for opened in open_door(tmp_path_factory.mktemp("keyed")):
        for scope in SCOPES:
            opened.make(f"tt_{scope:0<10}_{SECRET}", "quakes", can=(scope,))
        opened.make(f"tt_elsewhere0_{SECRET}", "packed", can=("write", "read", "operate"))
        opened.make(f"tt_everything_{SECRET}", can=("write", "read", "operate"))
        opened.make(TENANT, series_prefix="a/")
        for stream in ("quakes", "packed", "devices"):
            events = [
                {"series": series, "id": series, "data": {"t": number, "of": f"OF-{series}"}}
                for number, series in enumerate(["a/1", "a/2", "b/1"])
            ]
            sent = opened.call("POST", EVENTS, f"tt_everything_{SECRET}", events, stream=stream)
            assert (sent.status, sent.body["accepted"]) == (200, 3)
        yield opened


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


# A key of the series that begin with a/.


def texts(answer: Answered) -> str:
    return json.dumps(answer.body)


@pytest.mark.parametrize("stream", ["quakes", "packed", "devices"])
def test_a_tenant_writes_its_series_alone(door: Door, stream: str) -> None:
    good, bad = {"series": "a/1", "id": "t"}, {"series": "b/1", "id": "t"}
    answer = door.call("POST", EVENTS, TENANT, [good, bad, {"series": "a"}], stream=stream)
    assert (answer.status, answer.body["accepted"]) == (200, 1)
    detail = "this key is for series that begin with 'a/'"
    errors = answer.body["errors"]
    assert errors[0] == {"index": 1, "id": "t", "code": "forbidden_series", "detail": detail}
    assert [(error["index"], error["code"]) for error in errors] == [(1, "forbidden_series"), (2, "forbidden_series")]
    assert door.call("POST", EVENTS, TENANT, good, stream=stream).status == 200
    alone = door.call("POST", EVENTS, TENANT, bad, stream=stream)
    assert (alone.status, alone.body["code"]) == (422, "all_refused")
    every = door.call("GET", EVENTS, f"tt_everything_{SECRET}", query={"series": "b/1"}, stream=stream)
    assert [event["id"] for event in every.body["events"]] == ["b/1"]


@pytest.mark.parametrize("stream", ["quakes", "packed"])
def test_a_tenant_reads_its_series_alone(door: Door, stream: str) -> None:
    answer = door.call("GET", EVENTS, TENANT, stream=stream)
    assert answer.status == 200
    assert {event["series"] for event in answer.body["events"]} == {"a/1", "a/2"}
    narrow = door.call("GET", EVENTS, TENANT, query={"series:prefix": "a/2"}, stream=stream)
    assert {event["series"] for event in narrow.body["events"]} == {"a/2"}
    wide = door.call("GET", EVENTS, TENANT, query={"series:prefix": "a"}, stream=stream)
    assert {event["series"] for event in wide.body["events"]} == {"a/1", "a/2"}
    assert "OF-b/1" not in texts(answer) + texts(narrow) + texts(wide)


# What a tenant may not ask: route, stream, query.
FORBIDDEN = [
    (EVENTS, "quakes", {"series": "b/1"}),
    (EVENTS, "quakes", {"series": ["a/1", "b/1"]}),
    (EVENTS, "quakes", {"series:prefix": "b/"}),
    (EVENTS, "devices", {"series": "b/1"}),
    (EVENTS, "quakes", {"explain": "true"}),
    ("/v1/streams/{stream}/latest", "devices", {"series": ["a/1", "b/1"]}),
    ("/v1/streams/{stream}/top", "devices", {}),
    ("/v1/streams/{stream}/top", "devices", {"where.of": "OF-a/1"}),
    ("/v1/streams/{stream}/aggregate", "quakes", {"series": "b/1"}),
    ("/v1/streams/{stream}/aggregate", "quakes", {"series:prefix": "b"}),
    ("/v1/streams/{stream}/series", "quakes", {"prefix": "b"}),
    ("/v1/streams/{stream}/fields", "quakes", {}),
    ("/v1/streams/{stream}/fields/{field}/values", "quakes", {}),
]


@pytest.mark.parametrize(("route", "stream", "query"), FORBIDDEN, ids=str)
def test_a_tenant_is_refused_what_is_of_other_series(
    door: Door, route: str, stream: str, query: dict[str, Any]
) -> None:
    path = {"stream": stream} | ({"field": "of"} if "{field}" in route else {})
    answer = door.call("GET", route, TENANT, None, None, query, **path)
    assert (answer.status, answer.by, answer.body["code"]) == (403, "function", "forbidden_series")
    assert "begin with 'a/'" in answer.body["detail"]


def test_a_tenant_sees_no_periods(door: Door) -> None:
    assert door.call("GET", "/v1/streams/{stream}/periods", TENANT, stream="quakes").by == "gateway"
    assert door.context["refusal"] == "needs operate"


def test_a_tenant_aggregates_its_series_alone(door: Door) -> None:
    query = {"by": "series", "stat": "count"}
    answer = door.call("GET", "/v1/streams/{stream}/aggregate", TENANT, query=query, stream="quakes")
    assert answer.status == 200
    assert {row["group"]["series"] for row in answer.body["aggregates"]} == {"a/1", "a/2"}


def test_a_tenant_finds_the_latest_of_its_series(door: Door) -> None:
    answer = door.call("GET", "/v1/streams/{stream}/latest", TENANT, query={"series": "a/2"}, stream="devices")
    assert [entry["event"]["data"]["of"] for entry in answer.body["latest"]] == ["OF-a/2"]


@pytest.mark.parametrize("stream", ["quakes", "packed", "devices"])
def test_a_ref_of_another_series_is_refused(door: Door, stream: str) -> None:
    for series, status in (("a/2", 200), ("b/1", 403)):
        found = door.call("GET", EVENTS, f"tt_everything_{SECRET}", query={"series": series}, stream=stream)
        (ref,) = [event["ref"] for event in found.body["events"]]
        answer = door.call("GET", f"{EVENTS}/{{ref}}", TENANT, stream=stream, ref=ref)
        assert answer.status == status
        assert "OF-b/1" not in texts(answer)


@pytest.mark.parametrize("query", [{"series": "b/1"}, {"series:prefix": "b"}, {}], ids=str)
def test_a_cursor_of_another_key_opens_nothing(door: Door, query: dict[str, str]) -> None:
    """A cursor is signed, but not for one key: its query is looked at again."""
    for route in (EVENTS, "/v1/streams/{stream}/aggregate"):
        step = {"step": "1s", "fill": "zero"} if route.endswith("aggregate") else {}
        key = f"tt_everything_{SECRET}"
        more = {"series": "b/2", "id": "2"}
        door.call("POST", EVENTS, key, [{"series": "b/1", "id": "second"}, more], stream="quakes")
        first = door.call("GET", route, key, query={**query, **step, "limit": "1"}, stream="quakes")
        cursor = first.body["next"]
        assert cursor is not None
        answer = door.call("GET", route, TENANT, query={"cursor": cursor}, stream="quakes")
        assert (answer.status, answer.body["code"]) == (403, "forbidden_series")


def test_a_tenant_follows_its_own_cursor(door: Door) -> None:
    seen, query = [], {"limit": "1"}
    while True:
        answer = door.call("GET", EVENTS, TENANT, query=query, stream="packed")
        assert answer.status == 200
        seen += [event["series"] for event in answer.body["events"]]
        if answer.body["next"] is None:
            break
        query = {"limit": "1", "cursor": answer.body["next"]}
    assert set(seen) == {"a/1", "a/2"}


def test_a_listing_of_series_begins_with_the_prefix() -> None:
    tenant = Access("x", None, frozenset({"read"}), "a/")
    route = "/v1/streams/{stream}/series"
    assert confine_parameters(route, {"limit": ["5"]}, tenant) == {"limit": ["5"], "prefix": ["a/"]}
    assert confine_parameters(route, {"prefix": ["a/1"]}, tenant) == {"prefix": ["a/1"]}
    assert confine_parameters(route, {"prefix": [""]}, tenant) == {"prefix": ["a/"]}
    assert confine_parameters(route, {"cursor": ["c"]}, tenant) == {"cursor": ["c"]}


class _Selected(NamedTuple):
    names: Names
    conditions: tuple[Condition, ...] = ()
    consistent: bool = False


def test_a_tenant_asks_its_own_series_alone_whatever_the_form_of_the_query() -> None:
    tenant = Access("x", None, frozenset({"read"}), "a/")
    confine_query(_Selected(Names(series=("a/1",))), tenant)
    for names in (Names(), Names(series=("a/1", "b")), Names(series_prefix="a"), None):
        with pytest.raises(ProblemError, match="other series"):
            confine_query(_Selected(names), tenant)  # type: ignore[arg-type]


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


def test_if_the_catalog_cannot_be_read_nobody_is_let_in(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    """The authorizer raises, and the gateway answers 503 by the response of AUTHORIZER_FAILURE."""
    key = door.make(f"tt_unreadable_{SECRET}", "quakes")
    monkeypatch.setattr(door.stage.key_reader, "_table", "none")
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
    refused = authorizer._answer(Decision("expired", known, text, former=True), "arn:route")
    assert "usageIdentifierKey" not in refused
    assert refused["policyDocument"]["Statement"] == [
        {"Action": "execute-api:Invoke", "Effect": "Deny", "Resource": "arn:route"}
    ]
    allowed = authorizer._answer(Decision("", known, text), "arn:route")
    assert allowed["usageIdentifierKey"] == "meter-of-0123456789"
    assert allowed["policyDocument"]["Statement"][0]["Effect"] == "Allow"
