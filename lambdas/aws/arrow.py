"""Encode tables in Arrow's stream format. nanoarrow is imported for the first table (docs/decisions/0098)."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

from tidetable.config.columns import parse_decimal
from tidetable.ports import TypedColumn

if TYPE_CHECKING:
    import nanoarrow as na

_DECIMAL_BYTES = 16


def encode_stream(columns: Sequence[TypedColumn]) -> bytes:
    """Encode a table as a stream: its schema and one batch, or only the schema if the table has no rows."""
    import nanoarrow as na
    from nanoarrow.c_array_stream import CArrayStream
    from nanoarrow.ipc import StreamWriter

    types = [_find_type(column.type) for column in columns]
    schema = na.c_schema(na.struct({column.name: type for column, type in zip(columns, types, strict=True)}))
    rows = len(columns[0].values) if columns else 0
    batches = []
    if rows:
        arrays = [_make_array(column, type) for column, type in zip(columns, types, strict=True)]
        batches.append(na.c_array_from_buffers(schema, rows, [None], children=arrays))
    written = BytesIO()
    with StreamWriter.from_writable(written) as writer:
        writer.write_stream(CArrayStream.from_c_arrays(batches, schema))
    return written.getvalue()


def _find_type(name: str) -> na.Schema:
    import nanoarrow as na

    if (decimal := parse_decimal(name)) is not None:
        return na.decimal128(*decimal)
    if name.startswith("time"):
        return na.timestamp("us", name[len("time(") : -1] or "UTC")
    return {"string": na.string, "boolean": na.bool_, "integer": na.int64, "double": na.float64}[name]()


def _make_array(column: TypedColumn, type: na.Schema) -> Any:
    import nanoarrow as na

    values = column.values
    if not column.type.startswith("decimal"):
        return na.c_array(values, type)
    # nanoarrow cannot convert Python's numbers to decimals, but it accepts decimals in the bytes that Arrow stores.
    stored = b"".join([(value or 0).to_bytes(_DECIMAL_BYTES, "little", signed=True) for value in values])
    valid = sum((value is not None) << number for number, value in enumerate(values))
    mask = valid.to_bytes(-(-len(values) // 8), "little") if None in values else None
    return na.c_array_from_buffers(type, len(values), [mask, stored])
