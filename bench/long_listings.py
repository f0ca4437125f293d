"""The cost of the pages of listings over long ranges of sealed hours: 10,000 series in 90 days, and 100 series in ten years.

Every bucket has a cell of every series, written as the refresher writes cells. Read units and requests are counted from
the bytes of the items that a page reads, and each page of a Query ends at 1 MB. A request to the bucket counts as one.
**Before** is a page whose names cannot be kept: it reads its whole range. The CPU is that of the function's own work, and
one page may take as long as it needs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import timedelta
from math import ceil
from pathlib import Path

from msgspec.structs import replace

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

from bench.listings import HOURS
from bench.results import note_ratios
from strict.units import measure_item
from tests.fakes import SEAL, FakeStore, unpacker
from tests.worlds.codec import to_wire
from tests.worlds.rolled import START, STREAM, World
from tidetable.events import Event
from tidetable.layout import Key, Layout, Packing
from tidetable.periods import Kind, find_containing
from tidetable.ports import Edge, Page, RangeRead
from tidetable.query.listings import find_listing, parse_series
from tidetable.query.listings.listing_page import Listed
from tidetable.rollup_model.cells import make_id
from tidetable.times import to_text

_PAGE, _UNIT = 1_048_576, 4_096
_HOUR = timedelta(hours=1)
_CELLS = Layout("time", 1, "id", 86_400, pack=Packing(3_600, 65_536))


class Counted(FakeStore):
    """The tests' store, which ends pages at 1 MB and counts the units of their items."""

    sizes: dict[tuple[str, Key], int]

    def query_many(
        self,
        reads: Sequence[RangeRead],
        *,
        ascending: bool,  # noqa: ARG002 - everything is read oldest first
        consistent: bool = False,
        texts: bool = False,  # noqa: ARG002 - packs have no text
        fields: Sequence[str] = (),  # noqa: ARG002 - packs are read whole
    ) -> Sequence[Page | None]:
        return [self._read_page(read, 1 if consistent else 2) for read in reads]

    def _read_page(self, read: RangeRead, share: int) -> Page:
        held, count, keys = 0, 0, read.keys
        page = self._query(keys, limit=read.limit, ascending=True, consistent=True)
        for count, item in enumerate(page.items):
            size = self.sizes[keys.table, Key(item["pk"], item["sk"])]
            if held and held + size > _PAGE:
                page = self._query(keys, limit=count, ascending=True, consistent=True)
                break
            held += size
        return replace(page, units=max(ceil(held / _UNIT), 1) / share)


def build_world(series: int, hours: int) -> World:
    """A world in which all buckets are sealed, and have a cell of each series."""
    world = World((HOURS,))
    store = Counted(world.catalog)
    store.tables, store.sizes = world.store.tables, {}
    world.store = store
    world.reader = replace(world.reader, store=store, unpacker=unpacker(store, world.values))
    names, id = [f"device-{number:04d}" for number in range(series)], make_id(HOURS, [])
    for number in range(hours):
        start = START + number * _HOUR
        month = find_containing(start, Kind.MONTH)
        if ("s-h", month) not in world.catalog.items:
            world.add_period("s-h", Kind.MONTH, start, _CELLS)
        entry, data = world.catalog.items["s-h", month], {"by": {}, "count": 1, "fields": {}}
        before = set(store.tables[entry.table])
        world.put(entry, [Event(name, start, id, data) for name in names], 1)
        for key in store.tables[entry.table].keys() - before:
            store.sizes[entry.table, key] = measure_item(to_wire(store.tables[entry.table][key]))
    world.rollups.edges["s", "h", START] = Edge("h", START, START + hours * _HOUR, HOURS.text)
    world.time = START + hours * _HOUR + _HOUR
    return world


def ask(world: World, hours: int, limit: int, cursor: str | None = None) -> Listed:
    """Ask for a page, and print its cost."""
    span = (
        {"from": [to_text(START)], "to": [to_text(START + hours * _HOUR)]} if cursor is None else {"cursor": [cursor]}
    )
    listing = parse_series(STREAM, {**span, "limit": [str(limit)]}, world.time, SEAL)
    begun = time.process_time()
    page = find_listing(listing, STREAM, world.reader, world.time, lambda: 1e9)
    print(
        f"  {page.cost.units} units, {page.cost.requests} requests, {time.process_time() - begun:.2f} s of CPU",
        flush=True,
    )
    return page


def measure(series: int, days: int) -> dict[str, float]:
    """Measure the first, the second and the hundredth page of a listing of 100 pages, and a page before."""
    print(f"{series} series in {days} days of hours")
    hours, limit = days * 24, series // 100
    world = build_world(series, hours)
    pages = [ask(world, hours, limit)]
    while (following := pages[-1].next) is not None:
        pages.append(ask(world, hours, limit, following))
    names = [row["series"] for page in pages for row in page.rows]
    assert names == [f"device-{number:04d}" for number in range(series)]
    world.values.blobs.clear()
    before = ask(world, hours, limit, pages[0].next)
    assert before.rows == pages[1].rows
    costs = {"page_1": pages[0].cost, "page_2": pages[1].cost, "page_100": pages[99].cost, "page_2_before": before.cost}
    units = {f"units_{name}": cost.units for name, cost in costs.items()}
    return units | {f"requests_{name}": cost.requests for name, cost in costs.items()}


def main() -> None:
    """Measure both listings, and write the figures to bench/results.json."""
    for name, series, days in (("90_days", 10_000, 90), ("10_years", 100, 3_650)):
        note_ratios(digits=1, **{f"listing_{name}_{what}": value for what, value in measure(series, days).items()})


if __name__ == "__main__":
    main()
