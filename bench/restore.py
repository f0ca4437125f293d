"""The CPU of a restore per event: rows of a file become the bodies of requests, and pages of the table are compared.

The parts of a worker's time that wait for DynamoDB and S3 are not in it. Each is the best of three rounds.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from aws.archive.parquet import Parquet
from aws.dynamodb.wire import make_requests
from aws.zstd import Zstd
from tests.worlds.parts import make_item
from tidetable.forms.choose import choose_form
from tidetable.layout import Layout, Packing
from tidetable.times import to_micros

START = datetime(2026, 3, 1, tzinfo=UTC)
EVENTS = 100_000
PLAIN = Layout("time", 4, "id", 86_400)
LAYOUTS = {"plain": PLAIN, "packs": Layout("time", 4, "id", 86_400, pack=Packing(3_600, 300_000))}


def make_items() -> list[dict[str, Any]]:
    """Readings of 200 sensors, as items of a table."""
    chance = random.Random(7)  # noqa: S311 - made-up data
    items = []
    for number in range(EVENTS):
        at = START + timedelta(milliseconds=number * 800)
        data = {"celsius": {"N": f"{chance.gauss(12, 5):.2f}"}, "hpa": {"N": f"{chance.gauss(1013, 8):.1f}"}}
        accepted = {"at": {"N": str(to_micros(at) // 1000)}}
        items.append(make_item(PLAIN, f"sensor-{number % 200:03d}", number, f"{number:032x}", data, accepted))
    return items


def measure(act: Callable[[], object]) -> float:
    """Measure the microseconds of CPU per event."""
    rounds = []
    for _ in range(3):
        begun = time.process_time()
        act()
        rounds.append(time.process_time() - begun)
    return min(rounds) / EVENTS * 1e6


def main() -> None:
    """Print the microseconds of each step."""
    items, format = make_items(), Parquet()
    writer = format.writer(PLAIN, {})
    writer.add(json.dumps(items).encode())
    body = writer.finish()
    pages = [json.dumps(items[first : first + 4_000]).encode() for first in range(0, EVENTS, 4_000)]

    def write(layout: Layout) -> None:
        form = choose_form(layout)
        for rows in format.rows(body, layout, 0):
            whole = range(len(rows.batch.times))
            for first in whole[:: form.together]:
                numbers = whole[first : first + form.together]
                made = form.make_puts(rows.batch, numbers, "t", Zstd(), lambda item: item)  # type: ignore[arg-type, return-value]
                for _ in make_requests(made.puts):
                    pass

    for name, layout in LAYOUTS.items():
        print(f"writing, {name}: {measure(lambda layout=layout: write(layout)):.1f} µs per event")  # type: ignore[misc]
    print(f"comparing: {measure(lambda: [format.page_facts(page) for page in pages]):.1f} µs per event")


if __name__ == "__main__":
    main()
