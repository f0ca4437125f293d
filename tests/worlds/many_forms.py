"""One history of events in streams of every form, with late copies in other batches, rollups, archives and a restore; and
every copy that was sent in DuckDB.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa

from aws.archive.parquet import Parquet
from aws.archive.s3 import S3PartReader
from tests.fakes.bucket import FakeBucket
from tests.fakes.stage import Stage
from tests.worlds.stream_forms import STREAMS
from tidetable.archive.reading import read_archive
from tidetable.archive.wire import decode_columns, decode_page, encode_columns, encode_page
from tidetable.ports import ArchiveColumns, ArchivePage, ArchiveRange, WholeRange
from tidetable.times import to_text
from wiring_upkeep import Upkeep

START = datetime(2026, 3, 1, tzinfo=UTC)
# A period is archived 9 hours after its end.
HOURS, RESTORED = 14, "2026-03-01T03"
_COMMON = """
[streams.{name}]
period = "hour"
late = "2h"
retention = 6
capacity = {{ mode = "on-demand" }}
"""
_ROLLUPS = """
[[streams.{name}.rollup]]
name = "minutes"
every = "10m"
by = ["series", "status"]
fields = ["mag"]
stats = ["count", "sum", "min", "max", "first", "last"]
retention = "30d"
[[streams.{name}.rollup]]
name = "hours"
every = "1h"
by = ["status"]
fields = ["mag"]
stats = ["count", "sum", "min", "max", "first", "last"]
retention = "30d"
"""
SERIES = ["a", "ab", "b", "c#"]
_COLUMNS = (
    "series VARCHAR, time TIMESTAMPTZ, id VARCHAR, number BIGINT, "
    "mag DECIMAL(18,4), status VARCHAR, state VARCHAR, ok BOOLEAN"
)
_FIELDS = {"mag": ("mag",), "status": ("status",), "state": ("place", "state"), "ok": ("ok",)}


class _Objects:
    """A FakeBucket with the requests of a reader of archives."""

    def __init__(self, bucket: FakeBucket) -> None:
        self._bucket = bucket

    def get_changed(self, key: str, etag: str) -> tuple[bytes | None, str]:
        body = self._bucket.objects[key]
        return (None if etag == str(hash(body)) else body), str(hash(body))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._bucket.objects[key][start:end]


class _ArchiveReader:
    """The archive's function, called through the texts of its requests and answers."""

    def __init__(self, bucket: FakeBucket) -> None:
        objects: Any = _Objects(bucket)
        self._parts = S3PartReader(objects)

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        page = encode_page(read_archive(keys, self._parts, limit=limit, ascending=ascending))
        return decode_page(json.loads(json.dumps(page)))

    def read_whole(self, keys: WholeRange) -> ArchiveColumns:
        return decode_columns(json.loads(json.dumps(encode_columns(self._parts.read_whole(keys).text))))


class ManyForms(Stage):
    """The streams. Each hour events come, some of them anew with other data; the lifecycle and the refresher run."""

    def __init__(self, seed: int) -> None:
        config = '[lifecycle]\nstagger = "0s"\n' + "".join(
            (_COMMON + keys + (_ROLLUPS if name != "versions" else "")).format(name=name)
            for name, keys in STREAMS.items()
        )
        self._numbers = count()
        self._versions: set[str] = set()
        super().__init__(START - timedelta(minutes=5), config, seed)
        self.part_bytes = 3_000
        self._events: dict[str, list[dict[str, Any]]] = {name: [] for name in STREAMS}
        self.copies: dict[str, list[dict[str, Any]]] = {name: [] for name in STREAMS}

    @property
    def pipeline(self) -> Upkeep:
        pipeline = super().pipeline
        reader: Any = _ArchiveReader(self.bucket)
        pipeline.archive_reader, pipeline.format = reader, Parquet()
        return pipeline

    def live(self) -> None:
        """Let the hours pass; then restore one archived hour."""
        for _ in range(4):
            self.clock.sleep(60)
            self.run_lifecycle()
        for _ in range(HOURS * 3):
            for name in STREAMS:
                self._send_batch(name)
            self.refresh()
            self.clock.sleep(20 * 60 - len(STREAMS))
            self.run_lifecycle()
        self.settle()
        self.refresh()
        for name in STREAMS:
            assert self.restore(name, RESTORED).state == "closed"

    def _send_batch(self, name: str) -> None:
        chance, now = self.chance, self.clock.now()
        batch = [self._make_event(now, len(self._events[name]) + n) for n in range(chance.randrange(1, 9))]
        self._events[name] += batch
        recent = [event for event in self._events[name] if event["time"] > to_text(now - timedelta(minutes=100))]
        # Copies of earlier events, with other data or without a change, in another batch.
        again = chance.sample(recent, min(len(recent), chance.randrange(4)))
        batch += [event | {"data": self._make_data()} if chance.random() < 0.7 else event for event in again]
        chance.shuffle(batch)
        outcome = self.send(name, json.dumps(batch).encode())
        assert (outcome.accepted, outcome.queued) == (len(batch), 0), outcome
        for event in batch:
            # An event that equals one of its versions is a repeat of it, and changes nothing.
            if name != "versions" or self._is_new_version(event):
                self.copies[name].append({**event, "number": next(self._numbers)})
        self.clock.sleep(1)

    def _is_new_version(self, copy: dict[str, Any]) -> bool:
        # As text: 8 and 8.0 are equal numbers, but different versions.
        text = json.dumps([copy[name] for name in ("series", "time", "id", "data")], sort_keys=True)
        is_new = text not in self._versions
        self._versions.add(text)
        return is_new

    def _make_event(self, now: datetime, number: int) -> dict[str, Any]:
        # Times on whole minutes: several events of a series have one time.
        age = self.chance.choice([0, 1, 2, 3, 5, 30, 90])
        time = max(now - timedelta(minutes=age), START).replace(second=0, microsecond=0)
        return {
            "series": self.chance.choice(SERIES), "time": to_text(time), "id": f"e{number % 10}",
            "data": self._make_data(),
        }  # fmt: skip

    def _make_data(self) -> dict[str, Any]:
        chance = self.chance
        data: dict[str, Any] = {
            "mag": chance.choice([None, chance.randrange(-3, 9), chance.randrange(-30, 90) / 10, 2.50]),
            "status": chance.choice([None, "new", "old", "odd,"]),
            "place": {"state": chance.choice(["CA", "NV", "NY"])},
            "ok": chance.choice([None, True, False]),
            "text": chance.choice([None, None, "tide", chance.randbytes(100).hex() * 9]),
            "note": chance.choice([None, "ebb"]),
        }
        return {name: value for name, value in data.items() if value is not None}


def make_database(copies: list[dict[str, Any]]) -> duckdb.DuckDBPyConnection:
    """Make a database with the view ``e``: of each event, the copy that was accepted last."""
    base = duckdb.connect()
    base.execute("SET TimeZone = 'UTC'")
    base.execute("SET threads = 1")
    base.execute(f"CREATE TABLE copies ({_COLUMNS})")
    rows = [
        {name: copy[name] for name in ("series", "time", "id", "number")}
        | {name: _find(copy["data"], path) for name, path in _FIELDS.items()}
        for copy in copies
    ]
    for row in rows:
        row["mag"] = None if row["mag"] is None else str(row["mag"])
    base.register("given", pa.Table.from_pylist(rows))
    base.execute("INSERT INTO copies BY NAME SELECT * FROM given")
    base.execute(
        "CREATE VIEW e AS SELECT * FROM copies "
        "QUALIFY row_number() OVER (PARTITION BY series, time, id ORDER BY number DESC) = 1"
    )
    return base


def _find(data: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data
