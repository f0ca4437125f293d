"""The codes of DynamoDB's refusals that the code distinguishes."""

from __future__ import annotations

COLLECTION_FULL = "ItemCollectionSizeLimitExceededException"
CONDITION_FAILED = "ConditionalCheckFailedException"
NOT_FOUND = "ResourceNotFoundException"
THROTTLED = frozenset({"ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded"})
TRANSACTION_CANCELED = "TransactionCanceledException"
