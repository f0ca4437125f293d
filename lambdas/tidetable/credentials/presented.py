"""The key that a request presents, in any of the places where clients can put one."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

# Amazon Data Firehose, "Understand HTTP endpoint delivery request and response specifications": the access key of the
# endpoint is in this header.
_HEADERS = ("x-api-key", "x-amz-firehose-access-key")
# InfluxDB 2 and 3 clients write Token; OAuth's word is Bearer.
_SCHEMES = ("bearer", "token")
# InfluxDB 1 takes the user and the password as parameters of this route.
INFLUX_WRITE = "/write"


class Presented(NamedTuple):
    """The text of a request's key, or the reason why the request has no usable key."""

    text: str = ""
    problem: Literal["", "no key", "two keys"] = ""


def read_presented(
    headers: Mapping[str, Sequence[str]], parameters: Mapping[str, Sequence[str]], resource: str
) -> Presented:
    """Return the only key of a request. The same key may be in several places; two different keys are refused.

    If two keys were accepted, a hidden order would decide which of them counts, and which of them is in the log.
    """
    texts = {text for text in _read_texts(headers, parameters, resource) if text}
    if not texts:
        return Presented(problem="no key")
    if len(texts) > 1:
        return Presented(problem="two keys")
    return Presented(texts.pop())


def _read_texts(
    headers: Mapping[str, Sequence[str]], parameters: Mapping[str, Sequence[str]], resource: str
) -> Iterator[str]:
    for name, values in headers.items():
        lower = name.lower()
        if lower in _HEADERS:
            yield from (value.strip() for value in values)
        elif lower == "authorization":
            yield from _read_authorization(values)
    if resource == INFLUX_WRITE:
        yield from (value.strip() for value in parameters.get("p", ()))


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
