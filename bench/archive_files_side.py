"""One side of ``bench.archive_files``: one source tree writes archives into a folder, or reads them.

The arguments are the tree and a task: ``build FOLDER BY EVENTS FILES`` writes an archive that is partitioned by ``time`` or
``series``; ``read FOLDER QUERY`` prints JSON: CPU seconds, GETs, events found, and the peak of memory in MB; ``speed`` prints
the seconds of CPU per item to write parts, and to write and read them back.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

TREE = Path(sys.argv[1])
sys.path[:0] = [str(TREE), str(TREE / "lambdas")]

import pyarrow as pa
from older_trees import import_first, pause_collector  # type: ignore[import-not-found]

from aws.archive.parquet import Parquet
from aws.archive.s3 import S3PartReader
from tidetable.archive.manifest import Manifest, Part
from tidetable.archive.reading import read_archive
from tidetable.ports import ArchiveRange
from tidetable.times import to_text

Layout = import_first("tidetable.layout", "tidetable.keys").Layout
START = datetime(2026, 3, 1, tzinfo=UTC)
DAY, SERIES, PAGE = 86_400_000_000, 1_000, 4_000
LAYOUTS = {"time": Layout("time", 8, "id", 3_600), "series": Layout("series", 1, "id")}


class Bucket:
    """A folder as a bucket; it counts the requests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gets = 0

    def get(self, key: str) -> bytes:
        self.gets += 1
        return (self.folder / key).read_bytes()

    def get_changed(self, key: str, etag: str) -> tuple[bytes | None, str]:
        del etag
        return self.get(key), ""

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.gets += 1
        with (self.folder / key).open("rb") as file:
            file.seek(start)
            return file.read(end - start)


def name_event(number: int, events: int) -> tuple[datetime, str, str]:
    """Name an event of the day: its time, series and id. The series take turns."""
    at = START + timedelta(microseconds=DAY * number // events)
    return at, f"sensor-{number % SERIES:04d}", sha256(str(number).encode()).hexdigest()[:32]


def make_page(numbers: Sequence[int], events: int, by: str) -> bytes:
    """Make a page of a table: items in DynamoDB JSON, as a segment reads them."""
    texts = []
    for number in numbers:
        at, series, id = name_event(number, events)
        stamp = to_text(at)
        key = f"{series}#0", f"{stamp}#{id}"
        if by == "time":
            key = f"{stamp[:13]}:00:00.000000Z#{number % 8}", f"{stamp}#{series}#{id}"
        texts.append(
            f'{{"pk":{{"S":"{key[0]}"}},"sk":{{"S":"{key[1]}"}},"at":{{"N":"{1772366400000 + number // 50}"}},"data":{{"M":{{'
            f'"temp":{{"N":"{20 + number % 997 / 100:.10g}"}},"level":{{"N":"{number % 101}"}},"status":{{"S":"ok"}}}}}}}}'
        )
    return f"[{','.join(texts)}]".encode()


def list_pages(by: str, events: int, file: int, files: int) -> Iterator[Sequence[int]]:
    """List the numbers of the events of each page of a file: a piece of time, or all events of some series."""
    numbers: Sequence[int] = range(events * file // files, events * (file + 1) // files)
    if by == "series":
        names = list(range(SERIES))
        random.Random(1).shuffle(names)  # noqa: S311 - a table's scan has no order of series
        numbers = [number for series in names[file::files] for number in range(series, events, SERIES)]
    yield from (numbers[first : first + PAGE] for first in range(0, len(numbers), PAGE))


def build(folder: Path, by: str, events: int, files: int) -> None:
    """Write an archive of so many files."""
    folder.mkdir(parents=True)
    parts, layout = [], LAYOUTS[by]
    for number in range(files):
        writer = Parquet().writer(layout, {"temp": "decimal(9,2)", "level": "integer"})
        for numbers in list_pages(by, events, number, files):
            writer.add(make_page(numbers, events, by))
        body, facts = writer.finish(), writer.facts
        (folder / str(number)).write_bytes(body)
        bounds: Any = {"bounds": writer.find_bounds()} if hasattr(writer, "find_bounds") else {}
        parts.append(
            Part(
                key=str(number), events=facts.items, size=len(body), sha256=str(number), digest="", partitions=1,
                first=facts.first, last=facts.last, **bounds,
            )
        )  # fmt: skip
    manifest = Manifest(
        stream="s", period="2026-03-01", table="t", layout=layout, events=events, size=0, digest="", columns={},
        written_at="", parts=tuple(parts),
    )  # fmt: skip
    (folder / "m").write_bytes(manifest.encode())


def read(folder: Path, query: str) -> dict[str, float]:
    """Ask one question with a reader that has nothing yet; the least CPU of up to three times."""
    manifest = Manifest.decode((folder / "m").read_bytes())
    at, series, id = name_event(manifest.events // 2 + 17, manifest.events)
    low, high = to_text(at.replace(minute=0, second=0, microsecond=0)), to_text(at.replace(minute=59, second=59))
    layout = manifest.layout
    ref = layout.make_sort_key(at, series, id)
    keys, limit, ascending = {
        "hour": (ArchiveRange("m", low, high, series), 50_000, True),
        "newest": (ArchiveRange("m", "", "~"), 100, False),
        "ref": (ArchiveRange("m", ref, ref, series), 100, True),
    }[query]
    seconds = []
    for _ in range(3):
        bucket: Any = Bucket(folder)
        begun = time.process_time()
        page = read_archive(keys, S3PartReader(bucket), limit=limit, ascending=ascending)
        seconds.append(time.process_time() - begun)
        if seconds[0] > 2:
            break
    return {"cpu": min(seconds), "gets": bucket.gets, "events": len(page.events), "peak": find_peak()}


def find_peak() -> float:
    """Find the peak of memory in MB. The one of ``getrusage`` begins with that of the process that started this one."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def measure_speed() -> dict[str, float]:
    """Measure the CPU of writing and of reading back, per item; the least of three runs."""
    archive = import_module("bench.archive")
    pages = list(archive.make_pages(60 * PAGE))
    archive.measure_archive(iter(pages[:4]), archive.COLUMNS)
    pause_collector(TREE, "archiver")
    runs = [archive.measure_archive(iter(pages), archive.COLUMNS) for _ in range(3)]
    items = runs[0][3]
    return {
        "write": min(export for export, *_ in runs) / items,
        "both": min(export + verify for export, verify, *_ in runs) / items,
    }


def main() -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    task, *rest = sys.argv[2:]
    if task == "build":
        build(Path(rest[0]), rest[1], int(rest[2]), int(rest[3]))
    else:
        print(json.dumps(measure_speed() if task == "speed" else read(Path(rest[0]), rest[1])))


if __name__ == "__main__":
    main()
