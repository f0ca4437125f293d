"""How often capacity may be lowered: 4 times per day at once, then hourly, 27 times at most."""

from datetime import UTC, datetime, timedelta

import pytest

from tidetable.config import TableClass
from tidetable.ladder import find_next_decrease
from tidetable.ports import Table

NOW = datetime(2026, 3, 15, 12, tzinfo=UTC)
MIDNIGHT = datetime(2026, 3, 16, tzinfo=UTC)
CASES = [
    ("none used", 0, None, None),
    ("three used a minute ago", 3, NOW - timedelta(minutes=1), None),
    ("four used, the last 20 minutes ago", 4, NOW - timedelta(minutes=20), NOW + timedelta(minutes=40)),
    ("four used, the last an hour ago", 4, NOW - timedelta(hours=1), None),
    ("four used yesterday", 4, NOW - timedelta(hours=13), None),
    ("four used at the end of yesterday, now it is a quarter past midnight", 4, "yesterday", None),
    ("all of yesterday's used, now it is a quarter past midnight", 27, "yesterday", None),
    ("all of the day used", 27, NOW - timedelta(hours=2), MIDNIGHT),
    (
        "all but one of the day used, the last 20 minutes ago",
        26,
        NOW - timedelta(minutes=20),
        NOW + timedelta(minutes=40),
    ),
    ("all but one of the day used, the last two hours ago", 26, NOW - timedelta(hours=2), None),
]


@pytest.mark.parametrize(("name", "used", "last", "expected"), CASES)
def test_a_decrease_is_allowed_or_says_from_when(
    name: str, used: int, last: datetime | str | None, expected: datetime | None
) -> None:
    now = NOW
    if isinstance(last, str):
        # 23:50 of the day before, 25 minutes ago.
        last, now = datetime(2026, 3, 14, 23, 50, tzinfo=UTC), datetime(2026, 3, 15, 0, 15, tzinfo=UTC)
    assert find_next_decrease(Table("t", "ACTIVE", 5, 5, TableClass.STANDARD, used, last), now) == expected


def test_a_new_day_allows_decreases_at_once_though_the_last_is_not_an_hour_old() -> None:
    late = MIDNIGHT - timedelta(minutes=10)
    table = Table("t", "ACTIVE", 5, 5, TableClass.STANDARD, 4, MIDNIGHT - timedelta(minutes=30))
    assert find_next_decrease(table, late) == MIDNIGHT
    assert find_next_decrease(table, MIDNIGHT) is None
