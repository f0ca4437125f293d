"""Compute statistics over the steps and groups of a range, from events and cells.

Memory holds the groups of the steps that are being read (with ``top``: of all steps), never the events. A complete step
gives one row per group. If the time is up or the page is full, the answer ends with a cursor at the start of a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from tidetable.errors import ArchiveBusy
from tidetable.problems import refuse_request
from tidetable.query.aggregates.aggregate_parameters import MAX_ROWS, SERIES, Aggregation
from tidetable.query.aggregates.rolled import read_cells
from tidetable.query.aggregates.stats import MAX_GROUP_TEXTS, compute_rank, compute_stat, refuse_long_groups
from tidetable.query.aggregates.tally import Tally
from tidetable.query.batches import TimeUp
from tidetable.query.model import Position
from tidetable.query.page import MAX_PAGE_BYTES
from tidetable.query.sections import Choice, Section, SectionReader, find_begin
from tidetable.query.session import ReadSession
from tidetable.query.whole import WholeBatch
from tidetable.rollup_model.group_values import Group, measure_group
from tidetable.rollup_model.numbers import Numbers
from tidetable.statistics import TIMES
from tidetable.times import to_text

# The greatest number of groups times steps in memory, without and with sketches. A group with a sketch takes some KB.
MAX_CELLS, MAX_SKETCHES = 20_000, 10_000
# A page with steps looks at this many entries of the catalog, about 540 read units. Deleted periods take no other time.
MAX_LOOKED = 10_000
# The groups of all steps are counted again after so many more.
_SLACK = 2_000


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
        self.sections = SectionReader(session)
        after = aggregation.query.after
        self._window = aggregation.find_window(aggregation.query.start if after is None else after.time)
        self._tally = Tally(aggregation, self._sketches)
        self._allowed = _SLACK
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

    def read_sections(self, choice: Choice) -> AggregatePass:
        """Read until the range ends, the page is full, it has looked at enough entries of the catalog, or the time is up."""
        for section in choice.sections:
            if self.sections.has_begun and not self._session.has_time:
                return self._end_page(Position(section.start))
            if choice.looked > MAX_LOOKED and self._has_steps_before(section.start):
                return self if self.stopped is not None else self._end_page(Position(section.start))
            if not self._add_section(section):
                return self
        if self._complete_steps_before(self._aggregation.query.end) and self._aggregation.top is not None:
            self._show_top_rows()
        return self

    def _has_steps_before(self, time: datetime) -> bool:
        """True if a page may end at the step that holds an instant, and has steps before it."""
        aggregation = self._aggregation
        if aggregation.step is None or aggregation.top is not None or aggregation.filled:
            return False
        return not self._complete_steps_before(time) or self._window[0] > find_begin(aggregation.query)

    def _add_section(self, section: Section) -> bool:
        """Read a section and add its events or cells; return True if reading goes on."""
        for batch in self._read_section(section):
            if isinstance(batch, TimeUp):
                self._end_page(batch.reached)
                return False
            if section.definition is None:
                self._tally.add(batch.columns)
            else:
                rows = batch.columns.rows()
                self._tally.add_cells(read_cells(rows, section.definition, self._aggregation, self._session.reader))
            self._limit_steps()
            if not self._complete_steps_before(batch.reached):
                return False
        return True

    def _read_section(self, section: Section) -> Iterator[WholeBatch | TimeUp]:
        """Read the batches of a section.

        A slow archive ends the page, unless the page has read nothing before this archive.
        """
        first = not self.sections.has_begun
        try:
            yield from self.sections.read(
                section, self._aggregation.needed or (SERIES,), ids=self._aggregation.has_ends
            )
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

    def _limit_steps(self) -> None:
        """Limit the groups in memory to the groups of the steps that the page can hold, and of one more step."""
        aggregation, tally = self._aggregation, self._tally
        if tally.count + self._waiting <= self._allowed and tally.texts <= MAX_GROUP_TEXTS:
            return
        count, texts = len(self.result), self._texts
        for number, start in enumerate(sorted(tally.steps)):
            step = tally.steps[start]
            count, texts = count + len(step.numbers), texts + step.texts
            if number == 0 or aggregation.top is not None or aggregation.filled:
                self._refuse_many(len(step.numbers) if aggregation.top is None else self._waiting + count, texts)
            if number == 0 or aggregation.top is not None:
                continue
            if count - len(step.numbers) > aggregation.limit or texts > MAX_GROUP_TEXTS:
                # The steps before this step fill the page.
                refuse_parting(aggregation)
                tally.drop_from(step.window)
                break
        self._allowed = tally.count + self._waiting + _SLACK

    def _refuse_many(self, groups: int, texts: int) -> None:
        """Raise ProblemError if there are too many groups in a step or, with ``top``, in all steps."""
        most = MAX_SKETCHES if self._aggregation.approximate else MAX_CELLS
        if groups > most:
            what = "groups times steps" if self._aggregation.top is not None else "groups in one step"
            detail = f"there are more than {most} {what}: group by less, or narrow it down with where"
            raise refuse_request(422, "too_many_groups", detail)
        refuse_long_groups(texts)

    def _complete_steps_before(self, time: datetime) -> bool:
        """Complete all steps before the step that holds an instant; return True if the page can hold them."""
        aggregation, tally, end = self._aggregation, self._tally, self._aggregation.query.end
        while tally.cut is None or self._window[0] < tally.cut:
            if self._window[1] > time:
                return True
            texts, numbers_of = tally.take(self._window)
            self._texts += texts
            self._groups.update(dict.fromkeys(numbers_of))
            self._refuse_many(len(numbers_of) + self._waiting, self._texts)
            if aggregation.top is not None:
                self._windows.append((self._window, numbers_of))
                self._waiting += len(numbers_of)
            elif not self._add_step_rows(self._window, numbers_of):
                break
            # Empty steps are skipped, unless they must be filled.
            following = tally.find_first(time) if aggregation.fill == "none" else self._window[1]
            if following >= end:
                self._window = (end, datetime.max.replace(tzinfo=UTC))
                return True
            self._window = aggregation.find_window(following)
        # The page is full.
        refuse_parting(aggregation)
        self.stopped = self._window[0]
        return False

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
            first = "" if self._aggregation.top else "take the first groups with top=, "
            raise refuse_request(422, "too_much", f"{detail}: {more}{first}group by less, or narrow it down with where")
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
