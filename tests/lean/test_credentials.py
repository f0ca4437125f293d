"""Credentials: from the environment, or from the container's endpoint and renewed in time."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from aws.http.credentials import Credentials, NoCredentials, Provider
from tests.fakes import FakeClock

NOW = datetime(2026, 3, 1, tzinfo=UTC)
FULL = "AWS_CONTAINER_CREDENTIALS_FULL_URI"


class Endpoint:
    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.asked: list[tuple[str, str | None]] = []
        self.fails = False

    def fetch(self, url: str, token: str | None) -> bytes:
        self.asked.append((url, token))
        if self.fails:
            raise ConnectionRefusedError("nobody there")
        return json.dumps(self.make_answer()).encode()

    def make_answer(self) -> dict[str, Any]:
        until = self.clock.now() + timedelta(hours=1)
        answer = {
            "AccessKeyId": f"k{len(self.asked)}",
            "SecretAccessKey": "s",
            "Token": "t",
            "Expiration": until.isoformat(),
        }
        return answer | {"RoleArn": "arn"}


def make_provider(**environment: str) -> tuple[Provider, Endpoint]:
    endpoint = Endpoint(FakeClock(NOW))
    return Provider(environment, endpoint.clock.now, endpoint.fetch), endpoint


def test_the_environment_comes_first_and_is_read_each_time() -> None:
    environment = {
        "AWS_ACCESS_KEY_ID": "a",
        "AWS_SECRET_ACCESS_KEY": "b",
        "AWS_SESSION_TOKEN": "",
        FULL: "http://localhost/x",
    }
    provider, endpoint = make_provider(**environment)
    assert provider.get() == Credentials("a", "b", None)
    provider.environment["AWS_SESSION_TOKEN"] = "c"  # type: ignore[index]
    assert provider.get() == Credentials("a", "b", "c")
    assert endpoint.asked == []


def test_the_container_is_asked_once_while_its_answer_lasts() -> None:
    provider, endpoint = make_provider(
        **{FULL: "http://169.254.170.23/v1", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "secret"}
    )
    assert provider.get() == provider.get() == Credentials("k1", "s", "t")
    assert endpoint.asked == [("http://169.254.170.23/v1", "secret")]
    endpoint.clock.sleep(55 * 60 - 1)
    assert provider.get().key == "k1", "they are renewed five minutes before they end"
    endpoint.clock.sleep(1)
    assert provider.get().key == "k2"


def test_what_is_held_is_used_to_its_end_if_it_cannot_be_renewed() -> None:
    provider, endpoint = make_provider(**{FULL: "http://127.0.0.1:9/v1"})
    provider.get()
    endpoint.fails = True
    endpoint.clock.sleep(60 * 60 - 1)
    assert provider.get().key == "k1"
    endpoint.clock.sleep(1)
    with pytest.raises(NoCredentials, match="nobody there"):
        provider.get()


def test_the_token_may_be_in_a_file_and_the_address_relative(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    file = {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token")}
    provider, endpoint = make_provider(AWS_CONTAINER_CREDENTIALS_RELATIVE_URI="/v2/x", **file)
    provider.get()
    assert endpoint.asked == [("http://169.254.170.2/v2/x", "from a file")]


def test_the_relative_address_comes_before_the_full_address() -> None:
    """So do the SDKs of AWS: a task of ECS has the relative address, whatever else its environment says."""
    provider, endpoint = make_provider(
        **{FULL: "http://localhost/v1", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI": "/v2/x"}
    )
    provider.get()
    assert endpoint.asked == [("http://169.254.170.2/v2/x", None)]


def test_a_file_with_the_token_comes_before_the_token(tmp_path: Path) -> None:
    """EKS renews the file; the variable stays as it was."""
    (tmp_path / "token").write_text("from a file")
    token = {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token")}
    provider, endpoint = make_provider(
        **{FULL: "http://localhost/v1", "AWS_CONTAINER_AUTHORIZATION_TOKEN": "old"}, **token
    )
    provider.get()
    assert endpoint.asked == [("http://localhost/v1", "from a file")]


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.170.2/v2",
        "http://169.254.170.23/v1/credentials",
        "http://[fd00:ec2::23]/v1/credentials",
        "http://localhost:1338/x",
        "http://127.0.0.1:9001/x",
        "http://[::1]:9001/x",
        "https://anywhere.example/x",
    ],
)
def test_the_container_is_asked_at_the_addresses_of_ecs_and_eks_and_over_tls_anywhere(url: str) -> None:
    provider, endpoint = make_provider(**{FULL: url})
    assert provider.get().key == "k1"
    assert endpoint.asked == [(url, None)]


@pytest.mark.parametrize(
    "change", [{"Token": None}, {"Expiration": "soon"}, {"Expiration": "2026-03-01T01:00:00"}], ids=str
)
def test_an_answer_that_is_no_credentials_is_an_error_that_says_so(change: dict[str, Any]) -> None:
    """Without a zone nobody knows when the credentials end."""
    provider, endpoint = make_provider()
    wrong = json.dumps(endpoint.make_answer() | change).encode()
    provider = Provider({FULL: "http://localhost/x"}, endpoint.clock.now, lambda *_: wrong)
    with pytest.raises(NoCredentials, match="gave no credentials"):
        provider.get()


@contextmanager
def answered_with(sent: bytes) -> Iterator[tuple[str, list[str]]]:
    """A container endpoint that answers a request with these bytes: its URL, and the lines of the request."""
    lines: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as file:
                while (line := file.readline().decode().strip()) != "":
                    lines.append(line)
                connection.sendall(sent)

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1", lines
        thread.join()


@pytest.mark.parametrize(("token", "sent"), [("secret", ["Authorization: secret"]), ("", [])])
def test_the_container_endpoint_is_asked_with_the_token(
    monkeypatch: pytest.MonkeyPatch, token: str, sent: list[str]
) -> None:
    body = json.dumps(Endpoint(FakeClock(NOW)).make_answer()).encode()
    with answered_with(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)) as (url, lines):
        for name, value in {FULL: url, "AWS_CONTAINER_AUTHORIZATION_TOKEN": token}.items():
            monkeypatch.setenv(name, value)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name, raising=False)
        assert Provider.of_process(lambda: NOW).get() == Credentials("k0", "s", "t")
    assert lines[0] == "GET /v1 HTTP/1.1"
    assert [line for line in lines if line.startswith("Authorization")] == sent


@pytest.mark.parametrize(
    "answer",
    [b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", b"SSH-2.0\r\n\r\n", b"", b"HTTP/1.1 403 x\r\n\r\nno"],
    ids=["half a body", "no HTTP", "nothing", "refused"],
)
def test_an_endpoint_that_does_not_answer_whole_gives_no_credentials(
    monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    with answered_with(answer) as (url, _):
        monkeypatch.setenv(FULL, url)
        with pytest.raises(NoCredentials, match="gave no credentials"):
            Provider.of_process(lambda: NOW).get()


@pytest.mark.parametrize(
    "environment",
    [{}, {FULL: "http://elsewhere.example/x"}, {"AWS_ACCESS_KEY_ID": "alone"}, {"AWS_SECRET_ACCESS_KEY": "alone"}],
)
def test_without_any_the_error_says_what_was_looked_for(environment: dict[str, str]) -> None:
    provider, endpoint = make_provider(**environment)
    with pytest.raises(NoCredentials):
        provider.get()
    assert endpoint.asked == []


def test_the_container_endpoint_is_waited_for_two_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is on the same machine. A function that waits longer has no time for its request."""
    waited: list[float] = []

    def urlopen(*_: Any, timeout: float) -> None:
        waited.append(timeout)
        raise TimeoutError("timed out")

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(FULL, "http://localhost/x")
    with pytest.raises(NoCredentials, match="timed out"):
        Provider.of_process(lambda: NOW).get()
    assert waited == [2.0]
