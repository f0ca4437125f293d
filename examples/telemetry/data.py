"""Readings of eight devices in two days, one of which falls silent."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

STREAM = "telemetry"


def make_events(now: datetime) -> Iterator[dict[str, Any]]:
    """A reading of every device every twenty minutes, the oldest first."""
    chance = random.Random(4)  # noqa: S311 - made-up data
    start = now - timedelta(days=2)
    for step in range(144):
        time = start + timedelta(minutes=20 * step + 1)
        for device in range(8):
            if device == 3 and step % 72 > 40:
                continue
            data = {
                "temp": round(20 + device + chance.gauss(0, 2), 2),
                "battery": 100 - step // 2,
                "ok": chance.random() > 0.1,
            }
            yield {"series": f"d{device}", "time": time.isoformat(), "id": f"r{step}", "data": data}
