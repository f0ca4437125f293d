"""Reading over the lean client: what gives no answer is asked again, as reading changes nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from aws.codes import NOT_FOUND, THROTTLED
from aws.lean.client import LeanClient, NoAnswer, Refused, Reply, Request
from tidetable.errors import StoreUnavailable, TableMissing

_ATTEMPTS = 3
_FIRST_PAUSE = 0.05
_PASSING = THROTTLED | {"InternalServerError", "ServiceUnavailable", "HTTP 500", "HTTP 502", "HTTP 503"}


def read(client: LeanClient, operation: str, body: dict[str, Any], table: str) -> bytes:
    """The answer to a read; TableMissing, or StoreUnavailable once it has been tried a few times with full jitter."""
    (reply,) = read_all(client, [Request(operation, msgspec.json.encode(body))])
    return cast("bytes", answered(reply, table))


def read_all(client: LeanClient, requests: Sequence[Request]) -> list[Reply]:
    """The replies to reads that are under way at once; what passes is asked again a few times, with full jitter."""
    replies = client.call_all(requests)
    for attempt in range(_ATTEMPTS - 1):
        again = [number for number, reply in enumerate(replies) if _passes(reply)]
        if not again:
            break
        time.sleep(random.uniform(0, _FIRST_PAUSE * 2**attempt))  # noqa: S311 - spreading retries needs no secrecy
        for number, reply in zip(again, client.call_all([requests[number] for number in again]), strict=True):
            replies[number] = reply
    return replies


def _passes(reply: Reply) -> bool:
    """Whether the same request may be served later."""
    return isinstance(reply, NoAnswer) or (isinstance(reply, Refused) and reply.code in _PASSING)


def answered(reply: Reply, table: str) -> Any:
    """What was made of an answer, or its body; TableMissing or StoreUnavailable for what is none."""
    if isinstance(reply, NoAnswer):
        raise StoreUnavailable("no answer", reply.why)
    if not isinstance(reply, Refused):
        return reply
    if reply.code == NOT_FOUND:
        raise TableMissing(table)
    raise StoreUnavailable(reply.code, reply.message)
