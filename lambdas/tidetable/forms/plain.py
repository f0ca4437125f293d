"""The plain form: an item per event. The unit of settling is the item: a table holds one state of each event."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice, repeat
from typing import Any

from tidetable.events import Event, Item
from tidetable.forms.field_columns import FieldColumns
from tidetable.forms.form import Puts, Unit
from tidetable.layout import Layout
from tidetable.ports import Compressor, FieldPage, Page

# The archived items that are written together.
_WRITTEN_TOGETHER = 400


class PlainForm:
    """An item per event."""

    name = "plain"
    unit = Unit.ITEM
    span = 0
    reads_columns = False

    def __init__(self, layout: Layout) -> None:
        # A version gets its number and its digest.
        self.keeps_items = not layout.versioned
        self._layout = layout

    def describe(self) -> Mapping[str, Any]:
        """Say that there are no packs."""
        return {"pack": None}

    def find_key_range(self, start: datetime, end: datetime) -> tuple[str, str]:
        """Return the edges of the times."""
        return self._layout.make_edge(start), self._layout.make_edge(end)

    def make_puts(self, items: Sequence[Item], table: str, compressor: Compressor) -> Puts:  # noqa: ARG002 - see Form
        """Return all events as alone: versions and large values refine their puts."""
        return Puts((), range(len(items)))

    def make_alone(self, item: Item, event: Event) -> Item:  # noqa: ARG002 - see Form
        """Return the item, which is complete."""
        return item

    def split_items(self, items: Iterator[Item]) -> Iterator[list[Item]]:
        """Split archived items into lists of a few batches."""
        while portion := list(islice(items, _WRITTEN_TOGETHER)):
            yield portion

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
