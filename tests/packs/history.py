"""Random histories of a table of packs: what requests have written, and the events that count."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.packs.table import NOON, ZSTD, PackTable
from tests.worlds.packing import make_packs
from tidetable.events import Event
from tidetable.layout import Layout

SPAN = 60
# Times around the edges of the span and of a bucket; instants repeat often.
SECONDS = st.sampled_from(
    [0, 0.000001, 1, 30, 59.999999, 60, 60.000001, 90, 119, 120, 600, 3540, 3599.999999, 3600, 3660]
)
_VALUE = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([Decimal("1.5"), "a", "1", "é", True, None, [1], {"b": Decimal("0.25")}, {"b": "x"}]),
)
EVENT_DATA = st.dictionaries(st.sampled_from(["a", "c"]), _VALUE, max_size=2)
_EVENT = st.tuples(SECONDS, st.sampled_from(["s", "t#", "é%"]), st.sampled_from(["a", "b#", "%"]), EVENT_DATA)
# A request: its events, whether it is sent again in parts, and whether its events are written alone.
REQUEST = st.tuples(st.lists(_EVENT, min_size=1, max_size=8), st.booleans(), st.booleans())
Identity = tuple[datetime, str, str]


def make_event(time: float, series: str, id: str, data: dict[str, Any]) -> Event:
    return Event(series, NOON + timedelta(seconds=time), id, data)


class History:
    """What requests have written, and the copy of each event that counts."""

    def __init__(self, layout: Layout, requests: Sequence[Any]) -> None:
        self.table = PackTable(layout)
        self.counting: dict[Identity, tuple[int, Any]] = {}
        at = 0
        for sent, again, alone in requests:
            events = [make_event(*each) for each in sent]
            parts = [events]
            if again:
                parts += [some for some in (events[:2], events[2:]) if some]
            for some in parts:
                at += 1
                if alone:
                    for event in {(each.time, each.series, each.id): each for each in some}.values():
                        item = layout.make_item(event, at=at)
                        self.table.items[item["pk"], item["sk"]] = item
                else:
                    self.table.send(some, at)
                self.counting |= {(each.time, each.series, each.id): (at, each.data) for each in some}

    def restore(self) -> None:
        """Write the events that count anew, as a restore into a table that still exists does."""
        layout = self.table.layout
        items = [
            layout.make_item(Event(series, time, id, data), at=at)
            for (time, series, id), (at, data) in self.counting.items()
        ]
        made = make_packs(items, layout, ZSTD)
        for item in [pack.item for pack in made.packs]:
            self.table.items.setdefault((item["pk"], item["sk"]), item)
