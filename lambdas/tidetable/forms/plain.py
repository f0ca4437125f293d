"""The plain form: an item per event. The unit of settling is the item: a table holds one state of each event."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from tidetable.forms.columns import FieldColumns
from tidetable.layout import Layout
from tidetable.ports import FieldPage


def open_page(page: FieldPage, pk: str, fields: Sequence[str], layout: Layout) -> FieldColumns:
    """Open a page of the partition ``pk`` as columns of these fields, which the page was read for."""
    values = dict(zip(fields, page.values, strict=True))
    if not page.sks:
        return FieldColumns([], [], values, list)
    together = "#".join(page.sks)
    times, series, ids = layout.parse_columns(repeat(pk), page.sks, together)
    return FieldColumns(times, series, values, lambda: ids)
