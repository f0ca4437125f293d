"""The plain form: an item per event. The unit of settling is the item: a table holds one state of each event."""

from __future__ import annotations

from collections.abc import Sequence

from tidetable.forms.columns import FieldColumns
from tidetable.layout import Layout
from tidetable.ports import FieldPage


def open_page(page: FieldPage, pk: str, fields: Sequence[str], layout: Layout) -> FieldColumns:
    """Open a page of the partition ``pk`` as columns of these fields, which the page was read for."""
    values = dict(zip(fields, page.values, strict=True))
    if not page.sks:
        return FieldColumns([], [], values, list)
    together = "#".join(page.sks)
    if layout.versioned or "%" in together or layout.partition_by == "series":
        named = [layout.parse_names(pk, sk) for sk in page.sks]
        times, series, ids = (list(column) for column in zip(*named, strict=True))
    else:
        # NameConditions without escapes are split for all events at once.
        names = together.split("#")
        times, series, ids = names[0::3], names[1::3], names[2::3]
    return FieldColumns(times, series, values, lambda: ids)
