"""The format of parts: Parquet, written by ``part_writer`` and read back by ``rows``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any

import msgspec
import pyarrow.parquet as pq

from aws.archive.chosen_rows import OpenPart
from aws.archive.part_writer import ParquetWriter
from aws.archive.range_read import read_in_windows
from aws.archive.render import render_canonical
from aws.archive.rows import PartRows
from tidetable.archive.digest import ItemsDigest
from tidetable.archive.ports import ArchivedRows
from tidetable.layout import Layout

# About so many bytes of rows become Python's objects at a time.
_RUN_BYTES = 16_000_000
_PAGE = msgspec.json.Decoder(list[dict[str, dict[str, Any]]]).decode


class Parquet:
    """The format of parts."""

    def writer(self, layout: Layout, columns: Mapping[str, str]) -> ParquetWriter:
        """Make a new part."""
        return ParquetWriter(layout, columns)

    def page_facts(self, items: bytes) -> ItemsDigest:
        """Compute the facts of a page, item by item: a comparison needs no columns."""
        facts, decoded = ItemsDigest(), _PAGE(items)
        if decoded:
            keys = sorted(item["sk"]["S"] for item in decoded)
            partitions = Counter(item["pk"]["S"] for item in decoded)
            facts.add((render_canonical(item) for item in decoded), partitions, keys[0], keys[-1])
        return facts

    def facts(self, part: bytes, layout: Layout) -> ItemsDigest:
        """Compute the facts of a finished part. It is read one row group at a time."""
        facts = ItemsDigest()
        for rows in read_row_groups(part, layout):
            rows.count_into(facts)
        return facts

    def rows(self, part: bytes, layout: Layout, start: int) -> Iterator[ArchivedRows]:
        """Read a part's rows from the row with the number ``start`` on, at most a row group at a time."""
        for rows in read_row_groups(part, layout, start):
            yield rows.read_batch()

    def pages(self, parts: Sequence[bytes], layout: Layout) -> Iterator[bytes]:
        """Read the items of several parts, some of a row group at a time."""
        runs: Iterator[PartRows] = (rows for part in parts for rows in read_row_groups(part, layout))
        if layout.partition_by == "time":
            runs = read_in_windows([OpenPart(pq.ParquetFile(BytesIO(part))) for part in parts], layout)
        for rows in runs:
            yield msgspec.json.encode(list(rows.wire()))


def read_row_groups(part: bytes, layout: Layout, start: int = 0) -> Iterator[PartRows]:
    """Read the rows from a number on, in runs of about ``_RUN_BYTES`` at most."""
    file = pq.ParquetFile(BytesIO(part))
    for group in range(file.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        if start < count:
            table = file.read_row_group(group).slice(start)
            run = max(_RUN_BYTES * len(table) // max(table.nbytes, 1), 1)
            for first in range(0, len(table), run):
                yield PartRows(table.slice(first, run), layout)
        start = max(start - count, 0)
