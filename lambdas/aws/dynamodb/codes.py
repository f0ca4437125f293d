"""The error codes of DynamoDB that the adapters handle. Each code is written here only."""

from __future__ import annotations

from tidetable.errors import Outage

COLLECTION_FULL = "ItemCollectionSizeLimitExceededException"
CONDITION_FAILED = "ConditionalCheckFailedException"
# DynamoDB refuses a request because of what is in it, for example an item that is too large. It would refuse the same
# request again.
INVALID = frozenset({"ValidationException", "SerializationException"})
INTERNAL = "InternalServerError"
NOT_FOUND = "ResourceNotFoundException"
TRANSACTION_CANCELED = "TransactionCanceledException"
THROTTLING = "ThrottlingException"
# Requests of the control plane are refused with these codes, reads and writes with any of ``THROTTLED``.
RATE_LIMITED = frozenset({THROTTLING, "RequestLimitExceeded"})
THROTTLED = RATE_LIMITED | {"ProvisionedThroughputExceededException"}
BROKEN = frozenset(
    {INTERNAL, "InternalFailure", "ServiceUnavailable", "ServiceUnavailableException"}
    | {f"HTTP {status}" for status in (500, 502, 503, 504)}
)
# This project's own code for a request that got only partial replies in all rounds: the table's units did not suffice.
UNPROCESSED = "throttled"


def find_outage(code: str) -> Outage:
    """Find the cause of a refusal with this code."""
    return Outage.THROTTLED if code in THROTTLED or code == UNPROCESSED else Outage.OTHER
