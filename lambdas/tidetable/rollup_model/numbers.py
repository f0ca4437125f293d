"""Numbers: the statistics of one field in one group. They can be merged, and written as JSON."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from tidetable.events import JsonObject
from tidetable.exact_json import EXACT
from tidetable.packs.numbers import settle_text
from tidetable.ports import Sketch, Sketches
from tidetable.statistics import PERCENTILES, TIMES

Number = int | Decimal


@dataclass(slots=True, kw_only=True)
class Times:
    """The times of the first and the last event, as texts; empty if they are not known."""

    first_at: str = ""
    last_at: str = ""

    def widen(self, first_at: str, last_at: str) -> None:
        """Include the times of other events."""
        if first_at and (not self.first_at or first_at < self.first_at):
            self.first_at = first_at
        if last_at > self.last_at:
            self.last_at = last_at

    def show_times(self, statistics: frozenset[str]) -> JsonObject:
        """Show the times that are among the ``statistics``."""
        return {name: getattr(self, name) for name in TIMES if name in statistics}


@dataclass(slots=True)
class Numbers(Times):
    """The statistics of the numbers of one field in one group.

    ``first_place`` and ``last_place`` are the places of the first and the last number in the order of all events.
    """

    count: int = 0
    sum: Decimal = Decimal(0)
    min: Number | None = None
    max: Number | None = None
    first: Number | None = None
    last: Number | None = None
    sketch: Sketch | None = None
    first_place: str = ""
    last_place: str = ""

    def add_all(self, numbers: Sequence[Number], sketches: Sketches | None) -> None:
        """Add numbers in any order to all statistics but the first and the last; with ``sketches``, to the sketch, too.

        The present decimal context must be ``EXACT``.
        """
        self.count += len(numbers)
        self.sum += sum(numbers)
        least, greatest = min(numbers), max(numbers)
        self.min = least if self.min is None else min(self.min, least)
        self.max = greatest if self.max is None else max(self.max, greatest)
        if sketches is not None:
            if self.sketch is None:
                self.sketch = sketches.new()
            self.sketch.add_all(list(map(float, numbers)))

    def add_ends(self, first: tuple[str, Number], last: tuple[str, Number]) -> None:
        """Take the first and the last of some numbers into account, each with its place in the order of all events."""
        if self.first is None or first[0] < self.first_place:
            self.first_place, self.first = first
        if self.last is None or last[0] >= self.last_place:
            self.last_place, self.last = last

    def merge(self, other: Numbers, sketches: Sketches) -> None:
        """Add other numbers, in any order."""
        self.count += other.count
        self.widen(other.first_at, other.last_at)
        self.sum = EXACT.add(self.sum, other.sum)
        if other.min is not None:
            self.min = other.min if self.min is None else min(self.min, other.min)
        if other.max is not None:
            self.max = other.max if self.max is None else max(self.max, other.max)
        if other.first is not None and (self.first is None or other.first_place < self.first_place):
            self.first, self.first_place = other.first, other.first_place
        if other.last is not None and (self.last is None or other.last_place >= self.last_place):
            self.last, self.last_place = other.last, other.last_place
        if other.sketch is not None:
            if self.sketch is None:
                self.sketch = sketches.new()
            self.sketch.merge(other.sketch)

    def document(self, statistics: frozenset[str]) -> JsonObject:
        """Write the state as JSON, with the count and the ``statistics`` that a rollup keeps."""
        document: JsonObject = {"count": self.count, **self.show_times(statistics)}
        if "sum" in statistics:
            document["sum"] = settle_text(self.sum)
        document |= {name: getattr(self, name) for name in ("min", "max") if name in statistics}
        for name in ("first", "last"):
            if name in statistics and (number := getattr(self, name)) is not None:
                document[name] = [number, getattr(self, f"{name}_place")]
        if PERCENTILES in statistics and self.sketch is not None:
            document["sketch"] = b64encode(self.sketch.dump()).decode()
        return document


def read_numbers(state: JsonObject, sketches: Sketches) -> Numbers:
    """Read the state that ``Numbers.document`` wrote."""
    first, first_place = state.get("first", (None, ""))
    last, last_place = state.get("last", (None, ""))
    sketch = sketches.load(b64decode(state["sketch"])) if "sketch" in state else None
    total, least, greatest = Decimal(state.get("sum", "0")), state.get("min"), state.get("max")
    times = {name: state.get(name, "") for name in TIMES}
    return Numbers(state["count"], total, least, greatest, first, last, sketch, first_place, last_place, **times)
