"""Pages as tables of Arrow, pandas or polars.

A library is imported only when it is used, so none of them is required.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

from tidetable_client.errors import TidetableError


class ArrowPages:
    """Pages as Arrow streams. Every library that knows the PyCapsule protocol takes this object: ``pyarrow.table(x)``,
    ``polars.DataFrame(x)``, ``duckdb.sql("from x")``, ``pandas.DataFrame.from_arrow(x)``.
    """

    def __init__(self, streams: Sequence[bytes]) -> None:
        self.streams = streams

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        table: Any = self._read()
        return table.__arrow_c_stream__(requested_schema)

    def _read(self) -> Any:
        pyarrow = _find_module("pyarrow", "pyarrow.ipc")
        if pyarrow is not None:
            tables = [pyarrow.ipc.open_stream(stream).read_all() for stream in self.streams]
            return pyarrow.concat_tables(tables, promote_options="permissive")
        if len(self.streams) == 1:
            ipc = _find_module("nanoarrow.ipc")
            if ipc is not None:
                return ipc.InputStream.from_readable(self.streams[0])
            raise TidetableError("Arrow needs a library: pip install 'tidetable-client[arrow]' or pyarrow")
        raise TidetableError(
            "several pages become one Arrow table with pyarrow: pip install pyarrow, or use a larger limit"
        )


def make_columns(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Turn flat rows into columns, in the order in which fields first appear; None where a row lacks a field.

    The column of ``data.mag`` is called ``mag``, as in Arrow. If the event itself has a column of that name, as for
    ``data.time``, the column keeps ``data.`` in its name.
    """
    return _split_columns(rows)[0]


def _split_columns(rows: Iterable[Mapping[str, Any]]) -> tuple[dict[str, list[Any]], list[str]]:
    """Split rows into columns. Also return the names of the columns that are instants.

    A field of data may have the name of an instant, such as ``start``. A statistic may have such a name, too: ``first``
    is a number. Both stay unchanged.
    """
    columns: dict[str, list[Any]] = {}
    of_data: set[str] = set()
    for place, row in enumerate(rows):
        for path, value in row.items():
            bare = path.removeprefix("data.")
            name = path if bare in _OWN else bare
            if path.startswith("data."):
                of_data.add(name)
            column = columns.get(name)
            if column is None:
                column = columns[name] = [None] * place
            column.append(value)
        for column in columns.values():
            if len(column) == place:
                column.append(None)
    instants = [
        name
        for name in _TIMES
        if name in columns
        and name not in of_data
        and all(value is None or isinstance(value, str) for value in columns[name])
    ]
    return columns, instants


def make_arrow(rows: Iterable[Mapping[str, Any]]) -> Any:
    """Make a pyarrow table of rows. Their times become timestamps."""
    pyarrow = _require_module("pyarrow", "to_arrow() of a stage without format=arrow")
    return pyarrow.table(_make_arrays(pyarrow, *_split_columns(rows)))


def make_pandas(source: ArrowPages | Iterable[Mapping[str, Any]]) -> Any:
    """Make a pandas DataFrame."""
    pandas = _require_module("pandas", "to_pandas()")
    if isinstance(source, ArrowPages):
        pyarrow = _require_module("pyarrow", "to_pandas() of Arrow")
        return pyarrow.table(source).to_pandas()
    columns, instants = _split_columns(source)
    frame = pandas.DataFrame(columns)
    for name in instants:
        frame[name] = pandas.to_datetime(frame[name], format="ISO8601", utc=True)
    return frame


def make_polars(source: ArrowPages | Iterable[Mapping[str, Any]]) -> Any:
    """Make a polars DataFrame."""
    polars = _require_module("polars", "to_polars()")
    if isinstance(source, ArrowPages):
        frames = [polars.read_ipc_stream(BytesIO(stream)) for stream in source.streams]
        return polars.concat(frames, how="diagonal_relaxed") if len(frames) > 1 else frames[0]
    columns, instants = _split_columns(source)
    frame = polars.DataFrame(columns, strict=False, infer_schema_length=None)
    times = [polars.col(name).str.to_datetime(time_unit="us", time_zone="UTC") for name in instants]
    return frame.with_columns(times)


# The columns of an event itself, without its data.
_OWN = frozenset(
    {"series", "time", "id", "ref", "data", "incomplete", "version", "newest", "accepted", "rank", "value"}
)
# The fields of rows that are instants.
_TIMES = ("time", "start", "end", "first", "last")


def _make_arrays(pyarrow: Any, columns: dict[str, list[Any]], instants: Sequence[str]) -> dict[str, Any]:
    """Turn columns into Arrow arrays. An array has one type, so values of several types become floats or JSON text."""
    from datetime import datetime

    arrays = {}
    for name, values in columns.items():
        if name in instants:
            at = [None if value is None else datetime.fromisoformat(value) for value in values]
            arrays[name] = pyarrow.array(at, pyarrow.timestamp("us", "UTC"))
            continue
        try:
            arrays[name] = pyarrow.array(values)
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError):
            arrays[name] = pyarrow.array(_unify_values(values))
    return arrays


def _unify_values(values: Sequence[Any]) -> list[Any]:
    """Turn values of several types into one type: floats if all are numbers, otherwise JSON text."""
    import msgspec

    present = [value for value in values if value is not None]
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in present):
        return [None if value is None else float(value) for value in values]
    encode = msgspec.json.encode
    return [value if value is None or isinstance(value, str) else encode(value).decode() for value in values]


def _find_module(name: str, *submodules: str) -> Any:
    from importlib import import_module

    try:
        module = import_module(name)
        for submodule in submodules:
            import_module(submodule)
    except ImportError:
        return None
    return module


def _require_module(name: str, feature: str) -> Any:
    module = _find_module(name)
    if module is None:
        raise TidetableError(f"{feature} needs {name}: pip install {name}")
    return module
