"""Percentiles by DDSketch (Masson, Rim, Lee, VLDB 2019).

Its answers lie within a relative error of the exact percentile for every distribution of values. Its size grows with the
logarithm of the values' range: 9 KB for ten decades. Buckets are never collapsed: that would break the bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tidetable.ports import Sketch

if TYPE_CHECKING:
    from ddsketch import DDSketch

_RELATIVE_ERROR = 0.01


class DDSketches:
    """Sketches of one accuracy; the library is loaded with the first sketch."""

    relative_error = _RELATIVE_ERROR

    def new(self) -> Sketch:
        """An empty sketch."""
        from ddsketch import DDSketch

        return _DDSketch(DDSketch(_RELATIVE_ERROR))


class _DDSketch:
    def __init__(self, inner: DDSketch) -> None:
        self._inner = inner
        self.add = inner.add

    def merge(self, other: Any) -> None:
        self._inner.merge(other._inner)  # noqa: SLF001 - of its own class

    def quantile(self, share: float) -> float:
        return float(self._inner.get_quantile_value(share) or 0.0)
