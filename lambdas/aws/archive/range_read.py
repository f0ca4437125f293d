"""Read a range of a part, window by window. It reads only the row groups that may have matching events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from botocore.exceptions import BotoCoreError, ClientError

from aws.archive.chosen_rows import OpenPart, RowChoice, choose_rows
from aws.archive.data_columns import Column
from aws.archive.key_columns import make_places
from aws.archive.part_file import read_filters
from aws.archive.rows import Note, PartRows, fill_ids
from tidetable.archive.reading import ArchivedEvent, Skipped, describe_damage, find_times
from tidetable.archive.series_filter import may_hold
from tidetable.conditions import ANY, Condition, NameConditions, read_numbers
from tidetable.forms.portions import Span, find_portion_end
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange
from tidetable.times import from_micros, to_micros

# A window has about so many events before conditions, and takes about so much memory. If its row groups have no more
# than the second number of events, it goes to their end, because a row group is decoded as a whole. Parts that are read
# together share these numbers, but windows have some events at least: each window decodes its row groups anew.
_WINDOW_EVENTS, _WHOLE_EVENTS, _WINDOW_BYTES, _LEAST_EVENTS = 50_000, 400_000, 32_000_000, 5_000
# So many rows become events at a time.
_SLICE = 500
_LAST_MICROS = to_micros(datetime.max.replace(tzinfo=UTC))


@contextmanager
def name_damage(key: str) -> Iterator[None]:
    """Turn every error of the block into the error for an object of the archive that cannot be read."""
    try:
        yield
    except (ClientError, BotoCoreError, OSError, ValueError) as error:
        raise describe_damage(key, error) from error


class RowGroup(NamedTuple):
    """A row group of a part, with the bounds of its times in microseconds, and its bytes without compression."""

    number: int
    first: int
    last: int
    rows: int
    bytes: int

    @property
    def span(self) -> Span:
        return self.first, self.last + 1, self.rows

    def overlaps(self, start: int, end: int) -> bool:
        """True if the group may have events with ``start <= time < end``."""
        return self.first < end and start <= self.last


def list_groups(part: OpenPart, conditions: Sequence[Condition], names: NameConditions) -> list[RowGroup]:
    """List the row groups that may have events that meet all conditions, by the statistics and the filters of series."""
    note, metadata = part.note, part.file.metadata
    filters = read_filters(metadata) if names.series else []
    groups = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        if filters and not any(may_hold(filters[number], name) for name in names.series):
            continue
        if _may_have_series(group.column(1).statistics, names) and may_match(group, note, conditions):
            times = group.column(0).statistics
            first, last = (to_micros(time.replace(tzinfo=UTC)) for time in (times.min, times.max))
            groups.append(RowGroup(number, first, last, group.num_rows, group.total_byte_size))
    return groups


def _may_have_series(statistics: Any, names: NameConditions) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    least, greatest, prefix = statistics.min, statistics.max, names.series_prefix
    if prefix and (greatest < prefix or (least > prefix and not least.startswith(prefix))):
        return False
    return not names.series or any(least <= name <= greatest for name in names.series)


def read_between(
    part: OpenPart, keys: ArchiveRange, layout: Layout, *, ascending: bool = True, together: int = 1
) -> Iterator[ArchivedEvent | Skipped]:
    """Yield the events of a range in the order of the answer, window by window.

    A window is a piece of time. Its row groups are fetched only after the events of the previous window were used. Only
    rows that meet the conditions become events; after those of a window comes the number of its other rows. The versions
    of an event come together, in any order. If up to ``together`` parts are read at one place of the order, windows are
    shorter: each part holds the rows of one.
    """
    start, end = find_times(keys, layout)
    names = keys.find_names()
    groups = [] if names is None else list_groups(part, keys.conditions, names)
    planned: Sequence[RowGroup] = ()
    while start < end and (groups := [group for group in groups if group.overlaps(start, end)]):
        if ascending:
            first, last = start, _find_window_end(groups, [group.span for group in groups], start, end, together)
            start = last
        else:
            mirrored = [(1 - last, 1 - first, rows) for first, last, rows in (group.span for group in groups)]
            first, last = 1 - _find_window_end(groups, mirrored, 1 - end, 1 - start, together), end
            end = first
        window = [group for group in groups if group.overlaps(first, last)]
        if not set(window) <= set(planned):
            # Most pages end within the first window. A reader that goes on gets the next windows by few requests.
            planned = groups if planned else window
            part.plan_groups(group.number for group in planned)
        choice = RowChoice(first, last, names or ANY, keys.conditions, every_version=True)
        tables, looked = [], 0
        for group in window:
            table, times = choose_rows(part, group.number, layout, choice)
            tables.append(table)
            looked += len(times)
        rows = pa.concat_tables(tables)
        yield from _list_events(rows, layout, ascending=ascending)
        yield Skipped(looked - len(rows), from_micros(min(last, _LAST_MICROS) if ascending else first))


def read_in_windows(parts: Sequence[OpenPart], layout: Layout) -> Iterator[PartRows]:
    """Read all rows of several parts, window by window. Within a window, rows come in the order of the parts."""
    groups = [(part, group) for part in parts for group in list_groups(part, (), ANY)]
    start, end = (edge(bound for _, group in groups for bound in group.span[:2]) for edge in (min, max))
    while start < end:
        last = find_portion_end([group.span for _, group in groups], start, end, _WINDOW_EVENTS)
        for part, group in groups:
            if group.overlaps(start, last):
                choice = RowChoice(start, last, ANY, (), every_version=True)
                rows, _ = choose_rows(part, group.number, layout, choice)
                if len(rows):
                    yield PartRows(rows, layout)
        start = last


def _find_window_end(groups: Sequence[RowGroup], spans: Sequence[Span], start: int, end: int, together: int) -> int:
    """Find where a window that begins at ``start`` ends; ``spans`` are those of the groups."""
    usual, most = (max(count // together, min(count, _LEAST_EVENTS)) for count in (_WINDOW_EVENTS, _WHOLE_EVENTS))
    most_bytes = _WINDOW_BYTES // together
    each = sum(group.bytes for group in groups) / sum(group.rows for group in groups)
    edge = find_portion_end(spans, start, end, min(usual, int(most_bytes / max(each, 1)) + 1))
    whole = min(max((last for first, last, _ in spans if first < edge), default=edge), end)
    decoded = sum(rows for first, _, rows in spans if first < whole)
    return max(edge, whole) if decoded * max(1, each * most / (2 * most_bytes)) <= most else edge


def _list_events(rows: pa.Table, layout: Layout, *, ascending: bool) -> Iterator[ArchivedEvent]:
    """Yield the events of rows in the order of the answer. Only as many rows as are used become events."""
    if not len(rows):
        return
    order = "ascending" if ascending else "descending"
    rows = rows.take(pc.array_sort_indices(rows.column("time").combine_chunks(), order=order))
    times = rows.column("time").combine_chunks().cast(pa.int64())
    # Rows of one time are put in order together.
    ends = pc.run_end_encode(times).run_ends.to_pylist()
    start = 0
    for end in ends:
        if end - start >= _SLICE or end == len(rows):
            some = fill_ids(rows.slice(start, end - start), layout)
            places = pa.table({"time": some.column("time"), "place": make_places(some)})
            yield from PartRows(
                some.take(pc.sort_indices(places, [("time", order), ("place", order)])), layout
            ).events()
            start = end


def may_match(group: Any, note: Note, conditions: Sequence[Condition]) -> bool:
    """True if a range with conditions needs the row group: by its statistics, one of its events may meet all conditions."""
    statistics = {group.column(at).path_in_schema: group.column(at).statistics for at in range(group.num_columns)}
    rest = statistics.get("data")
    if not conditions or rest is None or not rest.has_min_max or not rest.min == rest.max == "{}":
        return True
    columns = {column.name: column for column in note.all()}
    return all(
        _may_meet(condition, columns[condition.field], statistics.get(condition.field), group.num_rows)
        for condition in conditions
        if condition.field in columns
    )


def _may_meet(condition: Condition, column: Column, statistics: Any, rows: int) -> bool:
    if statistics is None:
        return True
    if statistics.null_count == rows:
        # An event without the field meets no condition.
        return False
    if not statistics.has_min_max or column.letter not in ("N", "S"):
        return True
    exact = column.letter == "N"
    low, high = (Decimal(str(edge)) if exact else edge for edge in (statistics.min, statistics.max))
    values: list[Any] = [value for text in condition.values for value in (read_numbers(text) if exact else [text])]
    match condition.operator:
        case "eq" | "in":
            return any(low <= value <= high for value in values)
        case "lt" | "le":
            return any(low <= value for value in values)
        case "gt" | "ge":
            return any(value <= high for value in values)
    return True
