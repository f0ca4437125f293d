"""A stage's archives as files of a folder, its catalog, and the reconciler of its Iceberg tables."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.table import StaticTable

from aws.archive.parquet import Parquet
from aws.archive.s3 import S3PartReader
from aws.iceberg.iceberg_tables import IcebergTables
from strict import ManualClock
from tests.fakes.catalog import FakeCatalog
from tests.fakes.glue import FakeGlue
from tests.fakes.serial import Serial
from tests.worlds.parts import START, make_item
from tidetable.archive.manifest import Manifest, Part, make_manifest_key, make_prefix
from tidetable.archive.reading import read_archive
from tidetable.catalog import ArchiveFacts, Entry, State
from tidetable.config import Config, parse
from tidetable.exact_json import canonical_json
from tidetable.lake.lake_tables import LAKE
from tidetable.lake.reconcile import Reconciled, Reconciler
from tidetable.large.sweep_ports import Stored
from tidetable.layout import Layout
from tidetable.periods import parse_label
from tidetable.ports import ArchiveRange
from tidetable.times import to_text

ALWAYS_TRUE = AlwaysTrue()
NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
DAY = 86_400
MAG = 'columns = { mag = "integer" }'
FIRST, SECOND = "2026-03-01", "2026-03-02"
STREAM = """
[streams.quakes]
period = "{period}"
late = "1h"
retention = 7
key = {{ partition_by = "series" }}
[streams.quakes.archive]
{archive}
"""


class Row(NamedTuple):
    """An event: its second since the start of March 2026, its series, its id, and its data: texts and whole numbers.

    Without an id it has the one that follows from its content.
    """

    second: int
    series: str
    id: str | None
    data: Mapping[str, str | int]

    def make_item(self, layout: Layout) -> Any:
        """Make the event's item in DynamoDB JSON."""
        at, sent = to_text(START + timedelta(seconds=self.second)), canonical_json(dict(self.data)).decode()
        id = self.id or sha256(f'["{self.series}","{at}",{sent}]'.encode()).hexdigest()[:32]
        data = {
            name: {"S": value} if isinstance(value, str) else {"N": str(value)} for name, value in self.data.items()
        }
        return make_item(layout, self.series, self.second * 1_000_000, id, data, {"at": {"N": "1772366400250"}})


class FolderBucket:
    """A bucket in a folder. Data files can be changed only by the archive, that is, while ``archiving``."""

    def __init__(self, folder: Path, clock: ManualClock) -> None:
        self.folder = folder
        self.archiving = False
        self._clock = clock
        self._written: dict[str, datetime] = {}
        self.calls: list[str] = []

    def _check(self, key: str) -> None:
        assert self.archiving or key.startswith(LAKE), key

    def put(self, key: str, body: bytes) -> None:
        self._check(key)
        self.calls.append(f"PUT {key}")
        path = self.folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        self._written[key] = self._clock.now()

    def get(self, key: str) -> bytes:
        self.calls.append(f"GET {key}")
        return (self.folder / key).read_bytes()

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self.get(key)[start:end]

    def get_changed(self, key: str, _etag: str) -> tuple[bytes, str]:
        return self.get(key), ""

    def find(self, key: str) -> bytes | None:
        return self.get(key) if (self.folder / key).is_file() else None

    def sizes(self, prefix: str) -> dict[str, int]:
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        keys = {path.relative_to(self.folder).as_posix(): path.stat().st_size for path in sorted(files)}
        return {key: size for key, size in keys.items() if key.startswith(prefix)}

    def stored(self, prefix: str, after: str = "") -> Iterator[Stored]:
        for key, size in self.sizes(prefix).items():
            yield Stored(key, size, self._written[key])

    def clear(self, prefix: str) -> None:
        self.delete(list(self.sizes(prefix)))

    def delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            self._check(key)
            self.calls.append(f"DELETE {key}")
            (self.folder / key).unlink()


class LakeWorld:
    """Archives a stream's periods, and reconciles its table."""

    def __init__(self, folder: Path, *, period: str = "day", archive: str = "", keep: int = 3) -> None:
        self.clock = ManualClock(NOW)
        self.bucket = FolderBucket(folder, self.clock)
        self.glue = FakeGlue()
        self.catalog = FakeCatalog()
        self.keep = keep
        self.root = f"file://{folder}/"
        self.numbers = iter(range(1, 1_000))
        self.configure(period, archive)

    def configure(self, period: str, archive: str, more: str = "") -> None:
        """Deploy another configuration."""
        self.config: Config = parse(STREAM.format(period=period, archive=archive) + more)

    @property
    def stream(self) -> Any:
        return self.config.streams["quakes"]

    def make_tables(self) -> IcebergTables:
        bucket: Any = self.bucket
        return IcebergTables(lambda: self.glue, "tidetable_dev", self.root, bucket, bucket, self.keep)

    def make_reconciler(self, **ports: Any) -> Reconciler:
        catalog: Any = self.catalog
        given = {"catalog": catalog, "objects": self.bucket, "lake_tables": self.make_tables(), "pools": Serial}
        return Reconciler(config=self.config, clock=self.clock, **{**given, **ports})

    def reconcile(self, label: str = "", *, full: bool = True) -> Reconciled:
        """Run the reconciler for the stream, as a new process."""
        return self.make_reconciler().reconcile(self.stream, label, full=full)

    def archive(self, label: str, *files: Sequence[Row], columns: Mapping[str, str] | None = None) -> Entry:
        """Archive a period with these files, in place of its former archive."""
        layout = Layout("series", 2, "id", 3_600)
        declared = dict(self.stream.archive.columns) if columns is None else columns
        parts = []
        self.bucket.archiving = True
        self.bucket.clear(make_prefix("quakes", label))
        for rows in files:
            writer = Parquet().writer(layout, declared)
            writer.add(json.dumps([row.make_item(layout) for row in rows]).encode())
            body, facts = writer.finish(), writer.facts
            key = f"{make_prefix('quakes', label)}part-{next(self.numbers):04d}.parquet"
            self.bucket.put(key, body)
            parts.append(
                Part(
                    key=key, events=facts.items, size=len(body), sha256="", digest="", partitions=1,
                    first=facts.first, last=facts.last, bounds=writer.find_bounds(),
                )
            )  # fmt: skip
        manifest = Manifest(
            stream="quakes", period=label, table="", layout=layout, events=sum(part.events for part in parts), size=0,
            digest="", columns=declared, written_at="", parts=tuple(parts),
        )  # fmt: skip
        self.bucket.put(make_manifest_key("quakes", label), manifest.encode())
        self.bucket.archiving = False
        self.clock.sleep(60)
        archived = ArchiveFacts(make_manifest_key("quakes", label), manifest.events, 0, self.clock.now())
        period = parse_label(label)
        entry = Entry("quakes", period, "t", layout, State.ARCHIVED, NOW, archive=archived)
        self.catalog.items["quakes", period] = entry
        return entry

    def change(self, label: str, **facts: Any) -> None:
        """Change a period's entry."""
        period = parse_label(label)
        self.catalog.items["quakes", period] = replace(self.catalog.items["quakes", period], **facts)

    def read_by_api(self) -> list[tuple[Any, ...]]:
        """Read the archived periods as the API does: time, series, id and data of each event."""
        engine: Any = self.bucket
        reader = S3PartReader(engine)
        found = []
        for entry in self.catalog.items.values():
            if entry.state in (State.ARCHIVED, State.DELETED) and entry.archived is not None:
                page = read_archive(ArchiveRange(entry.archived.manifest, "", "~"), reader, limit=1_000, ascending=True)
                assert not page.more
                found += [(event.time, event.series, event.id, dict(event.data)) for event in page.events]
        return sorted(found, key=repr)

    def find_metadata(self) -> str:
        """Find the address of the table's present metadata."""
        return str(self.glue.tables["quakes"]["Parameters"]["metadata_location"])

    def find_number(self, column: str) -> int:
        """Find the number of a column in the table's schema."""
        return StaticTable.from_metadata(self.find_metadata()).schema().find_field(column).field_id

    def read_by_pyiceberg(self, where: Any = ALWAYS_TRUE) -> list[dict[str, Any]]:
        """Read the table as a program with pyiceberg does."""
        scan = StaticTable.from_metadata(self.find_metadata()).scan(row_filter=where)
        rows: list[dict[str, Any]] = scan.to_arrow().to_pylist()
        return rows

    def move(self, **time: float) -> None:
        """Let time pass."""
        self.clock.sleep(timedelta(**time).total_seconds())


def make_rows(day: int, *series: str) -> list[Row]:
    """Make an event of each series on a day of March 2026."""
    return [Row(day * DAY + n, name, f"{name}{day}", {"mag": n}) for n, name in enumerate(series)]


def list_series(world: LakeWorld) -> list[tuple[str, str, int]]:
    """List period, series and value of each row of the table."""
    return sorted((row["period"], row["series"], row["mag"]) for row in world.read_by_pyiceberg())
