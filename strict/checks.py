"""What creating, updating and deleting tables check alike."""

from __future__ import annotations

from collections.abc import Mapping

from strict.account import Account
from strict.refusals import in_use, over_limit
from strict.rules import Rule
from strict.tables import Table

CHANGING_AT_ONCE = 500
TABLE_UNITS = 40_000
ACCOUNT_UNITS = 80_000


def check_concurrency(account: Account) -> None:
    """Refuse a change while as many tables are changing as may."""
    if account.enforces(Rule.CONCURRENT_CHANGES) and len(account.changing()) >= CHANGING_AT_ONCE:
        raise over_limit(
            f"Subscriber limit exceeded: Only {CHANGING_AT_ONCE} tables can be created, updated, or deleted simultaneously"
        )


def check_idle(account: Account, table: Table) -> None:
    """Refuse a change of a table that is changing, or one of whose indexes is."""
    if not account.enforces(Rule.CHANGING_TABLE_IS_BUSY):
        return
    if table.status != "ACTIVE":
        doing = {"CREATING": "created", "UPDATING": "updated", "DELETING": "deleted"}[table.status]
        raise in_use(f"Attempt to change a resource which is still in use: Table is being {doing}: {table.name}")


def check_units(account: Account, wanted: Mapping[str, tuple[int, int]]) -> None:
    """Refuse units beyond the quotas of a table and of the account; ``wanted`` are write and read by resource."""
    if not account.enforces(Rule.UNIT_QUOTA):
        return
    for side, kind in ((0, "Write"), (1, "Read")):
        if any(units[side] > TABLE_UNITS for units in wanted.values()):
            raise over_limit(
                f"Subscriber limit exceeded: {kind}CapacityUnits of a table or index may be {TABLE_UNITS} at most"
            )
        others = sum(
            (one.write, one.read)[side]
            for other in account.tables.values()
            for one in other.resources()
            if one.name not in wanted
        )
        if others + sum(units[side] for units in wanted.values()) > ACCOUNT_UNITS:
            raise over_limit(
                f"Subscriber limit exceeded: {kind}CapacityUnits of the account may be {ACCOUNT_UNITS} at most"
            )
