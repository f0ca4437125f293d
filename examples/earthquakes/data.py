"""The earthquakes as events, with their times shifted so that the newest is now."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parent / "earthquakes.ndjson"


def make_earthquakes(now: datetime) -> list[dict[str, Any]]:
    """Every earthquake as an event, oldest first; the newest happened at ``now``."""
    rows = [json.loads(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]
    newest = max(row["time"] for row in rows)
    return [
        {
            "series": row["net"],
            "time": _render_time(now - timedelta(milliseconds=newest - row["time"])),
            "id": row["id"],
            "data": {name: row[name] for name in ("mag", "place", "status", "lon", "lat", "depth")},
        }
        for row in rows
    ]


def drop_closing(events: list[dict[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """Drop the events of a day whose table closes before the stage's clock is moved: in the last hour of a day, the
    oldest. A table closes seven days after its day. The clock is moved by at most an hour and four minutes.
    """
    oldest = _render_time(now + timedelta(hours=1, minutes=4) - timedelta(days=7))[:10]
    return [event for event in events if event["time"] >= oldest]


def _render_time(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
