"""A table of packs in memory, with the reads of a query, for the tests of packs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from aws.zstd import Zstd
from tests.worlds.packing import make_packs
from tidetable.events import Event, Item
from tidetable.exact_json import canonical_lines
from tidetable.layout import Layout, Packing
from tidetable.packs import OpenedItem, Settled, open_item, walk_packs
from tidetable.packs.numbers import settle_lines

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
TIMELY = Layout("time", 1, "id", 3600, pack=Packing(60, 65_536))
SPREAD = Layout("time", 3, "id", 3600, pack=Packing(60, 65_536))
SERIAL = Layout("series", 2, "id", pack=Packing(60, 65_536))
ZSTD = Zstd()


def event(seconds: float, series: str = "s", id: str = "a", **data: object) -> Event:
    """An event a number of seconds after noon."""
    return Event(series, NOON + timedelta(seconds=seconds), id, dict(data))


@dataclass
class PackTable:
    """The items of one period's table, and the number of items that reads opened."""

    layout: Layout
    items: dict[tuple[str, str], Item] = field(default_factory=dict)
    opened: int = 0

    def send(self, events: Sequence[Event], at: int) -> list[Item]:
        """Write the events of a request that was accepted at an instant; among equal keys the last accepted event stays."""
        plain = [self.layout.make_item(event, at=at) for event in events]
        made = make_packs(plain, self.layout, ZSTD)
        written = [pack.item for pack in made.packs] + [plain[number] for number in made.alone]
        for item in written:
            held = self.items.get((item["pk"], item["sk"]))
            if held is None or held["at"] <= item["at"]:
                self.items[item["pk"], item["sk"]] = item
        return written

    def logicals(self) -> list[str]:
        """The logical partitions, in order."""
        return sorted({pk.rpartition("#")[0] for pk, _ in self.items})

    def range(self, logical: str, low: str, high: str, *, ascending: bool) -> Iterator[OpenedItem]:
        """The items of a logical partition with ``low <= sk < high``, as merged pages of its suffixes give them."""
        items_in_range = [
            (sk, pk, item)
            for (pk, sk), item in self.items.items()
            if pk.rpartition("#")[0] == logical and low <= sk < high
        ]
        for _, _, item in sorted(items_in_range, key=lambda found_item: found_item[:2], reverse=not ascending):
            self.opened += 1
            yield open_item(item, self.layout, ZSTD)

    def read(
        self, logical: str, *, ascending: bool, low: str = "", high: str = "~", keys: tuple[str, str] = ("", "~")
    ) -> Rows:
        """Every event of a range of positions."""
        opened = self.range(logical, *keys, ascending=ascending)
        return list(rows(walk_packs(opened, span=60, ascending=ascending, low=low, high=high)))


Rows = list[tuple[str, Settled]]


def rows(runs: Iterable[object]) -> Iterator[tuple[str, Settled]]:
    """The events of runs, as single rows."""
    for run in runs:
        yield from zip(run.places, run.copies, strict=True)  # type: ignore[attr-defined]


def write_lines(values: Sequence[Any]) -> bytes:
    """Write values as a column of a pack."""
    return settle_lines(canonical_lines(values), values)
