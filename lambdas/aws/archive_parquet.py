"""Parts as Parquet: typed columns, zstd, row groups small enough that their statistics prune. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC
from io import BytesIO

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tidetable.events import Event
from tidetable.ingest.bodies import decode_json
from tidetable.times import from_text

_SCHEMA = pa.schema(
    [
        pa.field("time", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("series", pa.string(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        # JSON text: every value comes back as it was, numbers with all their digits.
        pa.field("data", pa.string(), nullable=False),
    ]
)
_ROW_GROUP = 20_000
_ENCODER = msgspec.json.Encoder(decimal_format="number")


class Parquet:
    """Encodes and decodes parts."""

    def encode(self, events: Sequence[Event]) -> bytes:
        """The events, in the order given, as one file."""
        columns = [
            [event.time for event in events],
            [event.series for event in events],
            [event.id for event in events],
            [_ENCODER.encode(event.data).decode() for event in events],
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
        sink = BytesIO()
        pq.write_table(
            pa.Table.from_arrays(arrays, schema=_SCHEMA), sink, compression="zstd", row_group_size=_ROW_GROUP
        )
        return sink.getvalue()

    def decode(self, body: bytes) -> list[Event]:
        """Every event of a file."""
        return _events(pq.read_table(BytesIO(body)))

    def between(self, body: bytes, low: str, high: str) -> list[Event]:
        """The events of the row groups whose times meet the range of sort keys; the others are not decompressed."""
        file = pq.ParquetFile(BytesIO(body))
        # A sort key begins with 27 characters of time; a bare edge may be shorter.
        first, last = _edge(low, "0001-01-01T00:00:00.000000Z"), _edge(high, "9999-12-31T23:59:59.999999Z")
        groups = []
        for index in range(file.num_row_groups):
            statistics = file.metadata.row_group(index).column(0).statistics
            lowest, highest = statistics.min.replace(tzinfo=UTC), statistics.max.replace(tzinfo=UTC)
            if lowest <= from_text(last) and from_text(first) <= highest:
                groups.append(index)
        return _events(file.read_row_groups(groups)) if groups else []


def _edge(key: str, otherwise: str) -> str:
    return key[:27] if len(key) >= len(otherwise) else otherwise


def _events(table: pa.Table) -> list[Event]:
    columns = [table.column(name).to_pylist() for name in ("series", "time", "id", "data")]
    return [
        Event(series, time.astimezone(UTC), id, decode_json(data))
        for series, time, id, data in zip(*columns, strict=True)
    ]
