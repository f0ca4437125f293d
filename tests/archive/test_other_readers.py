"""Other programs read the files of archives: every value, with the encodings that large files have."""

import json
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow.parquet as pq

from aws.archive.parquet import Parquet
from tests.worlds.parts import make_item
from tidetable.layout import Layout

COLUMNS = {"small": "decimal(9,2)", "large": "decimal(18,3)", "whole": "integer", "kind": "string"}


def test_duckdb_polars_and_pyarrow_read_numbers_that_are_stored_as_differences(tmp_path: Path) -> None:
    """Each column has more than 256 different numbers, negative ones and nulls, too."""
    layout = Layout("time", 2, "id", 3_600)
    expected: list[tuple[int, str, Any, Any, Any]] = []
    items = []
    for n in range(600):
        small, large = Decimal(n * n - 90_000) / 100, Decimal(n) * 1_000_003 / 1_000 - 7
        data = {
            "small": {"N": f"{small.normalize():f}"},
            "large": {"N": f"{large.normalize():f}"},
            "kind": {"S": "ok"},
        } | ({"whole": {"N": str(10**17 - n)}} if n % 3 else {})
        items.append(make_item(layout, f"s{n % 7}", n * 1_000_000, f"i{n}", data, {"at": {"N": "1772366400250"}}))
        expected.append((n, f"s{n % 7}", small, large, 10**17 - n if n % 3 else None))
    writer = Parquet().writer(layout, COLUMNS)
    writer.add(json.dumps(items).encode())
    body = writer.finish()
    group = pq.ParquetFile(BytesIO(body)).metadata.row_group(0)
    encodings = {group.column(at).path_in_schema: group.column(at).encodings for at in range(group.num_columns)}
    for name in ("time", "small", "large", "whole"):
        assert "DELTA_BINARY_PACKED" in encodings[name]
    kinds = {group.column(at).path_in_schema: group.column(at).physical_type for at in range(group.num_columns)}
    assert (kinds["small"], kinds["large"], kinds["whole"]) == ("INT32", "INT64", "INT64")
    file = tmp_path / "part.parquet"
    file.write_bytes(body)
    query = f"SELECT epoch_ms(time) // 1000 % 86400, series, small, large, whole FROM '{file}' ORDER BY time"  # noqa: S608
    with duckdb.connect() as connection:
        assert [(int(row[0]), *row[1:]) for row in connection.execute(query).fetchall()] == expected
    read = pl.read_parquet(file).sort("time")
    seconds = [at.hour * 3_600 + at.minute * 60 + at.second for at in read["time"].to_list()]
    assert (
        list(zip(seconds, *(read[name].to_list() for name in ("series", "small", "large", "whole")), strict=True))
        == expected
    )
    table = pq.read_table(BytesIO(body)).sort_by("time")
    assert list(
        zip(*(table.column(name).to_pylist() for name in ("series", "small", "large", "whole")), strict=True)
    ) == [row[1:] for row in expected]
