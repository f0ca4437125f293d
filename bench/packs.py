"""The cost of packs: write units per event, the bytes of the format, and its CPU without the rest of the function.

The tests' DynamoDB counts units: of each item as BatchWriteItem charges it, and of each page that the query function
reads. The events are the demo's real earthquakes, and telemetry of 100 to 200 bytes from 200 devices. The telemetry is
measured with ids that the pipeline derives, and with UUIDs. Requests have 500 or 50 events.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any
from uuid import UUID

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from aws.zstd import Zstd
from bench.results import note_ratios
from examples.earthquakes.data import make_earthquakes
from strict.units import WRITE_BYTES, measure_item
from tests.fakes.stage import Stage
from tests.worlds.busy import START as BUSY_START
from tests.worlds.busy import make_events, make_stage
from tests.worlds.codec import to_wire
from tests.worlds.packing import make_packs
from tidetable.events import Event, Item
from tidetable.exact_json import canonical_json, decode_json, encode_json
from tidetable.layout import Layout, Packing
from tidetable.packs import open_item, walk_packs
from tidetable.ports import Put
from tidetable.query import parse_query, run_query
from tidetable.times import from_text, to_text

NOW = datetime(2026, 3, 5, 11, tzinfo=UTC)
# A day of earthquakes is one or two packs: there are few earthquakes, and a query of them covers a day or more.
QUAKES = Layout("time", 1, "id", 86_400, pack=Packing(86_400, 65_536))
TELEMETRY = Layout("time", 1, "id", 3_600, pack=Packing(60, 65_536))
ZSTD = Zstd()
CONFIG = """
[streams.packed]
period = "day"
late = "1d"
retention = 300
key = { partition_by = "time", bucket = "1h", shards = 1 }
capacity = { mode = "on-demand" }
pack = { span = "1m" }
[streams.plain]
period = "day"
late = "1d"
retention = 300
key = { partition_by = "time", bucket = "1h", shards = 1 }
capacity = { mode = "on-demand" }
"""
RATE, PAGE, BUSY_RATE = 850, 100, 10_000
EVENTS, ROUNDS = 10_000, 9


def make_earthquake_events() -> list[Event]:
    """The demo's earthquakes, oldest first."""
    rows = make_earthquakes(NOW)
    return [
        Event(row["series"], from_text(row["time"]), row["id"], decode_json(encode_json(row["data"]))) for row in rows
    ]


def make_telemetry(count: int, *, uuids: bool = False) -> list[Event]:
    """Readings of 200 devices, ``RATE`` events per second: at this rate the newest page is measured."""
    chance = random.Random(3)  # noqa: S311 - made-up data
    events = []
    for number in range(count):
        at = NOW + timedelta(milliseconds=number * 1000 // RATE)
        series = f"device-{chance.randrange(200):04d}"
        text = (
            f'{{"temp":{20 + chance.gauss(0, 2):.2f},"battery":{100 - number % 50},"volts":{3.3 + chance.gauss(0, 0.1):.3f},'
            f'"ok":{"true" if chance.random() < 0.9 else "false"},"state":"{chance.choice(["idle", "run", "charge"])}"}}'
        )
        data: Any = decode_json(text)
        derived = sha256(canonical_json((series, to_text(at), data))).hexdigest()[:32]
        id = str(UUID(int=chance.getrandbits(128))) if uuids else derived
        events.append(Event(series, at, id, data))
    return events


def make_pack_items(events: Sequence[Event], layout: Layout, size: int) -> list[Item]:
    """The items of requests of ``size`` events. Each request is packed alone; a request that is not full is omitted."""
    requests = [events[start : start + size] for start in range(0, len(events) - size + 1, size)]
    items: list[Item] = []
    for number, request in enumerate(requests):
        pack_set = make_packs([layout.make_item(event, at=number) for event in request], layout, ZSTD)
        assert not pack_set.alone
        items += [pack.item for pack in pack_set.packs]
    return items


def count_write_units(items: Sequence[Item]) -> int:
    """The write units of items."""
    return sum(ceil(measure_item(to_wire(item)) / WRITE_BYTES) for item in items)


def measure_units_per_event(events: Sequence[Event], layout: Layout, size: int) -> float:
    """Return the write units per event; also print the bytes per event."""
    items = make_pack_items(events, layout, size)
    count = sum(item["n"] for item in items)
    stored_bytes = sum(measure_item(to_wire(item)) for item in items)
    write_units: float = count_write_units(items) / count
    plain = [layout.make_item(event) for event in events[:count]]
    print(
        f"  {size} per request: {write_units:.4f} write units per event (plain {count_write_units(plain) / count:.2f}),"
        f" {stored_bytes / count:.1f} bytes (plain {sum(measure_item(to_wire(item)) for item in plain) / count:.0f})"
    )
    return write_units


class Queried:
    """The same events as packs and as plain items, on the strict service, and queries of both."""

    def __init__(self, events: Sequence[Event], size: int, names: Sequence[str] = ("packed",)) -> None:
        self._stage = Stage(NOW - timedelta(minutes=1), CONFIG)
        self._stage.run_lifecycle()
        self._stage.clock.sleep(60)
        for name in names:
            policy = self._stage.config.streams[name]
            (entry,) = [entry for entry in self._stage.catalog.entries(name, consistent=True) if NOW in entry.period]
            items = [policy.layout.make_item(event, at=1) for event in events]
            if policy.pack is not None:
                items = make_pack_items(events, policy.layout, size)
            # A partition takes 1,000 units per second, so the items are written in portions, with a pause after each.
            for start in range(0, len(items), 400):
                puts = [Put(entry.table, item) for item in items[start : start + 400]]
                assert not self._stage.store.write(puts).unwritten
                self._stage.clock.sleep(10)
        self._end = to_text(events[-1].time + timedelta(seconds=1))

    def count_read_units(self, stream: str, limit: int) -> float:
        """The read units of one page, the newest events first."""
        policy = self._stage.config.streams[stream]
        parameters = {"from": [to_text(NOW)], "to": [self._end], "limit": [str(limit)]}
        now = self._stage.clock.now()
        query = parse_query(policy, parameters, now, self._stage.seal)
        page = run_query(query, policy, self._stage.reader(), now, lambda: 100.0)
        assert page.count == limit
        return page.cost.units


def measure_micros(act: Callable[[], Any]) -> float:
    """Microseconds of CPU per event: the lowest value of several calls."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        act()
        best = min(best, time.process_time() - begun)
    return best / EVENTS * 1e6


def measure_cpu() -> None:
    """Print the CPU per event of the format alone."""
    for name, uuids in (("derived ids", False), ("UUIDs", True)):
        events = make_telemetry(EVENTS, uuids=uuids)
        requests = [
            [TELEMETRY.make_item(event, at=5) for event in events[start : start + 500]]
            for start in range(0, EVENTS, 500)
        ]
        items = [pack.item for request in requests for pack in make_packs(request, TELEMETRY, ZSTD).packs]
        items.sort(key=lambda item: item["sk"], reverse=True)
        opened = [open_item(item, TELEMETRY, ZSTD) for item in items]
        print(
            f"  {name}: make {measure_micros(lambda: [make_packs(request, TELEMETRY, ZSTD) for request in requests]):.2f} us,"  # noqa: B023
            f" open {measure_micros(lambda: [open_item(item, TELEMETRY, ZSTD) for item in items]):.2f} us,"  # noqa: B023
            f" walk {measure_micros(lambda: list(walk_packs(opened, span=60, ascending=False))):.2f} us"  # noqa: B023
        )


class Counting(Zstd):
    """A compressor that counts the packs that are opened."""

    opened = 0

    def expand(self, body: bytes) -> bytes:
        self.opened += 1
        return super().expand(body)


def measure_busy_page() -> None:
    """Compare a page of the oldest 100 events with a page of the newest, at ``BUSY_RATE`` events per second.

    The CPU is the process's, with the share of the tests' DynamoDB. The worst of three runs counts.
    """
    seconds, span = 62, 60
    stage = make_stage(4, make_events(BUSY_RATE * seconds, timedelta(seconds=seconds)), span=f"{span}s")
    reader, stream, now, worst = stage.reader(), stage.config.streams["s"], stage.clock.now(), 0.0
    for _ in range(3):
        micros = {}
        for order in ("desc", "asc"):
            reader.unpacker.compressor = counting = Counting()
            end = BUSY_START + timedelta(seconds=seconds)
            parameters = {"from": [to_text(BUSY_START)], "to": [to_text(end)], "order": [order], "limit": [str(PAGE)]}
            query, begun = parse_query(stream, parameters, now, stage.seal), time.process_time()
            page = run_query(query, stream, reader, now, lambda: 100.0)
            micros[order] = (time.process_time() - begun) * 1e6
            print(f"  {order}: {counting.opened} packs opened, {page.cost}, {micros[order]:.0f} us")
        worst = max(worst, micros["asc"] / micros["desc"])
    note_ratios(packed_oldest100_cpu_over_newest=worst, packed_oldest100_events_opened=counting.opened * 500)


def main() -> None:
    """Measure everything, and write the ratios to bench/results.json."""
    units_by_batch: dict[int, list[float]] = {500: [], 50: []}
    for name, events, layout in (
        ("earthquakes", make_earthquake_events(), QUAKES),
        ("telemetry, derived ids", make_telemetry(EVENTS), TELEMETRY),
        ("telemetry, UUIDs", make_telemetry(EVENTS, uuids=True), TELEMETRY),
    ):
        print(name)
        for size, ratios in units_by_batch.items():
            ratios.append(measure_units_per_event(events, layout, size))
    print("CPU per event, requests of 500")
    measure_cpu()
    print(f"a page of {PAGE} events at {BUSY_RATE} events per second")
    measure_busy_page()
    newest = Queried(make_telemetry(RATE * 60), 50)
    whole = Queried(make_telemetry(EVENTS), 500, ("packed", "plain"))
    note_ratios(
        packed_write_units_per_event=max(units_by_batch[500]),
        packed_write_units_per_event_50=max(units_by_batch[50]),
        packed_newest100_read_units=newest.count_read_units("packed", PAGE),
        packed_read_units_plain_over_ours=whole.count_read_units("plain", EVENTS)
        / whole.count_read_units("packed", EVENTS),
    )


if __name__ == "__main__":
    main()
