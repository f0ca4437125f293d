"""The savings and the cost of rollups: a day of a million events by the hour, with and without rollups, and the write
units of keeping rollups.

Units are counted as DynamoDB charges them: a page of a query by the bytes of its items, a written item by its own
bytes. The code that answers and refreshes is the code of the functions. The wall time is the time of the function's own
work, with both sides in one process. It has no network, which would add the time of 200 requests to the side without
rollups.
"""

from __future__ import annotations

import random
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from math import ceil
from pathlib import Path

import msgspec
from msgspec.structs import replace

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]


from aws.dynamodb.query_answers import decode_query
from bench.results import note_ratios
from strict.units import WRITE_BYTES, measure_item
from tests.fakes import FakeStore, FakeValues, unpacker
from tests.worlds.codec import to_wire
from tests.worlds.rolled import START, World
from tidetable.layout import Layout
from tidetable.layout.suffix import compute_suffix
from tidetable.ports import Guard, ItemColumns, KeyRange, Page, Put, RangeRead, Written
from tidetable.query.aggregates.find import Aggregate
from tidetable.rollup_model.definition import Definition
from tidetable.times import to_text

_PAGE, _UNIT = 1_048_576, 4_096
_DEFAULT = ("count", "sum", "min", "max")
RAW = Layout("time", 4, "id", 3_600)
HOURS = Definition("h", timedelta(hours=1), ("series",), ("mag",), _DEFAULT, 10_000, "s", "s-h")
MINUTES = Definition("m", timedelta(minutes=1), ("series",), ("mag",), _DEFAULT, 10_000, "s", "s-m")
EVENTS, SERIES = 1_000_000, 100


class Counted(FakeStore):
    """The tests' store, which also counts units. Events are in columns, as a million items do not fit into memory."""

    def fill_table(self, table: str, count: int, series: int, length: timedelta) -> None:
        """Put ``count`` events of ``series`` series into a table, evenly over the time ``length`` from the start on."""
        chance = random.Random(7)  # noqa: S311 - made-up data
        self.raw = table
        self.partitions: dict[str, tuple[list[str], list[str]]] = {}
        for number in range(count):
            at = START + number * length / count
            id = f"{number:08x}"
            pk = f"{to_text(RAW.find_bucket(at))}#{compute_suffix(id, RAW.shards)}"
            sks, datas = self.partitions.setdefault(pk, ([], []))
            sks.append(f"{to_text(at)}#device-{chance.randrange(series) if series < count else number:04d}#{id}")
            datas.append(f'{{"mag":{20 + chance.gauss(0, 2):.2f},"state":"running"}}')
        sample = {
            "pk": next(iter(self.partitions)),
            "sk": sks[0],
            "at": 1_772_409_600_000,
            "data": {"mag": Decimal("20.51"), "state": "running"},
        }
        self.each = measure_item(to_wire(sample))
        self.written = 0.0

    def query_many(
        self,
        reads: Sequence[RangeRead],
        *,
        ascending: bool,  # noqa: ARG002 - everything is read oldest first
        consistent: bool = False,
        texts: bool = False,  # noqa: ARG002 - events are text
        fields: Sequence[str] = (),  # noqa: ARG002 - they are few
    ) -> Sequence[Page | None]:
        share = 1 if consistent else 2
        return [
            self._make_event_page(read, share) if read.keys.table == self.raw else self._make_cell_page(read, share)
            for read in reads
        ]

    def _make_event_page(self, read: RangeRead, share: int) -> Page:
        sks, datas = self.partitions.get(read.keys.pk, ([], []))
        start = bisect_left(sks, str(read.keys.low)) if read.keys.after is None else bisect_right(sks, read.keys.after)
        stop = min(bisect_right(sks, str(read.keys.high)), start + read.limit, start + _PAGE // self.each)
        count = stop - start
        columns = ItemColumns([read.keys.pk] * count, sks[start:stop], datas[start:stop])
        more = stop < bisect_right(sks, str(read.keys.high))
        last = {"pk": read.keys.pk, "sk": sks[stop - 1]} if more else None
        return Page(columns, more, ceil(count * self.each / _UNIT) / share, last, count)

    def _make_cell_page(self, read: RangeRead, share: int) -> Page:
        page = self._query(read.keys, limit=read.limit, ascending=True, consistent=True)
        held = sum(measure_item(to_wire(item)) for item in page.items)
        return replace(page, units=max(ceil(held / _UNIT), 1) / share)

    def write_each(self, puts: Sequence[Put], guard: Guard) -> Written:
        self.written += sum(ceil(measure_item(to_wire(put.item)) / WRITE_BYTES) for put in puts)
        return super().write_each(puts, guard)


def build_world(definition: Definition, count: int, series: int, length: timedelta) -> tuple[World, Counted]:
    """A world with ``count`` events, and a rollup that begins with the first bucket."""
    world = World((definition,), RAW)
    store = Counted(world.catalog)
    store.tables = world.store.tables
    store.fill_table(world.entry("s", START).table, count, series, length)
    world.store = store
    world.reader = replace(world.reader, store=store, unpacker=unpacker(store, FakeValues()))
    # The refresher puts the rollup's edge before the first event, and runs again when all events are there.
    world.time = START - timedelta(minutes=10)
    world.refresh()
    world.time = START + length + timedelta(seconds=211)
    return world, store


def measure_sealing(count: int = 300_000) -> tuple[float, float]:
    """Return the CPU seconds per event of sealing buckets of an hour, and of decoding DynamoDB's answers before it."""
    world, _ = build_world(HOURS, count, SERIES, timedelta(hours=8))
    begun = time.process_time()
    world.refresh()
    sealing = time.process_time() - begun
    size = 4_000
    times = [START + number * timedelta(milliseconds=50) for number in range(size)]
    data = {"mag": Decimal("20.51"), "state": "running"}
    items = [
        to_wire(
            {"pk": "p", "sk": f"{to_text(at)}#device-{number % SERIES:04d}#{number:08x}", "at": number, "data": data}
        )
        for number, at in enumerate(times)
    ]
    body = msgspec.json.encode({"Items": items, "Count": size, "ScannedCount": size})
    begun = time.process_time()
    decode_query(KeyRange("t", "p", None, None), body, texts=True)
    return sealing / count, (time.process_time() - begun) / size


def measure_cells(count: int = 30_000) -> float:
    """Return the CPU seconds per cell of sealing, with its one event: buckets of a minute with 10,000 groups each."""
    world, _ = build_world(MINUTES, count, count, timedelta(minutes=3))
    begun = time.process_time()
    world.refresh()
    return (time.process_time() - begun) / count


def measure_aggregate(world: World, **parameters: str) -> tuple[Aggregate, float]:
    """Ask for an aggregate; return the answer and the seconds that it took."""
    begun = time.perf_counter()
    answer = world.ask(
        **{
            "from": to_text(START),
            "to": to_text(START + timedelta(days=1)),
            "step": "1h",
            "stat": "avg,max",
            "field": "mag",
        },
        **parameters,
    )
    return answer, time.perf_counter() - begun


def main() -> None:
    """Measure everything, and write the ratios to bench/results.json."""
    world, store = build_world(HOURS, EVENTS, SERIES, timedelta(days=1))
    report = world.refresh()
    assert report is not None
    assert report.sealed == 24
    print(f"a day by hour: {store.written} write units for {EVENTS} events")
    raw, raw_seconds = measure_aggregate(world, rollups="false")
    ours, seconds = min((measure_aggregate(world) for _ in range(3)), key=lambda run: run[1])
    assert ours.rows == raw.rows
    assert {scan.entry.stream for scan in ours.sources} == {"s-h"}
    print(f"read units: events {raw.cost.units}, rollup {ours.cost.units}; seconds {raw_seconds:.2f}, {seconds:.4f}")
    sealing, decoding = (min(seconds) * 1e6 for seconds in zip(*(measure_sealing() for _ in range(3)), strict=True))
    print(f"sealing: {sealing:.1f} microseconds of CPU per event, and {decoding:.1f} for decoding DynamoDB's answers")
    note_ratios(sealing_microseconds_per_cell=min(measure_cells() for _ in range(3)) * 1e6, digits=1)
    minutes = 3
    world, store = build_world(MINUTES, minutes * 60_000, 1_000, timedelta(minutes=minutes))
    report = world.refresh()
    assert report is not None
    assert report.sealed == minutes
    # The edge is an item that costs one unit. It is written once per bucket.
    per_event = (store.written + report.sealed) / (minutes * 60_000)
    print(f"a minute of 1,000 series: {store.written / minutes} write units and 1 for the edge, for 60,000 events")
    note_ratios(
        rollup_read_units_raw_over_ours=raw.cost.units / ours.cost.units,
        rollup_query_wall_raw_over_ours=raw_seconds / seconds,
    )
    note_ratios(rollup_write_units_per_raw_event=per_event, digits=4)


if __name__ == "__main__":
    main()
