"""Credentials: from the environment, or from the container's endpoint and renewed in time."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from aws.lean.credentials import Credentials, NoCredentials, Provider
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
        until = self.clock.now() + timedelta(hours=1)
        answer = {
            "AccessKeyId": f"k{len(self.asked)}",
            "SecretAccessKey": "s",
            "Token": "t",
            "Expiration": until.isoformat(),
        }
        return json.dumps(answer | {"RoleArn": "arn"}).encode()


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
    endpoint.clock.sleep(56 * 60)
    assert provider.get().key == "k2"


def test_what_is_held_is_used_to_its_end_if_it_cannot_be_renewed() -> None:
    provider, endpoint = make_provider(**{FULL: "http://127.0.0.1:9/v1"})
    provider.get()
    endpoint.fails = True
    endpoint.clock.sleep(57 * 60)
    assert provider.get().key == "k1"
    endpoint.clock.sleep(4 * 60)
    with pytest.raises(NoCredentials, match="nobody there"):
        provider.get()


def test_the_token_may_be_in_a_file_and_the_address_relative(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from a file\n")
    file = {"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(tmp_path / "token")}
    provider, endpoint = make_provider(AWS_CONTAINER_CREDENTIALS_RELATIVE_URI="/v2/x", **file)
    provider.get()
    assert endpoint.asked == [("http://169.254.170.2/v2/x", "from a file")]


@pytest.mark.parametrize("environment", [{}, {FULL: "http://elsewhere.example/x"}, {"AWS_ACCESS_KEY_ID": "alone"}])
def test_without_any_the_error_says_what_was_looked_for(environment: dict[str, str]) -> None:
    provider, endpoint = make_provider(**environment)
    with pytest.raises(NoCredentials):
        provider.get()
    assert endpoint.asked == []
