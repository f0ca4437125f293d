"""The service's error answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ARN = "arn:aws:dynamodb:us-east-1:000000000000:table/"


# The only error of an action that this double finds is its item's size.
TOO_LARGE = "Item size has exceeded the maximum allowed size"
_EXPLAINED = {"ValidationError": {"Message": TOO_LARGE}}


class Refusal(Exception):
    """An error answer: its code, its message, its HTTP status and its further members."""

    def __init__(self, code: str, message: str, *, status: int = 400, members: Mapping[str, Any] | None = None) -> None:
        self.code = code
        self.message = message
        self.status = status
        self.members = dict(members or {})
        super().__init__(f"{code}: {message}")

    def document(self) -> dict[str, Any]:
        """Return the body of the HTTP answer."""
        kind = "com.amazon.coral.service#" if self.status >= 500 else "com.amazonaws.dynamodb.v20120810#"
        return {"__type": kind + self.code, "message": self.message, **self.members}


def refuse_invalid(message: str) -> Refusal:
    """Make a ValidationException."""
    return Refusal("ValidationException", message)


def refuse_in_use(message: str) -> Refusal:
    """Make a ResourceInUseException."""
    return Refusal("ResourceInUseException", message)


def refuse_over_limit(message: str) -> Refusal:
    """Make a LimitExceededException."""
    return Refusal("LimitExceededException", message)


def refuse_full_collection() -> Refusal:
    """Make an ItemCollectionSizeLimitExceededException: a table with local indexes has a limit for each partition key."""
    return Refusal(
        "ItemCollectionSizeLimitExceededException",
        "Item collection size limit exceeded: an item collection holds 10 GB at most",
    )


def refuse_missing_table(table: str) -> Refusal:
    """Make a ResourceNotFoundException for a table."""
    return Refusal("ResourceNotFoundException", f"Requested resource not found: Table: {table} not found")


def refuse_transaction(codes: Sequence[str], messages: Mapping[int, str] | None = None) -> Refusal:
    """Make a TransactionCanceledException; ``codes`` has the reason of each action, in order.

    ``messages`` has the messages of actions by their number. Without one, a ValidationError is about the item's size.
    """
    own = {number: {"Message": message} for number, message in (messages or {}).items()}
    return Refusal(
        "TransactionCanceledException",
        f"Transaction cancelled, please refer cancellation reasons for specific reasons [{', '.join(codes)}]",
        members={
            "CancellationReasons": [
                {"Code": code, **own.get(number, _EXPLAINED.get(code, {}))} for number, code in enumerate(codes)
            ]
        },
    )


def refuse_throttled(reasons: Sequence[tuple[str, str]]) -> Refusal:
    """Make the refusal of a throttled request.

    ``reasons`` are pairs of a reason and the name of a resource (``table`` or ``table/index/name``).
    """
    documents = [{"reason": reason, "resource": ARN + resource} for reason, resource in reasons]
    return Refusal(
        "ProvisionedThroughputExceededException",
        "The level of configured provisioned throughput for one or more global secondary indexes of the table, or for the "
        "table itself, was exceeded. Consider increasing your provisioning level with the UpdateTable API.",
        members={"ThrottlingReasons": documents},
    )
