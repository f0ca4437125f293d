"""Make cells, like those of a rollup, from events that are not read in the order of time.

Cells can be merged in any order.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from tidetable.layout import escape
from tidetable.ports import Sketches
from tidetable.problems import refuse_request
from tidetable.query.aggregates.aggregate_parameters import Aggregation
from tidetable.query.aggregates.stats import refuse_long_groups
from tidetable.query.batches import ArchiveBatch, LiveBatch, list_events
from tidetable.rollup_model.cells import Bucket, Cell
from tidetable.rollup_model.definition import Definition
from tidetable.rollup_model.group_values import measure_group
from tidetable.statistics import PERCENTILES, list_kept
from tidetable.times import from_text, to_text

# The greatest number of groups in memory, of all steps of a stretch together, without and with sketches. A group with a
# sketch takes some KB.
MAX_CELLS, MAX_SKETCHES = 100_000, 10_000


class Unordered:
    """The cells of a stretch of a range: for each step, the state of each group."""

    def __init__(self, aggregation: Aggregation, sketches: Sketches) -> None:
        stats = tuple(list_kept(aggregation.stats))
        fields = () if aggregation.field is None else (aggregation.field,)
        self._most = MAX_SKETCHES if PERCENTILES in stats else MAX_CELLS
        # The limit does not apply to a single bucket, but to all buckets together.
        self._definition = Definition("", timedelta(0), aggregation.by, fields, stats, self._most, "", "")
        self._aggregation = aggregation
        self._sketches = sketches
        self._buckets: dict[datetime, Bucket] = {}
        self._count, self._texts = 0, 0

    def add_batch(self, batch: LiveBatch | ArchiveBatch) -> None:
        """Add the events of a batch; within the batch they are in order.

        Raises ProblemError if there are too many groups.
        """
        start, end, bucket = "", "", None
        for time, series, id, data in list_events(batch):
            if bucket is None or not start <= time < end:
                window = self._aggregation.find_window(from_text(time))
                start, end = map(to_text, window)
                bucket = self._buckets.setdefault(window[0], Bucket(self._definition, self._sketches))
            before = len(bucket.groups)
            bucket.add(series, f"{time}#{escape(series)}#{escape(id)}", data)
            if len(bucket.groups) == before:
                continue
            self._count += 1
            self._texts += measure_group(next(reversed(bucket.groups)))
            refuse_long_groups(self._texts)
            if self._count > self._most:
                detail = (
                    f"there are more than {self._most} groups times steps among events that no rollup has sealed yet"
                )
                raise refuse_request(422, "too_many_groups", f"{detail}: group by less, or make the range shorter")

    def make_cells(self) -> Iterator[tuple[str, Cell]]:
        """Yield the cells in the order of time, each with its time as text."""
        names = self._aggregation.by
        for start, bucket in sorted(self._buckets.items()):
            text = to_text(start)
            for group, state in bucket.groups.items():
                by = {name: value for name, (_, value) in zip(names, group, strict=True)}
                yield text, Cell(start, by, state)
