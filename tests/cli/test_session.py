"""The command line's own requests to DynamoDB: boto3's endpoint and certificates, and the session's credentials."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import SSOTokenLoadError

from aws.http.client import NoAnswer
from aws.http.credentials import Credentials, NoCredentials
from aws.http.roots import ROOTS_FILE
from cli.account import find_credentials, make_lean_client

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)


@pytest.fixture
def profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Write the profile ``p`` with these lines, and make its session and its client of DynamoDB."""
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE",
                 "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):  # fmt: skip
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")

    def make(*lines: str) -> Any:
        (tmp_path / "config").write_text("\n".join(("[profile p]", "region = eu-west-1", *lines)))
        session = boto3.Session(profile_name="p")
        return session, session.client("dynamodb")

    return make


@pytest.mark.parametrize(
    ("line", "host"),
    [
        ("output = json", "dynamodb.eu-west-1.amazonaws.com"),
        ("use_dualstack_endpoint = true", "dynamodb.eu-west-1.api.aws"),
        ("use_fips_endpoint = true", "dynamodb-fips.eu-west-1.amazonaws.com"),
        ("endpoint_url = https://tables.example:8443", "tables.example:8443"),
        ("services = own\n[services own]\ndynamodb =\n  endpoint_url = https://own.example", "own.example"),
    ],
)
def test_the_endpoint_is_that_of_the_profile(profile: Any, line: str, host: str) -> None:
    client = make_lean_client(*profile(line))
    assert f"\r\nHost: {host}\r\n".encode() in client._head


def test_the_certificates_are_those_of_the_profile(profile: Any, tmp_path: Path) -> None:
    end = "-----END CERTIFICATE-----\n"
    (tmp_path / "own.pem").write_text(ROOTS_FILE.read_text().split(end)[0] + end)
    context = make_lean_client(*profile(f"ca_bundle = {tmp_path / 'own.pem'}"))._context
    assert context is not None
    assert len(context.get_ca_certs()) == 1


def test_a_proxy_of_the_environment_is_used(profile: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    session, dynamodb = profile()
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert make_lean_client(session, dynamodb)._proxy == "http://127.0.0.1:9"


def test_the_keys_of_a_profile_are_used(profile: Any) -> None:
    session, _ = profile("aws_access_key_id = a", "aws_secret_access_key = b", "aws_session_token = c")
    assert find_credentials(session) == Credentials("a", "b", "c")


def test_the_credentials_of_a_role_are_renewed_before_a_request(profile: Any) -> None:
    session, dynamodb = profile()
    numbers = iter(range(1, 9))

    def renew() -> dict[str, str]:
        # boto3 renews credentials that end within 15 minutes.
        end = (NOW + timedelta(minutes=1)).isoformat()
        return {"access_key": f"a{next(numbers)}", "secret_key": "b", "token": "c", "expiry_time": end}

    session._session._credentials = RefreshableCredentials(
        "a0", "b", "c", NOW + timedelta(minutes=1), renew, "a role", time_fetcher=lambda: NOW
    )
    assert [find_credentials(session), find_credentials(session)] == [
        Credentials("a1", "b", "c"),
        Credentials("a2", "b", "c"),
    ]
    assert make_lean_client(session, dynamodb)._credentials().key == "a3"


def test_without_credentials_no_request_is_sent_and_the_reason_is_named(profile: Any) -> None:
    session, dynamodb = profile()
    reply = make_lean_client(session, dynamodb).call("Query", b"{}")
    assert reply == NoAnswer("there are no AWS credentials: set them in the environment, or add --profile")


@pytest.mark.parametrize("error", [SSOTokenLoadError(error_msg="sign in again"), RuntimeError("sign in again")])
def test_a_sign_in_that_has_ended_is_named(error: Exception) -> None:
    class Session:
        def get_credentials(self) -> Any:
            raise error

    with pytest.raises(NoCredentials, match="sign in again"):
        find_credentials(Session())
