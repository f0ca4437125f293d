"""Read Parquet. A value that has no exact form in JSON spoils its row alone; damage ends the file with its reason."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Never

from cli.sources.arrow import Unreadable, read_text, read_values
from cli.sources.columns import Columns
from cli.sources.row import Row, SourceError, make_row

_MOST_ROWS = 1000
# An event has 2.5 MB at most, so larger rows cannot be imported; reading them could take all memory.
_BATCH_BYTES, _MOST_ROW_BYTES = 16_000_000, 64_000_000


def count_rows(path: Path) -> int:
    """Count the rows of a file; SourceError if it cannot be read."""
    return int(_open_file(path).metadata.num_rows)


def read_parquet(path: Path, mapping: Columns) -> Iterator[Row]:
    """Read the rows of a file. SourceError names the file, and the row after which it cannot be read."""
    file = _open_file(path)
    # INT96 has 96 bits, more than a timestamp of nanoseconds. pyarrow would drop the rest of an early or late instant,
    # so such a file is also read with milliseconds, which hold every instant (see arrow.py).
    is_int96 = any(file.schema.column(place).physical_type == "INT96" for place in range(len(file.schema)))
    coarse = _open_file(path, coerce_int96_timestamp_unit="ms") if is_int96 else None
    number = 0
    for batch, wide in _read_batches(path, file, coarse):
        names = batch.schema.names
        columns = [_read_column(path, batch, wide, place, mapping, number) for place in range(len(names))]
        for values in zip(*columns, strict=True) if columns else [()] * batch.num_rows:
            row = dict(zip(names, values, strict=True))
            made = make_row(number, number + 1, b"", partial(_make_event, row, mapping))
            yield made if made.event is not None else Row(number, made.read, None, made.problem, _describe_row(row))
            number += 1


def _make_event(row: dict[str, Any], mapping: Columns) -> dict[str, Any]:
    for name, value in row.items():
        if isinstance(value, Unreadable):
            raise ValueError(f"{name}: {value.reason}")
    # A null of Parquet is a row without the value. Only within a value it is a value.
    return mapping.make_event({name: value for name, value in row.items() if value is not None})


def _describe_row(row: dict[str, Any]) -> bytes:
    shown = {name: f"({value.reason})" if isinstance(value, Unreadable) else value for name, value in row.items()}
    return json.dumps(shown, default=str).encode()


def _open_file(path: Path, **options: Any) -> Any:
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path, page_checksum_verification=True, **options)
        names = file.schema_arrow.names
        metadata = file.metadata
        groups = [metadata.row_group(group) for group in range(metadata.num_row_groups)]
    except Exception as error:  # damage has many faces: pyarrow raises errors of its own, of Python and of the system
        _refuse_file(path, "cannot be read as Parquet", error)
    for name in names:
        if names.count(name) > 1:
            raise SourceError(f"{path}: two columns are called {name!r}: rename one")
    if any(group.total_byte_size > _MOST_ROW_BYTES * max(group.num_rows, 1) for group in groups):
        raise SourceError(f"{path} has rows of more than {_MOST_ROW_BYTES:,} bytes, but an event has 2.5 MB at most")
    return file


def _read_batches(path: Path, file: Any, coarse: Any) -> Iterator[tuple[Any, Any]]:
    """Read batches, each with its copy in milliseconds if there is one."""
    metadata = file.metadata
    size = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    rows = min(max(_BATCH_BYTES * max(metadata.num_rows, 1) // max(size, 1), 1), _MOST_ROWS)
    number = 0
    try:
        batches = file.iter_batches(batch_size=rows)
        copies = coarse.iter_batches(batch_size=rows) if coarse is not None else None
        while (batch := next(batches, None)) is not None:
            wide = next(copies) if copies is not None else None
            if wide is not None and wide.num_rows != batch.num_rows:
                raise ValueError("two readings have different rows")
            number += batch.num_rows
            yield batch, wide
    except (SourceError, GeneratorExit):
        raise
    except Exception as error:  # see _open_file
        _refuse_file(path, f"cannot be read after row {number:,}", error)


def _read_column(path: Path, batch: Any, wide: Any, place: int, mapping: Columns, number: int) -> Sequence[Any]:
    try:
        if batch.schema.names[place] in mapping.names:
            return read_text(batch.column(place), wide and wide.column(place))
        return read_values(batch.column(place), wide and wide.column(place))
    except Exception as error:  # see _open_file
        _refuse_file(path, f"cannot be read after row {number:,}: column {batch.schema.names[place]}", error)


def _refuse_file(path: Path, what: str, error: Exception) -> Never:
    lines = str(error).strip().splitlines()
    raise SourceError(f"{path} {what}: {lines[0] if lines else type(error).__name__}") from error
