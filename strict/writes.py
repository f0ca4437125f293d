"""The data plane's writes."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from strict.account import Account
from strict.engines import Document
from strict.metering import Charge, Meter, Reason, plain
from strict.refusals import Refusal, invalid, throttled
from strict.rules import Rule
from strict.tables import Table
from strict.units import Wire, item_size

Request = Mapping[str, Any]

ITEM_BYTES = 400 * 1024
BATCH_ITEMS = 25
BATCH_BYTES = 16 * 1024 * 1024
TRANSACTION_ACTIONS = 100
TRANSACTION_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _One:
    """One put or delete of a batch."""

    table: Table
    request: Document
    key: Document
    new: Wire | None


class Writes:
    """PutItem, UpdateItem, DeleteItem, BatchWriteItem and TransactWriteItems."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._meter = Meter(account)

    def put_item(self, request: Request) -> Document:
        """PutItem."""
        return self._single("PutItem", request, request["Item"])

    def delete_item(self, request: Request) -> Document:
        """DeleteItem."""
        return self._single("DeleteItem", request, None)

    def update_item(self, request: Request) -> Document:
        """UpdateItem: what it will weigh is known only afterwards."""
        table = self._account.usable(request["TableName"])
        old = self._get(table, request["Key"])
        self._pay_if_possible(table, self._meter.write(table, old, old))
        answer = self._forward("UpdateItem", request, table, old)
        new = self._get(table, request["Key"])
        return self._done(request, table, old, new, answer)

    def batch_write_item(self, request: Request) -> Document:
        """BatchWriteItem: refused as a whole, or done as far as the tables' throughput goes."""
        account, given = self._account, request["RequestItems"]
        ones = list(self._batch(given))
        self._check_batch(ones)
        olds = self._olds(ones)
        admitted: list[_One] = []
        left: dict[str, list[Document]] = {}
        reasons: list[Reason] = []
        paid: list[tuple[Table, Charge]] = []
        for one, old in zip(ones, olds, strict=True):
            charges = self._meter.write(one.table, old, one.new)
            refused = self._meter.refused(one.table, charges)
            if refused:
                reasons += refused
                left.setdefault(one.table.name, []).append(one.request)
            else:
                self._meter.take(one.table, charges)
                self._meter.count(one.table, old, one.new)
                paid += [(one.table, charge) for charge in charges]
                admitted.append(one)
        if left and (not admitted or not account.enforces(Rule.UNPROCESSED_ITEMS)):
            raise self._throttled(reasons)
        items: dict[str, list[Document]] = {}
        for one in admitted:
            items.setdefault(one.table.name, []).append(one.request)
        if items:
            account.engine.call("BatchWriteItem", {"RequestItems": items})
        answer: Document = {"UnprocessedItems": left}
        consumed = self._meter.consumed(request, paid)
        return answer | ({"ConsumedCapacity": consumed} if consumed else {})

    def transact_write_items(self, request: Request) -> Document:
        """TransactWriteItems: everything at twice the price, or nothing."""
        account = self._account
        actions = [next(iter(one.items())) for one in request["TransactItems"]]
        tables = [account.usable(inner["TableName"]) for _, inner in actions]
        self._check_transaction(actions)
        charges: list[tuple[Table, Charge]] = []
        changes: list[tuple[Table, Wire | None, Wire | None]] = []
        refused: list[list[Reason]] = []
        for table, (kind, inner) in zip(tables, actions, strict=True):
            key = inner["Key"] if "Key" in inner else _key(table, inner["Item"])
            old = self._get(table, key)
            new = inner.get("Item", None if kind == "Delete" else old)
            own = self._meter.write(table, old, new, self._meter.factor())
            refused.append(self._meter.refused(table, own))
            charges += [(table, charge) for charge in own]
            changes.append((table, old, new))
        if any(refused):
            raise _canceled(refused)
        for table, charge in charges:
            self._meter.take(table, [charge])
        account.engine.call("TransactWriteItems", plain(request))
        for table, old, new in changes:
            self._meter.count(table, old, new)
        consumed = self._meter.consumed(request, charges)
        return {"ConsumedCapacity": consumed} if consumed else {}

    def _single(self, operation: str, request: Request, new: Wire | None) -> Document:
        table = self._account.usable(request["TableName"])
        if new is not None:
            self._check_item(new)
        old = self._get(table, request["Key"] if "Key" in request else _key(table, request["Item"]))
        self._pay_if_possible(table, self._meter.write(table, old, new))
        answer = self._forward(operation, request, table, old)
        return self._done(request, table, old, new, answer)

    def _pay_if_possible(self, table: Table, charges: Iterable[Charge]) -> None:
        reasons = self._meter.refused(table, charges)
        if reasons:
            raise self._throttled(reasons)

    def _forward(self, operation: str, request: Request, table: Table, old: Wire | None) -> Document:
        try:
            return self._account.engine.call(operation, plain(request))
        except Refusal as refusal:
            failed = refusal.code == "ConditionalCheckFailedException"
            if failed and self._account.enforces(Rule.FAILED_CONDITION_COSTS):
                self._meter.take(table, self._meter.write(table, old, old))
            raise

    def _done(self, request: Request, table: Table, old: Wire | None, new: Wire | None, answer: Document) -> Document:
        charges = self._meter.write(table, old, new)
        self._meter.take(table, charges)
        self._meter.count(table, old, new)
        consumed = self._meter.consumed(request, [(table, charge) for charge in charges])
        return answer | ({"ConsumedCapacity": consumed[0]} if consumed else {})

    def _batch(self, given: Mapping[str, Any]) -> Iterator[_One]:
        strict = self._account.enforces(Rule.BATCH_MISSING_TABLE)
        for name, requests in given.items():
            try:
                table = self._account.usable(name)
            except Refusal:
                if strict:
                    raise
                continue
            for request in requests:
                put = request.get("PutRequest")
                new = put["Item"] if put else None
                key = _key(table, new) if new is not None else request["DeleteRequest"]["Key"]
                yield _One(table, request, key, new)

    def _check_batch(self, ones: list[_One]) -> None:
        account = self._account
        if len(ones) > BATCH_ITEMS and account.enforces(Rule.BATCH_ITEMS):
            raise invalid(f"Too many items requested for the BatchWriteItem call: {len(ones)}, at most {BATCH_ITEMS}")
        keys = {(one.table.name, str(sorted(one.key.items()))) for one in ones}
        if len(keys) < len(ones) and account.enforces(Rule.BATCH_REPEATED_KEY):
            raise invalid("Provided list of item keys contains duplicates")
        for one in ones:
            if one.new is not None:
                self._check_item(one.new)
        if account.enforces(Rule.REQUEST_BYTES) and _wire_size(ones) > BATCH_BYTES:
            raise Refusal("RequestEntityTooLarge", "The request is larger than 16 MB", status=413)

    def _check_transaction(self, actions: list[tuple[str, Any]]) -> None:
        if not self._account.enforces(Rule.TRANSACTION_SIZE):
            return
        if len(actions) > TRANSACTION_ACTIONS:
            raise invalid(f"Member must have length less than or equal to {TRANSACTION_ACTIONS}")
        size = sum(item_size(inner["Item"]) for _, inner in actions if "Item" in inner)
        if size > TRANSACTION_BYTES:
            raise invalid("Transaction request cannot exceed 4 MB")

    def _check_item(self, item: Wire) -> None:
        if item_size(item) > ITEM_BYTES and self._account.enforces(Rule.ITEM_BYTES):
            raise invalid("Item size has exceeded the maximum allowed size")

    def _olds(self, ones: list[_One]) -> list[Wire | None]:
        """The items that a batch replaces, read in one call."""
        wanted: dict[str, Document] = {}
        seen = set()
        for one in ones:
            mark = one.table.name, str(sorted(one.key.items()))
            if mark not in seen:
                seen.add(mark)
                wanted.setdefault(one.table.name, {"Keys": [], "ConsistentRead": True})["Keys"].append(one.key)
        if not wanted:
            return []
        found = self._account.engine.call("BatchGetItem", {"RequestItems": wanted})["Responses"]
        by_key = {
            (name, str(sorted(_key(self._account.tables[name], item).items()))): item
            for name, items in found.items()
            for item in items
        }
        return [by_key.get((one.table.name, str(sorted(one.key.items())))) for one in ones]

    def _get(self, table: Table, key: Document) -> Wire | None:
        got = self._account.engine.call("GetItem", {"TableName": table.name, "Key": key, "ConsistentRead": True})
        return got.get("Item")

    def _throttled(self, reasons: list[Reason]) -> Refusal:
        return throttled(reasons if self._account.enforces(Rule.THROTTLING_REASONS) else [])


def _wire_size(ones: list[_One]) -> int:
    """Bytes of a batch as JSON; escapes make it larger than its items, so small ones need not be counted."""
    small = sum(item_size(one.new) for one in ones if one.new) < BATCH_BYTES / 12
    return 0 if small else sum(len(json.dumps(one.request, default=_base64)) for one in ones)


def _base64(raw: Any) -> str:
    """Binary values as they are sent."""
    return b64encode(bytes(raw)).decode()


def _key(table: Table, item: Mapping[str, Any]) -> Document:
    missing = [name for name in table.keys if name not in item]
    if missing:
        raise invalid(f"One or more parameter values were invalid: Missing the key {missing[0]} in the item")
    return {name: item[name] for name in table.keys}


def _canceled(refused: list[list[Reason]]) -> Refusal:
    codes = ["ThrottlingError" if reasons else "None" for reasons in refused]
    return Refusal(
        "TransactionCanceledException",
        f"Transaction cancelled, please refer cancellation reasons for specific reasons [{', '.join(codes)}]",
        members={"CancellationReasons": [{"Code": code} for code in codes]},
    )
