"""Reading a range of a part: row group by row group, and of those only what the range and the conditions may meet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC
from decimal import Decimal
from io import RawIOBase
from typing import IO, Any

import msgspec
import pyarrow.parquet as pq

from aws.archive.columns import Column
from aws.archive.rows import NOTE, Note, Rows
from tidetable.archive.reading import Kept
from tidetable.conditions import Condition, numbers_of
from tidetable.keys import Layout
from tidetable.large.forms import stem
from tidetable.ports import ArchiveRange
from tidetable.times import from_text

# The pipeline's own columns that an event is made of; `data` is what no column could say.
_OWN = ("time", "series", "id", "id_hex", "data")
_VERSIONS = ("version", "attributes", "accepted_at")


def between(
    part: IO[bytes] | RawIOBase, keys: ArchiveRange, layout: Layout, *, ascending: bool = True
) -> Iterator[Kept]:
    """The events of the row groups that the range meets, in the order of their sort keys; others are not even fetched.

    A row group is fetched when the one before was used up. Of one that is fetched, events outside of the range and events that
    meet no condition are among those answered.
    """
    file = pq.ParquetFile(part)
    low, high = (stem(edge) if layout.versioned else edge for edge in (keys.low, keys.high))
    # A sort key begins with 27 characters of time; a bare edge may be shorter.
    first = from_text(_edge(low, "0001-01-01T00:00:00.000000Z"))
    last = from_text(_edge(high, "9999-12-31T23:59:59.999999Z"))
    note = msgspec.json.decode(file.schema_arrow.metadata[NOTE], type=Note)
    fields = {field.partition(".")[0] for field in (*keys.fields, *(one.field for one in keys.conditions))}
    names = None
    if keys.fields:
        present = set(file.schema_arrow.names)
        names = [name for name in (*_OWN, *_VERSIONS, *sorted(fields - {*_OWN, *_VERSIONS})) if name in present]
    groups = [
        index
        for index in range(file.num_row_groups)
        if _meets(file.metadata.row_group(index), first, last) and _may_hold(file.metadata.row_group(index), note, keys)
    ]
    for index in groups if ascending else reversed(groups):
        rows = list(Rows(file.read_row_group(index, columns=names), layout).events())
        yield from rows if ascending else reversed(rows)


def _meets(group: Any, first: Any, last: Any) -> bool:
    times = group.column(0).statistics
    return bool(times.min.replace(tzinfo=UTC) <= last and first <= times.max.replace(tzinfo=UTC))


def _may_hold(group: Any, note: Note, keys: ArchiveRange) -> bool:
    """Whether statistics leave it open that some event of a row group meets all conditions."""
    statistics = {group.column(at).path_in_schema: group.column(at).statistics for at in range(group.num_columns)}
    rest = statistics.get("data")
    if not keys.conditions or rest is None or not rest.has_min_max or not rest.min == rest.max == "{}":
        return True
    columns = {column.name: column for column in note.all()}
    return all(
        _may_meet(one, columns[one.field], statistics.get(one.field), group.num_rows)
        for one in keys.conditions
        if one.field in columns
    )


def _may_meet(condition: Condition, column: Column, statistics: Any, rows: int) -> bool:
    if statistics is None:
        return True
    if statistics.null_count == rows:
        # Whoever has nothing there meets no condition.
        return False
    if not statistics.has_min_max or column.letter not in ("N", "S"):
        return True
    exact = column.letter == "N"
    low, high = (Decimal(str(edge)) if exact else edge for edge in (statistics.min, statistics.max))
    values: list[Any] = [one for text in condition.values for one in (numbers_of(text) if exact else [text])]
    match condition.operator:
        case "eq" | "in":
            return any(low <= value <= high for value in values)
        case "lt" | "le":
            return any(low <= value for value in values)
        case "gt" | "ge":
            return any(value <= high for value in values)
    return True


def _edge(key: str, otherwise: str) -> str:
    return key[:27] if len(key) >= len(otherwise) else otherwise
