"""A minute of 1,000,000 events in 200 suffixes, sealed in parts by several workers, on the strict service.

The scheduler, the workers and the adapters are those of the functions, and every request goes to the strict service, which
charges units. The events are put into its tables beforehand, and the number of events of the minute before is known. Each
message is worked on alone, one after another: its CPU without the service's own, its calls and its units are counted. Then
the messages are dealt to 2, 4 and 16 workers: who is free first takes the next one. The time of a message is its CPU and 5
ms for each round of 16 calls; the slowest worker's time also has the first turn, which divides the bucket, and the last
turn, which merges the parts.

Plain events, packs by content whose span is 10 seconds, and the whole minute, and plain events by series. Each kind is also
sealed as a whole.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from heapq import heapify, heapreplace
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from aws.dynamodb.rollups import LeanRollups
from aws.dynamodb.store import LeanStore
from aws.dynamodb.work import LeanWork
from aws.http.client import Reply, ServiceRequest
from bench.results import note_ratios
from strict.metering import Meter
from tests.fakes.stage import CATALOG, ROLLUPS, Stage
from tests.fakes.transport import StrictTransport
from tests.fakes.work_queue import FakeWorkQueue
from tests.worlds.codec import to_wire
from tidetable.batch import Batch
from tidetable.events import Event
from tidetable.forms.choose import choose_form
from tidetable.ingest.series_index import SeriesIndex
from tidetable.ports import Put
from tidetable.rollup_model.bounds import choose_lease_length
from tidetable.rollups import bucket as rollup_bucket
from tidetable.rollups import bucket_parts, collect, division
from tidetable.rollups import worker as rollup_worker
from tidetable.rollups.refresh import schedule_rollups
from tidetable.rollups.worker import work_on_message
from tidetable.work.claim import ItemName

START = datetime(2026, 3, 2, tzinfo=UTC)
STREAM = """
[streams.s]
period = "hour"
late = "1h"
retention = 9
key = {{ {key} }}
{pack}
[streams.s.capacity]
# A table that takes a million events per minute has as many partitions.
warm = {{ write = 40000, read = 40000 }}
[[streams.s.rollup]]
name = "m"
every = "1m"
by = ["series"]
fields = ["mag"]
stats = ["count", "sum", "min", "max"]
retention = "90d"
"""
EVENTS, SERIES, REQUEST = 1_000_000, 1_000, 500
# Seconds.
_CALL, _AT_ONCE = 0.005, 16
WORKERS = 2, 4, 16
_TIME = 'partition_by = "time", bucket = "1h", shards = 200'
# The key and the packs of each kind of stream.
KINDS = {
    "plain": (_TIME, ""),
    "packed_10s": (_TIME, 'pack = { span = "10s" }'),
    "packed_1m": (_TIME, 'pack = { span = "1m" }'),
    "by_series": ('partition_by = "series"', ""),
}
_LENGTH = choose_lease_length(timedelta(seconds=300))


class Cost(NamedTuple):
    """The seconds of CPU, the calls, and the units of a message."""

    cpu: float
    calls: int
    reads: float
    writes: float

    @property
    def seconds(self) -> float:
        """The time of a worker."""
        return self.cpu + -(-self.calls // _AT_ONCE) * _CALL


class Metered(StrictTransport):
    """Counts calls, and the CPU of the service, which is not that of a function."""

    calls, service = 0, 0.0

    def _reply(self, request: ServiceRequest) -> Reply:
        # AWS: a table on demand takes 12,000 read units per second at first. The calls are so far apart that it has them.
        self._service.clock.sleep(_CALL)
        begun = time.process_time()
        reply = super()._reply(request._replace(decode=None))
        self.service += time.process_time() - begun
        self.calls += 1
        return request.decode(reply) if isinstance(reply, bytes) and request.decode is not None else reply


class Scene:
    """A stage whose minute is full, and what each message took."""

    def __init__(self, key: str, pack: str) -> None:
        self.stage = stage = Stage(START, STREAM.format(key=key, pack=pack))
        stage.run_lifecycle()
        stage.refresh()
        # The series of the first hour were not noted from its start on.
        self.minute = START + timedelta(minutes=90)
        while stage.clock.now() < self.minute + timedelta(seconds=265):
            stage.clock.sleep(min(1_800, (self.minute + timedelta(seconds=265) - stage.clock.now()).total_seconds()))
            stage.run_lifecycle()
            stage.refresh()
        (entry,) = [one for one in stage.catalog.entries("s", consistent=True) if self.minute in one.period]
        table: Any = stage.dynamo.account.engine._leader._tables[entry.table]  # type: ignore[attr-defined]  # noqa: SLF001
        for item in make_items(entry.layout, entry.table, self.minute):
            table.put(to_wire(item))
        names = [f"device-{number:04d}" for number in range(SERIES)]
        assert SeriesIndex(stage.rollups).note([(entry, names)], stage.clock.now())
        stage.clock.sleep(10)
        claim = stage.work.claim("seal", "s", "bench", stage.clock.now(), stage.clock.now())
        assert claim is not None
        stage.work.release(claim, f'{{"m":{EVENTS}}}')
        self.queue = FakeWorkQueue()
        self.costs: list[tuple[ItemName, Cost]] = []
        transport: Any = Metered(stage.dynamo)
        self.transport = transport
        stage.store, stage.work = LeanStore(transport, CATALOG), LeanWork(transport, CATALOG)
        stage.rollups = LeanRollups(transport, ROLLUPS)
        self.units = {"Read": 0.0, "Write": 0.0}

    def work_on(self, name: ItemName) -> None:
        """Let a worker have a message, and note what it took."""
        pipeline, transport = self.stage.pipeline, self.transport
        before = time.process_time() - transport.service, transport.calls, self.units["Read"], self.units["Write"]
        report = work_on_message(
            name,
            pipeline.definitions,
            pipeline.refresher(lambda: 200.0),
            self.queue,
            WORKERS[-1],
            f"worker {len(self.costs)}",
            _LENGTH,
        )
        assert report is not None
        assert not report.failed, report
        after = time.process_time() - transport.service, transport.calls, self.units["Read"], self.units["Write"]
        self.costs.append((name, Cost(*(now - then for then, now in zip(before, after, strict=True)))))

    def seal(self) -> None:
        """Schedule, let a worker divide the bucket, wake workers for the parts, and work until the minute is sealed."""
        pipeline = self.stage.pipeline
        for _ in range(2):
            services: Any = pipeline.refresher(lambda: 200.0)
            schedule_rollups(pipeline.definitions, services, self.queue, WORKERS[-1], _LENGTH)
            if not self.costs:
                self.work_on(self.queue.messages.pop())
        self.queue.deliver(self.work_on)
        (edge,) = self.stage.rollups.read_state("s").edges
        assert edge.sealed > self.minute, edge


def make_items(layout: Any, table: str, minute: datetime) -> Iterator[Any]:
    """Make the items of the minute: requests of ``REQUEST`` events, whose times are within five seconds."""
    chance = random.Random(7)  # noqa: S311 - made-up data
    form = choose_form(layout)
    from aws.zstd import Zstd

    for first in range(0, EVENTS, REQUEST):
        begin = 55 * first / EVENTS
        events = sorted(
            (
                Event(
                    f"device-{chance.randrange(SERIES):04d}",
                    minute + timedelta(microseconds=int((begin + chance.random() * 5) * 1e6)),
                    f"{first + number:08x}",
                    {"mag": Decimal(f"{20 + chance.gauss(0, 2):.2f}"), "state": "running"},
                )
                for number in range(REQUEST)
            ),
            key=lambda event: event.time,
        )
        made = form.make_puts(Batch.of(events, 1), range(REQUEST), table, Zstd(), lambda item: Put(table, item))
        yield from (put.item for put in made.puts)


def deal(costs: Sequence[Cost], workers: int) -> tuple[float, float]:
    """Deal messages to workers; return the time and the CPU of the slowest."""
    free = [(0.0, 0.0, number) for number in range(workers)]
    heapify(free)
    for cost in costs:
        seconds, cpu, number = free[0]
        heapreplace(free, (seconds + cost.seconds, cpu + cost.cpu, number))
    return max(free)[0], max(cpu for _, cpu, _ in free)


def measure(title: str, key: str, pack: str, *, whole: bool = False) -> dict[str, float]:
    """Seal the minute of one kind of stream, and print what it took."""
    most = 100 * EVENTS if whole else 300_000
    rollup_bucket.MOST_WHOLE = division.MOST_WHOLE = most  # type: ignore[attr-defined]
    scene = Scene(key, pack)
    charge = Meter.take_charges

    def count(meter: Meter, table: Any, charges: Any) -> None:
        for one in charges:
            scene.units[one.side] += one.units
        charge(meter, table, charges)

    Meter.take_charges = count  # type: ignore[method-assign, assignment]
    try:
        scene.seal()
    finally:
        Meter.take_charges = charge  # type: ignore[method-assign]
    parts = [cost for name, cost in scene.costs if name.kind == bucket_parts.PART]
    distinct = len({name for name, _ in scene.costs if name.kind == bucket_parts.PART})
    turns = [cost for name, cost in scene.costs if name.kind != bucket_parts.PART]
    every = [*parts, *turns]
    calls = sum(one.calls for one in every)
    reads, writes = sum(one.reads for one in every), sum(one.writes for one in every)
    of_parts, cpu = [one.cpu for one in parts], sum([one.cpu for one in every])
    print(f"{title}: {distinct} parts, {len(every)} messages, {calls} calls, CPU {cpu:.1f} s")
    print(f"  {reads:.0f} read units, {writes:.0f} write units")
    if parts:
        mean = sum(of_parts) / distinct
        print(f"  CPU of a part {mean:.2f} s, at most {max(of_parts):.2f} s, of the turns {cpu - sum(of_parts):.2f} s")
    rest = sum(one.seconds for one in turns)
    figures = {"read_units": reads, "calls": float(calls), "cpu_seconds": cpu}
    for workers in WORKERS if parts else ():
        slowest, most_cpu = deal(parts, workers)
        figures[f"seconds_of_slowest_of_{workers}"] = slowest + rest
        print(f"  {workers} workers: CPU of one at most {most_cpu:.2f} s, the slowest {slowest + rest:.2f} s")
    return figures


def main() -> None:
    """Measure all, or the kinds that are named, and write the figures to bench/results.json."""
    rollup_worker._CHAIN = 0.0  # noqa: SLF001
    for kind in sys.argv[1:] or KINDS:
        if KINDS[kind][1]:
            # So few events in packs are read as a whole: here they are divided as plain events are.
            collect.PACKED = division.PACKED = division.SPANS = 1  # type: ignore[attr-defined]
        for how, whole in (("parts", False), ("whole", True)):
            figures: dict[str, Any] = measure(kind, *KINDS[kind], whole=whole)
            note_ratios(**{f"{kind}_{how}_{name}": figure for name, figure in figures.items()})


if __name__ == "__main__":
    main()
