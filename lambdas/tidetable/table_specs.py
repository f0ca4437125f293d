"""The specification of a period table, both for new tables and for restored tables."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from tidetable.catalog import Entry
from tidetable.config import Stream
from tidetable.ladder import Level
from tidetable.ports import TableSpec


def make_table_spec(
    entry: Entry, stream: Stream, level: Level, own_tags: Mapping[str, str], *, young: bool
) -> TableSpec:
    """Make the specification of an entry's table at a level of its stream's ladder.

    ``own_tags`` prove that the table is ours; they override the stream's tags. Only a ``young`` table, whose events
    have not come yet, is made warm. All settings except the key and the capacity come from the stream's configuration.
    """
    table, capacity, warm = stream.table, stream.capacity, stream.capacity.warm
    return TableSpec(
        entry.table,
        level.write,
        level.read,
        level.table_class,
        {**table.tags, **own_tags},
        entry.layout.indexes,
        table.deletion_protection,
        level.index_units,
        warm=(warm.write, warm.read) if young and warm is not None else None,
        most=capacity.maxima if level.write is None else None,
        encryption=table.encryption,
        stream=stream.shown,
        copied=entry.copied,
    )


def make_filling_spec(entry: Entry, stream: Stream, level: Level, own_tags: Mapping[str, str]) -> TableSpec:
    """Make the specification of a table that is filled from its archive: on demand, whatever the level.

    The ladder sets the units of the table and its indexes afterwards. The maximum of an on-demand level holds during
    the filling, too. The table has a change stream only if ``table.stream`` asks for one, and none for a feed: events
    that a restore writes are not changes. It gets no copies.
    """
    spec = make_table_spec(entry, stream, level, own_tags, young=False)
    return replace(spec, write=None, read=None, index_units={}, stream=stream.table.stream, copied=False)
