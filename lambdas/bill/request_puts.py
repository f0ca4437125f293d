"""The puts of a request: generated events of the stated shape, through the code that makes the puts of real requests.

So the estimate follows the layout: with packs, the events of a bucket share packs, but each series has packs of its own
if the table is partitioned by series.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import ceil
from typing import NamedTuple

from msgspec.structs import replace

from tidetable.batch import Batch
from tidetable.events import Event
from tidetable.forms.choose import choose_form
from tidetable.layout import Layout
from tidetable.packs import decode_body
from tidetable.ports import Put
from tidetable.values import count_item_bytes

# The bytes of a pack's further events divided by their bytes as items. The first event of a pack is not smaller than as
# an item. bench/packs.py measures 0.2 to 0.25 at 100 events of 160 bytes per request, and less for larger events.
PACKED_SHARE = 0.25
# A bucket and a period begin at this instant, so that no generated request crosses their borders without need.
_BEGIN = datetime(2026, 6, 1, tzinfo=UTC)


class RequestShape(NamedTuple):
    """The events of a request: their number, of how many series, the seconds from the oldest to the newest, the bytes of
    an event as an item, and in a pack (None: estimated).
    """

    events: int
    series: int
    seconds: float
    event_bytes: int
    packed_bytes: float | None


class RequestPuts(NamedTuple):
    """What a request's events become in the table: items, write units, bytes."""

    items: int
    units: int
    bytes: float


@lru_cache(128)
def count_puts(layout: Layout, shape: RequestShape) -> RequestPuts:
    """Count the puts of a request. An event that is alone is an item of its stated size."""
    form, batch = choose_form(layout), _generate_batch(layout, shape)
    puts = form.make_puts(batch, range(shape.events), "", _AssumedCompressor(shape), lambda item: Put("", item))
    sizes = [count_item_bytes(put.item) if put.slot in puts.packs else shape.event_bytes for put in puts.puts]
    return RequestPuts(len(sizes), sum(map(_count_units, sizes)), sum(sizes))


def _generate_batch(layout: Layout, shape: RequestShape) -> Batch:
    """Make the events of a request. The events of a series are spread evenly over the request's seconds."""
    step = timedelta(seconds=shape.seconds) / max(shape.events - 1, 1)
    events = [
        Event(f"series-{number % shape.series:05}", _BEGIN + number * step, f"event-{number:05}", {"text": ""})
        for number in range(shape.events)
    ]
    empty = choose_form(layout).measure(events[0], 0)
    data = {"text": "x" * max(shape.event_bytes - empty, 0)}
    return Batch.of([replace(event, data=data) for event in events], 0)


def _count_units(size: float) -> int:
    """AWS: a write unit for each KB begun."""
    return max(ceil(size / 1024), 1)


@dataclass(frozen=True)
class _AssumedCompressor:
    """Makes bodies as long as they are assumed to be: generated text says nothing about how well real data compress."""

    shape: RequestShape

    def compress(self, value: bytes) -> bytes:
        """Zeros, as many as a pack of these events has bytes."""
        count, size = len(decode_body(value).times), self.shape.event_bytes
        if self.shape.packed_bytes is not None:
            return bytes(ceil(count * self.shape.packed_bytes))
        return bytes(ceil(size * (1 - PACKED_SHARE) + count * size * PACKED_SHARE))

    def expand(self, value: bytes) -> bytes:
        """The estimate opens no pack."""
        raise ValueError(f"{len(value)} zeros hold no events")
