"""The Parquet file of a part, written run by run: row groups, their order, and the encodings of the columns.

A run is sorted in memory. Of a table by time, a row group has an hour of events, or some 200,000, and is sorted by series
and then by time; of a table by series, a run is sorted so as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidetable.archive.manifest import Bounds, IdRule
from tidetable.archive.series_filter import make_filter
from tidetable.times import from_micros, to_text

# A row group ends at so many events, and at the end of an hour if it has as many as the second number.
_GROUP_EVENTS, _LEAST_EVENTS = 200_000, 20_000
# A reader decodes a whole row group, so wide events come in row groups of fewer events.
_GROUP_BYTES = 32_000_000
_HOUR = 3_600_000_000
# A column with fewer different values is smaller with a dictionary than with differences.
_FEW_VALUES = 256
# Levels 1 and 3 take the same CPU; level 9 takes twice as much and saves less than one percent (bench.archive_files).
_LEVEL = 3
_DELTA, _PLAIN = "DELTA_BINARY_PACKED", "PLAIN"
# The metadata of a file has the filter of the series of each row group, if a row group has few of the file's series.
_FILTERS = "tidetable.series"


class PartFile:
    """A Parquet file with runs of rows. ``by_time`` says how the table is partitioned."""

    def __init__(self, *, by_time: bool) -> None:
        self._by_time = by_time
        self._sink = BytesIO()
        self._writer: pq.ParquetWriter | None = None
        self._series: set[str] = set()
        self._filters: list[bytes] = []
        self._oldest, self._newest = 2**62, -(2**62)

    @property
    def size(self) -> int:
        """The number of bytes that are written."""
        return self._sink.tell()

    def write(self, rows: pa.Table) -> None:
        """Sort the rows of a run, and write them as row groups. The first rows decide the schema and the encodings."""
        times = rows.column("time").combine_chunks().cast(pa.int64())
        names = rows.column("series").combine_chunks().dictionary_encode()
        self._series.update(names.dictionary.to_pylist())
        bounds = pc.min_max(times).as_py()
        self._oldest, self._newest = min(self._oldest, bounds["min"]), max(self._newest, bounds["max"])
        ranks = pc.rank(names.dictionary).cast(pa.int64()).take(names.indices)
        most = max(1, min(_GROUP_EVENTS, int(_GROUP_BYTES * len(rows) / max(rows.nbytes, 1))))
        order = pc.sort_indices(times)
        groups = list(self._cut(times.take(order), most)) if self._by_time else [len(rows)]
        if self._by_time:
            numbers = pa.concat_arrays([pa.repeat(pa.scalar(at, pa.int64()), count) for at, count in enumerate(groups)])
            ranks = pc.add(pc.multiply(numbers, len(names.dictionary) + 1), ranks.take(order))
        else:
            ranks = ranks.take(order)
        # The sort is stable: rows of one series stay in the order of time.
        rows = rows.take(order.take(pc.sort_indices(ranks)))
        if self._writer is None:
            self._writer = self._open(rows)
        sizes = [min(most, count - start) for count in groups for start in range(0, count, most)]
        start = 0
        for size in sizes:
            group = rows.slice(start, size)
            self._writer.write_table(group, row_group_size=size)
            if not self._by_time:
                self._filters.append(make_filter(pc.unique(group.column("series")).to_pylist(), exact=True))
            start += size

    def _cut(self, times: pa.Array, most: int) -> Iterator[int]:
        """Cut rows in the order of time into row groups; yield their numbers of rows."""
        hours = pc.run_end_encode(pc.divide(times, _HOUR)).run_ends.to_pylist()
        start = 0
        for end in hours:
            while end - start > most:
                yield most
                start += most
            if end - start >= _LEAST_EVENTS:
                yield end - start
                start = end
        if start < len(times):
            yield len(times) - start

    def _open(self, rows: pa.Table) -> pq.ParquetWriter:
        encoded = {field.name: _PLAIN for field in rows.schema if field.name in ("id", "id_hex")}
        for field in rows.schema:
            if field.name in ("time", "accepted_at") or _has_many_numbers(rows, field):
                encoded[field.name] = _DELTA
        return pq.ParquetWriter(
            self._sink,
            rows.schema,
            compression="zstd",
            compression_level=_LEVEL,
            use_dictionary=[name for name in rows.column_names if name not in encoded],
            column_encoding=encoded,
            store_decimal_as_integer=True,
            sorting_columns=[pq.SortingColumn(1), pq.SortingColumn(0)],
        )

    def finish(self) -> bytes:
        """Return the bytes of the file."""
        if self._writer is not None:
            if self._filters:
                self._writer.add_key_value_metadata({_FILTERS: msgspec.json.encode(self._filters).decode()})
            self._writer.close()
        return self._sink.getvalue()

    def find_bounds(self, ids: IdRule | None) -> Bounds:
        """Describe what all rows have in common."""
        return Bounds(
            oldest=to_text(from_micros(self._oldest)),
            newest=to_text(from_micros(self._newest)),
            least=min(self._series, default=""),
            greatest=max(self._series, default=""),
            names=make_filter(self._series),
            ids=ids,
            footer=int.from_bytes(self._sink.getbuffer()[-8:-4], "little") + 8,
        )


def read_filters(file: pq.FileMetaData) -> list[bytes]:
    """Read the filters of the series of each row group; none if the file does not have them."""
    stored = (file.metadata or {}).get(_FILTERS.encode())
    return [] if stored is None else msgspec.json.decode(stored, type=list[bytes])


def _has_many_numbers(rows: pa.Table, field: pa.Field) -> bool:
    """True for a column of whole numbers, or of decimals that are stored as such, with many different values."""
    kind = field.type
    small = pa.types.is_decimal(kind) and kind.precision <= 18
    return bool((small or kind == pa.int64()) and pc.count_distinct(rows.column(field.name)).as_py() > _FEW_VALUES)
