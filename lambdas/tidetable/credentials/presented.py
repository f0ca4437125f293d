"""The key that a request presents, in any of the places where clients can put one."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence

# Amazon Data Firehose, "Understand HTTP endpoint delivery request and response specifications": the access key of the
# endpoint is in this header.
_HEADERS = ("x-api-key", "x-amz-firehose-access-key")
# InfluxDB 2 and 3 clients write Token; OAuth's word is Bearer.
_SCHEMES = ("bearer", "token")
# InfluxDB 1 takes the user and the password as parameters of this route.
INFLUX_WRITE = "/write"


def find_key_texts(
    headers: Mapping[str, Sequence[str]], parameters: Mapping[str, Sequence[str]], resource: str
) -> set[str]:
    """Find the texts of all keys that a request presents. The same key may be in several places."""
    texts: set[str] = set()
    for name, values in headers.items():
        lower = name.lower()
        if lower in _HEADERS:
            texts.update(value.strip() for value in values)
        elif lower == "authorization":
            texts.update(_read_authorization(values))
    if resource == INFLUX_WRITE:
        texts.update(value.strip() for value in parameters.get("p", ()))
    return texts - {""}


def _read_authorization(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        scheme, _, rest = value.strip().partition(" ")
        if scheme.lower() in _SCHEMES:
            yield rest.strip()
        elif scheme.lower() == "basic":
            yield _read_password(rest.strip())


def _read_password(encoded: str) -> str:
    """Return the password of Basic credentials, or the user's name if it is empty; empty if they cannot be read."""
    try:
        user, _, password = b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        return ""
    return password or user
