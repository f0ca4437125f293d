"""Reads that are not strongly consistent: they are answered by a replica, to which each write comes a little later."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from strict.clock import Clock
from strict.engines import Document, Engine
from strict.memory import MemoryEngine

_READS = frozenset({"GetItem", "Query", "Scan"})
# A table's end comes to the replica like a write, as what was written before it must come first.
_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems", "DeleteTable"})


class LaggingEngine:
    """An engine with a replica. Writes reach it in their order, each ``seconds`` or down to half of that later, by the seed.

    GetItem, Query and Scan without ConsistentRead, and all of an index, are answered from the replica.
    """

    def __init__(self, leader: Engine, clock: Clock, *, seconds: float, seed: int) -> None:
        self._leader = leader
        self._replica = MemoryEngine()
        self._clock = clock
        self._seconds = seconds
        self._chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._coming: deque[tuple[datetime, str, Mapping[str, Any]]] = deque()

    def call(self, operation: str, payload: Mapping[str, Any]) -> Document:
        """The answer of an operation; Refusal if the engine refuses it."""
        if operation in _READS and not payload.get("ConsistentRead", False):
            self._catch_up(self._clock.now())
            return self._replica.call(operation, payload)
        answer = self._leader.call(operation, payload)
        if operation == "CreateTable":
            if self._is_leaving(payload["TableName"]):
                self._catch_up(None)
            self._replica.call(operation, payload)
        elif operation == "UpdateTable":
            self._replica.call(operation, payload)
        elif operation in _WRITES:
            due = self._clock.now() + timedelta(seconds=self._chance.uniform(self._seconds / 2, self._seconds))
            last = self._coming[-1][0] if self._coming else due
            self._coming.append((max(due, last), operation, payload))
        return answer

    def _is_leaving(self, table: str) -> bool:
        """Whether a table of this name is gone, and the replica does not know yet."""
        return any(
            operation == "DeleteTable" and payload["TableName"] == table for _, operation, payload in self._coming
        )

    def _catch_up(self, until: datetime | None) -> None:
        """Give the replica the writes that are due; all of them, without an instant."""
        while self._coming and (until is None or self._coming[0][0] <= until):
            _, operation, payload = self._coming.popleft()
            # In their order, so what held for the leader holds here: no condition fails.
            self._replica.call(operation, payload)
