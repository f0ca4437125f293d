"""Ongoing transactions: while an item is in a transaction, other transactions and single writes of the item are
refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from strict.account import Account
from strict.refusals import Refusal, refuse_transaction
from strict.rules import Rule

Request = Mapping[str, Any]

_SINGLE = frozenset({"PutItem", "UpdateItem", "DeleteItem"})
_TRANSACTIONS = frozenset({"TransactWriteItems", "TransactGetItems"})
_Item = tuple[str, ...]


class Conflicts:
    """The items of transactions whose callers got no answer. When a caller retries, the service may still be at work.

    This double handles one call at a time, so no other transaction is ever ongoing during a call.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._locked: dict[_Item, datetime] = {}

    def hold(self, request: Request) -> None:
        """Lock the items of a transaction that continues after its caller stopped waiting."""
        until = self._account.clock.now() + timedelta(seconds=self._account.timings.transaction)
        self._locked |= dict.fromkeys(self._list_items(request), until)

    def check(self, operation: str, request: Request) -> None:
        """Raise a Refusal if an ongoing transaction has locked an item of the request."""
        if not self._locked or not self._account.enforces(Rule.CONFLICTS):
            return
        now = self._account.clock.now()
        self._locked = {item: until for item, until in self._locked.items() if now < until}
        if operation in _SINGLE:
            if self._identify_item(request) in self._locked:
                raise Refusal("TransactionConflictException", "Transaction is ongoing for the item")
        elif operation in _TRANSACTIONS:
            codes = ["TransactionConflict" if item in self._locked else "None" for item in self._list_items(request)]
            if "TransactionConflict" in codes:
                raise refuse_transaction(codes)

    def _list_items(self, request: Request) -> list[_Item]:
        return [self._identify_item(inner) for action in request["TransactItems"] for inner in action.values()]

    def _identify_item(self, inner: Request) -> _Item:
        """Identify an item by its table's name and the values of its key."""
        table = self._account.tables.get(inner["TableName"])
        key = inner.get("Key", inner.get("Item", {}))
        return inner["TableName"], *(str(key.get(name)) for name in (table.keys if table is not None else sorted(key)))
