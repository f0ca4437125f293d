"""Faults that a test asks for: by operation, table, probability or script."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from strict.clock import Clock
from strict.refusals import Refusal, refuse_throttled


class Kind(StrEnum):
    """The kind of a fault."""

    THROTTLED = "throttled"
    SERVER_ERROR = "server error"
    ACCESS_DENIED = "access denied"
    # Transport: the caller gets no answer.
    TIMEOUT_BEFORE = "time-out before it took effect"
    TIMEOUT_AFTER = "time-out after it took effect"
    RESET = "connection reset"
    GONE = "engine gone"
    # The call succeeds, but only after a delay.
    SLOW = "slow"


class NoAnswer(Exception):
    """The caller gets no answer; ``kind`` says how the call ends."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        super().__init__(kind)


@dataclass(slots=True)
class Fault:
    """A fault of the calls with this operation and this table (None matches every call).

    ``probability`` lets the fault strike at random. ``script`` has True or False for each matching call in turn: True
    lets the fault strike. After the script's end it does not strike. ``times`` limits how often the fault strikes.
    ``seconds`` is the delay of a slow answer.
    """

    kind: Kind
    operation: str | None = None
    table: str | None = None
    probability: float = 1.0
    script: Iterator[bool] | None = None
    times: int | None = None
    seconds: float = 1.0
    struck: int = 0

    def strikes(self, operation: str, tables: frozenset[str], chance: random.Random) -> bool:
        """True if the fault strikes this call."""
        matches = self.operation in (None, operation) and (self.table is None or self.table in tables)
        if not matches or (self.times is not None and self.struck >= self.times):
            return False
        hit = next(self.script, False) if self.script is not None else chance.random() < self.probability
        self.struck += hit
        return bool(hit)


class Faults:
    """The active faults. A seed decides when they strike, so that a run can be repeated."""

    def __init__(self, clock: Clock, seed: int = 0) -> None:
        self._clock = clock
        self._chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self.active: list[Fault] = []

    def add(self, fault: Fault) -> Fault:
        """Activate a fault."""
        self.active.append(fault)
        return fault

    def clear(self) -> None:
        """Remove all faults."""
        self.active.clear()

    def strike(self, operation: str, payload: Any) -> NoAnswer | None:
        """Raise an error now if a fault strikes before the call takes effect.

        Return the error that the caller must raise after the call took effect; None if there is no such error.
        """
        if not self.active:
            return None
        tables = find_tables(payload)
        later: NoAnswer | None = None
        for fault in self.active:
            if not fault.strikes(operation, tables, self._chance):
                continue
            match fault.kind:
                case Kind.SLOW:
                    self._clock.sleep(fault.seconds)
                case Kind.TIMEOUT_AFTER:
                    later = NoAnswer(fault.kind)
                case Kind.THROTTLED:
                    side = "Write" if operation in _WRITES else "Read"
                    reason = f"Table{side}ProvisionedThroughputExceeded"
                    raise refuse_throttled([(reason, name) for name in sorted(tables) or ["?"]])
                case Kind.SERVER_ERROR:
                    raise Refusal("InternalServerError", "The request processing has failed.", status=500)
                case Kind.ACCESS_DENIED:
                    raise Refusal("AccessDeniedException", f"User is not authorized to perform: dynamodb:{operation}")
                case lost:
                    raise NoAnswer(lost)
        return later


_WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"})


def find_tables(payload: Any) -> frozenset[str]:
    """Find the names of the tables in a request."""
    if "TableName" in payload:
        return frozenset({payload["TableName"]})
    if "RequestItems" in payload:
        return frozenset(payload["RequestItems"])
    actions = payload.get("TransactItems", ())
    names = {inner["TableName"] for action in actions for inner in action.values()}
    if "ResourceArn" in payload:
        names.add(payload["ResourceArn"].rpartition("/")[2])
    return frozenset(names)
