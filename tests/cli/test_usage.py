"""Wrong usage, and calls that take long: exit codes, addresses, connections."""

import errno
import io
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from cli import common
from cli.account import Account, AccountError, connect
from tests.fakes.stage import Stage
from tests.worlds.commands import run
from wiring_upkeep import Upkeep


@pytest.mark.parametrize(
    "words", [["nothing"], ["plan", "--nothing"], ["archive"], ["plan", "--endpoint-url", "notaurl"], ["cost"]]
)
def test_wrong_usage_ends_with_64_as_2_is_what_plan_ends_with(words: list[str]) -> None:
    result = run(*words)
    assert result.exit_code == 64
    assert isinstance(result.exception, SystemExit)


def test_plan_ends_with_2_while_something_is_to_be_done(stage: Stage) -> None:
    stage.clock.sleep(3600)
    assert run("plan").exit_code == 2


def test_an_address_that_is_none_is_refused_with_an_example(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("notaurl", "localhost:4566", "http://"):
        result = run("status", "--endpoint-url", wrong)
        assert "is not an address" in result.output
        assert "http://127.0.0.1:4566" in result.output


def test_an_address_in_the_environment_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "notaurl")
    with HTTPServer(("127.0.0.1", 0), Aws) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        with pytest.raises(
            AccountError, match=r"notaurl.*write such as http://127.0.0.1:4566 into AWS_ENDPOINT_URL_DYN"
        ):
            connect("t", endpoint=address, region="us-east-1")
        server.shutdown()


def test_the_configuration_may_be_named_by_the_environment(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDETABLE_CONFIG", "elsewhere.toml")
    result = run("status")
    assert result.exit_code == 1
    assert "elsewhere.toml does not exist" in result.output


def test_failures_name_what_was_done_and_not_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    class Functions:
        def invoke(self, **_: Any) -> Any:
            return {"FunctionError": "Unhandled", "Payload": io.BytesIO(b'{"errorMessage": "no space left"}')}

    account = Account(Upkeep(), {"LifecycleFunction": "Tidetable-t-Lifecycle8C53-9DA8"}, Functions())
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    result = run("plan")
    assert result.exit_code == 1
    assert "the lifecycle failed: no space left" in result.output
    assert "8C53" not in result.output


STACK = """<DescribeStacksResponse xmlns="http://cloudformation.amazonaws.com/doc/2010-05-15/"><DescribeStacksResult><Stacks>
<member><StackName>Tidetable-t</StackName><StackStatus>CREATE_COMPLETE</StackStatus><CreationTime>2026-01-01T00:00:00Z
</CreationTime><Outputs>{}</Outputs></member></Stacks></DescribeStacksResult></DescribeStacksResponse>"""
OUTPUT = "<member><OutputKey>{0}</OutputKey><OutputValue>{0}</OutputValue></member>"
OUTPUTS = (
    "CatalogTable",
    "LifecycleFunction",
    "ArchiverFunction",
    "RestorerFunction",
    "OverflowQueueUrl",
    "DeadLetterQueueUrl",
)


class Aws(BaseHTTPRequestHandler):
    """Answers a description of a stack, and any function's call with an empty report."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b"{}" if "/functions/" in self.path else STACK.format("".join(map(OUTPUT.format, OUTPUTS))).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: the test reports errors."""


@pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="the system calls the option otherwise")
def test_a_call_of_minutes_shows_a_sign_of_life_before_a_nat_gateway_drops_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The system's settings of the socket say so: keep-alive is on, and the first probe is sent within 350 seconds."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    made: list[tuple[int, int]] = []
    plain = socket.socket.connect

    def watch(self: socket.socket, address: Any) -> None:
        alive = self.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        made.append((alive, self.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)))
        plain(self, address)

    with HTTPServer(("127.0.0.1", 0), Aws) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        account = connect("t", endpoint=f"http://127.0.0.1:{server.server_port}", region="us-east-1")
        monkeypatch.setattr(socket.socket, "connect", watch)
        assert account.run_lifecycle() == {}
        server.shutdown()
    assert made == [(1, 60)]


@pytest.mark.parametrize(
    ("words", "least", "most"),
    [
        (("restore", "s", "2026-01-01", "--keep"), 1, 3650),
        (("backfill", "s", "2026-01-01", "2026-01-02", "--hours"), 1, 720),
        (("console", "--port"), 0, 65_535),
        (("import", "none.csv", "--stream", "s", "--batch"), 1, 10_000),
        (("import", "none.csv", "--stream", "s", "--parallel"), 1, 32),
        (("cost", "none.toml", "--days"), 1, 3660),
        (("cost", "none.toml", "--rate", "1", "--bytes"), 1, 400_000),
        (("cost", "none.toml", "--rate", "1", "--batch"), 1, 10_000),
        (("cost", "none.toml", "--rate", "1", "--groups"), 1, 100_000),
    ],
)
def test_a_number_beyond_its_bounds_is_a_wrong_use(
    words: tuple[str, ...], least: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A number within them gets as far as the stage or the file, which are not there."""

    def nowhere(*_: Any, **__: Any) -> Account:
        raise AccountError("nowhere")

    monkeypatch.setattr(common, "connect", nowhere)
    codes = [run(*words, str(number)).exit_code for number in (least - 1, least, most, most + 1)]
    assert codes == [64, 1, 1, 64]


def test_a_reader_of_the_output_that_has_ended_is_no_error_to_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*_: Any, **__: Any) -> Account:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr(common, "connect", write)
    result = run("plan")
    assert (result.exit_code, result.output.strip()) == (1, "")
