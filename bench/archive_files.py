"""The files of archives: how few requests and how little CPU a question takes, and how small the files are.

20 million events of 1,000 series are asked by the present reader; the reader of commit 01969c8d is asked the same of 100
files, which have 2 million events together. Each side runs in a process of its own (``bench.archive_files_side``).
"""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "lambdas")]

import pyarrow.parquet as pq

from aws.archive.parquet import Parquet
from bench.deployed import restart_as_deployed
from bench.results import note_ratios
from bench.whole import check_out_old
from tidetable.archive.manifest import Bounds, Part
from tidetable.archive.segments import Segment, SegmentMemo
from tidetable.archive.series_filter import make_filter
from tidetable.exact_json import canonical_json, encode_json
from tidetable.layout import Layout
from tidetable.times import to_text
from tidetable.work.claim import WorkItem

SIDE = Path(__file__).with_name("archive_files_side.py")
EVENTS, OLD_EVENTS, FILES = 20_000_000, 2_000_000, 100
# Which partitioning each question is asked of.
QUESTIONS = {"hour": "series", "newest": "time", "ref": "series"}
LAYOUT = Layout("time", 8, "id", 3_600)
START = datetime(2026, 3, 1, tzinfo=UTC)


def run(tree: Path, *task: object) -> Any:
    """Run a task of the side on a source tree."""
    command = [sys.executable, str(SIDE), str(tree), *map(str, task)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tree)  # noqa: S603
    print(tree.name, *task, done.stdout.strip(), flush=True)
    return json.loads(done.stdout) if done.stdout else None


def measure_questions(folder: Path, old: Path) -> None:
    """Ask both readers, and note requests, the ratios of CPU, and the peak of memory."""
    results: Any = {}
    peaks = []
    for by in ("series", "time"):
        run(ROOT, "build", folder / by, by, EVENTS, 2)
        run(old, "build", folder / f"old-{by}", by, OLD_EVENTS, FILES)
        for question, wanted in QUESTIONS.items():
            if by == wanted or question != "newest":
                ours, theirs = (
                    run(ROOT, "read", folder / by, question),
                    run(old, "read", folder / f"old-{by}", question),
                )
                peaks.append(ours["peak"])
                name = question if by == wanted else f"{question}_by_{by}"
                results[f"archive_{name}_gets"] = ours["gets"]
                results[f"archive_{name}_cpu_over_old"] = ours["cpu"] / theirs["cpu"]
    note_ratios(digits=3, **results, archive_reader_peak_mb=max(peaks))


class _Sizes(dict[str, bytes]):
    """A bucket that takes objects."""

    put = dict.__setitem__


def measure_notes() -> None:
    """Megabytes of the notes of 31,250 files with 1,000 series each, in notes of 31 files; by time, all have the same."""
    chance = random.Random(1)  # noqa: S311 - digests are random bytes
    item = WorkItem("archive", "s#2026-03-01#1772323200000#00007")
    segment = Segment(item, SegmentMemo(1_000, 20, {}), "s", "2026-03-01", "1772323200000", 7)
    for by in ("time", "series"):
        parts = []
        for number in range(31):
            first = number * 1_000 if by == "series" else 0
            names = [f"sensor-{name:06d}" for name in range(first, first + 1_000)]
            oldest, newest = (to_text(START + timedelta(minutes=number + more)) for more in (0, 1))
            bounds = Bounds(
                oldest=oldest,
                newest=newest,
                least=names[0],
                greatest=names[-1],
                names=make_filter(names),
                footer=50_000,
            )
            parts.append(
                Part(
                    key=f"{segment.make_part_prefix(1)}{number:05d}.parquet", events=200_000 + number,
                    size=4_000_000 + chance.randrange(10**6), sha256=chance.randbytes(32).hex(),
                    digest=chance.randbytes(16).hex(), partitions=30, first=f"{oldest}#{names[0]}#{number:032x}",
                    last=f"{newest}#{names[-1]}#{number:032x}", bounds=bounds,
                )
            )  # fmt: skip
        bucket: Any = _Sizes()
        segment.note_parts(parts, 1, bucket)
        figure: Any = {f"archive_progress_by_{by}_mb": sum(map(len, bucket.values())) / 31 * 31_250 / 1e6}
        note_ratios(digits=1, **figure)


def measure_speed(old: Path) -> None:
    """Write and read back the same items with both trees in turn; the least of five runs of each counts."""
    runs = [(run(ROOT, "speed"), run(old, "speed")) for _ in range(5)]
    for figure, name in (("write", "archived_items_over_old"), ("both", "archived_and_verified_items_over_old")):
        ours, theirs = (min(pair[side][figure] for pair in runs) for side in (0, 1))
        ratio: Any = {name: theirs / ours}
        note_ratios(**ratio)


def write_part(events: list[tuple[datetime, str, str, dict[str, str]]], columns: dict[str, str]) -> bytes:
    """Write a part of events: time, series, id, and the fields in DynamoDB JSON."""
    writer = Parquet().writer(LAYOUT, columns)
    for first in range(0, len(events), 4_000):
        items = []
        for number, (at, series, id, fields) in enumerate(events[first : first + 4_000], first):
            key = LAYOUT.make_partition_key(at, series, number % LAYOUT.shards)
            data = {name: {"S" if text.isalpha() else "N": text} for name, text in fields.items()}
            items.append(
                {
                    "pk": {"S": key},
                    "sk": {"S": f"{to_text(at)}#{series}#{id}"},
                    # The events of one request were accepted together.
                    "at": {"N": str(int(at.timestamp()) // 5 * 5_000 + 6_000)},
                    "data": {"M": data},
                }
            )
        writer.add(json.dumps(items).encode())
    return writer.finish()


def derive_id(at: datetime, series: str, sent: dict[str, Any]) -> str:
    """Make the id of an event that is sent without one, as ingest does."""
    return sha256(canonical_json((series, to_text(at), sent))).hexdigest()[:32]


def measure_telemetry() -> None:
    """Bytes per event of 200 devices with three numbers each, every ten seconds, sent as Python writes floats."""
    chance = random.Random(3)  # noqa: S311 - made-up data
    values = {device: [20.0, 50.0, 3.7] for device in range(200)}
    events: dict[bool, list[Any]] = {True: [], False: []}
    for number in range(1_000_000):
        device = number % 200
        at = START + timedelta(microseconds=number * 50_000 + chance.randrange(20_000))
        temperature, humidity, volt = values[device]
        values[device] = [
            temperature + chance.gauss(0, 0.05),
            humidity + chance.gauss(0, 0.2),
            volt + chance.gauss(0, 0.002),
        ]
        sent = {"temperature": round(temperature, 2), "humidity": round(humidity, 1), "volt": round(volt, 3)}
        series, fields = f"device-{device:03d}", {name: f"{value:.10g}" for name, value in sent.items()}
        id = derive_id(at, series, sent)
        events[True].append((at, series, id, fields))
        events[False].append((at, series, sha256(id.encode()).hexdigest()[:32], fields))
    columns = {"temperature": "decimal(9,2)", "humidity": "decimal(9,1)", "volt": "decimal(9,3)"}
    sizes = {derived: len(write_part(some, columns)) / len(some) for derived, some in events.items()}
    note_ratios(archive_telemetry_bytes=sizes[True], archive_telemetry_bytes_with_ids=sizes[False])


def measure_readings() -> None:
    """The bench's readings against NDJSON of the same events in the same order, by ``gzip -6``."""
    from bench.archive import COLUMNS, make_pages

    events: dict[bool, list[Any]] = {True: [], False: []}
    for page in make_pages(1_000_000):
        for item in json.loads(page):
            text, series, id = item["sk"]["S"].split("#")
            at = datetime.fromisoformat(text)
            fields = {name: value["S"] if "S" in value else value["N"] for name, value in item["data"]["M"].items()}
            sent = {
                name: text if text.isalpha() else float(text) if name != "battery" else int(text)
                for name, text in fields.items()
            }
            events[True].append((at, series, derive_id(at, series, sent), fields))
            events[False].append((at, series, id, fields))
    for derived, name in ((True, "archive_over_ndjson"), (False, "archive_over_ndjson_with_ids")):
        body = write_part(events[derived], dict(COLUMNS))
        rows = pq.read_table(BytesIO(body), columns=["time", "series"])
        known = {(at, series): (id, fields) for at, series, id, fields in events[derived]}
        lines = []
        for at, series in zip(rows.column("time").to_pylist(), rows.column("series").to_pylist(), strict=True):
            id, fields = known[at, series]
            data = {
                key: text if text.isalpha() else float(text) if "." in text else int(text)
                for key, text in fields.items()
            }
            lines.append(encode_json({"time": to_text(at), "series": series, "id": id, "data": data}))
        figures: Any = {
            name: len(body) / len(gzip.compress(b"\n".join(lines), 6)),
            f"{name}_bytes": len(body) / len(lines),
        }
        note_ratios(**figures)


def main() -> None:
    """Measure everything, and write it to bench/results.json."""
    measure_telemetry()
    measure_readings()
    measure_notes()
    with check_out_old() as old, TemporaryDirectory() as folder:
        measure_speed(old)
        measure_questions(Path(folder), old)


if __name__ == "__main__":
    restart_as_deployed("bench.archive_files")
    main()
