"""The events per second that a table takes before the first throttle, by number of suffixes and key layout, on the
strict service. It also prints the comparison of one key, random and calculated suffixes (bench/suffix_kinds.py).

The table has more throughput than it needs (40,000 units per second, 40 physical partitions), so only the distribution of
the keys limits it. Events of 1 KB come evenly for a minute, with real keys of real layouts. Bisection finds the highest rate
without a throttle, to 1 %. The ideal line is 1,000 events per second per suffix: the rate if no two partition keys share a
partition.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from bench import suffix_kinds
from bench.suffix_kinds import KINDS, Costs, Kind
from bench.suffix_picture import draw_costs
from strict import ManualClock, StrictDynamo
from strict.memory import MemoryEngine
from strict.throughput import PARTITION_UNITS, Throughput
from tidetable.events import Event
from tidetable.layout import Layout

PICTURE = Path(__file__).parents[1] / "docs" / "inside" / "suffix.svg"
SUFFIXES = (1, 2, 4, 8, 16, 32)
UNITS = 40_000
SECONDS = 60
TICKS = 5
START = datetime(2026, 3, 15, 12, tzinfo=UTC)
_POOL = 2 * UNITS

Series = Callable[[random.Random], str]
LAYOUTS: dict[str, tuple[str, Series]] = {
    "by time": ("time", lambda chance: f"device-{chance.randrange(1000)}"),
    "by series, 1,000 alike": ("series", lambda chance: f"device-{chance.randrange(1000)}"),
    "by series, one sends half": (
        "series",
        lambda chance: "device-0" if chance.random() < 0.5 else f"device-{chance.randrange(1000)}",
    ),
    "by series, only one": ("series", lambda _: "device-0"),
}


def make_throughput() -> Throughput:
    """Take the throughput of a new table from the strict service itself."""
    dynamo = StrictDynamo(MemoryEngine(), ManualClock(START))
    dynamo.call(
        "CreateTable",
        {
            "TableName": "bench",
            "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
            "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
            "BillingMode": "PROVISIONED",
            "ProvisionedThroughput": {"WriteCapacityUnits": UNITS, "ReadCapacityUnits": 1},
        },
    )
    return dynamo.account.tables["bench"].throughput


def make_partition_keys(name: str, suffixes: int) -> list[str]:
    """The partition keys of many events, in the order in which the events come."""
    partition_by, series = LAYOUTS[name]
    layout = Layout(
        "time" if partition_by == "time" else "series", suffixes, "id", 3600 if partition_by == "time" else 0
    )
    chance = random.Random(1)  # noqa: S311 - repeatable on purpose
    return [layout.make_key(Event(series(chance), START, f"event-{number}", {})).pk for number in range(_POOL)]


def find_rate(name: str, suffixes: int) -> int:
    """Find the highest rate of a layout without a throttle, to 1 %."""
    return bisect_rate(make_partition_keys(name, suffixes))


def bisect_rate(pool: list[str]) -> int:
    """Find the highest rate of events with these partition keys without a throttle, to 1 %."""
    low, high = 0, UNITS
    while high - low > max(high // 100, 1):
        rate = (low + high + 1) // 2
        low, high = (rate, high) if _is_sustained(pool, rate) else (low, rate - 1)
    return low


def _is_sustained(pool: list[str], rate: int) -> bool:
    throughput, now = make_throughput(), START
    of_key = {key: throughput.find_partition(key, now, on_demand=False) for key in set(pool)}
    partitions = cycle([of_key[key] for key in pool])
    sent = 0
    for tick in range(1, SECONDS * TICKS + 1):
        now += timedelta(seconds=1 / TICKS)
        due = rate * tick // TICKS
        for partition, units in Counter(islice(partitions, due - sent)).items():
            if throughput.write.find_refusal(units, partition, now) is not None:
                return False
            throughput.write.take(units, partition, now)
        sent = due
    return True


def measure_rates() -> dict[str, list[int]]:
    """Sustained rates by layout, in the order of SUFFIXES."""
    return {name: [find_rate(name, count) for count in SUFFIXES] for name in LAYOUTS}


def compare_kinds() -> dict[Kind, Costs]:
    """One key, random and calculated suffixes: their sustained writes, look-ups, ranges and repetitions."""
    return {
        kind: suffix_kinds.measure_kind(kind, bisect_rate(suffix_kinds.make_partition_keys(kind, _POOL)))
        for kind in KINDS
    }


def render_table(rates: dict[str, list[int]]) -> str:
    """Write the results as a table in Markdown."""
    rows = ["| suffixes | ideal | " + " | ".join(rates) + " |", "|---" * (len(rates) + 2) + "|"]
    for place, count in enumerate(SUFFIXES):
        ideal = min(count * PARTITION_UNITS["Write"], UNITS)
        cells = [f"{layout[place]:,}" for layout in rates.values()]
        rows.append(f"| {count} | {ideal:,} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def main() -> None:
    """Print both tables, and the gain that suffixes bring; draw docs/inside/suffix.svg."""
    costs = compare_kinds()
    print(suffix_kinds.render_table(costs))
    PICTURE.write_text(draw_costs(costs))
    print("events per second before the first throttle")
    rates = measure_rates()
    print(render_table(rates))
    print(f"suffix_events_per_second_32_over_1 {rates['by time'][-1] / rates['by time'][0]:.1f}")


if __name__ == "__main__":
    main()
