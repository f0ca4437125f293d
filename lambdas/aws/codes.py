"""The codes of DynamoDB's refusals that are told apart."""

from __future__ import annotations

CONDITION_FAILED = "ConditionalCheckFailedException"
NOT_FOUND = "ResourceNotFoundException"
THROTTLED = frozenset({"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"})
TRANSACTION_CANCELED = "TransactionCanceledException"
