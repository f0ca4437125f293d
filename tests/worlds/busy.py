"""A stage on the strict service with one busy minute: its events are put into the engine itself, which is fast."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache

from msgspec.structs import replace

from aws.zstd import Zstd
from strict.replica import LaggingEngine
from tests.fakes.stage import Stage
from tests.worlds.codec import to_wire
from tests.worlds.packing import make_packs
from tidetable.events import Event

START = datetime(2026, 3, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
# When the events were accepted, in epoch milliseconds.
ACCEPTED = 1_772_409_600_000
_CONFIG = """
[streams.s]
period = "day"
late = "1h"
retention = 9
key = {{ partition_by = "time", bucket = "24h", shards = {shards} }}
"""
_ROLLUP = """
[[streams.s.rollup]]
name = "hours"
every = "1h"
by = ["series"]
fields = ["mag"]
retention = "365d"
"""


@cache
def make_events(count: int, length: timedelta = MINUTE) -> list[Event]:
    """Make events of up to 100 series, evenly spread from the start on. Callers share the list, and do not change it."""
    chance = random.Random(5)
    return [
        Event(
            f"device-{chance.randrange(100):04d}",
            START + number * length / count,
            f"{chance.getrandbits(64):016x}",
            {"mag": Decimal(f"{20 + chance.gauss(0, 2):.2f}"), "state": "running"},
        )
        for number in range(count)
    ]


def make_stage(
    shards: int, events: list[Event], *, span: str | None = None, batch: int = 500, rollup: bool = False
) -> Stage:
    """Make a stage three hours after the minute. With ``span``, its events are in packs of this span, ``batch`` in each."""
    config = _CONFIG.format(shards=shards) + (f'[streams.s.pack]\nspan = "{span}"\n' if span else "")
    stage = Stage(START - timedelta(hours=3), config + (_ROLLUP if rollup else ""))
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    if rollup:
        stage.refresh()
    (entry,) = [entry for entry in stage.catalog.entries("s", consistent=True) if START in entry.period]
    layout = replace(entry.layout, shards=1, shard_by="id") if span else entry.layout
    items = [layout.make_item(event, at=ACCEPTED) for event in events]
    if span:
        batches = [items[first : first + batch] for first in range(0, len(items), batch)]
        items = [pack.item for batch in batches for pack in make_packs(batch, entry.layout, Zstd()).packs]
    lagging = stage.dynamo.account.engine
    assert isinstance(lagging, LaggingEngine)
    for engine in (lagging._leader, lagging._replica):
        table = engine._find_table(entry.table)  # type: ignore[attr-defined]
        for item in items:
            table.put(to_wire(item))
    stage.clock.time = START + timedelta(hours=3)
    return stage
