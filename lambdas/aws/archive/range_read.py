"""Read a range of a part. It reads only the row groups that overlap the range and may have matching events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from decimal import Decimal
from io import RawIOBase
from typing import IO, Any

import pyarrow.parquet as pq
from botocore.exceptions import BotoCoreError, ClientError

from aws.archive.data_columns import Column
from aws.archive.rows import Note, PartRows, read_note
from tidetable.archive.reading import ArchivedEvent, describe_damage
from tidetable.conditions import Condition, read_numbers
from tidetable.layout import Layout
from tidetable.ports import ArchiveRange
from tidetable.times import from_text


@contextmanager
def name_damage(key: str) -> Iterator[None]:
    """Turn every error of the block into the error for an object of the archive that cannot be read."""
    try:
        yield
    except (ClientError, BotoCoreError, OSError, ValueError) as error:
        raise describe_damage(key, error) from error


def read_between(
    part: IO[bytes] | RawIOBase, keys: ArchiveRange, layout: Layout, *, ascending: bool = True
) -> Iterator[ArchivedEvent]:
    """Yield the events of the row groups that the range overlaps, in the order of their sort keys.

    Other row groups are not fetched, and a row group is fetched only after the events of the previous group were used.
    The answer has all events of each fetched group. So it also has events outside of the range, and events that do not
    meet the conditions.
    """
    file = pq.ParquetFile(part)
    note = read_note(file.schema_arrow)
    low, high = layout.find_place(keys.low), layout.find_place(keys.high)
    # A sort key begins with 27 characters of time; an edge of the range may be shorter.
    first = from_text(_find_edge(low, "0001-01-01T00:00:00.000000Z"))
    last = from_text(_find_edge(high, "9999-12-31T23:59:59.999999Z"))
    groups = [
        index
        for index in range(file.num_row_groups)
        if _overlaps_group(file.metadata.row_group(index), first, last)
        and may_match(file.metadata.row_group(index), note, keys.conditions)
    ]
    for index in groups if ascending else reversed(groups):
        rows = list(PartRows(file.read_row_group(index), layout).events())
        yield from rows if ascending else reversed(rows)


def _overlaps_group(group: Any, first: Any, last: Any) -> bool:
    times = group.column(0).statistics
    return bool(times.min.replace(tzinfo=UTC) <= last and first <= times.max.replace(tzinfo=UTC))


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


def _find_edge(key: str, default: str) -> str:
    return key[:27] if len(key) >= len(default) else default
