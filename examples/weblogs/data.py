"""Seventeen days of a web shop's access log, as the server writes it, and its events."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from examples.weblogs.convert import convert_lines

STREAM = "access"
DAYS = 17
PATHS = ("/", "/search", "/cart", "/pay", "/item/17", "/item/42")


def make_lines(now: datetime) -> Iterator[str]:
    """Requests of each day from 8 to 20 o'clock UTC, and of the last minutes; the oldest first."""
    chance = random.Random(1)  # noqa: S311 - made-up data
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    times = []
    for day in range(DAYS, -1, -1):
        for hour in range(8, 20):
            start = midnight - timedelta(days=day) + timedelta(hours=hour)
            times += [start + timedelta(seconds=chance.randrange(3600)) for _ in range(6)]
    times += [now - timedelta(seconds=chance.randrange(840)) for _ in range(12)]
    for time in sorted(time for time in times if time < now):
        path = chance.choice(PATHS)
        status = chance.choices((200, 304, 404, 502, 503), (90, 5, 3, 1, 2))[0]
        seconds = chance.expovariate(12 if path != "/pay" else 4)
        customer = f"c{chance.randrange(20)}" if path in ("/cart", "/pay") else "-"
        stamp = time.strftime("%d/%b/%Y:%H:%M:%S +0000")
        request = (
            f'"GET {path}?v={chance.randrange(9)} HTTP/1.1" {status} {chance.randrange(200, 20_000)} {seconds:.3f}'
        )
        yield f"shop.example 192.0.2.{chance.randrange(1, 255)} - {customer} [{stamp}] {request}"


def make_events(now: datetime) -> Iterator[dict[str, Any]]:
    """The events of these lines."""
    return convert_lines(make_lines(now))


if __name__ == "__main__":
    since = datetime.now(UTC) - timedelta(days=float(sys.argv[1]) if len(sys.argv) > 1 else 1)
    for line in make_lines(datetime.now(UTC)):
        if datetime.strptime(line.partition("[")[2].partition("]")[0], "%d/%b/%Y:%H:%M:%S %z") >= since:
            print(line)
