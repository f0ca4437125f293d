"""Every copy of every event in a table of packs, and the copies that count, programmed a second time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from aws.zstd import Zstd
from tests.query.positions import find_position
from tests.worlds.packing import make_packs
from tidetable.events import Event, Item
from tidetable.layout import Layout


class Copy(NamedTuple):
    """A copy of an event: when it was accepted, and the hash of its pack; a plain item has none."""

    event: Event
    at: int
    hash: str

    @property
    def position(self) -> str:
        return find_position(self.event)


class Written(NamedTuple):
    """An item of a table, and the copies that it holds."""

    item: Item
    copies: Sequence[Copy]


class Sent(NamedTuple):
    """Events that differ in their names, each with the time when it was accepted. ``alone``: they are plain items."""

    events: Sequence[tuple[Event, int]]
    alone: bool = False


def write_items(requests: Iterable[Sent], layout: Layout) -> list[Written]:
    """The items that a table holds after some requests."""
    held: dict[tuple[str, str], Written] = {}
    for events, alone in requests:
        items = [layout.make_item(event, at=at) for event, at in events]
        written = [Written(item, [Copy(*pair, "")]) for item, pair in zip(items, events, strict=True)]
        if not alone:
            made = make_packs(items, layout, Zstd())
            written = [written[number] for number in made.alone] + [
                Written(
                    pack.item,
                    [Copy(*events[number], pack.item["sk"].rpartition("##")[2]) for number in pack.members],
                )
                for pack in made.packs
            ]
        for each in written:
            key = each.item["pk"], each.item["sk"]
            if key not in held or held[key].item["at"] <= each.item["at"]:
                held[key] = each
    return list(held.values())


def choose_counting(copies: Iterable[Copy]) -> list[Copy]:
    """Of each event the copy that was accepted last, or has the greatest hash, in the order of answers."""
    best: dict[str, Copy] = {}
    for copy in copies:
        best[copy.position] = max(best.get(copy.position, copy), copy, key=lambda each: each[1:])
    return [best[position] for position in sorted(best)]
