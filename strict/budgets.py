"""Limit the changes that are allowed only a few times per day or month: decreases of units, and changes of the table
class.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from strict.account import Account
from strict.refusals import refuse_over_limit
from strict.rules import Rule
from strict.tables import Resource, Table

DECREASES_AT_ONCE = 4
DECREASES_A_DAY = 27
DECREASE_SPACING = timedelta(hours=1)
CLASS_CHANGES = 2
CLASS_WINDOW = timedelta(days=30)


def check_decrease(account: Account, resource: Resource) -> None:
    """Refuse a decrease of units if this UTC day allows no more decreases now."""
    if not account.enforces(Rule.DECREASES):
        return
    now = account.clock.now()
    today = resource.list_decreases(now)
    if len(today) < DECREASES_AT_ONCE:
        return
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    following = midnight if len(today) >= DECREASES_A_DAY else min(today[-1] + DECREASE_SPACING, midnight)
    if now < following:
        raise refuse_over_limit(
            "Subscriber limit exceeded: Provisioned throughput decreases are limited within a given UTC day. After the "
            f"first {DECREASES_AT_ONCE} decreases, each subsequent decrease in the same UTC day can be performed at most "
            f"once every {DECREASE_SPACING.seconds} seconds. Number of decreases today: {len(today)}. Last decrease at "
            f"{format_time(today[-1])}. Next decrease can be made at {format_time(following)}"
        )


def check_class_change(account: Account, table: Table) -> None:
    """Refuse a change of the table class if the last 30 days had two changes already."""
    since = account.clock.now() - CLASS_WINDOW
    recent = [change for change in table.class_changes if change > since]
    if len(recent) >= CLASS_CHANGES and account.enforces(Rule.CLASS_CHANGES):
        raise refuse_over_limit(
            "Subscriber limit exceeded: Table class updates are limited to 2 times in a trailing 30 day window"
        )


def format_time(at: datetime) -> str:
    """Format a time in the form of the service's messages."""
    return at.strftime("%A, %B %d, %Y at %I:%M:%S %p Coordinated Universal Time")
