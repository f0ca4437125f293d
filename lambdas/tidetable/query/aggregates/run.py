"""Statistics over steps and groups of a range, from the events of tables and archives, in the order of time.

Memory holds the groups of a step (of all steps, if only the first groups are shown), never the events. A step that is
complete is a row for each group; where the time is up, or a page is full of rows, the answer ends with a cursor at a step.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, localcontext
from typing import Any

from tidetable.config import Stream
from tidetable.keys import number_at, value_at
from tidetable.ports import Sketches
from tidetable.problems import refuse
from tidetable.query.aggregates.asked import MAX_ROWS, SERIES, Aggregation
from tidetable.query.aggregates.stats import EXACT, Cell, adder
from tidetable.query.answer import Table
from tidetable.query.cursor import Position
from tidetable.query.plan import Plan
from tidetable.query.read import RESERVE, Batch, Reader, Remaining, StageReader
from tidetable.query.run import planned, told_gaps
from tidetable.times import from_text, to_text

# Events asked for at a time.
_AT_ONCE = 5_000
# Groups times steps that may be in memory at once; some KB each, if they have sketches.
MAX_CELLS, MAX_SKETCHES = 20_000, 5_000

Group = tuple[Any, ...]
# A series, a time as text, and the data of an event.
_Event = tuple[str, str, Any]


@dataclass(slots=True, kw_only=True)
class Aggregate(Table):
    """A page of rows, one for each group of each step, the oldest step first.

    ``approximate`` are the statistics that are estimates, with the relative error that they lie within.
    """

    approximate: Mapping[str, Any]
    name = "aggregates"
    # Rows may have many statistics, of many digits.
    bounded = False

    def about(self) -> dict[str, Any]:
        """What the answer says besides its rows."""
        return self.told(approximate=self.approximate)


def find_aggregate(
    asked: Aggregation, stream: Stream, reader: Reader, now: datetime, remaining: Remaining
) -> Aggregate:
    """A page of an aggregate; ProblemError if not one step of it fits into the time or the memory there is."""

    def run(plan: Plan, forgiving: bool) -> Aggregate:
        stages = StageReader(
            asked.query, reader, remaining, wanted=_AT_ONCE, fields=asked.needed or (SERIES,), forgiving=forgiving
        )
        with localcontext(EXACT):
            done = _Run(asked, stages, reader.sketches, remaining).rows(plan)
        following = None if done.stopped is None else reader.seal.seal(asked.cursor(done.stopped))
        gaps = told_gaps([*plan.gaps, *stages.missing.values()], now)
        bounds = {one: {"relative_error": reader.sketches.relative_error} for one in asked.approximate}
        return Aggregate(
            rows=done.result,
            next=following,
            approximate=bounds,
            gaps=gaps,
            cost=stages.cost,
            sources=stages.sources,
            columns=["start", "end", *(f"group.{name}" for name in asked.by), *asked.stats],
        )

    return planned(asked.query, stream, reader, run)


class _Run:
    """One pass over a plan. ``stopped`` is the start of the first step that is not among the ``result``."""

    def __init__(self, asked: Aggregation, stages: StageReader, sketches: Sketches, remaining: Remaining) -> None:
        self._asked = asked
        self._stages = stages
        self._remaining = remaining
        self._sketches = sketches
        self._add = adder(asked.stats, sketches)
        after = asked.query.after
        self._window = asked.window(asked.query.start if after is None else after.time)
        self._cells: dict[Group, Cell] = {}
        self._windows: list[tuple[tuple[datetime, datetime], dict[Group, Cell]]] = []
        self._before: dict[Group, dict[str, Any]] = {}
        self._groups: dict[Group, None] = {}
        self.result: list[dict[str, Any]] = []
        self.stopped: datetime | None = None

    def rows(self, plan: Plan) -> _Run:
        """Read until the range ends, the page is full or the time is up."""
        for batch in self._stages.batches(plan.stages):
            if batch.unread:
                return self._stop(batch.reached)
            if not self._take(self._events(batch)):
                return self
            if self._remaining() < RESERVE and batch.reached is not None:
                return self._stop(batch.reached)
        if self._pass_to(self._asked.query.end) and self._asked.top is not None:
            self._show_top()
        return self

    def _stop(self, reached: Position | None) -> _Run:
        """The time is up: what is complete is the answer, if there is anything."""
        asked = self._asked
        if asked.top is None and reached is not None and not self._pass_to(reached.time):
            return self
        after = asked.query.after
        if asked.top is not None or self._window[0] <= (asked.query.start if after is None else after.time):
            how = "a shorter range" if asked.step is None or asked.top is not None else "a smaller step"
            raise refuse(422, "too_much", f"the time does not suffice to read all events of it; ask for {how}")
        self._refuse_parting()
        self.stopped = self._window[0]
        return self

    def _refuse_parting(self) -> None:
        """What fills a step may be known from the steps before it only, so all of them are answered together."""
        asked = self._asked
        if asked.fill == "previous" or (asked.fill != "none" and asked.by):
            detail = "filled steps of groups, or with what was before, are answered in one page: ask for fewer steps"
            raise refuse(422, "too_much", detail)

    @staticmethod
    def _events(batch: Batch) -> Iterator[_Event]:
        """The events of a batch."""
        if batch.archived is not None:
            yield from ((one.series, to_text(one.time), one.data) for one in batch.archived.events)
            return
        names_of = batch.stage.entry.layout.names_of
        for item in batch.items or ():
            time, series, _ = names_of(item)
            yield series, time, item.get("data", {})

    def _take(self, events: Iterable[_Event]) -> bool:
        """Take events into account; tells whether to go on."""
        asked, add = self._asked, self._add
        end = to_text(self._window[1])
        cells, field, by = self._cells, asked.field, asked.by
        for series, time, data in events:
            if time >= end:
                if not self._pass_to(from_text(time)):
                    return False
                cells, end = self._cells, to_text(self._window[1])
            number: int | Decimal | None = None
            if field is not None:
                number = number_at(data, field)
                if number is None:
                    continue
            group = tuple([_plain(series if name == SERIES else value_at(data, name)) for name in by]) if by else ()
            cell = cells.get(group)
            if cell is None:
                cell = cells[group] = self._new_cell(group)
            if number is None:
                cell.count += 1
            else:
                add(cell, number)
        return True

    def _new_cell(self, group: Group) -> Cell:
        held = len(self._cells) + sum(len(cells) for _, cells in self._windows)
        most = MAX_SKETCHES if self._asked.approximate else MAX_CELLS
        if held >= most:
            what = "groups times steps" if self._asked.top is not None else "groups in one step"
            detail = f"there are more than {most} {what}: group by less, or narrow it down with where"
            raise refuse(422, "too_many_groups", detail)
        self._groups.setdefault(group, None)
        return Cell()

    def _pass_to(self, time: datetime) -> bool:
        """Complete the steps before the one that holds an instant; tells whether the page holds them."""
        asked, end = self._asked, self._asked.query.end
        while self._window[1] <= time:
            if asked.top is not None:
                self._windows.append((self._window, self._cells))
            elif not self._show(self._window, self._cells):
                self._refuse_parting()
                self.stopped = self._window[0]
                return False
            self._cells = {}
            # Unless they are filled, empty steps need not be walked.
            following = time if asked.fill == "none" else self._window[1]
            if following >= end:
                self._window = (end, datetime.max.replace(tzinfo=UTC))
                return True
            self._window = asked.window(following)
        return True

    def _show(self, window: tuple[datetime, datetime], cells: dict[Group, Cell]) -> bool:
        """The rows of a step, if the page holds them all; the first step's are shown in any case, if the caller takes so many."""
        groups: Sequence[Group] = list(cells)
        if self._asked.fill != "none":
            groups = list(self._groups) if self._asked.by else [()]
        if self.result and len(self.result) + len(groups) > self._asked.limit:
            return False
        if len(groups) > self._asked.most:
            detail = f"one step has {len(groups)} rows, more than limit={self._asked.most}"
            more = f"set limit={len(groups)}, or " if len(groups) <= MAX_ROWS else ""
            raise refuse(422, "too_much", f"{detail}: {more}group by less, or narrow it down with where")
        for group in sorted(groups, key=_order):
            self.result.append(self._row(window, group, cells.get(group)))
        return True

    def _row(self, window: tuple[datetime, datetime], group: Group, cell: Cell | None) -> dict[str, Any]:
        asked = self._asked
        row: dict[str, Any] = {"start": to_text(window[0]), "end": to_text(window[1])}
        if asked.by:
            row["group"] = dict(zip(asked.by, (one for _, one in group), strict=True))
        if cell is not None:
            found: dict[str, Any] = {stat: cell.stat(stat) for stat in asked.stats}
            self._before[group] = found
        elif asked.fill == "previous":
            found = self._before.get(group, {})
        else:
            found = dict.fromkeys(asked.stats, 0 if asked.fill == "zero" else None)
        rest = {stat: found.get(stat) for stat in asked.stats}
        if cell is None and "count" in rest:
            rest["count"] = 0
        return row | rest

    def _show_top(self) -> None:
        """The rows of the first groups: by their first statistic over the whole range."""
        asked = self._asked
        totals: dict[Group, Cell] = {}
        for _, cells in self._windows:
            for group, cell in cells.items():
                totals.setdefault(group, Cell()).join(cell, self._sketches)
        stat = asked.stats[0]
        ranked = sorted(
            ((total.stat(stat), group) for group, total in totals.items() if total.stat(stat) is not None),
            key=lambda one: (one[0] if asked.ascending else -one[0], _order(one[1])),  # type: ignore[operator]
        )
        first = [group for _, group in ranked[: asked.top]]
        if asked.fill == "none":
            count = sum(group in cells for _, cells in self._windows for group in first)
        else:
            count = len(first) * len(self._windows)
        if count > asked.limit:
            detail = f"{count} rows, more than {asked.limit}; ask for fewer groups or longer steps"
            raise refuse(422, "too_much", detail)
        self.result = [
            self._row(window, group, cells.get(group))
            for window, cells in self._windows
            for group in first
            if group in cells or asked.fill != "none"
        ]


def _plain(value: Any) -> tuple[str, Any]:
    """A value to group by. Truth is no number, though Python takes it for one; what is no plain value is none."""
    if isinstance(value, bool):
        return "truth", value
    if isinstance(value, int | Decimal):
        return "number", value
    return ("text", value) if isinstance(value, str) else ("nothing", None)


def _order(group: Group) -> list[tuple[str, Any]]:
    return [(kind, "" if value is None else value) for kind, value in group]
