"""The Regions of an account: the groups of tables that are copies of each other, and the writes on their way to other
Regions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from strict.account import Account
from strict.engines import Document, Engine
from strict.metering import Meter
from strict.rules import Rule
from strict.tables import Table
from strict.units import Wire

if TYPE_CHECKING:
    from strict.service import StrictDynamo

WRITES = frozenset({"PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"})
# The time and the number of an item's last write. If two writes of an item compete, the write with the greater stamp
# wins.
_Stamp = tuple[datetime, int]
# A table's name and an item's key, as text that can be compared.
_Identity = tuple[str, str]


@dataclass(slots=True)
class Member:
    """A table of a group of copies. ``source`` is the Region whose table was copied; it is empty for the first table.

    ``read`` and ``infrequent`` are the table's own read units and table class; None if they are the same as the other
    tables'. A table that is being deleted is listed in the group until the instant ``gone``.
    """

    region: str
    source: str
    added: datetime
    listed: datetime
    gone: datetime | None = None
    read: int | None = None
    infrequent: bool | None = None


@dataclass(slots=True)
class _Parcel:
    """The new state of an item, on its way to a Region; the item is None if it was deleted."""

    region: str
    table: str
    key: Document
    item: Wire | None
    stamp: _Stamp

    @property
    def identity(self) -> _Identity:
        return self.table, str(sorted(self.key.items()))


class Regions:
    """Connects strict services. Each service is one Region of the same account; all have the same clock.

    A write reaches the copies after a delay between half of ``seconds`` and ``seconds``: the seed decides for each
    item. ``seconds`` may be changed at any time. Calls of all Regions are handled one at a time.
    """

    def __init__(self, services: Mapping[str, StrictDynamo], *, seconds: float = 2.0, seed: int = 0) -> None:
        self.accounts: dict[str, Account] = {}
        self.seconds = seconds
        self._groups: dict[str, dict[str, Member]] = {}
        self._engines: dict[str, Engine] = {}
        self._chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._number = 0
        self._parcels: list[tuple[datetime, int, _Parcel]] = []
        self._stamps: dict[tuple[str, _Identity], _Stamp] = {}
        first = next(iter(services.values()))
        for region, service in services.items():
            account = service.account
            account.region, account.regions = region, self
            self.accounts[region], self._engines[region] = account, account.engine
            account.engine = _SendingEngine(account.engine, partial(self._send_writes, region))
            service.share_lock(first)

    def find_members(self, table: str) -> dict[str, Member]:
        """Return the table and its copies by Region, in the order of their creation; empty if the table has no copies."""
        now = next(iter(self.accounts.values())).clock.now()
        members = self._groups.get(table, {})
        for region in [region for region, member in members.items() if member.gone is not None and member.gone <= now]:
            del members[region]
        if len(members) == 1:
            del self._groups[table]
            return {}
        return members

    def find_other_members(self, table: str, region: str) -> list[Member]:
        """Return the copies of a table in Regions other than ``region``."""
        return [member for member in self.find_members(table).values() if member.region != region]

    def join(self, table: str, first: Member, member: Member) -> None:
        """Add a member to a table's group. A new group begins with ``first``, the table that is copied."""
        self._groups.setdefault(table, {first.region: first})[member.region] = member

    def leave(self, table: str, region: str) -> None:
        """Remove a member, and the writes on their way to it: these must not reach a later table of the same name."""
        self._groups.get(table, {}).pop(region, None)
        self._parcels = [entry for entry in self._parcels if (entry[2].table, entry[2].region) != (table, region)]
        self._parcels.sort()
        self._stamps = {
            known: stamp for known, stamp in self._stamps.items() if (known[1][0], known[0]) != (table, region)
        }

    def settle(self) -> None:
        """Finish the changes whose time has passed, in every Region."""
        for account in self.accounts.values():
            account.settle()

    def fill_copy(self, table: Table, source: str, region: str) -> None:
        """Put all items of a table into its new copy."""
        target, request = self.accounts[region], {"TableName": table.name, "ConsistentRead": True}
        meter = Meter(target)
        while True:
            page = self._engines[source].call("Scan", request)
            for item in page["Items"]:
                key = {name: item[name] for name in table.keys}
                identity = (table.name, str(sorted(key.items())))
                stamp = self._stamps.get((source, identity))
                if stamp is not None:
                    self._stamps[region, identity] = stamp
                self._engines[region].call("PutItem", {"TableName": table.name, "Item": item})
                meter.count_change(table, None, item)
            if "LastEvaluatedKey" not in page:
                return
            request["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def deliver(self) -> None:
        """Apply the writes that are due. A write waits while its copy is not active, or does not have enough units."""
        self.settle()
        now = next(iter(self.accounts.values())).clock.now()
        waiting = []
        while self._parcels and self._parcels[0][0] <= now:
            entry = heappop(self._parcels)
            if not self._apply_parcel(entry[2]):
                waiting.append(entry)
        for entry in waiting:
            heappush(self._parcels, entry)

    def _send_writes(self, region: str, operation: str, payload: Mapping[str, Any]) -> None:
        """Send the items that a request wrote to the other Regions."""
        account = self.accounts[region]
        now = account.clock.now()
        for name, key in _list_written(operation, payload, account):
            others = self.find_other_members(name, region)
            if not others:
                continue
            request = {"TableName": name, "Key": key, "ConsistentRead": True}
            item = self._engines[region].call("GetItem", request).get("Item")
            self._number += 1
            stamp = (now, self._number)
            for member in others:
                parcel = _Parcel(member.region, name, key, item, stamp)
                lag = self._chance.uniform(self.seconds / 2, self.seconds) if account.enforces(Rule.COPY_LAG) else 0
                heappush(self._parcels, (now + timedelta(seconds=lag), self._number, parcel))
                self._number += 1
                self._stamps[region, parcel.identity] = stamp

    def _apply_parcel(self, parcel: _Parcel) -> bool:
        """Apply a write to a copy; False if it must wait."""
        account, engine = self.accounts[parcel.region], self._engines[parcel.region]
        table = account.tables.get(parcel.table)
        if table is None or parcel.region not in self.find_members(parcel.table) or table.status == "DELETING":
            return True
        if table.status == "CREATING":
            return False
        known = self._stamps.get((parcel.region, parcel.identity))
        if known is not None and known > parcel.stamp and account.enforces(Rule.LAST_WRITER):
            return True
        request = {"TableName": parcel.table, "Key": parcel.key}
        old = engine.call("GetItem", {**request, "ConsistentRead": True}).get("Item")
        meter = Meter(account)
        charges = meter.compute_charges(table, old, parcel.item)
        if meter.find_refusals(table, charges):
            return False
        meter.take_charges(table, charges)
        if parcel.item is None:
            engine.call("DeleteItem", request)
        else:
            engine.call("PutItem", {"TableName": parcel.table, "Item": parcel.item})
        meter.count_change(table, old, parcel.item)
        self._stamps[parcel.region, parcel.identity] = parcel.stamp
        return True


class _SendingEngine:
    """An engine whose writes are sent to the other Regions."""

    def __init__(self, engine: Engine, send: Callable[[str, Mapping[str, Any]], None]) -> None:
        self._engine = engine
        self._send = send

    def call(self, operation: str, payload: Mapping[str, Any]) -> Document:
        """Answer an operation; Refusal if the engine refuses it."""
        answer = self._engine.call(operation, payload)
        if operation in WRITES:
            self._send(operation, payload)
        return answer


def _list_written(operation: str, payload: Mapping[str, Any], account: Account) -> Iterator[tuple[str, Document]]:
    """List table and key of each item that a request wrote."""
    if operation == "BatchWriteItem":
        for name, changes in payload["RequestItems"].items():
            for change in changes:
                ((kind, inner),) = change.items()
                yield name, inner["Key"] if kind == "DeleteRequest" else _read_key(account.tables[name], inner["Item"])
        return
    actions = [payload]
    if operation == "TransactWriteItems":
        actions = [
            inner for action in payload["TransactItems"] for kind, inner in action.items() if kind != "ConditionCheck"
        ]
    for inner in actions:
        name = inner["TableName"]
        yield name, inner["Key"] if "Key" in inner else _read_key(account.tables[name], inner["Item"])


def _read_key(table: Table, item: Mapping[str, Any]) -> Document:
    return {name: item[name] for name in table.keys}
