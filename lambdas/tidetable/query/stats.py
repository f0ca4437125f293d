"""Statistics of events: exact ones in decimals, percentiles by a mergeable sketch.

The sketch is DDSketch (Masson, Rim, Lee, VLDB 2019), whose answers lie within a relative error of the exact percentile
however the values are distributed, and whose size does not grow with their number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal
from typing import Any

PLAIN = ("count", "sum", "min", "max", "avg", "first", "last")
RELATIVE_ERROR = 0.01
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d{1,3})?|100)")
# AWS: numbers have 38 digits; a sum of as many as there may be loses none of them to rounding.
EXACT = Context(prec=420)
_AVERAGE = Context(prec=17)


def percentile_of(stat: str) -> float | None:
    """The share that a percentile is of, such as 0.95 of ``p95``; None if it is none."""
    found = _PERCENTILE.fullmatch(stat)
    return float(found[1]) / 100 if found else None


def is_stat(stat: str) -> bool:
    """Whether there is a statistic of this name."""
    return stat in PLAIN or percentile_of(stat) is not None


def new_sketch() -> Any:
    """An empty sketch; the library is loaded when the first is made."""
    from ddsketch import LogCollapsingLowestDenseDDSketch

    return LogCollapsingLowestDenseDDSketch(RELATIVE_ERROR)


@dataclass(slots=True)
class Cell:
    """What is known of the numbers of one group in one step, which come in the order of time."""

    count: int = 0
    sum: Decimal = Decimal(0)
    min: int | Decimal | None = None
    max: int | Decimal | None = None
    first: int | Decimal | None = None
    last: int | Decimal | None = None
    sketch: Any = field(default=None)

    def add(self, number: int | Decimal) -> None:
        """Take one number into account, but for the percentiles."""
        self.count += 1
        self.sum += number
        if self.min is None or number < self.min:
            self.min = number
        if self.max is None or number > self.max:
            self.max = number
        if self.first is None:
            self.first = number
        self.last = number

    def add_all(self, number: int | Decimal) -> None:
        """The same, and for the percentiles, too."""
        self.add(number)
        if self.sketch is None:
            self.sketch = new_sketch()
        self.sketch.add(float(number))

    def join(self, later: Cell) -> None:
        """Take into account what is known of later numbers."""
        if not later.count:
            return
        self.count += later.count
        self.sum = EXACT.add(self.sum, later.sum)
        for name, better in (("min", min), ("max", max)):
            mine, other = getattr(self, name), getattr(later, name)
            setattr(self, name, other if mine is None else mine if other is None else better(mine, other))
        self.first = later.first if self.first is None else self.first
        self.last = self.last if later.last is None else later.last
        if later.sketch is not None:
            if self.sketch is None:
                self.sketch = new_sketch()
            self.sketch.merge(later.sketch)

    def stat(self, name: str) -> int | float | Decimal | None:
        """A statistic; None where there is nothing that it could be of."""
        if name == "count":
            return self.count
        if not self.count or self.first is None:
            return None
        if name == "sum":
            return self.sum
        if name == "avg":
            return _AVERAGE.divide(self.sum, Decimal(self.count))
        share = percentile_of(name)
        if share is None:
            return getattr(self, name)  # type: ignore[no-any-return]
        # No percentile lies beyond the numbers themselves, though its estimate may.
        estimate = self.sketch.get_quantile_value(share)
        return float(min(max(estimate, float(self.min or 0)), float(self.max or 0)))


def adder(stats: Sequence[str]) -> Callable[[Cell, int | Decimal], None]:
    """How to add a number for these statistics: sketches cost more than all the others."""
    return Cell.add_all if any(percentile_of(one) is not None for one in stats) else Cell.add
