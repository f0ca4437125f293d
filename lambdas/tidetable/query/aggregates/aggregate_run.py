"""Compute statistics over the steps and groups of a range, from events and cells, in the order of time.

Memory holds the groups of one step (with ``top``: of all steps), never the events. A complete step gives one row per
group. If the time is up or the page is full, the answer ends with a cursor at the start of a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from tidetable.errors import ArchiveBusy
from tidetable.layout import find_number, find_value
from tidetable.problems import refuse_request
from tidetable.query.aggregates.aggregate_parameters import MAX_ROWS, SERIES, Aggregation
from tidetable.query.aggregates.rolled import read_cells
from tidetable.query.aggregates.stats import compute_rank, compute_stat, make_adder, refuse_long_groups
from tidetable.query.aggregates.unordered import Unordered
from tidetable.query.batches import Batch, EventRow, TimeUp, list_events
from tidetable.query.model import Position
from tidetable.query.page import MAX_PAGE_BYTES
from tidetable.query.rollup_sources import Section, SectionReader
from tidetable.query.session import ReadSession
from tidetable.rollup_model.cells import Cell
from tidetable.rollup_model.group_values import Group, make_group_value, measure_group
from tidetable.rollup_model.numbers import Number, Numbers
from tidetable.statistics import TIMES
from tidetable.times import from_text, to_text

# The greatest number of groups times steps in memory, without and with sketches. A group with a sketch takes some KB.
MAX_CELLS, MAX_SKETCHES = 20_000, 5_000


def refuse_parting(aggregation: Aggregation) -> None:
    """Raise ProblemError if the steps cannot be divided into pages."""
    if aggregation.filled:
        detail = "with fill=previous, or with fill and by, one page must hold all steps: ask for fewer steps"
        raise refuse_request(422, "too_much", detail)


class AggregatePass:
    """One pass over the sections of a range. ``stopped`` is the start of the first step that is not in ``result``."""

    def __init__(self, aggregation: Aggregation, session: ReadSession) -> None:
        self._aggregation = aggregation
        self._session = session
        self._sketches = session.reader.sketches
        self._add = make_adder(aggregation.stats, self._sketches)
        self.sections = SectionReader(session)
        after = aggregation.query.after
        self._window = aggregation.find_window(aggregation.query.start if after is None else after.time)
        self._numbers: dict[Group, Numbers] = {}
        # With ``top``: the steps that wait for the end of the range, and the number of groups in all of them.
        self._windows: list[tuple[tuple[datetime, datetime], dict[Group, Numbers]]] = []
        self._waiting = 0
        # The characters of the groups of the steps that were read, and of the rows in ``result``.
        self._texts = 0
        self._shown_texts = 0
        self._before: dict[Group, dict[str, Any]] = {}
        self._groups: dict[Group, None] = {}
        self.result: list[dict[str, Any]] = []
        self.stopped: datetime | None = None

    def read_sections(self, sections: Iterable[Section]) -> AggregatePass:
        """Read until the range ends, the page is full or the time is up."""
        for section in sections:
            if self.sections.has_begun and not self._session.has_time:
                return self._end_page(Position(section.start))
            if not self._add_section(section):
                return self
        if self._complete_steps_before(self._aggregation.query.end) and self._aggregation.top is not None:
            self._show_top_rows()
        return self

    def _add_section(self, section: Section) -> bool:
        """Read a section and add its events or cells; return True if reading goes on."""
        unordered = None if section.stretch is None else Unordered(self._aggregation, self._sketches)
        for batch in self._read_section(section):
            if isinstance(batch, TimeUp):
                self._end_page(batch.reached)
                return False
            if unordered is not None:
                unordered.add_batch(batch)
                continue
            if section.definition is None:
                goes_on = self._add_events(list_events(batch))
            else:
                goes_on = self._add_cells(
                    read_cells(batch, section.definition, self._aggregation, self._session.reader)
                )
            if goes_on and not self._session.has_time and batch.reached is not None:
                self._end_page(batch.reached)
                goes_on = False
            if not goes_on:
                return False
        return unordered is None or self._add_cells(unordered.make_cells())

    def _read_section(self, section: Section) -> Iterator[Batch]:
        """Read the batches of a section.

        A slow archive ends the page, unless the page has read nothing before this archive.
        """
        first = not self.sections.has_begun
        try:
            yield from self.sections.read(section, self._aggregation.needed or (SERIES,))
        except ArchiveBusy:
            if first:
                raise
            yield TimeUp(Position(section.start))

    def _end_page(self, reached: Position | None) -> AggregatePass:
        """End the page because the time is up.

        The answer has the complete steps; ProblemError if no step is complete.
        """
        aggregation = self._aggregation
        if aggregation.top is None and reached is not None and not self._complete_steps_before(reached.time):
            return self
        after = aggregation.query.after
        if aggregation.top is not None or self._window[0] <= (aggregation.query.start if after is None else after.time):
            how = "a shorter range" if aggregation.step is None or aggregation.top is not None else "a smaller step"
            detail = f"a request has too little time to read all events of it; ask for {how}"
            raise refuse_request(422, "too_much", detail)
        refuse_parting(self._aggregation)
        self.stopped = self._window[0]
        return self

    def _add_events(self, events: Iterable[EventRow]) -> bool:
        """Add events to the groups of their steps; return True if reading goes on."""
        aggregation, add, timed = self._aggregation, self._add, self._aggregation.timed
        end = to_text(self._window[1])
        numbers_of, field, by = self._numbers, aggregation.field, aggregation.by
        for time, series, _, data in events:
            if time >= end:
                if not self._complete_steps_before(from_text(time)):
                    return False
                numbers_of, end = self._numbers, to_text(self._window[1])
            number: Number | None = None
            if field is not None:
                number = find_number(data, field)
                if number is None:
                    continue
            group = (
                tuple([make_group_value(series if name == SERIES else find_value(data, name)) for name in by])
                if by
                else ()
            )
            numbers = numbers_of.get(group)
            if numbers is None:
                numbers = numbers_of[group] = self._begin_group(group)
            if number is None:
                numbers.count += 1
            else:
                add(numbers, number)
            if timed:
                numbers.widen(time, time)
        return True

    def _add_cells(self, cells: Iterable[tuple[str, Cell]]) -> bool:
        """Add cells of a rollup to the groups of their steps; return True if reading goes on."""
        aggregation, field = self._aggregation, self._aggregation.field
        end = to_text(self._window[1])
        for time, cell in cells:
            if time >= end:
                if not self._complete_steps_before(cell.time):
                    return False
                end = to_text(self._window[1])
            rolled = None if field is None else cell.state.fields.get(field)
            if field is not None and rolled is None:
                continue
            group = cell.select_group(aggregation.by)
            numbers = self._numbers.get(group)
            if numbers is None:
                numbers = self._numbers[group] = self._begin_group(group)
            if rolled is None:
                numbers.count += cell.state.count
                numbers.widen(cell.state.first_at, cell.state.last_at)
            else:
                numbers.merge(rolled, self._sketches)
        return True

    def _begin_group(self, group: Group) -> Numbers:
        count = len(self._numbers) + self._waiting
        most = MAX_SKETCHES if self._aggregation.approximate else MAX_CELLS
        if count >= most:
            what = "groups times steps" if self._aggregation.top is not None else "groups in one step"
            detail = f"there are more than {most} {what}: group by less, or narrow it down with where"
            raise refuse_request(422, "too_many_groups", detail)
        self._texts += measure_group(group)
        refuse_long_groups(self._texts)
        self._groups.setdefault(group, None)
        return Numbers()

    def _complete_steps_before(self, time: datetime) -> bool:
        """Complete all steps before the step that holds an instant; return True if the page can hold them."""
        aggregation, end = self._aggregation, self._aggregation.query.end
        while self._window[1] <= time:
            if aggregation.top is not None:
                self._windows.append((self._window, self._numbers))
                self._waiting += len(self._numbers)
            elif not self._add_step_rows(self._window, self._numbers):
                refuse_parting(self._aggregation)
                self.stopped = self._window[0]
                return False
            self._numbers = {}
            # Empty steps are skipped, unless they must be filled.
            following = time if aggregation.fill == "none" else self._window[1]
            if following >= end:
                self._window = (end, datetime.max.replace(tzinfo=UTC))
                return True
            self._window = aggregation.find_window(following)
        return True

    def _add_step_rows(self, window: tuple[datetime, datetime], numbers_of: dict[Group, Numbers]) -> bool:
        """Add the rows of a step if the page can hold all of them; return True if it can.

        ProblemError if the step alone has more rows than ``limit``.
        """
        groups: Sequence[Group] = list(numbers_of)
        if self._aggregation.fill != "none":
            groups = list(self._groups) if self._aggregation.by else [()]
        texts = sum(map(measure_group, groups))
        if self.result and (
            len(self.result) + len(groups) > self._aggregation.limit or self._shown_texts + texts > MAX_PAGE_BYTES
        ):
            return False
        if len(groups) > self._aggregation.limit:
            detail = f"one step has {len(groups)} rows, more than limit={self._aggregation.limit}"
            more = f"set limit={len(groups)}, or " if len(groups) <= MAX_ROWS else ""
            raise refuse_request(422, "too_much", f"{detail}: {more}group by less, or narrow it down with where")
        self._shown_texts += texts
        _refuse_long(self._shown_texts)
        for group in sorted(groups):
            self.result.append(self._make_row(window, group, numbers_of.get(group)))
        return True

    def _make_row(self, window: tuple[datetime, datetime], group: Group, numbers: Numbers | None) -> dict[str, Any]:
        aggregation = self._aggregation
        row: dict[str, Any] = {"start": to_text(window[0]), "end": to_text(window[1])}
        if aggregation.by:
            row["group"] = dict(zip(aggregation.by, (value for _, value in group), strict=True))
        if numbers is not None:
            values: dict[str, Any] = {stat: compute_stat(numbers, stat) for stat in aggregation.stats}
            self._before[group] = values
        elif aggregation.fill == "previous":
            values = {**dict.fromkeys(aggregation.stats), **self._before.get(group, {})}
        else:
            zero = 0 if aggregation.fill == "zero" else None
            values = {stat: None if stat in TIMES else zero for stat in aggregation.stats}
        if numbers is None and "count" in values:
            values = {**values, "count": 0}
        return row | values

    def _show_top_rows(self) -> None:
        """Make the rows of the first groups, ranked by the first statistic over the whole range."""
        aggregation = self._aggregation
        totals: dict[Group, Numbers] = {}
        for _, numbers_of in self._windows:
            for group, numbers in numbers_of.items():
                totals.setdefault(group, Numbers()).merge(numbers, self._sketches)
        stat = aggregation.stats[0]
        values = [(compute_rank(total, stat), group) for group, total in totals.items()]
        ranked = sorted(
            (value if aggregation.ascending else -value, group) for value, group in values if value is not None
        )
        first = [group for _, group in ranked[: aggregation.top]]
        shown = {group: len(self._windows) for group in first}
        if aggregation.fill == "none":
            shown = {group: sum(group in numbers_of for _, numbers_of in self._windows) for group in first}
        count = sum(shown.values())
        if count > aggregation.limit:
            detail = f"{count} rows, more than {aggregation.limit}; ask for fewer groups or longer steps"
            raise refuse_request(422, "too_much", detail)
        _refuse_long(sum(rows * measure_group(group) for group, rows in shown.items()))
        self.result = [
            self._make_row(window, group, numbers_of.get(group))
            for window, numbers_of in self._windows
            for group in first
            if group in numbers_of or aggregation.fill != "none"
        ]


def _refuse_long(characters: int) -> None:
    """Raise ProblemError if the texts of the groups make a page that is larger than an answer may be."""
    if characters > MAX_PAGE_BYTES:
        detail = f"the values of by, repeated in each row, have more than {MAX_PAGE_BYTES} characters"
        raise refuse_request(422, "too_much", f"{detail}: group by a field with shorter values, or make step longer")
