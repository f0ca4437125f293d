"""The places of a request in which clients put a key."""

from base64 import b64encode

import pytest

from tidetable.credentials.presented import find_key_texts

KEY, OTHER = "tt_0123456789_abcdefghijklmnopqrstuvwxyz012345", "tt_9876543210_abcdefghijklmnopqrstuvwxyz012345"
EVENTS = "/v1/streams/{stream}/events"


def basic(text: str) -> str:
    return f"Basic {b64encode(text.encode()).decode()}"


def presented(headers: dict[str, str], resource: str = EVENTS, **parameters: str) -> set[str]:
    return find_key_texts(
        {name: [value] for name, value in headers.items()},
        {name: [value] for name, value in parameters.items()},
        resource,
    )


@pytest.mark.parametrize(
    "headers",
    [
        {"x-api-key": KEY},
        {"X-API-Key": f" {KEY} "},
        {"Authorization": f"Bearer {KEY}"},
        {"authorization": f"bearer  {KEY}"},
        {"Authorization": f"Token {KEY}"},
        {"Authorization": f" Bearer {KEY} "},
        {"Authorization": basic(f"any:{KEY}")},
        {"Authorization": f"{basic(f'any:{KEY}')} ".replace(" ", "  ")},
        {"Authorization": basic(f"{KEY}:")},
        {"Authorization": basic(KEY)},
        {"X-Amz-Firehose-Access-Key": KEY},
        {"x-api-key": KEY, "Authorization": f"Bearer {KEY}"},
    ],
)
def test_a_key_is_found(headers: dict[str, str]) -> None:
    assert presented(headers) == {KEY}


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": "  "},
        {"Authorization": KEY},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": "AWS4-HMAC-SHA256 Credential=AKIA/20260312/us-east-1/execute-api/aws4_request"},
        {"Authorization": f"Digest {KEY}"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic /w=="},
        {"Authorization": basic(KEY).replace("Basic", "Digest")},
        # RFC 7617: characters outside of Base64 are no part of the credentials.
        {"Authorization": f"{basic(KEY)[:10]}!{basic(KEY)[10:]}"},
        {"Cookie": KEY},
        {"X-Other": f"Bearer {KEY}"},
    ],
)
def test_without_one_there_is_no_key(headers: dict[str, str]) -> None:
    assert presented(headers) == set()


@pytest.mark.parametrize(
    "headers",
    [
        {"x-api-key": KEY, "Authorization": f"Bearer {OTHER}"},
        {"x-api-key": KEY, "X-Amz-Firehose-Access-Key": OTHER},
        {"Authorization": basic(f"user:{KEY}"), "x-api-key": OTHER},
    ],
)
def test_two_different_keys_are_found(headers: dict[str, str]) -> None:
    assert presented(headers) == {KEY, OTHER}


def test_a_header_that_is_repeated_counts_each_time() -> None:
    assert find_key_texts({"x-api-key": [KEY, OTHER]}, {}, EVENTS) == {KEY, OTHER}
    assert find_key_texts({"x-api-key": [KEY, KEY]}, {}, EVENTS) == {KEY}


def test_a_password_in_the_address_is_taken_by_the_route_of_influxdb_1_alone() -> None:
    assert presented({}, "/write", u="any", p=KEY) == {KEY}
    assert presented({}, "/write", p=f" {KEY} ") == {KEY}
    assert presented({}, EVENTS, u="any", p=KEY) == set()
    assert presented({"x-api-key": OTHER}, "/write", p=KEY) == {KEY, OTHER}


def test_a_password_may_have_colons() -> None:
    """RFC 7617: the user's name has none, so it ends at the first colon."""
    assert presented({"Authorization": basic("any:one:two")}) == {"one:two"}
