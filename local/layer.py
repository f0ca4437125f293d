"""The layer before DynamoDB Local: it keeps the settings of a table that the engine does not have."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3

Document = dict[str, Any]
JSON_TYPE = "application/x-amz-json-1.0"
# The engine reads the access key and the Region in a signature, but does not check the signature.
_AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/dynamodb/aws4_request, SignedHeaders=host, Signature=0"
)
_UNKNOWN = (
    "Tags",
    "TableClass",
    "DeletionProtectionEnabled",
    "SSESpecification",
    "WarmThroughput",
    "OnDemandThroughput",
)


class Refused(Exception):
    """An error to answer, as a document in DynamoDB's form."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.document = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}


@dataclass
class Facts:
    """The settings of a table. ``described`` holds members of the table's description, by their names."""

    tags: dict[str, str] = field(default_factory=dict)
    described: Document = field(default_factory=dict)
    recovery: bool = False


class Layer:
    """The operations of DynamoDB. ``origin`` is a file with the emulator's address; the file may be written later."""

    def __init__(self, engine: str, origin: Path | None = None) -> None:
        self._engine = engine
        self._origin = origin
        self._facts: dict[str, Facts] = {}
        self._lock = threading.RLock()
        self._pool = urllib3.PoolManager(maxsize=64, retries=False)
        self._own = {
            "CreateTable": self._create_table,
            "DescribeTable": lambda payload: self._describe_fully("DescribeTable", payload),
            "UpdateTable": self._update_table,
            "DeleteTable": self._delete_table,
            "TagResource": self._tag_table,
            "UntagResource": self._untag_table,
            "ListTagsOfResource": self._read_tags,
            "UpdateContinuousBackups": self._answer_recovery,
            "DescribeContinuousBackups": self._answer_recovery,
        }

    def answer(self, operation: str, body: bytes) -> tuple[int, bytes]:
        """Answer an operation with a status and a body."""
        own = self._own.get(operation)
        if own is None:
            return self._forward_request(operation, body)
        try:
            with self._lock:
                return 200, json.dumps(own(json.loads(body))).encode()
        except Refused as refused:
            return 400, json.dumps(refused.document).encode()

    def _forward_request(self, operation: str, body: bytes) -> tuple[int, bytes]:
        status, answer = self._send_request(self._engine, operation, body)
        if status == 400 and b"ResourceNotFoundException" in answer and self._adopt_tables(json.loads(body)):
            status, answer = self._send_request(self._engine, operation, body)
        return status, answer

    def _call_engine(self, operation: str, payload: Document) -> Document:
        status, answer = self._forward_request(operation, json.dumps(payload).encode())
        document: Document = json.loads(answer)
        if status != 200:
            message = str(document.get("message", document.get("Message", "")))
            raise Refused(str(document.get("__type", "InternalServerError")).rpartition("#")[2], message)
        return document

    def _send_request(self, address: str, operation: str, body: bytes) -> tuple[int, bytes]:
        headers = {
            "Content-Type": JSON_TYPE,
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            "X-Amz-Date": "20260101T000000Z",
            "Authorization": _AUTHORIZATION,
        }
        answer = self._pool.request("POST", address, body=body, headers=headers)
        return answer.status, answer.data

    def _create_table(self, payload: Document) -> Document:
        plain = {name: value for name, value in payload.items() if name not in _UNKNOWN}
        for index in plain.get("GlobalSecondaryIndexes", ()):
            for name in _UNKNOWN:
                index.pop(name, None)
        self._call_engine("CreateTable", plain)
        facts = Facts({tag["Key"]: tag["Value"] for tag in payload.get("Tags", ())})
        self._facts[payload["TableName"]] = facts
        _note_settings(facts, payload)
        return {"TableDescription": self._describe_fully("DescribeTable", payload)["Table"]}

    def _update_table(self, payload: Document) -> Document:
        self._describe_fully("DescribeTable", payload)
        plain = {name: value for name, value in payload.items() if name not in _UNKNOWN}
        if plain.keys() != {"TableName"}:
            self._call_engine("UpdateTable", plain)
        _note_settings(self._find_facts(payload["TableName"]), payload)
        return {"TableDescription": self._describe_fully("DescribeTable", payload)["Table"]}

    def _delete_table(self, payload: Document) -> Document:
        if self._find_facts(payload["TableName"]).described.get("DeletionProtectionEnabled"):
            raise Refused(
                "ValidationException",
                "Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.",
            )
        described = self._describe_fully("DeleteTable", payload)
        self._facts.pop(payload["TableName"], None)
        return described

    def _describe_fully(self, operation: str, payload: Document) -> Document:
        answer = self._call_engine(operation, {"TableName": payload["TableName"]})
        for described in answer.values():
            described.update(self._find_facts(payload["TableName"]).described)
        return answer

    def _tag_table(self, payload: Document) -> Document:
        self._find_facts_by_arn(payload).tags.update({tag["Key"]: tag["Value"] for tag in payload["Tags"]})
        return {}

    def _untag_table(self, payload: Document) -> Document:
        for key in payload["TagKeys"]:
            self._find_facts_by_arn(payload).tags.pop(key, None)
        return {}

    def _read_tags(self, payload: Document) -> Document:
        return {"Tags": [{"Key": key, "Value": value} for key, value in self._find_facts_by_arn(payload).tags.items()]}

    def _find_facts_by_arn(self, payload: Document) -> Facts:
        name = payload["ResourceArn"].rpartition("/")[2]
        self._describe_fully("DescribeTable", {"TableName": name})
        return self._find_facts(name)

    def _answer_recovery(self, payload: Document) -> Document:
        self._describe_fully("DescribeTable", payload)
        facts = self._find_facts(payload["TableName"])
        if "PointInTimeRecoverySpecification" in payload:
            facts.recovery = payload["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
        status = "ENABLED" if facts.recovery else "DISABLED"
        recovery = {"PointInTimeRecoveryStatus": status}
        return {
            "ContinuousBackupsDescription": {
                "ContinuousBackupsStatus": "ENABLED",
                "PointInTimeRecoveryDescription": recovery,
            }
        }

    def _find_facts(self, name: str) -> Facts:
        return self._facts.setdefault(name, Facts())

    def _adopt_tables(self, payload: Document) -> bool:
        """Create the tables of a request that the emulator has and the engine lacks; True if it created any."""
        if self._origin is None or not self._origin.exists():
            return False
        address = self._origin.read_text().strip()
        with self._lock:
            adopted = [self._adopt_table(address, name) for name in sorted(set(_list_table_names(payload)))]
            return any(adopted)

    def _adopt_table(self, address: str, name: str) -> bool:
        status, answer = self._send_request(address, "DescribeTable", json.dumps({"TableName": name}).encode())
        if status != 200:
            return False
        table = json.loads(answer)["Table"]
        copy: Document = {
            "TableName": name,
            "KeySchema": table["KeySchema"],
            "AttributeDefinitions": table["AttributeDefinitions"],
            "BillingMode": "PAY_PER_REQUEST",
        }
        if indexes := table.get("GlobalSecondaryIndexes"):
            members = ("IndexName", "KeySchema", "Projection")
            copy["GlobalSecondaryIndexes"] = [{member: index[member] for member in members} for index in indexes]
        status, answer = self._send_request(self._engine, "CreateTable", json.dumps(copy).encode())
        return status == 200 or b"ResourceInUseException" in answer


def _note_settings(facts: Facts, payload: Document) -> None:
    """Store the settings in a request, in the form of a table's description."""
    if "TableClass" in payload:
        facts.described["TableClassSummary"] = {"TableClass": payload["TableClass"]}
    if "SSESpecification" in payload:
        specification = payload["SSESpecification"]
        facts.described["SSEDescription"] = {"Status": "ENABLED", "SSEType": "KMS"}
        if "KMSMasterKeyId" in specification:
            facts.described["SSEDescription"]["KMSMasterKeyArn"] = specification["KMSMasterKeyId"]
    for name in ("DeletionProtectionEnabled", "WarmThroughput", "OnDemandThroughput"):
        if name in payload:
            facts.described[name] = payload[name]


def _list_table_names(payload: Any) -> Iterator[str]:
    """Find the names of all tables in a request."""
    if isinstance(payload, dict):
        for name, value in payload.items():
            if name == "TableName":
                yield value
            elif name == "RequestItems":
                yield from value
            elif name == "TransactItems":
                for action in value:
                    yield from (inner["TableName"] for inner in action.values())
