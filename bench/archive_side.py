"""One side of ``bench.whole`` for archives: one source tree archives a period and reads it, in a process of its own.

The arguments are the tree, the shards, the events, and the events per pack (0: plain items). The table is in memory, and
its pages are bytes as DynamoDB would send them, so everything from the decoding on is measured: reading, settling,
writing the files, and reading them back. Then two fields of all events are read from the files, as an aggregate reads
them. The script prints JSON: seconds of CPU of both, requests, read units per MB of the table, calls of the archive's
reader, and the peak of memory in MB.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import time
from base64 import b64encode
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec

TREE = Path(sys.argv[1])
sys.path[:0] = [str(TREE), str(TREE / "lambdas")]

from older_trees import import_first  # type: ignore[import-not-found]

from aws.archive.parquet import Parquet
from aws.zstd import Zstd
from tests.fakes.serial import Serial
from tests.fakes.work import FakeWork
from tests.fakes.work_queue import FakeWorkQueue
from tests.lifecycle.world import configuration
from tests.worlds.archives import World
from tidetable.archive import Exporter, archive_period
from tidetable.archive.ports import RawPage
from tidetable.catalog import Entry, State
from tidetable.events import Event
from tidetable.periods import Kind, find_containing

encode_item = import_first("aws.dynamodb.wire", "aws.wire").encode_item
make_packs = import_first("tests.worlds.packing", "tidetable.packs").make_packs
SettledScan = import_first("aws.archive.unpack_packs", "aws.archive.settled").SettledScan
_layouts = import_first("tidetable.layout", "tidetable.keys")
_json = import_first("tidetable.exact_json", "tidetable.exact")
START = datetime(2026, 3, 1, tzinfo=UTC)
# AWS: a page ends at 1 MB; a strongly consistent unit reads 4 KB.
PAGE, UNIT = 1_048_576, 4_096


def make_events(count: int) -> list[Event]:
    """Readings of 500 sensors over ten hours, each with four fields."""
    chance = random.Random(11)  # noqa: S311 - made-up data
    events = []
    for number in range(count):
        at = START + number * timedelta(hours=10) / count
        status = chance.choice(("ok", "ok", "ok", "warn"))
        text = f'{{"temp":{chance.gauss(20, 5):.2f},"level":{chance.randrange(100)},"status":"{status}","on":true}}'
        series = f"sensor-{chance.randrange(500):03d}"
        id = sha256(f"{at}{series}".encode()).hexdigest()[:32]
        events.append(Event(series, at, id, _json.decode_json(text)))
    return events


class Table(World):
    """The table in memory. ``world`` is everything else that archiving needs."""

    def __init__(self, layout: Any, items: list[Any]) -> None:
        super().__init__([])
        (held,) = self.catalog.entries("s")
        entry = Entry("s", find_containing(START, Kind.DAY), "t", layout, State.CLOSED, START)
        self.catalog.items["s", held.period] = entry
        self.rows = sorted(map(self._write, items))
        self.keys = [row[:2] for row in self.rows]
        self.requests, self.read_units = 0, 0.0
        self.read = 100_000

    def _write(self, item: Any) -> tuple[str, str, str, int]:
        if "pack" not in item:
            text = encode_item(item)
            return item["pk"], item["sk"], text, sum(len(name) + len(str(value)) for name, value in item.items())
        body = b64encode(item["pack"]).decode()
        text = encode_item({**item, "pack": ""}).replace('"pack":{"S":""}', f'"pack":{{"B":"{body}"}}')
        return item["pk"], item["sk"], text, len(item["pack"]) + 120

    @property
    def size(self) -> int:
        return sum(size for *_, size in self.rows)

    def page(
        self, table: str, *, segment: int, segments: int, after: Mapping[str, Any] | None, limit: int | None
    ) -> RawPage:
        del table
        start, end = (len(self.rows) * number // segments for number in (segment, segment + 1))
        return self._answer(start, end, after, limit)

    def partition(
        self,
        table: str,
        pk: str,
        *,
        low: str | None,
        high: str | None = None,
        after: Mapping[str, Any] | None,
        limit: int | None,
    ) -> RawPage:
        del table
        start, end = bisect_left(self.keys, (pk, low or "")), bisect_left(self.keys, (pk, high or "~"))
        return self._answer(start, end, after, limit)

    def settled(self, layout: Any) -> Any:
        return SettledScan(self, layout)

    def _answer(self, start: int, end: int, after: Mapping[str, Any] | None, limit: int | None) -> RawPage:
        if after is not None:
            start = bisect_right(self.keys, (after["pk"]["S"], after["sk"]["S"]))
        stop, size = start, 0
        while stop < min(end, start + (limit or end)) and (stop == start or size + self.rows[stop][3] <= PAGE):
            size += self.rows[stop][3]
            stop += 1
        units = max(-(-size // UNIT), 1.0)
        self.requests, self.read_units = self.requests + 1, self.read_units + units
        last = None if stop >= end else {"pk": {"S": self.keys[stop - 1][0]}, "sk": {"S": self.keys[stop - 1][1]}}
        return RawPage(f"[{','.join(row[2] for row in self.rows[start:stop])}]".encode(), stop - start, units, last)


def read_fields(table: Any, key: str) -> tuple[int, int]:
    """Read two fields of all events, page by page over the wire: the number of events, and of calls."""
    wire = import_module("tidetable.archive.wire")
    found = calls = 0
    if hasattr(wire, "decode_columns"):
        parquet, column_read = import_module("pyarrow.parquet"), import_module("aws.archive.column_read")
        open_part = import_module("aws.archive.chosen_rows").OpenPart
        ports = import_module("tidetable.ports")
        keys = ports.WholeRange(
            key, "2026-03-01T00:00:00.000000Z", "2026-03-02T00:00:00.000000Z", ("temp", "status"), False
        )
        while True:
            text, _ = column_read.read_page(
                keys, table.manifest(key), lambda part: open_part(parquet.ParquetFile(BytesIO(table.bucket[part.key])))
            )
            page = wire.decode_columns(json.loads(json.dumps(wire.encode_columns(text))))
            found, calls = found + len(page.times), calls + 1
            if page.reached is None:
                return found, calls
            keys = msgspec.structs.replace(keys, start=page.reached, skip=page.skip)
    ports, archives = import_module("tidetable.ports"), import_module("tidetable.query.archives")
    read_archive = import_module("tidetable.archive.reading").read_archive

    def read(keys: Any) -> Any:
        nonlocal calls
        calls += 1
        return wire.decode_page(
            json.loads(json.dumps(wire.encode_page(read_archive(keys, table, limit=50_000, ascending=True))))
        )

    layout = table.manifest(key).layout
    keys = ports.ArchiveRange(
        key, "2026-03-01T00:00:00.000000Z", "2026-03-02T00:00:00.000000Z", fields=("temp", "status")
    )
    for page, _ in archives.read_archive_pages(keys, layout, read):
        for event in page.events:
            found += isinstance(event.data, dict)
    return found, calls


def main() -> None:
    shards, count, batch = map(int, sys.argv[2:])
    pack = {"pack": _layouts.Packing(3_600, 65_536)} if batch else {}
    layout = _layouts.Layout("time", shards, "id", 21_600, **pack)
    events = make_events(count)
    items = [layout.make_item(event, at=1) for event in events]
    if batch:
        groups = (items[start : start + batch] for start in range(0, count, batch))
        items = [pack.item for group in groups for pack in make_packs(group, layout, Zstd()).packs]
    table = Table(layout, items)
    world: Any = table
    exporter = Exporter(
        configuration(), table.catalog, tables=world, source=world, objects=world, format=Parquet(), clock=table,
        complete=table.complete, pools=Serial, work=FakeWork(), work_queue=FakeWorkQueue(),
    )  # fmt: skip
    begun = time.process_time()
    result = archive_period("s", "2026-03-01", exporter, "one", lambda: 1e6)
    cpu = time.process_time() - begun
    if not result.done or result.events != count:
        raise SystemExit(f"{result.events} of {count} events were archived")
    begun = time.process_time()
    found, calls = read_fields(table, result.entry.archive.manifest if result.entry.archive else "")
    read = time.process_time() - begun
    if found != count:
        raise SystemExit(f"{found} of {count} events were read")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    units = table.read_units / (table.size / 1e6)
    figures = {"cpu": cpu, "read_cpu": read, "calls": calls, "requests": table.requests, "units": units, "peak": peak}
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
