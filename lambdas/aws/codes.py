"""The error codes of DynamoDB that the adapters handle."""

from __future__ import annotations

COLLECTION_FULL = "ItemCollectionSizeLimitExceededException"
CONDITION_FAILED = "ConditionalCheckFailedException"
NOT_FOUND = "ResourceNotFoundException"
THROTTLED = frozenset({"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"})
TRANSACTION_CANCELED = "TransactionCanceledException"
