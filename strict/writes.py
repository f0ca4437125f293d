"""The write operations of the data plane."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strict.account import Account
from strict.engines import Document
from strict.metering import Charge, Meter, Reason, measure_collection_growth, omit_capacity_option, render_partition_key
from strict.refusals import (
    TOO_LARGE,
    Refusal,
    refuse_full_collection,
    refuse_invalid,
    refuse_throttled,
    refuse_transaction,
)
from strict.rules import Rule
from strict.tables import Table
from strict.units import Stored, Wire, measure_item

Request = Mapping[str, Any]

BATCH_ITEMS = 25
BATCH_BYTES = 16 * 1024 * 1024
TRANSACTION_ACTIONS = 100
TRANSACTION_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Change:
    """A put or a delete of a batch."""

    table: Table
    request: Document
    key: Document
    new: Wire | None
    # The item's table and key, as text that can be compared.
    identity: tuple[str, str]


class Writes:
    """PutItem, UpdateItem, DeleteItem, BatchWriteItem and TransactWriteItems."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._meter = Meter(account)

    def put_item(self, request: Request) -> Document:
        """Answer PutItem."""
        return self._write_single("PutItem", request, request["Item"])

    def delete_item(self, request: Request) -> Document:
        """Answer DeleteItem."""
        return self._write_single("DeleteItem", request, None)

    def update_item(self, request: Request) -> Document:
        """Answer UpdateItem. Its cost is known only afterwards."""
        table = self._account.find_usable(request["TableName"])
        old = self._get_item(table, request["Key"])
        if self._meter.makes_too_large(table, request, old):
            raise refuse_invalid("Item size to update has exceeded the maximum allowed size")
        self._pay_if_possible(table, self._meter.compute_charges(table, old, old))
        answer = self._forward_request("UpdateItem", request, table, old)
        new = self._get_item(table, request["Key"])
        return self._charge_write(request, table, old, new, self._meter.compute_charges(table, old, new), answer)

    def batch_write_item(self, request: Request) -> Document:
        """Answer BatchWriteItem.

        The batch is refused as a whole, or executed as far as the tables' throughput allows.
        """
        account = self._account
        changes = list(self._read_batch(request["RequestItems"]))
        self._check_batch(changes)
        old_items = self._read_old_items(changes)
        if self._find_full([(change.table, old, change.new) for change, old in zip(changes, old_items, strict=True)]):
            raise refuse_full_collection()
        admitted: list[_Change] = []
        unprocessed: dict[str, list[Document]] = {}
        reasons: list[Reason] = []
        paid: list[tuple[Table, Charge]] = []
        for change, old in zip(changes, old_items, strict=True):
            charges = self._meter.compute_charges(change.table, old, change.new)
            refusals = self._meter.find_refusals(change.table, charges)
            if refusals:
                reasons += refusals
                unprocessed.setdefault(change.table.name, []).append(change.request)
            else:
                self._meter.take_charges(change.table, charges)
                self._meter.count_change(change.table, old, change.new)
                paid += [(change.table, charge) for charge in charges]
                admitted.append(change)
        if unprocessed and (not admitted or not account.enforces(Rule.UNPROCESSED_ITEMS)):
            raise self._refuse_throttled(reasons)
        items: dict[str, list[Document]] = {}
        for change in admitted:
            items.setdefault(change.table.name, []).append(change.request)
        if items:
            account.engine.call("BatchWriteItem", {"RequestItems": items})
        answer: Document = {"UnprocessedItems": unprocessed}
        consumed = self._meter.report_consumed(request, paid)
        return answer | ({"ConsumedCapacity": consumed} if consumed else {})

    def transact_write_items(self, request: Request) -> Document:
        """Answer TransactWriteItems: all actions at twice the price, or no action."""
        account = self._account
        actions = [next(iter(action.items())) for action in request["TransactItems"]]
        tables = [account.find_usable(inner["TableName"]) for _, inner in actions]
        self._check_transaction(tables, actions)
        charges: list[tuple[Table, Charge]] = []
        changes: list[tuple[Table, Wire | None, Wire | None]] = []
        refusals: list[list[Reason]] = []
        large: list[bool] = []
        for table, (kind, inner) in zip(tables, actions, strict=True):
            key = inner["Key"] if "Key" in inner else _read_key(table, inner["Item"])
            old = self._get_item(table, key)
            large.append(kind == "Update" and self._meter.makes_too_large(table, inner, old))
            new = inner.get("Item", None if kind == "Delete" else old)
            own = self._meter.compute_charges(table, old, new, self._meter.find_factor())
            refusals.append(self._meter.find_refusals(table, own))
            charges += [(table, charge) for charge in own]
            changes.append((table, old, new))
        if any(large):
            raise refuse_transaction(["ValidationError" if own else "None" for own in large])
        full = self._find_full(changes)
        if full:
            codes = ["ItemCollectionSizeLimitExceeded" if number in full else "None" for number in range(len(changes))]
            raise refuse_transaction(codes)
        if any(refusals):
            raise refuse_transaction(["ThrottlingError" if reasons else "None" for reasons in refusals])
        for table, charge in charges:
            self._meter.take_charges(table, [charge])
        account.engine.call("TransactWriteItems", omit_capacity_option(request))
        for table, old, new in changes:
            self._meter.count_change(table, old, new)
        consumed = self._meter.report_consumed(request, charges)
        return {"ConsumedCapacity": consumed} if consumed else {}

    def _write_single(self, operation: str, request: Request, new: Wire | None) -> Document:
        table = self._account.find_usable(request["TableName"])
        if new is not None:
            new = Stored(new)
            request = {**request, "Item": new}
            self._check_item(table, new)
        old = self._get_item(table, request["Key"] if "Key" in request else _read_key(table, request["Item"]))
        if self._find_full([(table, old, new)]):
            raise refuse_full_collection()
        charges = self._meter.compute_charges(table, old, new)
        self._pay_if_possible(table, charges)
        answer = self._forward_request(operation, request, table, old)
        return self._charge_write(request, table, old, new, charges, answer)

    def _find_full(self, changes: Iterable[tuple[Table, Wire | None, Wire | None]]) -> list[int]:
        """Find the numbers of the changes after which an item collection would hold too many bytes.

        A change that makes its collection smaller is accepted. An UpdateItem is not checked here: its new item is known
        only afterwards.
        """
        account = self._account
        grown: dict[tuple[str, str], int] = {}
        full: list[int] = []
        for number, (table, old, new) in enumerate(changes):
            growth = measure_collection_growth(table, old, new)
            if growth <= 0 or not account.enforces(Rule.COLLECTION_BYTES):
                continue
            key = render_partition_key(table.keys[0], new or {})
            grown[table.name, key] = grown.get((table.name, key), 0) + growth
            if table.collections.get(key, 0) + grown[table.name, key] > account.collection_bytes:
                full.append(number)
        return full

    def _pay_if_possible(self, table: Table, charges: Iterable[Charge]) -> None:
        reasons = self._meter.find_refusals(table, charges)
        if reasons:
            raise self._refuse_throttled(reasons)

    def _forward_request(self, operation: str, request: Request, table: Table, old: Wire | None) -> Document:
        try:
            return self._account.engine.call(operation, omit_capacity_option(request))
        except Refusal as refusal:
            failed = refusal.code == "ConditionalCheckFailedException"
            if failed and self._account.enforces(Rule.FAILED_CONDITION_COSTS):
                self._meter.take_charges(table, self._meter.compute_charges(table, old, old))
            raise

    def _charge_write(
        self,
        request: Request,
        table: Table,
        old: Wire | None,
        new: Wire | None,
        charges: Sequence[Charge],
        answer: Document,
    ) -> Document:
        self._meter.take_charges(table, charges)
        self._meter.count_change(table, old, new)
        consumed = self._meter.report_consumed(request, [(table, charge) for charge in charges])
        return answer | ({"ConsumedCapacity": consumed[0]} if consumed else {})

    def _read_batch(self, requested: Mapping[str, Any]) -> Iterator[_Change]:
        strict = self._account.enforces(Rule.BATCH_MISSING_TABLE)
        for name, requests in requested.items():
            try:
                table = self._account.find_usable(name)
            except Refusal:
                if strict:
                    raise
                continue
            for request in requests:
                new: Stored | None = None
                change = request
                if "PutRequest" in request:
                    new = Stored(request["PutRequest"]["Item"])
                    change = {"PutRequest": {"Item": new}}
                key = _read_key(table, new) if new is not None else request["DeleteRequest"]["Key"]
                yield _Change(table, change, key, new, (name, str(sorted(key.items()))))

    def _check_batch(self, changes: list[_Change]) -> None:
        account = self._account
        if len(changes) > BATCH_ITEMS and account.enforces(Rule.BATCH_ITEMS):
            raise refuse_invalid(
                f"Too many items requested for the BatchWriteItem call: {len(changes)}, at most {BATCH_ITEMS}"
            )
        keys = {change.identity for change in changes}
        if len(keys) < len(changes) and account.enforces(Rule.BATCH_REPEATED_KEY):
            raise refuse_invalid("Provided list of item keys contains duplicates")
        for change in changes:
            if change.new is not None:
                self._check_item(change.table, change.new)
        if account.enforces(Rule.REQUEST_BYTES) and _measure_wire_size(changes) > BATCH_BYTES:
            raise Refusal("RequestEntityTooLarge", "The request is larger than 16 MB", status=413)

    def _check_transaction(self, tables: list[Table], actions: list[tuple[str, Any]]) -> None:
        if not self._account.enforces(Rule.TRANSACTION_SIZE):
            return
        if len(actions) > TRANSACTION_ACTIONS:
            raise refuse_invalid(f"Member must have length less than or equal to {TRANSACTION_ACTIONS}")
        size = sum(measure_item(inner["Item"]) for _, inner in actions if "Item" in inner)
        if size > TRANSACTION_BYTES:
            raise refuse_invalid("Transaction request cannot exceed 4 MB")
        large = [
            self._meter.is_too_large(table, inner.get("Item", {}))
            for table, (_, inner) in zip(tables, actions, strict=True)
        ]
        if any(large):
            raise refuse_transaction(["ValidationError" if own else "None" for own in large])

    def _check_item(self, table: Table, item: Wire) -> None:
        if self._meter.is_too_large(table, item):
            raise refuse_invalid(TOO_LARGE)

    def _read_old_items(self, changes: list[_Change]) -> list[Wire | None]:
        """Read the items that a batch replaces, in one call."""
        requested: dict[str, Document] = {}
        for change in {change.identity: change for change in changes}.values():
            requested.setdefault(change.table.name, {"Keys": [], "ConsistentRead": True})["Keys"].append(change.key)
        if not requested:
            return []
        responses = self._account.engine.call("BatchGetItem", {"RequestItems": requested})["Responses"]
        by_key = {
            (name, str(sorted(_read_key(self._account.tables[name], item).items()))): item
            for name, items in responses.items()
            for item in items
        }
        return [by_key.get(change.identity) for change in changes]

    def _get_item(self, table: Table, key: Document) -> Wire | None:
        request = {"TableName": table.name, "Key": key, "ConsistentRead": True}
        return self._account.engine.call("GetItem", request).get("Item")

    def _refuse_throttled(self, reasons: list[Reason]) -> Refusal:
        return refuse_throttled(reasons if self._account.enforces(Rule.THROTTLING_REASONS) else [])


def _measure_wire_size(changes: list[_Change]) -> int:
    """Measure the bytes of a batch as JSON; 0 if the batch is so small that even escaped characters fit into the limit."""
    small = sum(measure_item(change.new) for change in changes if change.new) < BATCH_BYTES / 12
    return 0 if small else sum(len(json.dumps(change.request, default=_encode_base64)) for change in changes)


def _encode_base64(raw: Any) -> str:
    """Encode a binary value as Base64, the form in which requests send it."""
    return b64encode(bytes(raw)).decode()


def _read_key(table: Table, item: Mapping[str, Any]) -> Document:
    missing = [name for name in table.keys if name not in item]
    if missing:
        raise refuse_invalid(f"One or more parameter values were invalid: Missing the key {missing[0]} in the item")
    return {name: item[name] for name in table.keys}
