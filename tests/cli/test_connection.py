"""How `import`, `tail` and `query` find the API of a stage."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace
from typing import Any

import pytest
import typer

from cli.connection import find_api, open_client
from cli.options import ApiTarget, Target
from tests.worlds.commands import run

STACK = """<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><DescribeStacksResult><Stacks>
<member><StackName>Tidetable-t</StackName><StackStatus>CREATE_COMPLETE</StackStatus><CreationTime>2026-01-01T00:00:00Z
</CreationTime><Outputs>
<member><OutputKey>ApiUrl</OutputKey><OutputValue>https://abc123.execute-api.us-east-1.amazonaws.com/api/</OutputValue></member>
<member><OutputKey>ApiKeyId</OutputKey><OutputValue>key7</OutputValue></member>
</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>"""


class Aws(BaseHTTPRequestHandler):
    """CloudFormation's answer about the stack, and API Gateway's about its key."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(STACK.encode())

    def do_GET(self) -> None:
        found = self.path == "/apikeys/key7?includeValue=true"
        self._answer(json.dumps({"id": "key7", "value": "secret" if found else "wrong"}).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the test reports errors."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    with HTTPServer(("127.0.0.1", 0), Aws) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_the_address_and_the_key_of_a_stage_are_looked_up(endpoint: str) -> None:
    url, key = find_api(Target(stage="t", endpoint=endpoint, region="us-east-1"))
    # An emulator serves the API under a path of its own.
    assert (url, key) == (f"{endpoint}/restapis/abc123/api/_user_request_", "secret")


def test_a_key_that_is_named_is_taken_for_the_stage(endpoint: str) -> None:
    stage = ApiTarget(stage="t", endpoint=endpoint, region="us-east-1")
    assert open_client(replace(stage, key="mine"))._connection.headers["x-api-key"] == "mine"
    assert open_client(stage)._connection.headers["x-api-key"] == "secret"


def test_a_stage_that_cannot_be_found_says_what_else_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        find_api(Target(stage="t", endpoint="http://127.0.0.1:9", region="us-east-1"))
    assert "Use --url and --key, or TIDETABLE_URL and TIDETABLE_KEY" in capsys.readouterr().err


def test_an_address_that_is_none_is_a_usage_error() -> None:
    assert run("query", "quakes", "--url", "notaurl", "--key", "k").exit_code == 64


class Given:
    """The client, as it is made."""

    def __init__(self, url: str, key: str | None, **options: Any) -> None:
        if url == "wrong":
            raise ValueError("an address begins with https")
        self.made = url, key, options


def make(monkeypatch: pytest.MonkeyPatch, url: str | None, key: str | None, *, sigv4: bool, **options: Any) -> Any:
    monkeypatch.setattr("cli.connection.Client", Given)
    monkeypatch.setattr("cli.connection.find_api", lambda *_: ("https://found", "first"))
    client: Any = open_client(ApiTarget(stage="t", region="eu-west-1", url=url, key=key, sigv4=sigv4), **options)
    return client.made


@pytest.mark.parametrize(
    ("url", "key", "sigv4", "made"),
    [
        ("https://a", "mine", False, ("https://a", "mine")),
        ("https://a", None, True, ("https://a", None)),
        # A signed request has no key.
        ("https://a", "mine", True, ("https://a", None)),
        (None, None, False, ("https://found", "first")),
        (None, "mine", False, ("https://found", "mine")),
        (None, None, True, ("https://found", None)),
    ],
)
def test_a_client_has_the_key_of_the_caller_or_the_stage_or_signs(
    url: str | None, key: str | None, sigv4: bool, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = make(monkeypatch, url, key, sigv4=sigv4, on_settled=print)
    assert found[:2] == made
    assert found[2] == {"sigv4": sigv4, "region": "eu-west-1", "policy": None, "on_settled": print}


@pytest.mark.parametrize(
    ("url", "key", "reason"), [("https://a", None, "there is no key: use --key"), ("wrong", "k", "begins with https")]
)
def test_a_client_that_cannot_be_made_says_why(
    url: str, key: str | None, reason: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended:
        make(monkeypatch, url, key, sigv4=False)
    assert (ended.value.exit_code, reason in capsys.readouterr().err) == (1, True)


def test_in_an_account_the_address_is_that_of_the_stack_and_a_stage_may_have_no_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outputs = [{"OutputKey": "ApiUrl", "OutputValue": "https://abc.execute-api.eu-west-1.amazonaws.com/api/"}]
    stacks = SimpleNamespace(describe_stacks=lambda **_: {"Stacks": [{"StackStatus": "X", "Outputs": outputs}]})
    monkeypatch.setattr("boto3.Session.client", lambda *_, **__: stacks)
    assert find_api(Target(stage="t", region="eu-west-1")) == (outputs[0]["OutputValue"], None)
