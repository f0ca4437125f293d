"""Transactions under way: an item that one of them holds refuses every other transaction and every single write."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from strict.account import Account
from strict.refusals import Refusal
from strict.rules import Rule

Request = Mapping[str, Any]

_SINGLE = frozenset({"PutItem", "UpdateItem", "DeleteItem"})
_TRANSACTIONS = frozenset({"TransactWriteItems", "TransactGetItems"})
_Item = tuple[str, ...]


class Conflicts:
    """Items of transactions whose callers had no answer: the service may still be at work when they try again.

    Calls are taken one after another here, so nothing else is ever under way at the same time as another call.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._held: dict[_Item, datetime] = {}

    def hold(self, request: Request) -> None:
        """Let a transaction go on after its caller has stopped to wait."""
        until = self._account.clock.now() + timedelta(seconds=self._account.timings.transaction)
        self._held |= dict.fromkeys(self._items(request), until)

    def check(self, operation: str, request: Request) -> None:
        """Refusal, if the request is about an item that a transaction holds."""
        if not self._held or not self._account.enforces(Rule.CONFLICTS):
            return
        now = self._account.clock.now()
        self._held = {item: until for item, until in self._held.items() if now < until}
        if operation in _SINGLE:
            if self._item(request) in self._held:
                raise Refusal("TransactionConflictException", "Transaction is ongoing for the item")
        elif operation in _TRANSACTIONS:
            codes = ["TransactionConflict" if item in self._held else "None" for item in self._items(request)]
            if "TransactionConflict" in codes:
                raise Refusal(
                    "TransactionCanceledException",
                    f"Transaction cancelled, please refer cancellation reasons for specific reasons [{', '.join(codes)}]",
                    members={"CancellationReasons": [{"Code": code} for code in codes]},
                )

    def _items(self, request: Request) -> list[_Item]:
        return [self._item(inner) for action in request["TransactItems"] for inner in action.values()]

    def _item(self, inner: Request) -> _Item:
        """An item as its table's name and the values of its key."""
        table = self._account.tables.get(inner["TableName"])
        key = inner.get("Key", inner.get("Item", {}))
        return inner["TableName"], *(str(key.get(name)) for name in (table.keys if table is not None else sorted(key)))
