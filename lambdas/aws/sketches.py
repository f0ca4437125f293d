"""Percentiles by DDSketch (Masson, Rim, Lee, VLDB 2019).

Its answers lie within a relative error of the exact percentile for every distribution of values. Its size grows with the
logarithm of the values' range: 9 KB for ten decades. Buckets are never collapsed: that would break the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import ceil, log
from typing import TYPE_CHECKING, Any

import msgspec

from tidetable.ports import Sketch

if TYPE_CHECKING:
    from ddsketch import DDSketch

_RELATIVE_ERROR = 0.01


class DDSketches:
    """Sketches of one accuracy; the library is loaded with the first sketch."""

    relative_error = _RELATIVE_ERROR

    def new(self) -> Sketch:
        from ddsketch import DDSketch

        return _DDSketch(DDSketch(_RELATIVE_ERROR))

    def load(self, dumped: bytes) -> Sketch:
        """Load a stored sketch; ValueError if it has another accuracy or is not a sketch."""
        from ddsketch import DDSketch

        dump = _DECODE(dumped)
        if dump.error != _RELATIVE_ERROR:
            raise ValueError(f"a sketch has the relative error {dump.error}, this reads {_RELATIVE_ERROR}")
        inner = DDSketch(_RELATIVE_ERROR)
        for store, bins in ((inner._store, dump.positive), (inner._negative_store, dump.negative)):  # noqa: SLF001
            key = 0
            for step, count in zip(bins[::2], bins[1::2], strict=True):
                key += step
                store.add(key, float(count))
        # Besides bins, percentiles need only these two. The library's sum and extremes stay unset: rollups keep exact
        # values.
        inner._zero_count = float(dump.zeros)  # noqa: SLF001
        inner._count = inner._store.count + inner._negative_store.count + dump.zeros  # noqa: SLF001
        return _DDSketch(inner)


class _DDSketch:
    def __init__(self, inner: DDSketch) -> None:
        self._inner = inner
        self.add = inner.add

    def add_all(self, vals: Sequence[float]) -> None:
        """Add numbers, as the library's ``add`` adds each: their bins are counted first."""
        inner = self._inner
        mapping, multiplier = inner._mapping, inner._mapping._multiplier  # noqa: SLF001
        least = mapping.min_possible
        for store, part in (
            (inner._store, [val for val in vals if val > least]),  # noqa: SLF001
            (inner._negative_store, [-val for val in vals if val < -least]),  # noqa: SLF001
        ):
            # The same expression as the library's ``LogarithmicMapping.key``, without its three calls per number.
            for key, count in Counter([ceil(log(val, 2) * multiplier) for val in part]).items():  # noqa: FURB163
                store.add(key, float(count))
        inner._count += float(len(vals))  # noqa: SLF001
        inner._zero_count = inner._count - inner._store.count - inner._negative_store.count  # noqa: SLF001

    def merge(self, other: Any) -> None:
        self._inner.merge(other._inner)  # noqa: SLF001 - of its own class

    def quantile(self, share: float) -> float:
        return float(self._inner.get_quantile_value(share) or 0.0)

    def dump(self) -> bytes:
        inner = self._inner
        positive, negative = _list_bins(inner._store), _list_bins(inner._negative_store)  # noqa: SLF001
        return _ENCODE(_Dump(_RELATIVE_ERROR, int(inner._zero_count), positive, negative))  # noqa: SLF001


class _Dump(msgspec.Struct, array_like=True, frozen=True):
    """A sketch as it is stored. A bin is a pair: the step from the previous bin's key, and the count."""

    error: float
    zeros: int
    positive: list[int]
    negative: list[int]


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(_Dump).decode


def _list_bins(store: Any) -> list[int]:
    bins: list[int] = []
    before = 0
    for index, count in enumerate(store.bins):
        if count:
            key = index + store.offset
            bins += [key - before, int(count)]
            before = key
    return bins
