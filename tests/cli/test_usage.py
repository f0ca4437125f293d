"""Wrong usage, and calls that take long: exit codes, addresses, connections."""

import socket
import threading
from typing import Any

import boto3
import pytest
from botocore.config import Config

from cli import account, common
from cli.account import Account
from tests.cli.test_commands import run
from tests.fakes.stage import Stage


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
        assert "is no address" in result.output
        assert "http://127.0.0.1:4566" in result.output


def test_the_configuration_may_be_named_by_the_environment(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDETABLE_CONFIG", "elsewhere.toml")
    result = run("status")
    assert result.exit_code == 1
    assert "elsewhere.toml does not exist" in result.output


def test_failures_name_what_was_done_and_not_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    class Functions:
        def invoke(self, **_: Any) -> Any:
            body = type("Body", (), {"read": lambda self: b'{"errorMessage": "no space left"}'})()
            return {"FunctionError": "Unhandled", "Payload": body}

    nothing: Any = None
    found = Account("t", nothing, nothing, "Tidetable-t-Lifecycle8C53-9DA8", "archiver", "restorer", Functions())
    monkeypatch.setattr(common, "connect", lambda *_, **__: found)
    result = run("plan")
    assert result.exit_code == 1
    assert "the lifecycle failed: no space left" in result.output
    assert "8C53" not in result.output


def test_a_call_of_minutes_shows_a_sign_of_life_before_a_nat_gateway_drops_its_connection() -> None:
    """As the system has it of the very socket: it is kept alive, and the first sign is sent within 350 seconds."""
    if not hasattr(socket, "TCP_KEEPIDLE"):
        pytest.skip("the system calls the option otherwise")
    made: list[tuple[int, int]] = []
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()

        def hang_up() -> None:
            connection, _ = server.accept()
            connection.close()

        threading.Thread(target=hang_up, daemon=True).start()
        client = boto3.client(
            "lambda",
            region_name="us-east-1",
            endpoint_url=f"http://127.0.0.1:{server.getsockname()[1]}",
            aws_access_key_id="x",
            aws_secret_access_key="x",  # noqa: S106 - of nothing
            config=Config(tcp_keepalive=True, retries={"total_max_attempts": 1}),
        )
        account.keep_connected(client)
        plain = socket.socket.connect

        def connect(self: socket.socket, address: Any) -> None:
            made.append(
                (
                    self.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE),
                    self.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE),
                )
            )
            plain(self, address)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(socket.socket, "connect", connect)
            with pytest.raises(Exception, match="Connection was closed|Could not connect"):
                client.list_functions()
    assert made == [(1, 60)]
