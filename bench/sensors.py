"""Many sensors in three layouts: the write units of a point, and the read units of the usual questions.

1,200 sensors send every 10 seconds, each at an instant of its own, for an hour. A gateway sends the points in requests
of 500. The real use cases run on the tests' DynamoDB, which counts units. In the table by series each point is an item:
after the first minute, only the points of one machine are sent there, because other series do not matter to its reads.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from bench.results import note_ratios
from tests.fakes.stage import Stage
from tidetable.exact_json import encode_json
from tidetable.query import parse_query, run_query
from tidetable.query.aggregates import find_aggregate, parse_aggregation
from tidetable.query.latest import find_latest
from tidetable.times import to_text

MACHINES, SENSORS, SECONDS, BATCH, SHARDS = 40, 30, 10, 500, 16
START = datetime(2026, 3, 5, 10, tzinfo=UTC)
END = START + timedelta(hours=1)
STREAM = """
[streams.{name}]
period = "day"
late = "1h"
retention = 9
pack = {{ span = "1m" }}
key = {{ {key} }}
"""
KEYS = {
    "by_series": 'partition_by = "series"',
    "by_time": 'partition_by = "time", bucket = "24h"',
    "by_suffix": f'partition_by = "time", bucket = "24h", shards = {SHARDS}, shard_by = "series"',
    "by_head": f'partition_by = "time", bucket = "24h", shards = {SHARDS}, shard_by = "series", shard_until = "/"',
}
CONFIG = "".join(STREAM.format(name=name, key=key) for name, key in KEYS.items())
Point = dict[str, Any]


def make_points() -> list[Point]:
    """Make the points of an hour, in the order of time."""
    chance = random.Random(7)  # noqa: S311 - made-up data
    sensors = [
        (f"m{machine:02}/s{sensor:02}", chance.uniform(15, 90))
        for machine in range(MACHINES)
        for sensor in range(SENSORS)
    ]
    phases = [timedelta(milliseconds=chance.randrange(SECONDS * 1000)) for _ in sensors]
    points = []
    for tick in range(int((END - START).total_seconds()) // SECONDS):
        for (name, level), phase in zip(sensors, phases, strict=True):
            time = START + timedelta(seconds=tick * SECONDS) + phase
            value = round(level + chance.gauss(0, 0.5), 2)
            points.append({"series": name, "time": to_text(time), "data": {"value": value}})
    return sorted(points, key=lambda point: str(point["time"]))


def cut_requests(points: Sequence[Point]) -> Iterator[Sequence[Point]]:
    """Cut the points into the requests of the gateway."""
    for first in range(0, len(points), BATCH):
        yield points[first : first + BATCH]


class Hour:
    """A stage that has stored the hour in the three layouts; ``written`` has the write units and points of each."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._stage = Stage(START - timedelta(minutes=30), CONFIG)
        for _ in range(3):
            self._stage.run_lifecycle()
            self._stage.clock.sleep(300)
        self.written = {name: [0.0, 0] for name in KEYS}
        for request in cut_requests(points):
            self._stage.clock.time = datetime.fromisoformat(str(request[-1]["time"]))
            first_minute = self._stage.clock.time < START + timedelta(minutes=1)
            for name in KEYS:
                sent = request
                if name == "by_series" and not first_minute:
                    sent = [point for point in request if str(point["series"]).startswith("m00/")]
                if sent:
                    outcome = self._stage.send(name, encode_json(sent))
                    assert outcome.accepted == len(sent), outcome
                    self.written[name][0] += outcome.write_units
                    self.written[name][1] += len(sent)
        # Reads are eventually consistent.
        self._stage.clock.sleep(3)

    def _rest(self) -> Stage:
        """Return the stage after a pause: a partition reads 3,000 units per second."""
        self._stage.clock.sleep(5)
        return self._stage

    def count_page(self, name: str, *series: str, **more: str) -> float:
        """Count the read units of the hour's events of some series."""
        stage, stream = self._rest(), self._stage.config.streams[name]
        parameters: dict[str, Sequence[str]] = {"from": [to_text(START)], "to": [to_text(END)], "limit": ["1000"]}
        parameters |= {name: [value] for name, value in more.items()} | ({"series": series} if series else {})
        units = 0.0
        while True:
            query = parse_query(stream, parameters, stage.clock.now(), stage.seal)
            page = run_query(query, stream, self._rest().reader(), stage.clock.now(), lambda: 100.0)
            units += page.cost.units
            if page.next is None or "limit" in more:
                return units
            parameters = {"cursor": [page.next], "limit": ["1000"]}

    def count_aggregate(self, name: str, *series: str, prefix: str = "") -> float:
        """Count the read units of the hour's mean by the minute, of some series or of all."""
        stage, stream = self._rest(), self._stage.config.streams[name]
        parameters: dict[str, Sequence[str]] = {"from": [to_text(START)], "to": [to_text(END)], "step": ["1m"]}
        parameters |= {"stat": ["avg"], "field": ["value"]} | ({"series": series} if series else {})
        parameters |= {"series:prefix": [prefix]} if prefix else {}
        asked = parse_aggregation(stream, parameters, stage.clock.now(), stage.seal)
        return find_aggregate(asked, stream, stage.reader(), stage.clock.now(), lambda: 100.0).cost.units

    def count_latest(self, name: str, *series: str) -> float:
        """Count the read units of the latest events of some series, each of which sent within 10 seconds."""
        stage, stream = self._rest(), self._stage.config.streams[name]
        found = find_latest(stream, {"series": series}, stage.reader(), stage.clock.now(), lambda: 100.0)
        assert len(found.events) == len(series)
        return found.cost.units


def main() -> None:
    """Measure everything, and write the figures to bench/results.json."""
    hour = Hour(make_points())
    machine = [f"m00/s{sensor:02}" for sensor in range(SENSORS)]
    some = machine[:5]
    for name in KEYS:
        units, points = hour.written[name]
        print(f"{name}: {units / points:.4f} write units per point")
        print(f"  the hour of one sensor: {max(hour.count_page(name, each) for each in some):.1f} read units")
        print(f"  its mean by the minute: {max(hour.count_aggregate(name, each) for each in some):.1f}")
        print(f"  the hour of a machine's 30 sensors, its mean: {hour.count_aggregate(name, *machine):.1f}")
        if name != "by_time":
            print(f"  the latest event of a sensor: {max(hour.count_latest(name, each) for each in some):.1f}")
            print(f"  the latest events of 30 sensors: {hour.count_latest(name, *machine):.1f}")
        if name != "by_series":
            print(f"  the newest 100 events of all: {hour.count_page(name, limit='100'):.1f}")
            print(f"  the mean of all by the minute: {hour.count_aggregate(name):.1f}")
            print(f"  the mean of a machine by the prefix: {hour.count_aggregate(name, prefix='m00/'):.1f}")
    units, points = hour.written["by_suffix"]
    whole = hour.count_aggregate("by_suffix")
    note_ratios(
        digits=3,
        sensors_write_units_per_point=units / points,
        sensors_latest_read_units=max(hour.count_latest("by_suffix", each) for each in some),
        sensors_hour_over_hour_of_all=max(hour.count_page("by_suffix", each) for each in some) / whole,
    )


if __name__ == "__main__":
    main()
