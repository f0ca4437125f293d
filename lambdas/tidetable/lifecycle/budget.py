"""DynamoDB's limit on decreases of a table's capacity."""

from __future__ import annotations

from datetime import datetime, timedelta

from tidetable.ports import Table

# AWS: in a UTC day, 4 decreases at any time, then one per hour after the last decrease, and 27 per day at the most.
AT_ONCE = 4
PER_DAY = 27
SPACING = timedelta(hours=1)


def find_next_decrease(table: Table, now: datetime) -> datetime | None:
    """Find the instant at which the table's capacity may be lowered next; None if it may be lowered now."""
    if table.decreases_today < AT_ONCE or table.last_decrease is None or table.last_decrease.date() < now.date():
        return None
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
    if table.decreases_today >= PER_DAY:
        return midnight
    allowed = min(table.last_decrease + SPACING, midnight)
    return allowed if allowed > now else None
