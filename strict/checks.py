"""The common checks for creating, updating and deleting tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from strict.account import Account
from strict.refusals import Refusal, refuse_in_use, refuse_invalid, refuse_over_limit
from strict.rules import Rule
from strict.tables import Table

CHANGING_AT_ONCE = 500
MUTATIONS_AT_ONCE = 6
TABLE_UNITS = 40_000
ACCOUNT_UNITS = 80_000


def check_concurrency(account: Account) -> None:
    """Refuse a change while the greatest allowed number of tables is changing."""
    if account.enforces(Rule.CONCURRENT_CHANGES) and len(account.list_changing_tables()) >= CHANGING_AT_ONCE:
        raise refuse_over_limit(
            f"Subscriber limit exceeded: Only {CHANGING_AT_ONCE} tables can be created, updated, or deleted simultaneously"
        )


def check_table_quota(account: Account) -> None:
    """Refuse a new table if the Region already has its greatest number of tables."""
    if account.enforces(Rule.TABLE_QUOTA) and len(account.tables) >= account.most_tables:
        raise refuse_over_limit(
            f"Subscriber limit exceeded: There is a limit of {account.most_tables} tables per subscriber"
        )


def check_protection(account: Account, table: Table) -> None:
    """Refuse the deletion of a protected table."""
    if table.protected and account.enforces(Rule.PROTECTED_TABLE):
        raise refuse_invalid(
            f"Resource cannot be deleted as it is currently protected against deletion: {table.name}. "
            "Disable deletion protection first."
        )


def check_rate(account: Account) -> None:
    """Refuse the creation or deletion of a table if there were too many within the last ``timings.rate`` seconds."""
    now = account.clock.now()
    since = now - timedelta(seconds=account.timings.rate)
    account.mutations = [at for at in account.mutations if at > since]
    if account.enforces(Rule.CONTROL_PLANE_RATE) and len(account.mutations) >= MUTATIONS_AT_ONCE:
        raise Refusal("ThrottlingException", "The rate of control plane requests made by this account is too high")
    account.mutations.append(now)


def check_idle(account: Account, table: Table) -> None:
    """Refuse a change of a table while the table or one of its indexes is changing."""
    if not account.enforces(Rule.CHANGING_TABLE_IS_BUSY):
        return
    if table.status != "ACTIVE":
        change = {"CREATING": "created", "UPDATING": "updated", "DELETING": "deleted"}[table.status]
        raise refuse_in_use(
            f"Attempt to change a resource which is still in use: Table is being {change}: {table.name}"
        )


def check_units(account: Account, requested: Mapping[str, tuple[int, int]]) -> None:
    """Refuse units beyond the quotas of a table and of the account.

    ``requested`` maps the name of a table or an index to its write and read units.
    """
    if not account.enforces(Rule.UNIT_QUOTA):
        return
    for side, kind in ((0, "Write"), (1, "Read")):
        if any(units[side] > TABLE_UNITS for units in requested.values()):
            raise refuse_over_limit(
                f"Subscriber limit exceeded: {kind}CapacityUnits of a table or index may be {TABLE_UNITS} at most"
            )
        others = sum(
            (resource.write, resource.read)[side]
            for table in account.tables.values()
            for resource in table.list_resources()
            if resource.name not in requested
        )
        if others + sum(units[side] for units in requested.values()) > ACCOUNT_UNITS:
            raise refuse_over_limit(
                f"Subscriber limit exceeded: {kind}CapacityUnits of the account may be {ACCOUNT_UNITS} at most"
            )
