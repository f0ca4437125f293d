"""The port of sketches, from which percentiles are estimated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class Sketch(Protocol):
    """A summary of numbers, from which their percentiles are estimated."""

    def add(self, val: float) -> None:
        """Take a number into account."""

    def add_all(self, vals: Sequence[float]) -> None:
        """Take several numbers into account, as ``add`` does with each."""

    def merge(self, other: Any) -> None:
        """Take the numbers of another sketch of the same kind into account."""

    def quantile(self, share: float) -> float:
        """Estimate the number below which this share of the numbers lies."""

    def dump(self) -> bytes:
        """Write the sketch as bytes. The same numbers give the same bytes, in any order."""


class Sketches(Protocol):
    """Makes sketches, whose answers lie within ``relative_error`` of the exact answers."""

    @property
    def relative_error(self) -> float: ...
    def new(self) -> Sketch: ...
    def load(self, dumped: bytes) -> Sketch:
        """Load the sketch from which ``dump`` made these bytes; merging the sketch is as exact as adding its numbers."""
