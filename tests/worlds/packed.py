"""Days of a stream, some of them in packs, and the list of the copies of events that count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from aws.zstd import Zstd
from tests.query.positions import find_position
from tests.worlds.days import Days
from tests.worlds.packing import make_packs
from tidetable.config import Stream, parse
from tidetable.events import Event, Item
from tidetable.layout import Key, Layout, Packing
from tidetable.periods import Kind, find_containing

START = datetime(2026, 3, 1, tzinfo=UTC)
NOW = datetime(2026, 3, 5, tzinfo=UTC)
SPAN = 3600
_STREAM = """
[streams.s]
period = "day"
late = "9d"
retention = 30
pack = {{ span = "1h" }}
key = {{ {key} }}
"""
STREAMS: dict[str, Stream] = {
    by: parse(_STREAM.format(key=key)).streams["s"]
    for by, key in {
        "time": 'partition_by = "time", bucket = "6h", shards = 3',
        "series": 'partition_by = "series", shards = 2',
        "suffix": 'partition_by = "time", bucket = "6h", shards = 3, shard_by = "series"',
    }.items()
}


def layouts(by: str) -> list[Layout]:
    """The layouts of four days: packs; other packs, or plain items; packs of a few events with another span; an archive."""
    if by == "series":
        return [
            Layout("series", 2, "id", pack=Packing(SPAN, 65_536)),
            Layout("series", 3, "id"),
            Layout("series", 1, "id", pack=Packing(60, 150)),
            Layout("series", 2, "id", pack=Packing(SPAN, 65_536)),
        ]
    if by == "suffix":
        # The stream had packs by their content before, and another number of shards later.
        return [
            Layout("time", 2, "id", 21_600, pack=Packing(SPAN, 65_536)),
            Layout("time", 3, "series", 21_600, pack=Packing(SPAN, 65_536)),
            Layout("time", 5, "series", 86_400, pack=Packing(60, 150), shard_until="#"),
            Layout("time", 3, "series", 21_600, pack=Packing(SPAN, 65_536)),
        ]
    return [
        Layout("time", 3, "id", 21_600, pack=Packing(SPAN, 65_536)),
        Layout("time", 4, "id", 3_600),
        Layout("time", 1, "id", 86_400, pack=Packing(60, 150)),
        Layout("time", 3, "id", 21_600, pack=Packing(SPAN, 65_536)),
    ]


class Request(NamedTuple):
    """Events that were accepted together. With ``alone`` they are stored as plain items, not in packs."""

    events: Sequence[Event]
    at: int
    alone: bool = False


def items_of(events: Sequence[Event], layout: Layout, at: int, *, alone: bool = False) -> list[Item]:
    """The items that a request writes to the table of one period."""
    # If an event comes twice in a request, its last copy counts.
    last = {layout.make_key(event): event for event in events}
    plain = [layout.make_item(event, at=at) for event in last.values()]
    if layout.pack is None or alone:
        return plain
    packing = make_packs(plain, layout, Zstd())
    return [pack.item for pack in packing.packs] + [plain[number] for number in packing.alone]


@dataclass
class PackedDays:
    """Four days of a stream, which ``requests`` have written in this order."""

    by: str
    requests: Sequence[Request]
    days: Days = field(default_factory=Days)

    def __post_init__(self) -> None:
        for number, layout in enumerate(layouts(self.by)):
            period = find_containing(START + timedelta(days=number), Kind.DAY)
            items: dict[Key, Item] = {}
            for request in self.requests:
                mine = [event for event in request.events if event.time in period]
                for item in items_of(mine, layout, request.at, alone=request.alone):
                    key = Key(item["pk"], item["sk"])
                    if key not in items or items[key]["at"] <= item["at"]:
                        items[key] = item
            if number == 3:
                mine = [event for event in self.counting() if event.time in period]
                self.days.add_archive(period, layout, mine)
            else:
                self.days.add_table(period, layout, items.values())

    def counting(self) -> list[Event]:
        """The copy of each event that was accepted last, in the order of answers."""
        copies: dict[str, tuple[int, Event]] = {}
        for request in self.requests:
            for event in request.events:
                if event.time >= START and (
                    find_position(event) not in copies or copies[find_position(event)][0] <= request.at
                ):
                    copies[find_position(event)] = request.at, event
        return [copies[key][1] for key in sorted(copies)]


def show_event(event: Event) -> dict[str, Any]:
    """Show an event as an answer does, but without its ref."""
    return {"series": event.series, "time": f"{event.time:%Y-%m-%dT%H:%M:%S.%f}Z", "id": event.id, "data": event.data}
