"""Imports straight into the archive of a stage in memory, and the archives of streams of every form."""

import json
import random
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cli.bulk.command import ArchiveImport
from cli.bulk.inputs import list_inputs
from cli.bulk.merge import Merger
from cli.bulk.progress import ProgressFolder
from cli.sources import Columns
from tests.fakes import FakeCatalog, FakeClock
from tests.fakes.bucket import FakeBucket, FakeFormat
from tests.fakes.rollups import FakeRollups
from tests.fakes.serial import Serial
from tests.fakes.stage import Stage, prepare_once
from tests.worlds.stream_forms import STREAMS
from tidetable.archive import Exporter
from tidetable.archive.importing import ImportOrder, finish_import
from tidetable.archive.manifest import Manifest
from tidetable.archive.ports import Format
from tidetable.archive.rewrite import Rewritten, rewrite_archive
from tidetable.catalog import Entry
from tidetable.config import parse
from tidetable.errors import ArchiveBusy, ArchiveFailed
from tidetable.times import to_text

START = datetime(2026, 3, 1, tzinfo=UTC)
HOURS, ROWS = 3, 50
_COMMON = """
[streams.{name}]
period = "hour"
late = "2h"
retention = 6
capacity = {{ mode = "on-demand" }}
"""
# Streams whose events have other attributes in an archive, beside those of many forms.
FORMS = {
    **STREAMS,
    "indexed": STREAMS["plain"]
    + '[[streams.indexed.index]]\nname = "by_status"\npartition_by = "status"\n'
    + '[[streams.indexed.index]]\nname = "strongest"\npartition_by = "status"\nsort_by = "mag"\n',
}
SERIES = ["a", "ab", "b", "c#"]


def make_stage(now: datetime, *names: str, more: str = "") -> Stage:
    """A stage with streams of some forms."""
    streams = "".join((_COMMON + FORMS[name]).format(name=name) for name in names)
    return Stage(now, f'[lifecycle]\nstagger = "0s"\n{streams}{more}')


def make_rows(seed: int, count: int = ROWS) -> list[dict[str, Any]]:
    """Make random events of some hours, in the order in which they come; some are copies of others, with other data."""
    chance = random.Random(seed)

    def make_data() -> dict[str, Any]:
        data: dict[str, Any] = {
            "mag": chance.choice([None, chance.randrange(-3, 9), chance.randrange(-30, 90) / 10, 2.50]),
            "status": chance.choice([None, "new", "old", "odd,"]),
            "place": {"state": chance.choice(["CA", "NV"])},
            "text": chance.choice([None, None, "tide", chance.randbytes(100).hex() * 9]),
            "note": chance.choice([None, "ebb"]),
        }
        return {field: value for field, value in data.items() if value is not None}

    rows: list[dict[str, Any]] = []
    for number in range(count):
        # The hours follow each other, so that each event comes within its window.
        time = START + timedelta(hours=number * HOURS // count, minutes=chance.randrange(60))
        row = {"series": chance.choice(SERIES), "time": to_text(time), "data": make_data()}
        rows.append(row | {"id": f"e{number % 7}"} if chance.random() < 0.8 else row)
        if chance.random() < 0.3:
            again = chance.choice(rows[-10:])
            rows.append(again if chance.random() < 0.3 else again | {"data": make_data()})
    return rows


@prepare_once
def live_through(seed: int, count: int, *names: str, more: str = "") -> Stage:
    """A stage that took the first ``count`` rows into each stream when they happened, and has archived them.

    Each event has a request of its own, so every copy with other data is a version.
    """
    stage = make_stage(START - timedelta(minutes=5), *names, more=more)
    for _ in range(2):
        stage.run_lifecycle()
        stage.clock.sleep(150)
    for row in make_rows(seed)[:count]:
        hour = datetime.fromisoformat(row["time"]).replace(minute=0) + timedelta(hours=1)
        if stage.clock.now() < hour:
            stage.clock.sleep((hour - stage.clock.now()).total_seconds())
            stage.run_lifecycle()
        stage.clock.sleep(1)
        for name in names:
            outcome = stage.send(name, json.dumps([row]).encode())
            assert (outcome.accepted, outcome.queued) == (1, 0), outcome
    stage.clock.sleep((START + timedelta(hours=HOURS + 9) - stage.clock.now()).total_seconds())
    for _ in range(2):
        stage.run_lifecycle()
        stage.clock.sleep(60)
    return stage


class Importer:
    """Imports rows into a stream of a stage. ``strike`` is called before each call to the stage, and may raise."""

    def __init__(
        self, stage: Any, stream: str, folder: Path, strike: Callable[[], None] = lambda: None,
        format: Format | None = None, memory: int = 1_000_000,
    ) -> None:  # fmt: skip
        self.stage, self.stream, self.folder, self.strike = stage, stream, folder, strike
        self.format, self.memory = format or FakeFormat(), memory
        self.answers: list[str] = []
        self.owners = 0

    def finish(self, stream: str, label: str, order: ImportOrder) -> Mapping[str, Any]:
        """Answer as the restorer's function does."""
        self.strike()
        self.owners += 1
        try:
            state, reason = (
                finish_import(
                    stream,
                    label,
                    order,
                    self.stage.exporter(),
                    self.stage.rollups,
                    f"import-{self.owners}",
                    lambda: 60.0,
                ),
                "",
            )
        except ArchiveBusy as error:
            state, reason = "busy", str(error)
        except ArchiveFailed as error:
            state, reason = "refused", str(error)
        self.answers.append(state)
        self.strike()
        return {"state": state, "reason": reason}

    def make(
        self, files: Sequence[Path], *, stops: bool = True, keeps: bool = True, again: bool = False
    ) -> ArchiveImport:
        """Make an import of files."""
        stage, folder = self.stage, ProgressFolder(self.folder)
        inputs = list_inputs([str(file) for file in files], lambda: None)
        task = {own.name: own.fingerprint for own in inputs}
        progress = folder.load(task, to_text(stage.clock.now()), anew=again)
        policy = stage.config.streams[self.stream]
        merger = Merger(
            "lapse", self.stream, policy.archive.columns, stage.catalog, stage.bucket, self.format, stage.clock,
            self.finish, self.folder,
        )  # fmt: skip
        return ArchiveImport(
            policy, inputs, Columns(), None, folder, progress, merger, lambda: None, stops, keeps, self.memory
        )

    def run(self, files: Sequence[Path], **options: bool) -> ArchiveImport:
        """Import files completely."""
        work = self.make(files, **options)
        runs = work.read_files()
        assert not any(plan.problem for plan in work.plan_periods())
        assert work.merge_periods(runs).refused == {}
        work.end()
        return work


def write_rows(path: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read_entries(stage: Any, name: str) -> dict[str, Entry]:
    """The entries of the periods that have an archive, by label."""
    entries = stage.catalog.entries(name, consistent=True)
    return {entry.period.label: entry for entry in entries if entry.archive is not None and entry.archive.events}


def settle_numbers(value: Any) -> Any:
    """Write numbers as DynamoDB does; the engine of these tests keeps 3.0."""
    if isinstance(value, dict):
        if value.keys() == {"N"}:
            return {"N": value["N"].removesuffix(".0")}
        return {name: settle_numbers(inner) for name, inner in value.items()}
    return value


def read_items(stage: Any, name: str) -> dict[tuple[str, str, str], dict[str, Any]]:
    """The items of all archives, without the times when they were accepted. Each archive has exactly what it says."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for label, entry in read_entries(stage, name).items():
        assert entry.archive is not None
        manifest = Manifest.decode(stage.bucket.objects[entry.archive.manifest])
        items = [item for part in manifest.parts for item in json.loads(stage.bucket.objects[part.key])]
        own = {(label, item["pk"]["S"], item["sk"]["S"]): item for item in items}
        assert len(own) == len(items) == manifest.events == entry.archive.events
        for item in items:
            del item["at"]
        found |= own
    return found


SMALL = """
[archive]
expire_after = "90d"
[streams.s]
period = "day"
late = "1d"
retention = 5
key = { partition_by = "time", bucket = "6h", shards = 2 }
[[streams.s.rollup]]
name = "hours"
every = "1h"
fields = ["n"]
retention = "30d"
[streams.gone]
period = "day"
late = "1d"
retention = 5
on_expiry = "delete"
key = { partition_by = "time", bucket = "6h", shards = 2 }
"""
SMALL_NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)


class _Struck:
    """An object whose methods call ``strike`` before and after their work."""

    def __init__(self, target: Any, strike: Callable[[], None]) -> None:
        self._target, self._strike = target, strike

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)

        def call(*args: Any, **options: Any) -> Any:
            self._strike()
            result = method(*args, **options)
            self._strike()
            return result

        return call


class Small:
    """A catalog, a bucket and a table of marks in memory. Whoever works with them is stopped after ``calls`` calls."""

    def __init__(self) -> None:
        self.calls = 10**9
        self.clock = FakeClock(SMALL_NOW)
        self.bucket = FakeBucket(self.strike)
        self.known = FakeCatalog()
        self.catalog: Any = _Struck(self.known, self.strike)
        self.marked: Any = FakeRollups()
        self.rollups: Any = _Struck(self.marked, self.strike)
        self.config = parse(SMALL)

    def strike(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise KeyboardInterrupt

    def exporter(self) -> Exporter:
        none: Any = None
        return Exporter(
            self.config, self.catalog, tables=none, source=none, objects=self.bucket, format=FakeFormat(),
            clock=self.clock, complete=none, pools=Serial, work=none, work_queue=none,
        )  # fmt: skip

    def rewrite(self, label: str, stream: str = "s") -> Rewritten:
        """Remove former files, as the command does through the archiver's function."""
        return rewrite_archive(stream, label, self.exporter(), "cleaner", lambda: 60.0)

    def read_ns(self) -> dict[str, int]:
        """The field n of every archived event, by id."""
        calls, self.calls = self.calls, 10**9
        items = read_items(self, "s")
        self.calls = calls
        return {sk.rpartition("#")[2]: int(item["data"]["M"]["n"]["N"]) for (_, _, sk), item in items.items()}


def make_days(*days: tuple[int, int], first: str = "e", n: int = 0) -> list[dict[str, Any]]:
    """Make events of days of March: a day, and how many."""
    return [
        {"series": "a", "id": f"{first}{day}-{number}", "time": f"2026-03-{day:02d}T0{number}:00:00Z",
         "data": {"n": n + number}}
        for day, count in days
        for number in range(count)
    ]  # fmt: skip


def list_named(world: Small) -> set[str]:
    """The keys that the manifests of all periods name, and the manifests."""
    named = set[str]()
    for entry in read_entries(world, "s").values():
        assert entry.archive is not None
        manifest = Manifest.decode(world.bucket.objects[entry.archive.manifest])
        named |= {entry.archive.manifest, *(part.key for part in manifest.parts)}
    return named
