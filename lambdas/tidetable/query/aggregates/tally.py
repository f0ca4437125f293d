"""The steps of an aggregate that are being read: the numbers of each group, from columns and cells in any order.

Numbers are collected in lists, which are folded into the statistics many at a time: a call per event would cost more
than the event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from heapq import heappop, heappush
from typing import Any

from tidetable.forms.field_columns import FieldColumns
from tidetable.ports import Sketches
from tidetable.query.aggregates.aggregate_parameters import SERIES, Aggregation
from tidetable.rollup_model.cells import Cell
from tidetable.rollup_model.group_values import Group, find_ends, find_groups, measure_group
from tidetable.rollup_model.numbers import Number, Numbers
from tidetable.statistics import parse_percentile
from tidetable.times import from_text, to_text

# The most numbers that wait to be folded. A Decimal takes 104 bytes.
_MOST_WAITING = 200_000
_NUMBERS = frozenset({int, Decimal})
Window = tuple[datetime, datetime]


class OpenStep:
    """A step that is being read: the numbers of each group, of which some still wait in lists."""

    def __init__(self, window: Window, sketches: Sketches | None) -> None:
        self.window = window
        self.numbers: dict[Group, Numbers] = {}
        self.texts = 0
        self._sketches = sketches
        self._waiting: dict[Group, list[Number]] = {}

    def find(self, group: Group) -> Numbers:
        """Find the numbers of a group; the first time, begin the group."""
        numbers = self.numbers.get(group)
        if numbers is None:
            numbers = self.numbers[group] = Numbers()
            self.texts += measure_group(group)
        return numbers

    def extend(self, group: Group, numbers: list[Number]) -> None:
        """Let numbers of a group wait."""
        waiting = self._waiting.get(group)
        if waiting is None:
            self.find(group)
            self._waiting[group] = numbers
        else:
            waiting += numbers

    def fold(self) -> None:
        """Add the numbers that wait to the statistics of their groups."""
        for group, numbers in self._waiting.items():
            self.numbers[group].add_all(numbers, self._sketches)
        self._waiting = {}


class Tally:
    """The steps that are being read, by their start.

    Events and cells from ``cut`` on are ignored: their steps cannot be on the page, because the steps before them have
    more rows than a page may have. So the groups in memory are few more than a page has rows.
    """

    def __init__(self, aggregation: Aggregation, sketches: Sketches) -> None:
        self._aggregation = aggregation
        self._sketches = sketches
        has_sketch = any(parse_percentile(stat) is not None for stat in aggregation.stats)
        self._sketched = sketches if has_sketch else None
        self._timed = aggregation.timed
        self._has_ends = aggregation.has_ends
        self._waiting = 0
        # The number of groups of all steps, and the starts of steps as a heap.
        self.count = 0
        self._starts: list[datetime] = []
        # The start of the first step that is wanted. Earlier steps are complete.
        self._begin = aggregation.query.start
        self.steps: dict[datetime, OpenStep] = {}
        self.cut: datetime | None = None

    def add(self, columns: FieldColumns) -> None:
        """Add events, which are in the order of time."""
        start, count = 0, len(columns)
        if self._begin > self._aggregation.query.start:
            start = bisect_left(columns.times, to_text(self._begin))
        if self.cut is not None:
            count = bisect_left(columns.times, to_text(self.cut))
        while start < count:
            step = self._find_step(from_text(columns.times[start]))
            end = count
            if columns.times[count - 1] >= (edge := to_text(step.window[1])):
                end = bisect_left(columns.times, edge, start, count)
            before = len(step.numbers)
            self._add_to_step(step, columns.cut(start, end))
            start = end
            self.count += len(step.numbers) - before
        if self._waiting > _MOST_WAITING:
            self.fold()

    def add_cells(self, cells: Iterable[tuple[str, Cell]]) -> None:
        """Add cells of a rollup."""
        aggregation, field = self._aggregation, self._aggregation.field
        for _, cell in cells:
            if cell.time < self._begin or (self.cut is not None and cell.time >= self.cut):
                continue
            rolled = None if field is None else cell.state.fields.get(field)
            if field is not None and rolled is None:
                continue
            step = self._find_step(cell.time)
            before = len(step.numbers)
            numbers = step.find(cell.select_group(aggregation.by))
            self.count += len(step.numbers) - before
            if rolled is None:
                numbers.count += cell.state.count
                numbers.widen(cell.state.first_at, cell.state.last_at)
            else:
                numbers.merge(rolled, self._sketches)

    def fold(self) -> None:
        """Add all numbers that wait to the statistics."""
        for step in self.steps.values():
            step.fold()
        self._waiting = 0

    @property
    def texts(self) -> int:
        """The characters of the groups of all steps."""
        return sum(step.texts for step in self.steps.values())

    def take(self, window: Window) -> tuple[int, dict[Group, Numbers]]:
        """Remove a step, which is complete: return the characters of its groups, and the numbers of its groups."""
        self._begin = max(self._begin, window[1])
        step = self.steps.pop(window[0], None)
        if step is None:
            return 0, {}
        step.fold()
        self.count -= len(step.numbers)
        return step.texts, step.numbers

    def find_first(self, at: datetime) -> datetime:
        """Find the start of the first step that has events; ``at`` if there is none before this instant."""
        while self._starts and self._starts[0] not in self.steps:
            heappop(self._starts)
        return min(at, self._starts[0]) if self._starts else at

    def drop_from(self, window: Window) -> None:
        """Ignore a step and all later steps from now on."""
        self.cut = window[0]
        for start in [start for start in self.steps if start >= window[0]]:
            self.count -= len(self.steps.pop(start).numbers)

    def _find_step(self, at: datetime) -> OpenStep:
        window = self._aggregation.find_window(at)
        step = self.steps.get(window[0])
        if step is None:
            step = self.steps[window[0]] = OpenStep(window, self._sketched)
            heappush(self._starts, window[0])
        return step

    def _add_to_step(self, step: OpenStep, columns: FieldColumns) -> None:
        field = self._aggregation.field
        if field is None:
            self._count_events(step, columns)
            return
        columns = _keep_numbers(columns, field)
        numbers = columns.values[field]
        self._waiting += len(numbers)
        keys, groups = self._group(columns)
        if not len(columns):
            return
        if keys is None:
            step.extend((), list(numbers))
            self._add_ends(step, (), columns, 0, len(columns) - 1)
            return
        by_key: defaultdict[Any, list[Number]] = defaultdict(list)
        for key, number in zip(keys, numbers, strict=True):
            by_key[key].append(number)
        for key, some in by_key.items():
            step.extend(groups[key], some)
        self._add_ends_of_groups(step, columns, keys, groups)

    def _count_events(self, step: OpenStep, columns: FieldColumns) -> None:
        keys, groups = self._group(columns)
        if keys is None:
            step.find(()).count += len(columns)
            self._add_ends(step, (), columns, 0, len(columns) - 1)
            return
        for key, count in Counter(keys).items():
            step.find(groups[key]).count += count
        self._add_ends_of_groups(step, columns, keys, groups)

    def _add_ends_of_groups(
        self, step: OpenStep, columns: FieldColumns, keys: Sequence[Any], groups: Mapping[Any, Group]
    ) -> None:
        if not (self._has_ends or self._timed):
            return
        for key, first, last in find_ends(keys):
            self._add_ends(step, groups[key], columns, first, last)

    def _add_ends(self, step: OpenStep, group: Group, columns: FieldColumns, first: int, last: int) -> None:
        if self._timed:
            step.find(group).widen(columns.times[first], columns.times[last])
        if self._has_ends:
            numbers = columns.values[self._aggregation.field or ""]
            ends = [(columns.make_place(number), numbers[number]) for number in (first, last)]
            step.find(group).add_ends(ends[0], ends[1])

    def _group(self, columns: FieldColumns) -> tuple[Sequence[Any] | None, Mapping[Any, Group]]:
        """Return a key for each event, and the group of each key; without groups, None instead of the keys."""
        by = self._aggregation.by
        if not by:
            return None, {(): ()}
        return find_groups([columns.series if name == SERIES else columns.values[name] for name in by], len(columns))


def _keep_numbers(columns: FieldColumns, field: str) -> FieldColumns:
    """Return the events whose field is a number."""
    kinds = list(map(type, columns.values[field]))
    if set(kinds) <= _NUMBERS:
        return columns
    return columns.where([kind in _NUMBERS for kind in kinds])
