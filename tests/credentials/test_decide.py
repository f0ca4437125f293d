"""The decision about a request, and what the functions and the log learn of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.credentials.records import NOW, record
from tidetable.access import FULL, Access
from tidetable.credentials import Call, CredentialRecord, CredentialRing, Decision, decide

SECRET = "abcdefghijklmnopqrstuvwxyz012345"
TEXT = f"tt_0123456789_{SECRET}"
EVENTS, PERIODS = "/v1/streams/{stream}/events", "/v1/streams/{stream}/periods"


def decided(
    kept: CredentialRecord | None,
    method: str = "GET",
    resource: str = EVENTS,
    stream: str | None = "quakes",
    text: str = TEXT,
) -> Decision:
    ring = CredentialRing(lambda wanted: kept if kept is not None and kept.id == wanted else None)
    return decide(Call(method, resource, stream, {"x-api-key": [text]}), ring, NOW)


def test_a_key_is_let_through_and_described() -> None:
    decision = decided(record(TEXT, {"stations", "quakes"}, ("write", "read"), "a b,é/"))
    assert decision.allowed
    assert decision.meter == "meter-of-0123456789"
    assert decision.context() == {
        "key_id": "0123456789",
        "key_name": "test",
        "streams": "quakes,stations",
        "can": "write,read",
        "series_prefix": "a%20b%2C%C3%A9%2F",
    }
    access = Access.of(decision.context())
    assert access == Access("0123456789", frozenset({"quakes", "stations"}), frozenset({"write", "read"}), "a b,é/")


def test_a_key_of_all_streams_is_described() -> None:
    context = decided(record(TEXT)).context()
    assert (context["streams"], context["can"], context["series_prefix"]) == ("*", "write,read,operate", "")
    assert Access.of(context) == Access("0123456789")


def test_the_first_key_is_counted_by_its_own_text() -> None:
    text = "Zq3vTn8mLx2KbW7cRj5yHd9sFg1aPe4uNw6iOkVt"
    assert decided(record(text, meter=""), text=text).meter == text


@pytest.mark.parametrize(
    ("kept", "text", "refusal", "former"),
    [
        (record(TEXT), "", "no key", False),
        (record(TEXT), "nonsense", "not a key", False),
        (None, TEXT, "unknown key 0123456789", False),
        (record(TEXT), TEXT[:-1] + "x", "wrong secret of key 0123456789", False),
        (record(TEXT, revoked=NOW), TEXT, "revoked", False),
        (record(TEXT, expires=NOW), TEXT, "expired", True),
        (replace(record(TEXT), newer=2), TEXT, "key 0123456789 has format 2, and this version reads 1", False),
        (
            replace(record(TEXT), newer=2),
            TEXT[:-1] + "x",
            "key 0123456789 has format 2, and this version reads 1",
            False,
        ),
        (record(TEXT, {"stations"}), TEXT, "another stream", False),
        (record(TEXT, set()), TEXT, "another stream", False),
        (record(TEXT, can=("write",)), TEXT, "needs read", False),
    ],
)
def test_a_refusal_says_why_to_the_log(kept: CredentialRecord | None, text: str, refusal: str, former: bool) -> None:
    decision = decided(kept, text=text)
    assert (decision.allowed, decision.refusal, decision.former) == (False, refusal, former)
    assert decision.context()["refusal"] == refusal
    assert SECRET not in str(decision.context())
    assert SECRET not in repr(decision)


def test_a_request_with_two_keys_is_refused_whichever_of_them_is_right() -> None:
    kept = {"0123456789": record(TEXT)}
    headers = {"x-api-key": [TEXT], "authorization": [f"Bearer {TEXT[:-1]}x"]}
    decision = decide(Call("GET", EVENTS, "quakes", headers), CredentialRing(kept.get), NOW)
    assert (decision.allowed, decision.context()) == (False, {"refusal": "two keys"})
    both = {"x-api-key": [TEXT], "authorization": [f"Bearer {TEXT}"]}
    assert decide(Call("GET", EVENTS, "quakes", both), CredentialRing(kept.get), NOW).allowed


def test_the_log_names_a_key_only_if_its_secret_was_right() -> None:
    assert "key_id" not in decided(record(TEXT), text=TEXT[:-1] + "x").context()
    assert decided(record(TEXT, {"stations"})).context()["key_id"] == "0123456789"


# Of each scope alone: may it call the route?
ROUTES = {
    ("POST", EVENTS): (True, False, False),
    ("GET", EVENTS): (False, True, False),
    ("GET", "/v1/streams/{stream}/aggregate"): (False, True, False),
    ("GET", PERIODS): (False, True, True),
    ("GET", "/v1/streams"): (True, True, True),
    ("OPTIONS", "/v1/streams/{stream}/cloudevents"): (True, False, False),
    ("HEAD", "/ping"): (False, True, False),
    ("POST", "/api/v2/write"): (True, False, False),
}


@pytest.mark.parametrize(("route", "may"), ROUTES.items(), ids=str)
def test_each_route_needs_a_scope(route: tuple[str, str], may: tuple[bool, bool, bool]) -> None:
    stream = "quakes" if "{stream}" in route[1] else None
    for scope, allowed in zip(("write", "read", "operate"), may, strict=True):
        assert decided(record(TEXT, {"quakes"}, (scope,)), *route, stream=stream).allowed is allowed  # type: ignore[arg-type]


def test_a_route_without_a_stream_is_left_to_its_function() -> None:
    decision = decided(record(TEXT, {"stations"}, ("write",)), "POST", "/api/v2/write", None)
    assert decision.allowed
    access = Access.of(decision.context())
    assert (access.can, access.sees("stations"), access.sees("quakes")) == (frozenset({"write"}), True, False)
    assert decided(record(TEXT, set()), "POST", "/api/v2/write", None).refusal == "no stream"


def test_a_key_of_some_series_sees_no_whole_tables() -> None:
    assert decided(record(TEXT, can=("read",), series_prefix="a"), "GET", PERIODS).refusal == "needs operate"
    assert decided(record(TEXT, can=("operate",), series_prefix="a"), "GET", PERIODS).allowed


@pytest.mark.parametrize("context", [None, {}, {"principalId": "x"}, {"key_id": ""}])
def test_without_a_key_iam_has_decided(context: dict[str, str] | None) -> None:
    assert Access.of(context) == FULL
    assert (FULL.can, FULL.sees("any")) == (frozenset({"write", "read", "operate"}), True)


def test_a_context_that_is_cut_gives_nothing() -> None:
    access = Access.of({"key_id": "x"})
    assert not access.sees("quakes")
    assert not access.can
