"""Archiving a million items: items per second and core, memory, and bytes compared with DynamoDB JSON in gzip, the
format of AWS's export.

It uses the real format with pages in memory, so the engine is not the limit. It prints the export and its verification
separately. The baseline of the ratio does the same work with boto3's deserializer and ``pyarrow.Table.from_pylist``.
"""

from __future__ import annotations

import gzip
import json
import random
import resource
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "lambdas")]

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from boto3.dynamodb.types import TypeDeserializer

from aws.archive.parquet import Parquet
from bench.archive_cost import price_archive
from strict.units import measure_item
from tidetable.config import ArchivePolicy
from tidetable.layout import Layout
from tidetable.times import to_text

ITEMS = 1_000_000
PAGE = 4_000
PART_BYTES = 32_000_000
DAY = datetime(2026, 3, 1, tzinfo=UTC)
LAYOUT = Layout("time", 8, "id", 3600)
COLUMNS = {"temperature": "decimal(9,2)", "humidity": "decimal(9,1)", "battery": "integer", "status": "string"}


def make_pages(count: int, *, seed: int = 1) -> Iterator[bytes]:
    """Yield readings of 500 sensors over a day in the order of a scan: pages in the form of DynamoDB's answers."""
    chance = random.Random(seed)  # noqa: S311 - a repeatable workload
    for start in range(0, count, PAGE):
        yield msgspec.json.encode([_make_item(chance) for _ in range(min(PAGE, count - start))])


def _make_item(chance: random.Random) -> dict[str, Any]:
    time = DAY + timedelta(microseconds=chance.randrange(86_400_000_000))
    series = f"sensor-{chance.randrange(500)}"
    data = {
        "temperature": {"N": f"{round(chance.gauss(20, 5), 2):.10g}"},
        "humidity": {"N": f"{round(chance.uniform(20, 90), 1):.10g}"},
        "battery": {"N": str(chance.randrange(100))},
        "status": {"S": chance.choice(["ok", "ok", "ok", "warn", "error"])},
    }
    id = sha256(f"{time}{series}".encode()).hexdigest()[:32]
    pk = LAYOUT.make_partition_key(
        time, series, int.from_bytes(sha256(id.encode()).digest()[:4], "big") % LAYOUT.shards
    )
    return {"pk": {"S": pk}, "sk": {"S": f"{to_text(time)}#{series}#{id}"}, "data": {"M": data}}


def measure_archive(pages: Iterator[bytes], columns: Mapping[str, str]) -> tuple[float, float, int, int]:
    """Seconds of CPU to export and to verify, bytes written, and the number of items."""
    form, items, size = Parquet(), 0, 0
    export = verify = 0.0
    writer = form.writer(LAYOUT, columns)
    for page in chain(pages, [None]):
        begun = time.process_time()
        if page is not None:
            writer.add(page)
        if page is None or writer.size >= PART_BYTES:
            facts, part = writer.facts, writer.finish()
            export += time.process_time() - begun
            begun = time.process_time()
            if form.facts(part, LAYOUT).identity != facts.identity:
                raise AssertionError("a part differs from the scan")
            verify += time.process_time() - begun
            size += len(part)
            items += facts.items
            writer = form.writer(LAYOUT, columns)
        else:
            export += time.process_time() - begun
    return export, verify, size, items


def measure_textbook(pages: list[bytes]) -> float:
    """Seconds of CPU of the textbook way: deserialize each item, make a list of rows, let Arrow guess the schema."""
    begun = time.process_time()
    deserialize = TypeDeserializer().deserialize
    rows = []
    for page in pages:
        for item in json.loads(page):
            plain = {name: deserialize(value) for name, value in item.items()}
            data = {
                name: float(value) if name in COLUMNS and name != "status" else value
                for name, value in plain["data"].items()
            }
            rows.append({"pk": plain["pk"], "sk": plain["sk"], **data})
    rows.sort(key=lambda row: row["sk"])
    pq.write_table(pa.Table.from_pylist(rows), BytesIO(), compression="zstd")
    return time.process_time() - begun


def main() -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    baseline = list(make_pages(20 * PAGE))
    measure_archive(iter(baseline), COLUMNS)
    plain = min(measure_textbook(baseline) for _ in range(3)) / (20 * PAGE)
    ours, *_ = min(measure_archive(iter(baseline), COLUMNS) for _ in range(3))
    exported = sum(
        len(gzip.compress(b"\n".join(b'{"Item":' + msgspec.json.encode(item) + b"}" for item in json.loads(page))))
        for page in make_pages(ITEMS // 10)
    ) / (ITEMS // 10)
    size_of = sum(measure_item(item) for item in json.loads(baseline[0])) / PAGE
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, columns in (("declared columns", COLUMNS), ("columns as found", {})):
        # There is only one page in memory at a time; only the part grows.
        export, verify, size, items = measure_archive(make_pages(ITEMS), columns)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        each = size / items
        print(f"{items:,} items, {name}:")
        print(f"  export        {items / export:>10,.0f} items a second and core, {export / items * 1e6:.2f} us each")
        print(f"  reading back  {items / verify:>10,.0f} items a second and core, {verify / items * 1e6:.2f} us each")
        print(f"  {each:.1f} bytes an item; gzip'd DynamoDB JSON {exported:.1f}: ratio {each / exported:.2f}")
        mine = items * size_of / (export + verify) / 1e6
        print(f"  {mine:.0f} MB of table per second and core, of {size_of:.0f} bytes an item")
        print(
            f"  peak memory   {peak / 1024:.0f} MB, {max(0, peak - before) / 1024:.0f} MB above what the baseline needed"
        )
    for name, policy in (("default", ArchivePolicy()), ("read_units = 400", ArchivePolicy(read_units=400))):
        for gigabytes in (0.01, 1, 100):
            cost = price_archive(gigabytes * 1e9, policy, provisioned=2)
            print(
                f"{gigabytes:g} GB, {name}: ${cost.total:.4f} in {cost.hours:.2f} hours: reads ${cost.reads:.4f}, function"
                f" ${cost.function:.4f}, requests ${cost.requests:.4f}; {cost.over_reads:.2f} times its reads"
            )
    ours /= 20 * PAGE
    print(f"from_pylist {plain * 1e6:.1f} us an item, our export {ours * 1e6:.2f}: ratio {plain / ours:.1f}")


if __name__ == "__main__":
    main()
