"""Reads, and changes that may be repeated, over the lean client: what gets no answer is sent again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec

from aws.dynamodb.answers import GET_ANSWER, read_reasons
from aws.dynamodb.codes import (
    BROKEN,
    CONDITION_FAILED,
    NOT_FOUND,
    THROTTLED,
    TRANSACTION_CANCELED,
    UNPROCESSED,
    find_outage,
)
from aws.dynamodb.wire import decode_item
from aws.http.client import LeanClient, NoAnswer, Reply, RequestRefused, ServiceRequest
from tidetable.errors import Outage, StoreUnavailable, TableMissing
from tidetable.events import Item
from tidetable.layout import Key

_ATTEMPTS = 3
# BatchGetItem answers at most 16 MB, and leaves out keys for which the table's units did not suffice. This is not a
# failure.
ROUNDS = 8
# Seconds. Each later pause may be twice as long.
FIRST_PAUSE = 0.05


def read_all(client: LeanClient, requests: Sequence[ServiceRequest], rounds: int = _ATTEMPTS) -> list[Reply]:
    """Send several requests at once. Requests whose failure may pass are repeated a few times, with full jitter.

    More than three ``rounds`` are for requests that are throttled and for which no caller waits.
    """
    replies: list[Reply] = [NoAnswer("not sent")] * len(requests)
    for number, reply in _collect_replies(client, requests, lambda _: None, rounds):
        replies[number] = reply
    return replies


def read_whole(
    client: LeanClient, requests: Sequence[ServiceRequest], rest: Callable[[Any], ServiceRequest | None]
) -> Iterator[Reply]:
    """Read answers that may be partial: ``rest`` makes the request for the remainder. Replies come in any order.

    The last reply is a Refused if something is still unread after all rounds.
    """
    return (reply for _, reply in _collect_replies(client, requests, rest, ROUNDS))


def _collect_replies(
    client: LeanClient, requests: Sequence[ServiceRequest], rest: Callable[[Any], ServiceRequest | None], rounds: int
) -> Iterator[tuple[int, Reply]]:
    """Yield final replies with the numbers of their requests; only failures and remainders are sent again."""
    waiting = [(number, request, 0) for number, request in enumerate(requests)]
    for turn in range(1, rounds + 1):
        replies = client.call_all([request for _, request, _ in waiting])
        again: list[tuple[int, ServiceRequest, int]] = []
        for (number, request, failures), reply in zip(waiting, replies, strict=True):
            if isinstance(reply, NoAnswer | RequestRefused):
                # A throttled table answers at once. A broken table may take a time-out per attempt: it gets fewer.
                most = rounds if is_throttled(reply) or _is_conflict(reply) else _ATTEMPTS
                if _is_temporary(reply) and turn < rounds and failures + 1 < most:
                    again.append((number, request, failures + 1))
                else:
                    yield number, reply
                continue
            yield number, reply
            remainder = rest(reply)
            if remainder is not None and turn == rounds:
                yield number, RequestRefused(UNPROCESSED, f"after {rounds} rounds something is still unprocessed", b"")
            elif remainder is not None:
                again.append((number, remainder, failures))
        if not again:
            return
        waiting = again
        client.pause(FIRST_PAUSE * 2 ** (turn - 1))


def read_item(client: LeanClient, table: str, key: Key, **options: bool) -> Item | None:
    """Read an item by one GetItem with these options; None if there is no item."""
    body = {"TableName": table, "Key": {"pk": {"S": key.pk}, "sk": {"S": key.sk}}, **options}
    (reply,) = read_all(client, [ServiceRequest("GetItem", msgspec.json.encode(body), GET_ANSWER)])
    item = decode_answer(reply, table).Item
    return None if item is None else decode_item(item)


def make_range_body(table: str, pk: str, low: str, high: str, *, consistent: bool) -> dict[str, Any]:
    """The body of a Query for the items of a partition whose sort keys lie between two texts."""
    return {
        "TableName": table,
        "KeyConditionExpression": "pk = :pk AND sk BETWEEN :low AND :high",
        "ExpressionAttributeValues": {":pk": {"S": pk}, ":low": {"S": low}, ":high": {"S": high}},
        "ConsistentRead": consistent,
    }


def read_pages(
    client: LeanClient, body: dict[str, Any], decode: Callable[[bytes], Any], first: Any = None
) -> Iterator[Any]:
    """Read the pages of a Query to the end, one request per page. ``first`` is the first page, if it was read before."""
    page = first
    while page is None or page.LastEvaluatedKey is not None:
        more = {} if page is None else {"ExclusiveStartKey": page.LastEvaluatedKey}
        (reply,) = read_all(client, [ServiceRequest("Query", msgspec.json.encode(body | more), decode)])
        page = decode_answer(reply, body["TableName"])
        yield page


def is_throttled(reply: Reply) -> bool:
    """True if DynamoDB refused a request because of its rate."""
    return isinstance(reply, RequestRefused) and reply.code in THROTTLED


def _is_temporary(reply: NoAnswer | RequestRefused) -> bool:
    """True if the same request may succeed later."""
    return isinstance(reply, NoAnswer) or reply.code in THROTTLED | BROKEN or _is_conflict(reply)


def _is_conflict(reply: Reply) -> bool:
    """True if another transaction was writing an item of this transaction, and no condition failed."""
    if not isinstance(reply, RequestRefused) or reply.code != TRANSACTION_CANCELED:
        return False
    codes = {reason.Code for reason in read_reasons(reply).CancellationReasons}
    return "TransactionConflict" in codes and CONDITION_FAILED.removesuffix("Exception") not in codes


def decode_answer(reply: Reply, table: str) -> Any:
    """Return the decoded answer, or its body; TableMissing or StoreUnavailable after a refusal or without an answer."""
    if isinstance(reply, NoAnswer):
        raise StoreUnavailable(Outage.NO_ANSWER, reply.why)
    if not isinstance(reply, RequestRefused):
        return reply
    if reply.code == NOT_FOUND:
        raise TableMissing(table)
    raise StoreUnavailable(find_outage(reply.code), reply.message, reply.code)


def is_made(reply: Reply, table: str) -> bool:
    """True if DynamoDB made a change; False if its condition, or a condition of its transaction, did not hold."""
    if isinstance(reply, RequestRefused):
        if reply.code == CONDITION_FAILED:
            return False
        if reply.code == TRANSACTION_CANCELED:
            codes = [reason.Code for reason in read_reasons(reply).CancellationReasons]
            if CONDITION_FAILED.removesuffix("Exception") in codes:
                return False
    decode_answer(reply, table)
    return True
