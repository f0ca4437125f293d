"""The credentials of a Lambda function: from the environment or, under SnapStart, from the container endpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, NamedTuple
from urllib.parse import urlsplit

import msgspec

# Credentials are renewed this long before they expire, as AWS's own clients do.
_EARLY = timedelta(minutes=5)
_SECONDS = 2.0
_RELATIVE = "http://169.254.170.2"
# The hosts that a container endpoint without TLS may have: the addresses of ECS and EKS, and loopback addresses.
_KNOWN = frozenset({"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "localhost", "127.0.0.1", "::1"})


class NoCredentials(Exception):
    """There are no credentials to sign requests with."""


class Credentials(NamedTuple):
    """An access key, its secret and, for a role, its session token."""

    key: str
    secret: str
    token: str | None = None


# Returns credentials that are valid now; NoCredentials if there are none.
CredentialSource = Callable[[], Credentials]


class _Answer(msgspec.Struct, rename="pascal"):
    access_key_id: str
    secret_access_key: str
    token: str
    # AWS sends UTC. Without a zone the end could not be compared with the clock.
    expiration: Annotated[datetime, msgspec.Meta(tz=True)]


class Provider(msgspec.Struct):
    """Finds credentials and keeps them while they are valid. ``fetch`` reads a URL with an authorization header."""

    environment: Mapping[str, str]
    now: Callable[[], datetime]
    fetch: Callable[[str, str | None], bytes]
    _current: tuple[Credentials, datetime] | None = None

    @classmethod
    def of_process(cls, now: Callable[[], datetime]) -> Provider:
        """Return the provider of this process."""
        return cls(os.environ, now, _read_url)

    def get(self) -> Credentials:
        """Return the credentials; the message of NoCredentials names the places that were searched."""
        variables = self.environment
        key, secret = variables.get("AWS_ACCESS_KEY_ID"), variables.get("AWS_SECRET_ACCESS_KEY")
        if key and secret:
            return Credentials(key, secret, variables.get("AWS_SESSION_TOKEN") or None)
        if self._current is not None and self.now() < self._current[1] - _EARLY:
            return self._current[0]
        try:
            self._current = self._from_container()
        except (OSError, ValueError) as error:
            # The present credentials may still be valid for some minutes.
            if self._current is None or self.now() >= self._current[1]:
                raise NoCredentials(f"the container endpoint gave no credentials: {error}") from error
        return self._current[0]

    def _from_container(self) -> tuple[Credentials, datetime]:
        variables = self.environment
        # As in the SDKs of AWS, the full address is used only if there is no relative address.
        url = variables.get("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        if "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI" in variables:
            url = _RELATIVE + variables["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"]
        if url is None:
            raise ValueError("neither AWS_ACCESS_KEY_ID nor AWS_CONTAINER_CREDENTIALS_FULL_URI is set")
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _KNOWN:
            raise ValueError(f"{parts.hostname} is not an address of a container's credentials")
        token = variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN")
        if "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE" in variables:
            token = Path(variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]).read_text(encoding="utf-8").strip()
        answer = msgspec.json.decode(self.fetch(url, token), type=_Answer)
        return Credentials(answer.access_key_id, answer.secret_access_key, answer.token), answer.expiration


def _read_url(url: str, token: str | None) -> bytes:
    # Only a function without credentials in its environment needs this import.
    import urllib.request
    from http.client import HTTPException

    headers = {"Authorization": token} if token else {}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - an address that was checked
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            body: bytes = answer.read()
    except HTTPException as error:
        # Callers handle OSError only. urllib raises HTTPException, which is not an OSError, if the answer is
        # incomplete.
        raise OSError(f"the answer cannot be read: {error}") from error
    return body
