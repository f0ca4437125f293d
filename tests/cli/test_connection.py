"""How `import`, `tail` and `query` find the API of a stage."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
import typer

from cli.connection import find_api, open_client
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
    url, key = find_api("t", endpoint, None, "us-east-1")
    # An emulator serves the API under a path of its own.
    assert (url, key) == (f"{endpoint}/restapis/abc123/api/_user_request_", "secret")


def test_a_key_that_is_named_is_taken_for_the_stage(endpoint: str) -> None:
    place: dict[str, Any] = {"stage": "t", "endpoint": endpoint, "profile": None, "region": "us-east-1"}
    assert open_client(None, "mine", sigv4=False, **place)._connection.headers["x-api-key"] == "mine"
    assert open_client(None, None, sigv4=False, **place)._connection.headers["x-api-key"] == "secret"


def test_a_stage_that_cannot_be_found_says_what_else_to_use(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        find_api("t", "http://127.0.0.1:9", None, "us-east-1")
    assert "Use --url and --key, or TIDETABLE_URL and TIDETABLE_KEY" in capsys.readouterr().err


def test_an_address_that_is_none_is_a_usage_error() -> None:
    assert run("query", "quakes", "--url", "notaurl", "--key", "k").exit_code == 64
