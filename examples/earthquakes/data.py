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


def _render_time(instant: datetime) -> str:
    return instant.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
