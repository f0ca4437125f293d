"""The cost of listings: the read units and the time of a page, and the write units of the rollup that serves the page.

Units are counted as in bench/rollups.py: from the bytes of the items that a page reads or the refresher writes. The
100,000 series are in one bucket. A range of several buckets has this cost for each bucket.
"""

from __future__ import annotations

import sys
import time
from datetime import timedelta
from hashlib import sha256
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from bench.results import note_ratios
from bench.rollups import build_world
from tests.fakes import SEAL
from tests.worlds.rolled import START, STREAM
from tidetable.query.listings import find_listing, parse_series
from tidetable.rollup_model.definition import Definition
from tidetable.times import to_text

SERIES = 100_000
HOURS = Definition("h", timedelta(hours=1), ("series",), (), ("count",), SERIES, "s", "s-h")


def list_day() -> float:
    """The read units of a page over a day of hourly buckets of 100 series."""
    world, store = build_world(HOURS, 24_000, 100, timedelta(days=1))
    report = world.refresh()
    assert report is not None
    assert report.sealed == 24
    parameters = {"from": [to_text(START)], "to": [to_text(START + timedelta(days=1))]}
    page = find_listing(
        parse_series(STREAM, parameters, world.time, SEAL), STREAM, world.reader, world.time, lambda: 100.0
    )
    assert [row["series"] for row in page.rows] == [f"device-{n:04d}" for n in range(100)]
    assert {scan.entry.stream for scan in page.sources} == {"s-h"}
    print(f"a day of 100 series: {store.written} write units, {page.cost.requests} requests")
    return page.cost.units


def measure_listing(*, random_names: bool) -> float:
    """Print the read units of pages of three lengths and the bucket's write units; return those of the longest page.

    Random names compress to half of their length.
    """
    world, store = build_world(HOURS, SERIES, SERIES, timedelta(hours=1))
    names = {f"device-{n:04d}": f"device-{n:04d}" for n in range(SERIES)}
    if random_names:
        names = {name: sha256(name.encode()).hexdigest()[:32] for name in names}
        for sks, _ in store.partitions.values():
            sks[:] = ["#".join([time, names[name], id]) for time, name, id in (sk.split("#") for sk in sks)]
    report = world.refresh()
    assert report is not None
    assert report.sealed == 1
    kind = "32 random hex digits" if random_names else "numbered names"
    print(f"{kind}: a bucket of {SERIES} series: {store.written} write units, and 1 for the edge")
    for limit in (100, 1_000, 10_000):
        begun = time.perf_counter()
        parameters = {"from": [to_text(START)], "to": [to_text(START + timedelta(hours=1))], "limit": [str(limit)]}
        listing = parse_series(STREAM, parameters, world.time, SEAL)
        page = find_listing(listing, STREAM, world.reader, world.time, lambda: 100.0)
        seconds = time.perf_counter() - begun
        assert [row["series"] for row in page.rows] == sorted(names.values())[:limit]
        assert {scan.entry.stream for scan in page.sources} == {"s-h"}
        print(f"limit={limit}: {page.cost.units} read units, {page.cost.requests} requests, {seconds:.2f} s")
    return page.cost.units


def main() -> None:
    """Measure both kinds of names."""
    measure_listing(random_names=True)
    note_ratios(listing_read_units_per_day_of_100_series=list_day())
    note_ratios(listing_read_units_per_bucket_of_100_000_series=measure_listing(random_names=False))


if __name__ == "__main__":
    main()
