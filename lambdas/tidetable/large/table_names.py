"""The tables of a period: its own and, if its layout keeps large values in chunks, the table of these beside it."""

from __future__ import annotations

from tidetable.layout import Layout

_BESIDE = ".parts"


def name_chunks_table(table: str) -> str:
    """Make the name of the table beside a period table, which holds data that is not in an event's item."""
    return table + _BESIDE


def name_tables(table: str, layout: Layout) -> tuple[str, ...]:
    """Name all tables of a period whose own table has this name; its own table is the first."""
    return (table, name_chunks_table(table)) if layout.parts else (table,)


def count_tables(layout: Layout) -> int:
    """Count the tables of each period with this layout."""
    return len(name_tables("", layout))
