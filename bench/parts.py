"""A minute of 1,000,000 plain events in 200 suffixes, sealed in parts by several workers.

The code is the refresher's; units are counted as DynamoDB charges them. The parts are computed one after another in one
process, each with its CPU, requests and units. They are dealt to 2, 4 and 16 workers in turn. A worker's time is its CPU,
and 5 ms for each round of 16 requests. The time of the slowest also has the first reading, which finds that the bucket is
long only if the last bucket was short, and the merge.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

import bench.rollups as bench_rollups
from bench.rollups import EVENTS, MINUTES, Counted, build_world
from tests.worlds.rolled import LENGTH
from tidetable.layout import Layout
from tidetable.rollups import bucket_parts
from tidetable.rollups import worker as rollup_worker
from tidetable.rollups.refresh import refresh_rollups

# Seconds.
_CALL, _AT_ONCE = 0.005, 16
WORKERS = 2, 4, 16


class Meter:
    """Counts the requests and units of reads, and lists what each part took."""

    def __init__(self, store: Counted) -> None:
        self.requests, self.units = 0, 0.0
        self.parts: list[tuple[float, int, float]] = []
        self._query = store.query_many
        self._compute = bucket_parts.compute_part

    def query(self, reads: Any, **options: Any) -> Any:
        """Count reads."""
        pages = self._query(reads, **options)
        self.requests += len(reads)
        self.units += sum(page.units for page in pages if page is not None)
        return pages

    def compute(self, *given: Any) -> None:
        """Measure a part."""
        requests, units, begun = self.requests, self.units, time.process_time()
        self._compute(*given)
        self.parts.append((time.process_time() - begun, self.requests - requests, self.units - units))


def main() -> None:
    """Seal the minute, whose number of events is known from the minute before, and print what it took."""
    bench_rollups.RAW = Layout("time", 200, "id", 3_600)
    definition = replace(MINUTES, max_groups=100_000)
    world, store = build_world(definition, EVENTS, 1_000, timedelta(minutes=1))
    meter = Meter(store)
    store.query_many = meter.query  # type: ignore[method-assign]
    rollup_worker.compute_part = meter.compute  # type: ignore[attr-defined, assignment]
    world.work.claim("seal", "s", "before", world.now(), world.now())
    world.work.records["seal", "s"].memo = f'{{"m":{EVENTS}}}'
    calls: list[int] = []
    begun = time.process_time()
    report = refresh_rollups(world.definitions, world.services(strike=lambda: calls.append(1)), "run", LENGTH)
    whole = time.process_time() - begun
    assert report is not None
    assert (report.sealed, report.failed, report.finished) == (1, [], True), report
    cpu = [part[0] for part in meter.parts]
    rest = whole - sum(cpu)
    print(f"{len(cpu)} parts, {meter.requests} reads, {meter.units:.0f} units, {len(calls) // 2} calls of ports")
    print(
        f"CPU of a part {min(cpu):.2f} to {max(cpu):.2f} s, of all {sum(cpu):.1f} s, of the merge and the rest {rest:.2f} s"
    )
    for count in WORKERS:
        dealt = [meter.parts[worker::count] for worker in range(count)]
        seconds = [sum(took + -(-reads // _AT_ONCE) * _CALL for took, reads, _ in own) for own in dealt]
        most = max(sum(took for took, *_ in own) for own in dealt)
        print(f"{count} workers: CPU of one at most {most:.2f} s, the slowest {max(seconds) + rest:.2f} s")


if __name__ == "__main__":
    main()
