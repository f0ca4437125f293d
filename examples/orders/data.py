"""Four months of orders, and refunds of some."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

STREAM = "orders"
DAYS = 120


def make_events(now: datetime) -> Iterator[dict[str, Any]]:
    """A few orders a day, more towards the end, the oldest first."""
    chance = random.Random(1)  # noqa: S311 - made-up data
    number = 0
    for day in range(DAYS, 0, -1):
        start = now - timedelta(days=day)
        for time in sorted(start + timedelta(seconds=chance.randrange(86_400)) for _ in range(1 + (DAYS - day) // 20)):
            number += 1
            total = round(chance.uniform(5, 400), 2)
            order = {
                "type": "order",
                "customer": f"c{chance.randrange(20)}",
                "total": total,
                "items": chance.randrange(1, 9),
            }
            yield {"series": f"shop-{number % 3}", "time": time.isoformat(), "id": f"o{number}", "data": order}
            if chance.random() < 0.1:
                refund = {"type": "refund", "order": f"o{number}", "total": -total}
                yield {"series": f"shop-{number % 3}", "time": time.isoformat(), "id": f"r{number}", "data": refund}
