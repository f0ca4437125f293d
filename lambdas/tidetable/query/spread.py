"""Where events of some names are: the suffixes that can hold them, and the ranges of several series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidetable.conditions import Names
from tidetable.keys import Layout, escape, suffix_of
from tidetable.ports import KeyRange
from tidetable.query.model import Query
from tidetable.times import MOMENT


def suffixes_of(names: Names, layout: Layout) -> Sequence[int]:
    """The suffixes of a logical partition that can hold events of these names."""
    hashed = names.ids if layout.shard_by == "id" else names.series
    return suffixes_of_hashes(hashed, layout.shards)


def suffixes_of_hashes(hashed: Sequence[str], shards: int) -> Sequence[int]:
    """The suffixes that these names have, of so many; all, if there are no names."""
    return sorted({suffix_of(name, shards) for name in hashed}) if hashed else range(shards)


def spread_over_series(query: Query, layout: Layout, whole: KeyRange) -> list[KeyRange]:
    """The ranges of several series of a table that is partitioned by series, each from its own place after the query's."""
    across = replace(whole, after=None)
    return [
        replace(keys, pk=f"{escape(series)}#{suffix}")
        for series in query.names.series
        if (keys := _of_series(query, layout, across, series)) is not None
        for suffix in suffixes_of(query.names._replace(series=(series,)), layout)
    ]


def _of_series(query: Query, layout: Layout, keys: KeyRange, series: str) -> KeyRange | None:
    """What lies after the query's place in one series of several; None if nothing can.

    In a partition of a series, sort keys are time and id. At the place's own time the series decide: those before it, in the
    order of the answer, have been read to the end of that time, and the others not begun.
    """
    after = query.after
    if after is None or not after.id:
        place = None if after is None else layout.edge(after.time)
    elif series == after.series:
        place = layout.sort_key(after.time, series, after.id)
    else:
        # As in keys, where a separator follows each name.
        follows = f"{escape(series)}#" > f"{escape(after.series)}#"
        place = layout.edge(after.time if follows else after.time + MOMENT)
    if place is None or (place < keys.low if query.ascending else place > keys.high):  # type: ignore[operator]
        return keys
    if place > keys.high if query.ascending else place < keys.low:  # type: ignore[operator]
        return None
    return replace(keys, after=place)
