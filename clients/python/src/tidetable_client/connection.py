"""Requests and answers for both clients: addresses, headers, credentials. This module does not open connections."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from tidetable_client.answers import Later, Rejected, Verdict, judge_write
from tidetable_client.outbox import Batch

# The API may write for 15 seconds and then put events into the queue; the gateway ends a request after 29 seconds.
TIMEOUT = httpx.Timeout(35.0, connect=10.0)


def _read_version() -> str:
    try:
        return version("tidetable-client")
    except PackageNotFoundError:
        return "0"


@dataclass(frozen=True)
class Connection:
    """The address of the API, and the credentials of its caller."""

    url: str
    headers: Mapping[str, str] = field(repr=False)
    auth: httpx.Auth | None = field(default=None, repr=False)

    @classmethod
    def of(
        cls, url: str, key: str | None, *, bearer: bool = False, sigv4: bool = False, region: str | None = None
    ) -> Connection:
        """Make a connection with an API key or with AWS credentials. ValueError says what is wrong."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address: use the output ApiUrl, such as https://abc.execute-api...")
        if key and sigv4:
            raise ValueError("use either key or sigv4")
        headers = {"User-Agent": f"tidetable-client/{_read_version()}"}
        auth: httpx.Auth | None = None
        if sigv4:
            from tidetable_client.sigv4 import SigV4

            auth = SigV4(region)
        elif key:
            if not key.isascii() or not key.isprintable() or " " in key:
                raise ValueError("the key has characters that no key has: copy it again")
            headers |= {"Authorization": f"Bearer {key}"} if bearer else {"x-api-key": key}
        return cls(url.rstrip("/"), headers, auth)

    def describe_batch(self, batch: Batch) -> dict[str, Any]:
        """Describe the request that sends a batch, for httpx. The same batch gives the same body, byte for byte."""
        return {
            "method": "POST",
            "url": self.find_address(batch.stream, "events"),
            "content": gzip.compress(b"\n".join(batch.lines), 6, mtime=0),
            # There is no Content-Encoding: with it the gateway would decompress the body, and pass on more bytes.
            "headers": {"Content-Type": "application/x-ndjson"},
        }

    def find_address(self, stream: str, *route: str) -> str:
        """Find the address of a stream's route."""
        path = "/".join(quote(part, safe="") for part in (stream, *route))
        return f"{self.url}/v1/streams/{path}"


def judge_response(response: httpx.Response, batch: Batch, now: datetime) -> Verdict:
    """Judge a complete answer to a batch."""
    return judge_write(response.status_code, response.headers, response.content, len(batch.lines), now)


def judge_error(error: Exception) -> Verdict:
    """Judge a request without an answer.

    A network error may end, so the request is repeated. Any other error, such as missing AWS credentials, would come
    again, so it is reported at once.
    """
    if isinstance(error, httpx.TransportError | httpx.DecodingError) and not isinstance(
        error, httpx.UnsupportedProtocol
    ):
        return Later(f"no answer: {type(error).__name__}: {error}")
    return Rejected(0, "not_sent", f"the request could not be made: {type(error).__name__}: {error}")


def flatten(parameters: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Convert parameters to pairs for the query string: a list becomes several pairs with the same name, None is left
    out. With ``tz``, a datetime may have no offset: it is a local time of that zone.
    """
    local = parameters.get("tz") is not None
    return [(name, text) for name, value in parameters.items() for text in _format_values(name, value, local=local)]


def _format_values(name: str, value: Any, *, local: bool) -> Iterable[str]:
    if value is None:
        return []
    if isinstance(value, bool):
        return ["true" if value else "false"]
    if isinstance(value, datetime):
        if value.tzinfo is None and not local:
            raise ValueError(f"{name}={value.isoformat()} has no offset: use datetime.now(UTC), or add tz")
        return [value.isoformat()]
    if isinstance(value, list | tuple | set | frozenset):
        return [text for inner in value for text in _format_values(name, inner, local=local)]
    return [str(value)]
