"""Reading over the lean client: what gives no answer is asked again, as reading changes nothing."""

from __future__ import annotations

import random
import time
from typing import Any

import msgspec

from aws.codes import NOT_FOUND, THROTTLED
from aws.lean.client import LeanClient, NoAnswer, Reply
from tidetable.errors import StoreUnavailable, TableMissing

_ATTEMPTS = 3
_FIRST_PAUSE = 0.05
_PASSING = THROTTLED | {"InternalServerError", "ServiceUnavailable", "HTTP 500", "HTTP 502", "HTTP 503"}


def read(client: LeanClient, operation: str, body: dict[str, Any], table: str) -> bytes:
    """The answer to a read; TableMissing, or StoreUnavailable once it has been tried a few times with full jitter."""
    encoded = msgspec.json.encode(body)
    for attempt in range(_ATTEMPTS):
        reply = client.call(operation, encoded)
        passing = isinstance(reply, NoAnswer) or (not isinstance(reply, bytes) and reply.code in _PASSING)
        if not passing:
            break
        if attempt < _ATTEMPTS - 1:
            time.sleep(random.uniform(0, _FIRST_PAUSE * 2**attempt))  # noqa: S311 - spreading retries needs no secrecy
    return body_of(reply, table)


def body_of(reply: Reply, table: str) -> bytes:
    """The body of an answer; TableMissing or StoreUnavailable for what is none."""
    if isinstance(reply, bytes):
        return reply
    if isinstance(reply, NoAnswer):
        raise StoreUnavailable("no answer", reply.why)
    if reply.code == NOT_FOUND:
        raise TableMissing(table)
    raise StoreUnavailable(reply.code, reply.message)
