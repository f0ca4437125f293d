"""The engines that store the items behind the rules."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

import urllib3

from strict.refusals import Refusal

Document = dict[str, Any]


class Engine(Protocol):
    """An object that answers DynamoDB's operations in DynamoDB's JSON."""

    def call(self, operation: str, payload: Mapping[str, Any]) -> Document:
        """Answer an operation; Refusal if the engine refuses it."""
        ...


class HttpEngine:
    """An emulator over HTTP.

    ``unknown`` names members of requests that the emulator does not understand: they are left out.
    """

    def __init__(self, endpoint: str, *, unknown: frozenset[str] = frozenset()) -> None:
        self._endpoint = endpoint
        self._unknown = unknown
        self._pool = urllib3.PoolManager(maxsize=16, retries=False)

    def call(self, operation: str, payload: Mapping[str, Any]) -> Document:
        """Send the operation in one POST, and return the answer."""
        body = {name: value for name, value in payload.items() if name not in self._unknown}
        if operation == "UpdateTable":
            self._prune_indexes(body)
            if body.keys() == {"TableName"}:
                return {}
        answer = self._pool.request(
            "POST",
            self._endpoint,
            body=json.dumps(body).encode(),
            headers={
                "Content-Type": "application/x-amz-json-1.0",
                "X-Amz-Target": f"DynamoDB_20120810.{operation}",
                "Authorization": _AUTHORIZATION,
                "X-Amz-Date": "20260101T000000Z",
            },
        )
        document: Document = json.loads(answer.data) if answer.data else {}
        if answer.status != 200:
            kind = document.pop("__type", "InternalServerError").rpartition("#")[2]
            message = document.pop("message", document.pop("Message", ""))
            raise Refusal(kind, message, status=answer.status, members=document)
        return document

    def _prune_indexes(self, body: Document) -> None:
        """Drop those changes of indexes that the engine does not understand."""
        changes = []
        for change in body.pop("GlobalSecondaryIndexUpdates", ()):
            if "Update" not in change:
                changes.append(change)
                continue
            known = {name: value for name, value in change["Update"].items() if name not in self._unknown}
            if known.keys() != {"IndexName"}:
                changes.append({"Update": known})
        if changes:
            body["GlobalSecondaryIndexUpdates"] = changes


# Emulators read the access key and the Region in a signature, but do not check the signature.
_AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, "
    "SignedHeaders=host;x-amz-date;x-amz-target, Signature=0"
)

# DynamoDB Local has no table classes, tags, protection, warm throughput or maxima. The rules store these settings
# themselves.
LOCAL_UNKNOWN = frozenset(
    {"TableClass", "Tags", "DeletionProtectionEnabled", "WarmThroughput", "OnDemandThroughput", "SSESpecification"}
)
