"""Units of large values on the strict service: whether the reported write units are exact, and the units that
compression and cold fields save.

Nothing is timed: the service counts units, so every machine prints the same figures.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from bench.results import note_ratios
from strict.units import measure_item
from tests.fakes.stage import Stage
from tidetable.query import parse_query, run_query
from tidetable.times import to_text

NOON = datetime(2026, 3, 15, 12, tzinfo=UTC)
EVENTS = 200
WORDS = (
    "the tide comes in and goes out twice a day along this coast and every harbour keeps its own table of it".split()  # noqa: SIM905
)
CONFIG = """
[streams.plain]
period = "day"
late = "1d"
retention = 5
key = { partition_by = "time", bucket = "24h", shards = 1 }
index = [{ name = "status", partition_by = "status" }]
[streams.small]
period = "day"
late = "1d"
retention = 5
large = { compress_above = 1024 }
key = { partition_by = "time", bucket = "24h", shards = 1 }
index = [{ name = "status", partition_by = "status" }]
[streams.apart]
period = "day"
late = "1d"
retention = 5
cold = ["raw"]
key = { partition_by = "time", bucket = "24h", shards = 1 }
index = [{ name = "status", partition_by = "status" }]
"""


def make_events() -> list[dict[str, Any]]:
    """Requests of a web server: a few fields, and 3 to 4 KB of the raw message. Half of them are in the index."""
    return [
        {
            "series": f"host-{number % 7}",
            "id": f"request-{number:04d}",
            "time": to_text(NOON - timedelta(seconds=number)),
            "data": {
                "path": f"/tides/{number % 30}",
                "ms": number % 97,
                **({"status": str(500 + number % 4)} if number % 2 else {}),
                "raw": " ".join(WORDS[(number * 31 + k * k) % len(WORDS)] for k in range(700 + number)),
            },
        }
        for number in range(EVENTS)
    ]


def send_events(stage: Stage, stream: str) -> float:
    """The write units that the function reports for all events."""
    sent = make_events()
    return sum(
        stage.send(stream, json.dumps(sent[start : start + 50]).encode()).write_units for start in range(0, EVENTS, 50)
    )


def price_items(stage: Stage, stream: str) -> int:
    """The write units of the items in the tables by the published rule: one unit per KB, rounded up, for the item
    itself and again for each index that holds the item.
    """
    total = 0
    for name, table in stage.dynamo.account.tables.items():
        if f".{stream}." not in name:
            continue
        for item in stage.dynamo.account.engine.call("Scan", {"TableName": table.name})["Items"]:
            total += ceil(measure_item(item) / 1024) * (1 + ("pk_status" in item))
    return total


def query_newest(stage: Stage, stream: str, **parameters: str) -> float:
    """Query the newest hundred events; return the read units."""
    policy = stage.config.streams[stream]
    query = {"from": [to_text(NOON - timedelta(hours=1))], "limit": ["100"]}
    query |= {name: [value] for name, value in parameters.items()}
    now = stage.clock.now()
    answer = run_query(parse_query(policy, query, now, stage.seal), policy, stage.reader(), now, lambda: 100.0)
    if answer.count != 100:
        raise AssertionError(f"{answer.count} events")
    return answer.cost.units


def main() -> None:
    """Write the same events into three streams, read them, and print the ratios."""
    stage = Stage(NOON, CONFIG)
    while stage.run_lifecycle().done:
        pass
    write_units = {stream: send_events(stage, stream) for stream in ("plain", "small", "apart")}
    print(f"{EVENTS} events with 3 to 4 KB of raw text; write units: {write_units}")
    stage.settle()
    reads = {stream: query_newest(stage, stream) for stream in write_units}
    print(f"the newest 100; read units: {reads}")
    note_ratios(
        write_units_over_formula=write_units["plain"] / price_items(stage, "plain"),
        write_units_plain_over_compressed=write_units["plain"] / write_units["small"],
        write_units_plain_over_cold=write_units["plain"] / write_units["apart"],
        read_units_plain_over_cold=reads["plain"] / reads["apart"],
    )


if __name__ == "__main__":
    main()
