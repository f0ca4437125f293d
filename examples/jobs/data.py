"""Jobs of five machines in three days."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

STREAM = "jobs"
STATUSES = {"done": 0.8, "failed": 0.15, "cancelled": 0.05}


def make_events(now: datetime) -> Iterator[dict[str, Any]]:
    """A job every nine minutes, the oldest first."""
    chance = random.Random(3)  # noqa: S311 - made-up data
    for number in range(480):
        (status,) = chance.choices(list(STATUSES), list(STATUSES.values()))
        data: dict[str, Any] = {
            "status": status,
            "queue": chance.choice(["build", "test"]),
            "seconds": round(chance.expovariate(1 / 90), 3),
            "log": "x" * 300,
        }
        if chance.random() < 0.05:
            data["owner"] = chance.choice(["ada", "grace"])
        time = now - timedelta(days=3) + timedelta(minutes=9 * number)
        yield {"series": f"m{chance.randrange(5)}", "time": time.isoformat(), "id": f"j{number}", "data": data}
