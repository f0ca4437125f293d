"""Signatures: checked by signing again what arrived, as the service does."""

from __future__ import annotations

import gzip
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from doubles import ManualClock, Server, event
from tidetable_client import Client

URL = "https://abc.execute-api.eu-west-1.amazonaws.com/api"


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": "AKID", "SECRET_ACCESS_KEY": "secret", "SESSION_TOKEN": "token"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")


def sign_again(request: httpx.Request, monkeypatch: pytest.MonkeyPatch) -> str:
    """The signature that belongs to the request that arrived."""
    made = AWSRequest(method=request.method, url=str(request.url), data=request.content)
    for name in ("content-type", "host"):
        if name in request.headers:
            made.headers[name] = request.headers[name]
    signer = SigV4Auth(Credentials("AKID", "secret", "token"), "execute-api", "eu-west-1")
    moment = request.headers["x-amz-date"]
    made.context["timestamp"] = moment
    made.headers["X-Amz-Date"] = moment
    made.headers["X-Amz-Security-Token"] = "token"
    canonical = signer.canonical_request(made)
    return str(signer.signature(signer.string_to_sign(made, canonical), made))


def test_a_request_is_signed_for_the_gateway(
    server: Server, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Client(URL, sigv4=True, background=False, transport=server.transport, clock=clock) as client:
        client.write("quakes", event(1))
    (request,) = server.requests
    header = request.headers["Authorization"]
    assert header.startswith("AWS4-HMAC-SHA256 Credential=AKID/")
    assert "/eu-west-1/execute-api/aws4_request" in header
    assert "content-type;host;x-amz-date;x-amz-security-token" in header
    assert "x-api-key" not in request.headers
    assert gzip.decompress(request.content).startswith(b'{"series":"s"')
    assert header.endswith(f"Signature={sign_again(request, monkeypatch)}")


def test_a_query_with_spaces_is_signed_as_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[httpx.Request] = []

    def serve(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"events": [], "next": None})

    client = Client(URL, sigv4=True, transport=httpx.MockTransport(serve))
    list(client.events("quakes", where={"place:prefix": "17km E"}, series="a/b+c"))
    assert urlsplit(str(seen[0].url)).query == "where.place%3Aprefix=17km%20E&series=a%2Fb%2Bc&limit=1000"
    assert seen[0].headers["Authorization"].endswith(sign_again(seen[0], monkeypatch))


def test_without_credentials_or_region_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="no Region is known"):
        list(
            Client(
                "http://tides.test", sigv4=True, transport=httpx.MockTransport(lambda _: httpx.Response(200))
            ).events("s")
        )
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setattr("botocore.session.Session.get_credentials", lambda _: None)
    with pytest.raises(ValueError, match="no AWS credentials"):
        Client(URL, sigv4=True)


def test_a_request_is_signed_for_the_region_of_its_address(
    server: Server, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Region of the environment may be that of another account or stage."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with Client(URL, sigv4=True, background=False, transport=server.transport, clock=clock) as client:
        client.write("quakes", event(1))
    assert "/eu-west-1/execute-api/aws4_request" in server.requests[0].headers["Authorization"]


@pytest.mark.parametrize(("given", "signed"), [("eu-north-1", "eu-north-1"), (None, "us-east-1")])
def test_an_address_without_a_region_is_signed_for_that_of_the_caller_or_the_environment(
    server: Server, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, given: str | None, signed: str
) -> None:
    """A stage may have a domain of its own."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    options: dict[str, Any] = {"background": False, "transport": server.transport, "clock": clock}
    with Client("https://tides.example.com", sigv4=True, region=given, **options) as client:
        client.write("quakes", event(1))
    assert f"/{signed}/execute-api/aws4_request" in server.requests[0].headers["Authorization"]
