"""What an import straight into the archive takes per event: `python -m bench.bulk_import`.

The files have readings of 200 series, three numbers each, without ids: NDJSON and Parquet. The bucket is a dictionary, so
the figures have no network. CPU of the process and its threads, in microseconds. The third import merges a tenth of the
events into the archive that the first one has written.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from aws.archive.parquet import Parquet
from bench.results import note_ratios
from cli.archive_import import DOLLARS_PER_CORE_SECOND
from tests.worlds.bulk import Importer, Small
from tidetable.config import parse

DAY = datetime(2026, 3, 1, tzinfo=UTC)
CONFIG = """
[streams.readings]
period = "day"
late = "1d"
retention = 5
key = { partition_by = "time", bucket = "1h", shards = 4 }
"""
SERIES, SECONDS = 200, 1_000


class Figures(NamedTuple):
    """Microseconds per event of reading, and of merging; and the bytes of the sorted runs."""

    read: float
    merged: float
    runs: int


def make_row(number: int) -> dict[str, Any]:
    """Make a reading: 200 series, each every second."""
    second, series = divmod(number, SERIES)
    time = DAY + timedelta(seconds=second)
    data = {
        "celsius": round(15 + (series * 7 + second) % 100 / 10, 1),
        "percent": (series + second) % 100,
        "volts": round(3 + (series * 13 + second * 7) % 700 / 1000, 3),
    }
    return {"series": f"sensor-{series:04d}", "time": time.isoformat().replace("+00:00", "Z"), **data}


def measure(file: Path, count: int, folder: Path, world: Small) -> Figures:
    """Import a file of so many rows."""
    work = Importer(world, "readings", folder, format=Parquet(), memory=200_000_000).make([file])
    begun = process_time()
    runs = work.read_files()
    read = process_time()
    size = sum(map(runs.measure, runs.extents))
    work.merge_periods(runs)
    return Figures((read - begun) / count * 1e6, (process_time() - read) / count * 1e6, size)


def main() -> None:
    """Print the figures of each form of file."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SERIES * SECONDS
    ratios: dict[str, Any] = {}
    with TemporaryDirectory() as name:
        folder = Path(name)
        lines, table, tenth = folder / "readings.ndjson", folder / "readings.parquet", folder / "tenth.ndjson"
        texts = [json.dumps(make_row(number)) + "\n" for number in range(count)]
        lines.write_text("".join(texts))
        tenth.write_text("".join(texts[::10]))
        del texts
        pq.write_table(pa.Table.from_pylist([make_row(number) for number in range(count)]), table)
        world = make_world()
        for file, into in ((lines, world), (table, make_world())):
            figures = measure(file, count, folder / file.suffix, into)
            each, form = figures.read + figures.merged, file.suffix[1:]
            runs = figures.runs / lines.stat().st_size
            print(
                f"{form}: {figures.read:.1f} us reading, {figures.merged:.1f} us merging; runs {runs:.2f} of the NDJSON"
            )
            ratios[f"import_{form}_us"] = each
            ratios[f"import_{form}_dollars_per_billion"] = each * 1e3 * DOLLARS_PER_CORE_SECOND
        own = -(-count // 10)
        ratios["import_archived_us"] = measure(tenth, own, folder / "tenth", world).merged * own / count
    note_ratios(**ratios)


def make_world() -> Small:
    """Make an empty stage."""
    world = Small()
    world.config = parse(CONFIG)
    return world


if __name__ == "__main__":
    main()
