"""Statistics of events. Most statistics are exact decimals. A mergeable sketch estimates the percentiles."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

from tidetable.exact import EXACT
from tidetable.keys import render_number
from tidetable.ports import Sketch, Sketches

PLAIN = ("count", "sum", "min", "max", "avg", "first", "last")
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,3})?|100)")
__all__ = ["EXACT", "PLAIN", "Cell", "make_adder", "is_stat", "parse_percentile"]
_AVERAGE = Context(prec=17)


def parse_percentile(stat: str) -> float | None:
    """Return the quantile of a percentile, such as 0.95 for ``p95``; None if the statistic is not a percentile."""
    percentile = _PERCENTILE.fullmatch(stat)
    return float(percentile[1]) / 100 if percentile else None


def is_stat(stat: str) -> bool:
    """True if there is a statistic of this name."""
    return stat in PLAIN or parse_percentile(stat) is not None


@dataclass(slots=True)
class Cell:
    """The statistics of the numbers of one group in one step. The numbers must be added in the order of time."""

    count: int = 0
    sum: Decimal = Decimal(0)
    min: int | Decimal | None = None
    max: int | Decimal | None = None
    first: int | Decimal | None = None
    last: int | Decimal | None = None
    sketch: Sketch | None = None
    # The places of the first and the last number. They are for numbers from rollups, of which only the buckets come in
    # the order of time.
    first_place: str = ""
    last_place: str = ""

    def add(self, number: int | Decimal) -> None:
        """Add one number to all statistics except the percentiles."""
        self.count += 1
        self.sum += number
        if self.min is None or number < self.min:
            self.min = number
        if self.max is None or number > self.max:
            self.max = number
        if self.first is None:
            self.first = number
        self.last = number

    def join(self, later: Cell, sketches: Sketches) -> None:
        """Add the statistics of later numbers."""
        self.count += later.count
        self.sum = EXACT.add(self.sum, later.sum)
        for name, better in (("min", min), ("max", max)):
            mine, other = getattr(self, name), getattr(later, name)
            setattr(self, name, other if mine is None else mine if other is None else better(mine, other))
        self.first = later.first if self.first is None else self.first
        self.last = self.last if later.last is None else later.last
        if later.sketch is not None:
            self.sketch = self.sketch or sketches.new()
            self.sketch.merge(later.sketch)

    def stat(self, name: str) -> int | float | Decimal | None:
        """Return the value of a statistic. Without numbers, a count is 0 and any other statistic is None."""
        if name == "count":
            return self.count
        if not self.count:
            return None
        if name in ("sum", "avg"):
            # Sums in rollups have no trailing zeros: 1.5 + 1.5 is 3 there, but 3.0 here. Both must give the same
            # answer.
            settled = Decimal(render_number(self.sum))
            return settled if name == "sum" else _AVERAGE.divide(settled, Decimal(self.count))
        share = parse_percentile(name)
        if share is None or self.sketch is None:
            return getattr(self, name)  # type: ignore[no-any-return]
        if share in (0.0, 1.0):
            return self.max if share else self.min
        # A percentile cannot be less than the minimum or greater than the maximum, but its estimate may be.
        estimate = self.sketch.quantile(share)
        return float(min(max(estimate, float(self.min or 0)), float(self.max or 0)))


def make_adder(stats: Sequence[str], sketches: Sketches) -> Callable[[Cell, int | Decimal], None]:
    """Make a function that adds a number for these statistics.

    It fills a sketch, which is slow, only for percentiles.
    """
    if all(parse_percentile(stat) is None for stat in stats):
        return Cell.add

    def add(cell: Cell, number: int | Decimal) -> None:
        cell.add(number)
        if cell.sketch is None:
            cell.sketch = sketches.new()
        cell.sketch.add(float(number))

    return add
