"""A share of the units of settling of a range, so that several readers read each event once, and each key range once.

All copies of an event are in one unit, so they are in one share. A share depends only on the names of an event and on the
layout of its period, which never changes. So it has the same events whether they are read from the table, from an index
or from the archive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeGuard

from msgspec.structs import replace

from tidetable.forms.choose import choose_form
from tidetable.forms.field_columns import FieldColumns
from tidetable.layout import Layout, unescape
from tidetable.layout.suffix import compute_each
from tidetable.query.scans import LiveScan, Scan


class KeyShare(NamedTuple):
    """The share with this ``number``, from 0 on, of so many ``shares``."""

    number: int
    shares: int

    @property
    def is_whole(self) -> bool:
        """True if the share has all units."""
        return self.shares == 1

    def choose_series(self, layout: Layout, series: Sequence[str]) -> Sequence[str]:
        """Choose the series that have units in the share, in a table that is partitioned by series."""
        if self.is_whole:
            return series
        suffixes = layout.shards if choose_form(layout).unit.suffix else 1
        firsts = compute_each(series, self.shares)
        return [
            name for name, first in zip(series, firsts, strict=True) if (self.number - first) % self.shares < suffixes
        ]

    def narrow(self, scans: Iterable[Scan]) -> Iterator[Scan]:
        """Leave out the key ranges without units of the share. Of other scans, ``select`` leaves out the other events."""
        for scan in scans:
            narrowed = self._narrow_table(scan) if _is_by_unit(scan) and not self.is_whole else scan
            if narrowed is not None:
                yield narrowed

    def _narrow_table(self, scan: LiveScan) -> LiveScan | None:
        layout = scan.entry.layout
        unit = choose_form(layout).unit
        if not unit.suffix:
            # All suffixes of a series are one unit, and the series were chosen.
            return scan
        if not unit.series:
            suffixes = [suffix for suffix in scan.suffixes if suffix % self.shares == self.number]
            return replace(scan, suffixes=suffixes) if suffixes else None
        keys_of = [keys.pk.rpartition("#") for keys in scan.ranges]
        names, suffixes = [unescape(name) for name, *_ in keys_of], [int(suffix) for *_, suffix in keys_of]
        numbers = self._number_units(layout, names, suffixes)
        ranges = [keys for keys, number in zip(scan.ranges, numbers, strict=True) if number == self.number]
        return replace(scan, series_ranges=ranges) if ranges else None

    def select(self, scan: Scan, columns: FieldColumns) -> FieldColumns:
        """Return the events of the share among those of a narrowed scan."""
        if self.is_whole or _is_by_unit(scan):
            return columns
        layout = scan.entry.layout
        suffixes = map(layout.compute_suffix, columns.series, columns.ids)
        return columns.where([number == self.number for number in self._number_units(layout, columns.series, suffixes)])

    def _number_units(self, layout: Layout, series: Sequence[str], suffixes: Iterable[int]) -> list[int]:
        """Return the share of each unit with these names. Events that have no unit of their own are divided by series."""
        unit = choose_form(layout).unit
        firsts = compute_each(series, self.shares) if unit.series or not unit.suffix else [0] * len(series)
        if not unit.suffix:
            return firsts
        return [(first + suffix) % self.shares for first, suffix in zip(firsts, suffixes, strict=True)]


WHOLE_SHARE = KeyShare(0, 1)


def _is_by_unit(scan: Scan) -> TypeGuard[LiveScan]:
    """True if each key range of a scan belongs to one unit."""
    return isinstance(scan, LiveScan) and scan.keys.index is None and any(choose_form(scan.entry.layout).unit)
