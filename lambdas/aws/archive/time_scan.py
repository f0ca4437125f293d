"""Read a table by ranges of time, so that the events of an archive's file are those of a piece of time.

Only for a layout whose logical partitions are slices of time, each in the order of time. All suffixes of a slice are read
one after another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec

from aws.large.pages import cut_page
from tidetable.archive.ports import RawPage, TimeRange
from tidetable.layout import Layout

if TYPE_CHECKING:
    from tidetable.archive.ports import TableSource


class _Position(msgspec.Struct, frozen=True, omit_defaults=True):
    """The position where reading continues: the number of a range of keys, and the key after which it goes on."""

    number: int = 0
    key: dict[str, Any] | None = None


class TimeScan:
    """The items of a range of time, in pages of one slice of it after another."""

    def __init__(self, source: TableSource, layout: Layout, range: TimeRange) -> None:
        self._source = source
        self._layout = layout
        self._range = range

    @cached_property
    def _keys(self) -> list[tuple[str, str, str]]:
        """The partition keys with the first and the last sort key, slice by slice."""
        layout, edges = self._layout, self._range.list_edges()
        return [
            (f"{logical}#{suffix}", layout.make_edge(start), layout.make_edge(end))
            for start, end in pairwise(edges)
            for logical in layout.list_buckets(start, end)
            for suffix in range(layout.shards)
        ]

    def page(
        self,
        table: str,
        *,
        segment: int,  # noqa: ARG002 - see Source
        segments: int,  # noqa: ARG002 - see Source
        after: Mapping[str, Any] | None,
        limit: int | None,
    ) -> RawPage:
        """Read the next page."""
        position = msgspec.convert(after, _Position) if after is not None else _Position()
        pk, low, high = self._keys[position.number]
        page = cut_page(self._source.partition(table, pk, low=low, high=high, after=position.key, limit=limit))
        following: _Position | None = _Position(position.number, dict(page.after) if page.after is not None else None)
        if page.after is None:
            number = position.number + 1
            following = _Position(number) if number < len(self._keys) else None
        return replace(page, after=msgspec.to_builtins(following))
