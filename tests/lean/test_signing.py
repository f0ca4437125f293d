"""Signatures equal botocore's for any body, target, day and credentials."""

from datetime import UTC, datetime
from typing import Any
from unittest import mock

import botocore.auth
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials as TheirCredentials
from hypothesis import given, settings
from hypothesis import strategies as st

from aws.http.credentials import Credentials
from aws.http.signing import CONTENT_TYPE, Signer

HOSTS = ["dynamodb.eu-west-1.amazonaws.com", "127.0.0.1:8000"]
names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=30)
moments = st.datetimes(datetime(2001, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - bounds


def theirs(host: str, target: str, body: bytes, now: datetime, credentials: Credentials) -> Any:
    headers = {"Content-Type": CONTENT_TYPE, "X-Amz-Target": target, "Host": host}
    request = AWSRequest("POST", f"https://{host}/", data=body, headers=headers)
    with mock.patch.object(botocore.auth, "get_current_datetime", return_value=now.replace(tzinfo=None)):
        SigV4Auth(TheirCredentials(*credentials), "dynamodb", "eu-west-1").add_auth(request)
    return request.headers["Authorization"]


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from(HOSTS),
    st.sampled_from(["Query", "BatchWriteItem"]),
    st.binary(max_size=60),
    moments,
    names,
    names,
    st.none() | names,
)
def test_every_signature_is_botocores(
    host: str, operation: str, body: bytes, now: datetime, key: str, secret: str, token: str | None
) -> None:
    target = f"DynamoDB_20120810.{operation}"
    credentials = Credentials(key, secret, token)
    signer = Signer(host, "eu-west-1")
    ours = signer.make_headers(target, body, now, credentials).decode()
    assert f"Authorization: {theirs(host, target, body, now, credentials)}\r\n" in ours
    assert (token is not None) == ("X-Amz-Security-Token" in ours)


@pytest.mark.parametrize("change", ["day", "credentials"])
def test_a_signer_that_has_signed_before_signs_anew_for_another(change: str) -> None:
    signer, host = Signer(HOSTS[0], "eu-west-1"), HOSTS[0]
    now, credentials = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC), Credentials("k", "s")
    signer.make_headers("T", b"", now, credentials)
    if change == "day":
        now = datetime(2026, 3, 2, tzinfo=UTC)
    else:
        credentials = Credentials("k2", "s2", "t2")
    assert theirs(host, "T", b"", now, credentials) in signer.make_headers("T", b"", now, credentials).decode()


def test_threads_on_both_sides_of_midnight_sign_each_for_its_own_day() -> None:
    """While a thread compares the key that it found, another thread derives the key of the next day."""
    signer, host = Signer(HOSTS[0], "eu-west-1"), HOSTS[0]
    now, after = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)

    class Secret(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            signer.make_headers("T", b"", after, Credentials("k", "s"))
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    signer.make_headers("T", b"", now, Credentials("k", "s"))
    ours = signer.make_headers("T", b"", now, Credentials("k", Secret("s"))).decode()
    assert theirs(host, "T", b"", now, Credentials("k", "s")) in ours
