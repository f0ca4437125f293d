"""The strict service: faults, then rules, then the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from strict.account import Account
from strict.clock import Clock
from strict.conflicts import Conflicts
from strict.control import Control
from strict.engines import Document, Engine
from strict.faults import Faults
from strict.reads import Reads
from strict.replica import LaggingEngine
from strict.requests import Requests
from strict.rules import Rule
from strict.timings import Timings
from strict.writes import Writes


class StrictDynamo:
    """DynamoDB's operations under the service's rules.

    ``without`` switches rules off, to see which faults they detect. With ``stale_seconds``, reads that are not strongly
    consistent may be up to this many seconds old. Calls are handled one at a time, so that a run with a manual clock
    and a seed can be repeated exactly. Other calls can be handled only during the delay of a slow answer.
    """

    def __init__(
        self,
        engine: Engine,
        clock: Clock,
        *,
        timings: Timings | None = None,
        without: Iterable[Rule] = (),
        seed: int = 0,
        stale_seconds: float = 0.0,
    ) -> None:
        self.clock = clock
        if stale_seconds and Rule.STALE_READS not in without:
            engine = LaggingEngine(engine, clock, seconds=stale_seconds, seed=seed)
        self.faults = Faults(clock, seed)
        self.account = Account(engine, clock, timings or Timings(), frozenset(without), seed)
        self.calls: dict[str, int] = {}
        self._lock = threading.RLock()
        self._requests, self._conflicts = Requests(self.account), Conflicts(self.account)
        control, writes, reads = Control(self.account), Writes(self.account), Reads(self.account)
        self._operations: Mapping[str, Callable[[Mapping[str, Any]], Document]] = {
            "CreateTable": control.create_table,
            "DescribeTable": control.describe_table,
            "UpdateTable": control.update_table,
            "DeleteTable": control.delete_table,
            "UpdateContinuousBackups": control.update_continuous_backups,
            "ListTagsOfResource": control.list_tags_of_resource,
            "TagResource": control.tag_resource,
            "UntagResource": control.untag_resource,
            "PutItem": writes.put_item,
            "UpdateItem": writes.update_item,
            "DeleteItem": writes.delete_item,
            "BatchWriteItem": writes.batch_write_item,
            "TransactWriteItems": writes.transact_write_items,
            "GetItem": reads.get_item,
            "BatchGetItem": reads.batch_get_item,
            "TransactGetItems": reads.transact_get_items,
            "Query": reads.query,
            "Scan": reads.scan,
        }

    def share_lock(self, other: StrictDynamo) -> None:
        """Share the lock of another service, so that the calls of both services are handled one at a time."""
        self._lock = other._lock

    def call(self, operation: str, payload: Mapping[str, Any]) -> Document:
        """Answer one request. Refusal is an error answer; NoAnswer means that the caller gets no answer."""
        later = self.faults.strike(operation, payload)
        with self._lock:
            self.calls[operation] = self.calls.get(operation, 0) + 1
            if self.account.regions is not None:
                self.account.regions.deliver()
            self._requests.check(operation, payload)
            self._conflicts.check(operation, payload)
            act = self._operations.get(operation)
            # An operation without rules goes directly to the engine.
            answer = act(payload) if act is not None else self.account.engine.call(operation, payload)
            if later is not None and operation == "TransactWriteItems":
                self._conflicts.hold(payload)
        if later is not None:
            raise later
        return answer
