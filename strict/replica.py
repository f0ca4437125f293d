"""Eventually consistent reads: a replica answers them. Each write reaches the replica a little later."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from heapq import heapify, heappop, heappush
from typing import Any

from strict.clock import Clock
from strict.engines import Document, Engine
from strict.memory import MemoryEngine
from strict.tables import read_keys

_READS = frozenset({"GetItem", "Query", "Scan"})
_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"})
_Item = tuple[str, ...]
# A write of one item: the instant when it arrives, its number, the operation, and the request.
_PendingWrite = tuple[datetime, int, str, Mapping[str, Any]]


class LaggingEngine:
    """An engine with a replica. A write reaches the replica after a delay between half of ``seconds`` and ``seconds``.

    The writes of one item arrive in order. The seed decides the delay of each item: the replica may have only some
    items of a batch or a transaction for a while. The replica answers GetItem, Query and Scan without ConsistentRead,
    and all reads of an index.
    """

    def __init__(self, leader: Engine, clock: Clock, *, seconds: float, seed: int) -> None:
        self._leader = leader
        self._replica = MemoryEngine()
        self._clock = clock
        self._seconds = seconds
        self._chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._keys: dict[str, tuple[str, ...]] = {}
        self._pending: list[_PendingWrite] = []
        self._last: dict[_Item, datetime] = {}
        self._number = 0

    def call(self, operation: str, payload: Mapping[str, Any]) -> Document:
        """Answer an operation; Refusal if the engine refuses it."""
        if operation in _READS and not payload.get("ConsistentRead", False):
            self._catch_up()
            return self._replica.call(operation, payload)
        answer = self._leader.call(operation, payload)
        if operation in _WRITES:
            self._catch_up()
            for write, request in _list_writes(operation, payload):
                self._send(write, request)
        elif operation == "CreateTable":
            self._keys[payload["TableName"]] = read_keys(payload["KeySchema"])
            self._replica.call(operation, payload)
        elif operation == "UpdateTable":
            self._replica.call(operation, payload)
        elif operation == "DeleteTable":
            # A pending write to this table must not reach a later table of the same name.
            self._pending = [write for write in self._pending if write[3]["TableName"] != payload["TableName"]]
            heapify(self._pending)
            self._replica.call(operation, payload)
        return answer

    def _send(self, operation: str, request: Mapping[str, Any]) -> None:
        """Send a write to the replica, with a delay."""
        key = request.get("Key", request.get("Item", {}))
        item = (request["TableName"], *(str(key[name]) for name in self._keys[request["TableName"]]))
        due = self._clock.now() + timedelta(seconds=self._chance.uniform(self._seconds / 2, self._seconds))
        self._last[item] = due = max(due, self._last.get(item, due))
        self._number += 1
        heappush(self._pending, (due, self._number, operation, request))

    def _catch_up(self) -> None:
        """Apply to the replica the writes whose delay has passed."""
        now = self._clock.now()
        while self._pending and self._pending[0][0] <= now:
            _, _, operation, request = heappop(self._pending)
            self._replica.call(operation, request)
        if not self._pending:
            self._last.clear()


def _list_writes(operation: str, payload: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """List the writes of a request, item by item. Conditions are left out: the leader has checked them already."""
    if operation == "BatchWriteItem":
        for name, changes in payload["RequestItems"].items():
            for change in changes:
                if "PutRequest" in change:
                    yield "PutItem", {"TableName": name, "Item": change["PutRequest"]["Item"]}
                else:
                    yield "DeleteItem", {"TableName": name, "Key": change["DeleteRequest"]["Key"]}
    elif operation == "TransactWriteItems":
        for action in payload["TransactItems"]:
            ((kind, inner),) = action.items()
            if kind != "ConditionCheck":
                yield f"{kind}Item", _remove_condition(inner)
    else:
        yield operation, _remove_condition(payload)


def _remove_condition(request: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: value for name, value in request.items() if name != "ConditionExpression"}
