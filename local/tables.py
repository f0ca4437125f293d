"""DynamoDB Local for a whole stage: a small layer that keeps what the engine does not know of a table.

The engine has no tags, classes, deletion protection, backups, encryption or warm throughput; the lifecycle reads them back,
and deletes no table whose tags it cannot read. Any other operation passes through as it is. A table that CloudFormation made
in the emulator, as it makes the catalog, is made in the engine when it is first used.

python -m local.tables --engine http://127.0.0.1:8000 [--origin FILE]
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import urllib3

from local.processes import HOST, ROOT, clean_environment, end_process, start_server

Document = dict[str, Any]
_LISTENING = re.compile(r"listening on (http://127\.0\.0\.1:\d+)")
_JSON = "application/x-amz-json-1.0"
# The engine looks at the key and the Region of a signature, and does not check it.
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
    """The answer is an error, in DynamoDB's form."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.document = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": message}


@dataclass
class Facts:
    """What is kept of a table. ``described`` holds the members of its description, by their names there."""

    tags: dict[str, str] = field(default_factory=dict)
    described: Document = field(default_factory=dict)
    recovery: bool = False


class Layer:
    """The operations. ``origin`` is a file with the emulator's address; it may come into being later."""

    def __init__(self, engine: str, origin: Path | None = None) -> None:
        self._engine = engine
        self._origin = origin
        self._facts: dict[str, Facts] = {}
        self._lock = threading.RLock()
        self._pool = urllib3.PoolManager(maxsize=64, retries=False)
        self._own = {
            "CreateTable": self._create,
            "DescribeTable": lambda payload: self._decorated("DescribeTable", payload),
            "UpdateTable": self._update,
            "DeleteTable": self._delete,
            "TagResource": self._tag,
            "UntagResource": self._untag,
            "ListTagsOfResource": self._tags,
            "UpdateContinuousBackups": self._recover,
            "DescribeContinuousBackups": self._recover,
        }

    def answer(self, operation: str, body: bytes) -> tuple[int, bytes]:
        """Status and body of an operation's answer."""
        own = self._own.get(operation)
        if own is None:
            return self._forward(operation, body)
        try:
            with self._lock:
                return 200, json.dumps(own(json.loads(body))).encode()
        except Refused as refused:
            return 400, json.dumps(refused.document).encode()

    def _forward(self, operation: str, body: bytes) -> tuple[int, bytes]:
        status, answer = self._post(self._engine, operation, body)
        if status == 400 and b"ResourceNotFoundException" in answer and self._adopt(json.loads(body)):
            status, answer = self._post(self._engine, operation, body)
        return status, answer

    def _ask(self, operation: str, payload: Document) -> Document:
        status, answer = self._forward(operation, json.dumps(payload).encode())
        document: Document = json.loads(answer)
        if status != 200:
            message = str(document.get("message", document.get("Message", "")))
            raise Refused(str(document.get("__type", "InternalServerError")).rpartition("#")[2], message)
        return document

    def _post(self, address: str, operation: str, body: bytes) -> tuple[int, bytes]:
        headers = {
            "Content-Type": _JSON,
            "X-Amz-Target": f"DynamoDB_20120810.{operation}",
            "X-Amz-Date": "20260101T000000Z",
            "Authorization": _AUTHORIZATION,
        }
        answer = self._pool.request("POST", address, body=body, headers=headers)
        return answer.status, answer.data

    def _create(self, payload: Document) -> Document:
        plain = {name: value for name, value in payload.items() if name not in _UNKNOWN}
        for index in plain.get("GlobalSecondaryIndexes", ()):
            for name in _UNKNOWN:
                index.pop(name, None)
        self._ask("CreateTable", plain)
        facts = Facts({tag["Key"]: tag["Value"] for tag in payload.get("Tags", ())})
        self._facts[payload["TableName"]] = facts
        _note(facts, payload)
        return {"TableDescription": self._decorated("DescribeTable", payload)["Table"]}

    def _update(self, payload: Document) -> Document:
        self._decorated("DescribeTable", payload)
        plain = {name: value for name, value in payload.items() if name not in _UNKNOWN}
        if plain.keys() != {"TableName"}:
            self._ask("UpdateTable", plain)
        _note(self._of(payload["TableName"]), payload)
        return {"TableDescription": self._decorated("DescribeTable", payload)["Table"]}

    def _delete(self, payload: Document) -> Document:
        if self._of(payload["TableName"]).described.get("DeletionProtectionEnabled"):
            raise Refused(
                "ValidationException",
                "Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.",
            )
        described = self._decorated("DeleteTable", payload)
        self._facts.pop(payload["TableName"], None)
        return described

    def _decorated(self, operation: str, payload: Document) -> Document:
        answer = self._ask(operation, {"TableName": payload["TableName"]})
        for described in answer.values():
            described.update(self._of(payload["TableName"]).described)
        return answer

    def _tag(self, payload: Document) -> Document:
        self._tagged(payload).tags.update({tag["Key"]: tag["Value"] for tag in payload["Tags"]})
        return {}

    def _untag(self, payload: Document) -> Document:
        for key in payload["TagKeys"]:
            self._tagged(payload).tags.pop(key, None)
        return {}

    def _tags(self, payload: Document) -> Document:
        return {"Tags": [{"Key": key, "Value": value} for key, value in self._tagged(payload).tags.items()]}

    def _tagged(self, payload: Document) -> Facts:
        name = payload["ResourceArn"].rpartition("/")[2]
        self._decorated("DescribeTable", {"TableName": name})
        return self._of(name)

    def _recover(self, payload: Document) -> Document:
        self._decorated("DescribeTable", payload)
        facts = self._of(payload["TableName"])
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

    def _of(self, name: str) -> Facts:
        return self._facts.setdefault(name, Facts())

    def _adopt(self, payload: Document) -> bool:
        """Make the tables of a request that the emulator has and the engine has not; whether there was any."""
        if self._origin is None or not self._origin.exists():
            return False
        address = self._origin.read_text().strip()
        with self._lock:
            found = [self._adopted(address, name) for name in sorted(set(_table_names(payload)))]
            return any(found)

    def _adopted(self, address: str, name: str) -> bool:
        status, answer = self._post(address, "DescribeTable", json.dumps({"TableName": name}).encode())
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
        status, answer = self._post(self._engine, "CreateTable", json.dumps(copy).encode())
        return status == 200 or b"ResourceInUseException" in answer


def _note(facts: Facts, payload: Document) -> None:
    """Keep what a request sets, in the form that a description has."""
    if "TableClass" in payload:
        facts.described["TableClassSummary"] = {"TableClass": payload["TableClass"]}
    if "SSESpecification" in payload:
        wanted = payload["SSESpecification"]
        facts.described["SSEDescription"] = {"Status": "ENABLED", "SSEType": "KMS"}
        if "KMSMasterKeyId" in wanted:
            facts.described["SSEDescription"]["KMSMasterKeyArn"] = wanted["KMSMasterKeyId"]
    for name in ("DeletionProtectionEnabled", "WarmThroughput", "OnDemandThroughput"):
        if name in payload:
            facts.described[name] = payload[name]


def _table_names(payload: Any) -> Iterator[str]:
    """Every table that a request names."""
    if isinstance(payload, dict):
        for name, value in payload.items():
            if name == "TableName":
                yield value
            elif name == "RequestItems":
                yield from value
            elif name == "TransactItems":
                for one in value:
                    yield from (action["TableName"] for action in one.values())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    layer: Layer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave in two writes; without this the second waits for the other side's acknowledgement.
    disable_nagle_algorithm = True
    server: _Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        operation = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        status, answer = self.server.layer.answer(operation, body)
        self.send_response(status)
        self.send_header("Content-Type", _JSON)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("x-amz-crc32", str(zlib.crc32(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the callers have logs of their own."""


def serve(layer: Layer) -> _Server:
    """A server of the layer on a free port of the loopback interface, not yet running."""
    server = _Server((HOST, 0), _Handler)
    server.layer = layer
    return server


def start_layer(engine: str, origin: Path, log: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start the layer as a process of its own; it and its address."""
    process = start_server(
        "the layer before DynamoDB Local",
        [sys.executable, "-m", "local.tables", "--engine", engine, "--origin", str(origin)],
        log,
        lambda text: _LISTENING.search(text) is not None,
        folder=ROOT,
        environment=clean_environment(),
    )
    found = _LISTENING.search(log.read_text())
    if found is None:
        end_process(process)
        raise RuntimeError(f"{log} does not say where the layer listens")
    return process, found[1]


def main() -> None:
    """Serve until it is ended."""
    parser = argparse.ArgumentParser(description="Keeps what DynamoDB Local does not know of a table.")
    parser.add_argument("--engine", required=True, help="DynamoDB Local's address, such as http://127.0.0.1:8000")
    parser.add_argument("--origin", type=Path, help="a file with the address of the emulator that CloudFormation uses")
    given = parser.parse_args()
    server = serve(Layer(given.engine, given.origin))
    print(f"listening on http://{HOST}:{server.server_address[1]}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
