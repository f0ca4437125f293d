"""A stage for screenshots: a month of four streams.

They have ladders, table classes, an index, a ranking, a rollup, versions and archives.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any

from bill.consumed import ConsumedUnits, Traffic
from examples.earthquakes.data import make_earthquakes
from examples.weblogs.data import make_events as make_weblogs
from tests.fakes.stage import Stage
from tests.worlds.examples import NOW
from tidetable.activity import Counted

DAYS = 31
CONFIG = """
[lifecycle]
delete_expired = true

[streams.quakes]
period = "day"
late = "2d"
retention = 21
premake = 2
[streams.quakes.key]
partition_by = "time"
bucket = "6h"
shards = 1
[[streams.quakes.index]]
name = "strongest"
partition_by = "*"
sort_by = "mag"
project = ["place", "status", "depth"]
[[streams.quakes.rollup]]
name = "hours"
every = "1h"
by = ["series"]
fields = ["mag"]
retention = "365d"
[streams.quakes.capacity]
mode = "provisioned"
[[streams.quakes.capacity.ladder]]
age = 0
write = 200
read = 100
[[streams.quakes.capacity.ladder]]
age = "late"
write = 40
read = 100
[[streams.quakes.capacity.ladder]]
age = 1
write = 10
read = 50
[[streams.quakes.capacity.ladder]]
age = 5
write = 2
read = 10
class = "infrequent-access"

[streams.access]
period = "day"
late = "6h"
retention = 10
[streams.access.key]
partition_by = "time"
bucket = "24h"
shards = 1
[[streams.access.index]]
name = "by_error"
partition_by = "error"
[streams.access.capacity]
mode = "on-demand"
[[streams.access.capacity.ladder]]
age = 0
[[streams.access.capacity.ladder]]
age = 4
class = "infrequent-access"

[streams.buoys]
period = "week"
late = "1d"
retention = 6
[streams.buoys.key]
partition_by = "series"
[[streams.buoys.rollup]]
name = "days"
every = "1d"
by = ["series"]
fields = ["level", "temperature"]
retention = "730d"
[streams.buoys.capacity]
mode = "provisioned"
[[streams.buoys.capacity.ladder]]
age = 0
write = 50
read = 50
[[streams.buoys.capacity.ladder]]
age = 1
write = 5
read = 25
class = "infrequent-access"

[streams.reports]
period = "month"
late = "10d"
retention = 6
versions = "keep"
[streams.reports.key]
partition_by = "series"
"""
BUOYS = ("dover", "esbjerg", "helgoland")


def quakes() -> Iterator[dict[str, Any]]:
    """Repeat the week of the example, with different identifiers in each week."""
    for week in range(5):
        for event in make_earthquakes(NOW - timedelta(days=7 * week)):
            yield {**event, "id": f"{event['id']}-{week}"}


def tides() -> Iterator[dict[str, Any]]:
    """Water levels and temperatures of three places, every hour."""
    chance = random.Random(7)
    for hour in range(DAYS * 24):
        time = NOW - timedelta(hours=hour)
        turns = time.timestamp() / 3600 / 12.42 * math.tau
        for number, name in enumerate(BUOYS):
            spring = 1 + 0.35 * math.cos(time.timestamp() / 86400 / 14.77 * math.tau)
            level = (2.4 - 0.6 * number) * spring * math.cos(turns - 0.9 * number) + chance.gauss(0, 0.04)
            warmth = 7 + number + 2.5 * math.sin(hour / 24 * math.tau) + chance.gauss(0, 0.2)
            yield {
                "series": name,
                "time": time.isoformat(),
                "id": f"{time:%m%dT%H}",
                "data": {"level": round(level, 2), "temperature": round(warmth, 1), "state": "ok"},
            }


def reports() -> Iterator[dict[str, Any]]:
    """Reports that were corrected: each identifier comes three times."""
    for number, text in enumerate(("first notice", "corrected", "final")):
        time = NOW - timedelta(days=3)
        data = {"title": "Swarm near the coast", "status": text, "events": 12 + number, "author": "duty desk"}
        yield {"series": "coast", "time": time.isoformat(), "id": "r-17", "data": data, "sent": number}


def all_events() -> Iterator[tuple[datetime, str, dict[str, Any]]]:
    """Yield every event of the last month, with its time and its stream."""
    feeds = {"quakes": quakes(), "access": iter(make_weblogs(NOW)), "buoys": tides(), "reports": reports()}
    for stream, events in feeds.items():
        for event in events:
            time = datetime.fromisoformat(event["time"])
            # The last hour has no events: after the last event the lifecycle takes some minutes, and nothing may be
            # written after NOW.
            if NOW - timedelta(days=DAYS) <= time <= NOW - timedelta(hours=1):
                yield time, stream, {name: value for name, value in event.items() if name != "sent"}


def showcase() -> Stage:
    """Make the stage after a month."""
    stage = Stage(NOW - timedelta(days=DAYS, hours=2), CONFIG)
    settle(stage)
    rows = sorted(all_events(), key=lambda row: row[0])
    for _, part in groupby(rows, key=lambda row: (row[0].date(), row[0].hour // 6)):
        many = list(part)
        stage.clock.time = max(stage.clock.now(), many[-1][0])
        settle(stage)
        for stream in stage.config.streams:
            events = [event for _, name, event in many if name == stream]
            while events:
                batch, events = events[:500], events[500:]
                stage.send(stream, json.dumps(batch, default=float).encode())
                stage.drain()
        refresh(stage)
    stage.clock.time = NOW
    settle(stage)
    refresh(stage)
    stage.clock.time = NOW
    meter(stage)
    return stage


def settle(stage: Stage) -> None:
    """Run the lifecycle until it has nothing to do."""
    for _ in range(30):
        if not stage.run_lifecycle().count("done"):
            return
        stage.clock.sleep(30)


def refresh(stage: Stage) -> None:
    """Seal all buckets of rollups that have ended."""
    while (report := stage.refresh()) is not None and report.sealed:
        stage.clock.sleep(1)


def meter(stage: Stage) -> None:
    """Set the units that the tables on demand consumed, and the traffic of the API."""
    chance = random.Random(3)
    for day in range(11):
        table = f"tidetable-lapse.access.{NOW - timedelta(days=day):%Y-%m-%d}"
        writes = 3e6 * chance.uniform(0.7, 1.3)
        stage.meters.units[(table, "")] = ConsumedUnits(writes, writes / 4)
        stage.meters.units[(table, "by_error")] = ConsumedUnits(writes / 40, writes / 90)
    stage.gauges.counted = make_minutes(chance)
    send_newest(stage)
    stage.meters.counted = Traffic(requests=2e6, events=2e7, queries=4e5, read_units=1e6)


def make_minutes(chance: random.Random) -> Counted:
    """Make the counts of the last half hour."""
    minutes = [NOW.replace(second=0, microsecond=0) - timedelta(minutes=back) for back in range(1, 34)]
    rates = {"access.2026-03-31": 60.0, "buoys.2026-W14": 180.0}
    units = {
        f"tidetable-lapse.{table}": {minute: rate * chance.uniform(0.6, 1.4) for minute in minutes}
        for table, rate in rates.items()
    }
    units["tidetable-lapse.quakes.2026-03-31"] = dict.fromkeys(minutes[1::5], 1.0)
    events = {minute: 240 * chance.uniform(0.8, 1.2) for minute in minutes}
    return Counted(units, events, {}, dict.fromkeys(minutes, 1.4), {}, dict.fromkeys(minutes, 0.0))


def send_newest(stage: Stage) -> None:
    """Send events of the last minutes, a moment before the pictures are taken."""
    stage.clock.time = NOW - timedelta(seconds=5)
    access = [("shop.example", age, {"path": "/cart", "status": 200, "ms": 12}) for age in range(6, 400)]
    quakes = [("nc", age, {"mag": 1.9, "place": "Geysers"}) for age in range(40, 3600, 300)]
    for stream, rows in (("access", access), ("quakes", quakes)):
        events = [
            {"series": series, "id": f"newest-{age}", "time": (NOW - timedelta(seconds=age)).isoformat(), "data": data}
            for series, age, data in rows
        ]
        stage.send(stream, json.dumps(events).encode())
        stage.drain()
    stage.clock.time = NOW
