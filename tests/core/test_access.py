"""The rights of a key: the scopes of each route, what a key sees, and their way through the authorizer's context."""

import pytest

from tidetable.access import FULL, Access, find_scopes, forbid_series
from tidetable.problems import ProblemError

EVENTS = "/v1/streams/{stream}/events"
PERIODS = "/v1/streams/{stream}/periods"


@pytest.mark.parametrize(
    ("method", "resource", "prefix", "scopes"),
    [
        ("GET", EVENTS, "", {"read"}),
        ("HEAD", EVENTS, "", {"read"}),
        ("POST", EVENTS, "", {"write"}),
        ("PUT", PERIODS, "", {"write"}),
        ("GET", "/v1/streams", "", {"write", "read", "operate"}),
        ("GET", PERIODS, "", {"operate", "read"}),
        ("GET", PERIODS, "a/", {"operate"}),
        ("GET", "/v1/plan", "", {"operate"}),
        ("GET", "/v1/alarms", "a/", {"operate"}),
        ("GET", "/v1/cost", "", {"operate"}),
        ("GET", "/v1/another", "", {"read"}),
    ],
)
def test_a_route_needs_one_of_its_scopes(method: str, resource: str, prefix: str, scopes: set[str]) -> None:
    assert find_scopes(method, resource, Access(series_prefix=prefix)) == scopes


@pytest.mark.parametrize(
    ("access", "context"),
    [
        (
            Access("k", frozenset({"b", "a"}), frozenset({"read", "write"}), "a/b,é %"),
            {"key_id": "k", "streams": "a,b", "can": "write,read", "series_prefix": "a%2Fb%2C%C3%A9%20%25"},
        ),
        (Access("k", None), {"key_id": "k", "streams": "*", "can": "write,read,operate", "series_prefix": ""}),
        (
            Access("k", frozenset(), frozenset()),
            {"key_id": "k", "streams": "", "can": "", "series_prefix": ""},
        ),
    ],
)
def test_rights_pass_the_gateway_as_texts(access: Access, context: dict[str, str]) -> None:
    assert access.context() == context
    assert Access.of(context) == access


@pytest.mark.parametrize("context", [None, {}, {"principalId": "someone"}, {"key_id": ""}])
def test_a_request_without_a_key_is_signed_and_has_every_right(context: dict[str, str] | None) -> None:
    """IAM has decided about it."""
    assert Access.of(context) == FULL
    assert Access("", None, frozenset({"write", "read", "operate"}), "") == FULL


def test_a_key_without_a_text_of_rights_has_none() -> None:
    assert Access.of({"key_id": "k"}) == Access("k", frozenset(), frozenset(), "")
    assert Access.of({"key_id": "k", "streams": ",a,", "can": "read,own"}) == Access(
        "k", frozenset({"a"}), frozenset({"read"}), ""
    )


def test_a_key_has_its_rights_on_its_own_streams_alone() -> None:
    access = Access("k", frozenset({"a"}), frozenset({"read"}), "p/")
    access.require("a", "read")
    access.require("a", "read", "operate")
    for stream, scope in (("a", "write"), ("b", "read")):
        with pytest.raises(ProblemError, match=f"403 forbidden: this key may not {scope} the stream '{stream}'"):
            access.require(stream, scope)  # type: ignore[arg-type]
    assert [access.sees(stream) for stream in ("a", "b")] == [True, False]
    assert [access.covers(series) for series in ("p/1", "p", "q/1")] == [True, False, False]
    access.require_known("b", ["a", "b"])
    with pytest.raises(ProblemError, match=r"404 unknown_stream: there is no stream 'c'; there are: a$"):
        access.require_known("c", ["a", "b"])
    with pytest.raises(ProblemError, match="403 forbidden_series: x: this key is for series that begin with 'p/'"):
        raise forbid_series(access, "x")
