"""Pages as tables of Arrow, pandas or polars.

A library is imported only when it is used, so none of them is required.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from io import BytesIO
from typing import Any

from tidetable_client.errors import TidetableError
from tidetable_client.untyped import find_values, warn_of
from tidetable_client.widths import SHORT, choose_width, fits_double, show_digits, soften, to_decimal


class ArrowPages:
    """Pages as Arrow streams. Every library that knows the PyCapsule protocol takes this object: ``pyarrow.table(x)``,
    ``polars.DataFrame(x)``, ``duckdb.sql("from x")``, ``pandas.DataFrame.from_arrow(x)``.
    """

    def __init__(self, streams: Sequence[bytes], untyped: Mapping[str, int] | None = None) -> None:
        self.streams, self.untyped = streams, untyped or {}

    def fill(self, callers: int = 3) -> Any:
        """Return the pages with the numbers that their declared columns cannot hold, and warn of these columns.

        Without pyarrow, the pages stay as they are. The user's call is so many ``callers`` away.
        """
        if not self.untyped:
            return self
        warn_of(self.untyped, callers)
        pyarrow = _find_module("pyarrow", "pyarrow.ipc")
        return self if pyarrow is None else _fill_arrow(pyarrow, self._read(), self.untyped)

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


# The columns of a page: lists of the same length, by the paths of their fields.
Columns = Mapping[str, list[Any]]


def make_columns(pages: Iterable[Columns]) -> dict[str, list[Any]]:
    """Join the columns of pages, in the order in which fields first appear; None where a page lacks a field.

    The column of ``data.mag`` is called ``mag``, as in Arrow. If the event itself has a column of that name, as for
    ``data.time``, the column keeps ``data.`` in its name. The refs are last.
    """
    return _join_columns(pages)[0]


def _join_columns(pages: Iterable[Columns]) -> tuple[dict[str, list[Any]], list[str]]:
    """Join the columns of pages. Also return the names of the columns that are instants.

    A field of data may have the name of an instant, such as ``start``. A statistic may have such a name, too: ``first``
    is a number. Both stay unchanged.
    """
    columns: dict[str, list[Any]] = {}
    of_data: set[str] = set()
    count = 0
    for page in pages:
        before, count = count, count + len(next(iter(page.values()), ()))
        for path, values in page.items():
            bare = path.removeprefix("data.")
            name = path if bare in _OWN else bare
            if path.startswith("data."):
                of_data.add(name)
            if name not in columns:
                columns[name] = [None] * before
            columns[name] += values
        for column in columns.values():
            column += [None] * (count - len(column))
    if _LAST in columns:
        columns[_LAST] = columns.pop(_LAST)
    instants = [
        name
        for name in _TIMES
        if name in columns
        and name not in of_data
        and all(value is None or isinstance(value, str) for value in columns[name])
    ]
    return columns, instants


def make_arrow(pages: Iterable[Columns]) -> Any:
    """Make a pyarrow table of columns. Their times become timestamps."""
    pyarrow = _require_module("pyarrow", "to_arrow() of a stage without format=arrow")
    return pyarrow.table(_make_arrays(pyarrow, *_join_columns(pages)))


def make_pandas(source: ArrowPages | Iterable[Columns]) -> Any:
    """Make a pandas DataFrame."""
    pandas = _require_module("pandas", "to_pandas()")
    if isinstance(source, ArrowPages):
        pyarrow = _require_module("pyarrow", "to_pandas() of Arrow")
        table = pyarrow.table(source.fill(callers=4))
        frame = table.to_pandas()
        wide = {
            name: table[name].to_pylist() for name in table.column_names if pyarrow.types.is_integer(table[name].type)
        }
    else:
        columns, instants = _join_columns(source)
        wide = {name: columns[name] for name in columns if name not in instants}
        frame = pandas.DataFrame({name: _keep_digits(pandas, values) for name, values in columns.items()})
        for name in instants:
            frame[name] = pandas.to_datetime(frame[name], format="ISO8601", utc=True)
    for name, values in wide.items():
        # pandas would store whole numbers beside a missing value as doubles.
        width = choose_width(values) if None in values else None
        if width is not None and width.kind in _NULLABLE and not all(map(fits_double, filter(_is_present, values))):
            frame[name] = pandas.array(values, dtype=_NULLABLE[width.kind])
    return frame


def _is_present(value: Any) -> bool:
    return value is not None


def _keep_digits(pandas: Any, values: list[Any]) -> Any:
    """Keep the digits of a column for pandas, which makes doubles of whole numbers that are not alike."""
    width = choose_width(values)
    if width is None:
        return [soften(value) for value in values]
    if width.kind == "double":
        return [None if value is None else float(value) for value in values]
    return values if width.kind in _NULLABLE else pandas.Series(values, dtype="object")


def make_polars(source: ArrowPages | Iterable[Columns]) -> Any:
    """Make a polars DataFrame."""
    polars = _require_module("polars", "to_polars()")
    if isinstance(source, ArrowPages):
        frames = [polars.read_ipc_stream(BytesIO(stream)) for stream in source.streams]
        frame = polars.concat(frames, how="diagonal_relaxed") if len(frames) > 1 else frames[0]
        return _fill_polars(polars, frame, source.untyped) if source.untyped else frame
    columns, instants = _join_columns(source)
    series = {name: _make_series(polars, name, values) for name, values in columns.items()}
    frame = polars.DataFrame(series, strict=False, infer_schema_length=None)
    times = [polars.col(name).cast(polars.String).str.to_datetime(time_unit="us", time_zone="UTC") for name in instants]
    return frame.with_columns(times)


def _make_series(polars: Any, name: str, values: Sequence[Any], *, decimal: bool = False) -> Any:
    """Make a column of polars whose type holds every number; polars itself chooses the type of other columns."""
    width = choose_width(values, decimal=decimal)
    if width is None:
        return [soften(value) for value in values]
    kinds = {"integer": polars.Int64, "unsigned": polars.UInt64, "double": polars.Float64}
    if width.kind in kinds:
        convert = float if width.kind == "double" else int
        return polars.Series(name, [None if value is None else convert(value) for value in values], kinds[width.kind])
    if width.kind == "decimal" and width.precision <= SHORT:
        numbers = [None if value is None else to_decimal(value) for value in values]
        return polars.Series(name, numbers, polars.Decimal(SHORT, width.scale))
    return polars.Series(name, [None if value is None else show_digits(value) for value in values], polars.String)


def _fill_polars(polars: Any, frame: Any, counts: Mapping[str, int]) -> Any:
    warn_of(counts, 4)
    filled = find_values(frame.columns, counts, lambda name: frame[name].to_list())
    return frame.with_columns(
        [
            _make_series(polars, name, values, decimal=isinstance(frame[name].dtype, polars.Decimal)).alias(name)
            for name, values in filled.items()
        ]
    )


def _fill_arrow(pyarrow: Any, table: Any, counts: Mapping[str, int]) -> Any:
    filled = find_values(table.column_names, counts, lambda name: table[name].to_pylist())
    for name, values in filled.items():
        array = _make_numbers(pyarrow, values, decimal=pyarrow.types.is_decimal(table[name].type))
        table = table.set_column(table.column_names.index(name), name, array)
    return table


# The columns of an event itself, without its data.
_OWN = frozenset(
    {"series", "time", "id", "ref", "data", "incomplete", "version", "newest", "accepted", "rank", "value"}
)
_LAST = "ref"
# The types of pandas for whole numbers with missing values.
_NULLABLE = {"integer": "Int64", "unsigned": "UInt64"}
# The fields of rows that are instants.
_TIMES = ("time", "start", "end", "first", "last", "first_at", "last_at")


def _make_arrays(pyarrow: Any, columns: dict[str, list[Any]], instants: Sequence[str]) -> dict[str, Any]:
    """Turn columns into Arrow arrays. An array has one type, so values of several types become floats or JSON text."""
    from datetime import datetime

    arrays = {}
    for name, values in columns.items():
        if name in instants:
            at = [None if value is None else datetime.fromisoformat(value) for value in values]
            arrays[name] = pyarrow.array(at, pyarrow.timestamp("us", "UTC"))
            continue
        numbers = _make_numbers(pyarrow, values)
        arrays[name] = numbers if numbers is not None else _make_array(pyarrow, [soften(value) for value in values])
    return arrays


def _make_numbers(pyarrow: Any, values: Sequence[Any], *, decimal: bool = False) -> Any:
    """Make an array whose type holds every number; None if there are other values, or no values."""
    width = choose_width(values, decimal=decimal)
    if width is None:
        return None
    if width.kind == "text":
        return pyarrow.array([None if value is None else show_digits(value) for value in values], pyarrow.string())
    if width.kind == "decimal":
        make = pyarrow.decimal128 if width.precision <= SHORT else pyarrow.decimal256
        numbers = [None if value is None else to_decimal(value) for value in values]
        return pyarrow.array(numbers, make(width.precision, width.scale))
    kinds = {"integer": pyarrow.int64(), "unsigned": pyarrow.uint64(), "double": pyarrow.float64()}
    convert = float if width.kind == "double" else int
    return pyarrow.array([None if value is None else convert(value) for value in values], kinds[width.kind])


def _make_array(pyarrow: Any, values: Sequence[Any]) -> Any:
    """Make an array of values that are not only numbers; values of several types become JSON text."""
    import msgspec

    try:
        return pyarrow.array(values)
    except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, pyarrow.ArrowNotImplementedError, OverflowError):
        encode = msgspec.json.Encoder(decimal_format="number").encode
        texts = [value if value is None or isinstance(value, str) else encode(value).decode() for value in values]
        return pyarrow.array(texts, pyarrow.string())


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
