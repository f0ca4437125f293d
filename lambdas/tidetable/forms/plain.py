"""The plain form: an item per event. The unit of settling is the item: a table holds one state of each event."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import repeat
from typing import Any

from tidetable.batch import Batch
from tidetable.events import Event, Item
from tidetable.forms.field_columns import FieldColumns
from tidetable.forms.form import Puts, Shrink, Source, UnitNames
from tidetable.layout import Layout
from tidetable.ports import Compressor, FieldPage, Page, Put, Slot


class PlainForm:
    """An item per event."""

    name = "plain"
    span = 0
    together = 400
    proves_new = True

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self.unit = UnitNames(series=layout.partition_by == "series", suffix=True)
        # A replica has the keys of the table, so it adds nothing to an item.
        self._indexes = [index for index in layout.indexes if not index.replica]

    def describe(self) -> Mapping[str, Any]:
        """Say that there are no packs."""
        return {"pack": None}

    def make_sequence(self, at: int, begun: int, number: str, hash: str = "") -> str:  # noqa: ARG002 - see Form
        """Follow the order in which DynamoDB wrote the states of the item.

        AWS: the records of an item are in the order of its changes, and a sequence number has up to 40 digits (API
        reference, *StreamRecord*). A period that is made anew has a stream that begins later.
        """
        return f"{begun:015d}{number:0>40}"

    def settle_source(self, source: Source, settle: Callable[[Layout], Source]) -> Source:  # noqa: ARG002 - see Form
        """Return the items: a table has one state of each event."""
        return source

    def find_key_range(self, start: datetime, end: datetime) -> tuple[str, str]:
        """Return the edges of the times."""
        return self._layout.make_edge(start), self._layout.make_edge(end)

    def make_puts(
        self,
        batch: Batch,
        numbers: Sequence[int],
        table: str,
        compressor: Compressor,  # noqa: ARG002 - see Form
        shrink: Shrink,
    ) -> Puts:
        """Make a put per event. Versions and large values refine it."""
        columns = batch if len(numbers) == len(batch.times) else batch.pick(numbers)
        datas, at = columns.datas, columns.at
        pks, sks = self._layout.make_keys(columns.times, columns.series, columns.ids)
        ats = repeat(at, len(pks)) if isinstance(at, int) else at
        items: list[Item] = [
            {"pk": pk, "sk": sk, "at": at, "data": data} for pk, sk, at, data in zip(pks, sks, ats, datas, strict=True)
        ]
        refined = bool(batch.large) or self._layout.versioned
        if not (refined or self._indexes) and len(set(zip(pks, sks, strict=True))) == len(pks):
            return Puts([Put(table, item) for item in items], list(zip(numbers, strict=True)), pks, sks)
        puts: dict[Slot, Put] = {}
        members: dict[Slot, list[int]] = {}
        too_large = []
        for number, item in zip(numbers, items, strict=True):
            put = self._make_put(batch, number, Put(table, item), shrink)
            if put is None:
                too_large.append(number)
                continue
            puts[put.slot] = put
            members.setdefault(put.slot, []).append(number)
        keys = [put.key for put, own in zip(puts.values(), members.values(), strict=True) for _ in own]
        pks, sks = [key.pk for key in keys], [key.sk for key in keys]
        return Puts([*puts.values()], [*members.values()], pks, sks, too_large, refined=refined)

    def _make_put(self, batch: Batch, number: int, put: Put, shrink: Shrink) -> Put | None:
        """Add the attributes of indexes and of a version to an item, and shrink it if it may be large."""
        item, versioned, is_large = put.item, self._layout.versioned, number in batch.large
        if self._indexes or versioned or is_large:
            event = batch.make_event(number)
            item["data"] = event.data
            for index in self._indexes:
                item |= index.make_attributes(event)
        if versioned:
            from tidetable.versions.writing import make_first_version  # queries, which import this module, do not write

            put = Put(put.table, make_first_version(item, item["data"]))
        return shrink(put.item) if versioned or is_large else put

    def measure(self, event: Event, at: int) -> int:
        """Count the bytes of the event's item, and of its entries in local indexes."""
        return self._layout.measure(self._layout.make_item(event, at))

    def count_events(self, page: Page) -> int:
        """Count the items that DynamoDB read, also those that its filter left out."""
        return page.read


def open_page(page: FieldPage, pk: str, fields: Sequence[str], layout: Layout) -> FieldColumns:
    """Open a page of the partition ``pk`` as columns of these fields, which the page was read for."""
    values = dict(zip(fields, page.values, strict=True))
    if not page.sks:
        return FieldColumns([], [], values, list)
    together = "#".join(page.sks)
    times, series, ids = layout.parse_columns(repeat(pk), page.sks, together)
    return FieldColumns(times, series, values, lambda: ids)
