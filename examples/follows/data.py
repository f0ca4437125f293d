"""Three months of follows and unfollows among forty accounts, most of them of a few popular ones."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

STREAM = "follows"
DAYS = 85
POPULAR = {"grace": 12, "ada": 6, "alan": 3}


def make_events(now: datetime) -> Iterator[dict[str, Any]]:
    """A few edges per day, the oldest first: nobody follows an account twice, and one edge in eight ends again."""
    chance = random.Random(5)  # noqa: S311 - made-up data
    accounts = [*POPULAR, *(f"u{number}" for number in range(37))]
    weights = [POPULAR.get(name, 1) for name in accounts]
    edges: dict[tuple[str, str], None] = {}
    start = now - timedelta(days=DAYS)
    for minute in range(0, DAYS * 1440, 150):
        time = start + timedelta(minutes=minute + chance.randrange(150))
        if edges and chance.random() < 0.12:
            edge = chance.choice(list(edges))
            edges.pop(edge)
            yield _make_event(*edge, "unfollow", time)
            continue
        follower, (followed,) = chance.choice(accounts), chance.choices(accounts, weights)
        if follower != followed and (follower, followed) not in edges:
            edges[follower, followed] = None
            yield _make_event(follower, followed, "follow", time)


def _make_event(follower: str, followed: str, kind: str, time: datetime) -> dict[str, Any]:
    return {"series": follower, "time": time.isoformat(), "id": followed, "data": {"follows": followed, "type": kind}}
