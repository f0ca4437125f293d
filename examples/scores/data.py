"""Scores of two games by forty players in three weeks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

STREAM = "scores"
GAMES = {"chess": 0.7, "go": 0.3}


def make_events(now: datetime) -> Iterator[dict[str, Any]]:
    """Scores as they are made, the oldest first; many are tied."""
    chance = random.Random(2)  # noqa: S311 - made-up data
    for number in range(900):
        (game,) = chance.choices(list(GAMES), list(GAMES.values()))
        data = {"game": game, "score": int(chance.gauss(500, 120)), "level": chance.randrange(1, 9), "moves": "x" * 200}
        time = now - timedelta(days=21) + timedelta(minutes=33 * number)
        yield {"series": f"p{chance.randrange(40)}", "time": time.isoformat(), "id": f"g{number}", "data": data}
