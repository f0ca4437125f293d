"""Count the values that a declared column does not hold: queries of the files would miss them without a message."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from aws.archive.data_columns import Column
from aws.archive.render import quote_name

_DECODE = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw]]).decode


def count_untyped(
    columns: Iterable[Column], scanned: Mapping[str, pa.Array], converted: Mapping[str, pa.Array], rest: pa.Array
) -> dict[str, int]:
    """Count, by column, the rows that have a value for the column, but null in it.

    ``scanned`` are the values of the column's kind as text, ``converted`` the columns of the file, ``rest`` the members
    of data without a column. A value of another kind is in ``rest``. The nearest double of a number counts as held.
    """
    counts = {}
    for column in columns:
        wire, values = scanned[column.name], converted[column.name]
        lost = pc.sum(pc.and_(wire.is_valid(), values.is_null())).as_py() or 0
        count = lost + _count_others(rest, column.name)
        if count:
            counts[column.name] = count
    return counts


def _count_others(rest: pa.Array, name: str) -> int:
    """Count the rows whose rest has a member of this name. Only the texts that contain the name are decoded."""
    found = rest.filter(pc.match_substring(rest, f"{quote_name(name)}:{{")).to_pylist()
    members = (_DECODE("{" + text + "}").get(name) for text in found)
    return sum(member is not None and "NULL" not in member for member in members)
