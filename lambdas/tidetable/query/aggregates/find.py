"""The use cases of aggregates: answer a page of rows, and explain what the page would cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import localcontext
from functools import partial
from typing import Any

from tidetable.config import Stream
from tidetable.exact_json import EXACT
from tidetable.ports import Tables
from tidetable.query.aggregates.aggregate_parameters import Aggregation
from tidetable.query.aggregates.aggregate_run import AggregatePass, refuse_parting
from tidetable.query.aggregates.rolled import choose_sections
from tidetable.query.model import Reader
from tidetable.query.page import ComputedRows
from tidetable.query.read import read_again
from tidetable.query.scans import find_visible_gaps
from tidetable.query.sections import Choice
from tidetable.query.session import ReadSession
from tidetable.remaining import Remaining
from tidetable.statistics import TIMES
from tidetable.times import from_text


@dataclass(slots=True, kw_only=True)
class Aggregate(ComputedRows):
    """A page of rows, one for each group of each step, the oldest step first."""

    aggregation: Aggregation
    reader: Reader
    name = "aggregates"
    # Rows may have many statistics with many digits, so a page may be too large for an answer.
    bounded = False
    times = ("start", "end", *TIMES)
    kinds = {**dict.fromkeys(times, "time"), "count": "integer"}  # noqa: RUF012 - nothing changes it

    @property
    def columns(self) -> Sequence[str]:
        return ["start", "end", *(f"group.{name}" for name in self.aggregation.by), *self.aggregation.stats]

    def cut_to(self, count: int) -> Aggregate | None:
        """Cut the page to the rows of its first steps. A step is never divided between pages.

        None with ``top``, or if the first step does not fit. ProblemError if steps are filled from earlier steps: then
        all steps must be on one page.
        """
        step = self.rows[count]["start"]
        rows = [row for row in self.rows[:count] if row["start"] < step]
        if not rows or self.aggregation.top is not None:
            return None
        refuse_parting(self.aggregation)
        return replace(self, rows=rows, next=self.reader.seal.seal(self.aggregation.make_cursor(from_text(step))))


def find_aggregate(
    aggregation: Aggregation, stream: Stream, reader: Reader, now: datetime, remaining: Remaining
) -> Aggregate:
    """Answer a page of an aggregate. Raises ProblemError if the time or the memory is not enough for a single step."""

    def read(choice: Choice, forgiving: bool) -> Aggregate:
        session = ReadSession(reader, remaining, forgiving)
        with localcontext(EXACT):
            run = AggregatePass(aggregation, session).read_sections(choice)
        # The greatest possible relative error of statistics that are estimates.
        bounds = {"relative_error": reader.sketches.relative_error}
        return Aggregate(
            rows=run.result,
            next=None if run.stopped is None else reader.seal.seal(aggregation.make_cursor(run.stopped)),
            gaps=find_visible_gaps([*choice.list_gaps(run.stopped), *session.gaps], now),
            cost=session.cost,
            sources=list(session.sources.values()),
            data_losses=session.hidden_losses,
            declared=stream.archive.columns,
            stream=stream.name,
            extras={"approximate": dict.fromkeys(aggregation.approximate, bounds)},
            aggregation=aggregation,
            reader=reader,
        )

    find_sections = partial(choose_sections, aggregation, stream, reader)
    return read_again(find_sections, read, consistent=aggregation.query.consistent)


def explain_aggregate(
    aggregation: Aggregation, stream: Stream, reader: Reader, tables: Tables, now: datetime
) -> dict[str, Any]:
    """Describe what ``find_aggregate`` would read to the end of its range, and estimate the cost."""
    choice = choose_sections(aggregation, stream, reader, consistent=False)
    return choice.explain(aggregation.query, stream, reader, tables, now)
