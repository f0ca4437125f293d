"""Open a file to import: its name or an option says its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cli.sources.columns import Columns
from cli.sources.comma import CsvFile
from cli.sources.lines import read_ndjson
from cli.sources.parquet import count_rows, read_parquet
from cli.sources.row import Row, SourceError

FORMATS = {
    ".ndjson": "ndjson", ".jsonl": "ndjson", ".json": "ndjson", ".csv": "csv", ".parquet": "parquet", ".pq": "parquet",
}  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A file to import. ``total`` is its size in the unit of ``Row.read``.

    After a whole reading, ``list_remarks`` lists what the user should know of rows that were accepted.
    """

    path: Path
    kind: str
    total: int
    read: Callable[[], Iterator[Row]]
    list_remarks: Callable[[], list[str]] = list


def open_source(path: Path, kind: str | None, mapping: Columns) -> Source:
    """Open the source of a file; SourceError if its format is unknown or it cannot be opened."""
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    kind = kind or FORMATS.get(suffixes[-1] if suffixes else "")
    if kind not in ("ndjson", "csv", "parquet"):
        raise SourceError(f"the name of {path} does not say its format: add --format ndjson, csv or parquet")
    if not path.is_file():
        raise SourceError(f"{path} is not a file")
    mapping.check()
    if mapping.text and kind != "csv":
        raise SourceError("--text is for CSV: the other formats say which values are texts")
    if kind == "parquet":
        return Source(path, kind, count_rows(path), lambda: read_parquet(path, mapping))
    size = path.stat().st_size
    if kind == "ndjson":
        return Source(path, kind, size, lambda: read_ndjson(path, mapping))
    file = CsvFile(path, mapping)
    return Source(path, kind, size, file.read, file.list_remarks)
