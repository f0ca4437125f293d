"""``tidetable import --to archive`` with the real functions: files of every form, archives, rollups, refusals."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wiring
from cli import archive_import as command
from cli import clock, common
from cli.account import Account
from cli.bulk.progress import Progress, ProgressFolder
from tests.api.gateway import Context
from tests.fakes.bucket import FakeBucket, FakeFormat
from tests.fakes.stage import Stage, prepare_once
from tests.fakes.work_queue import FakeWorkQueue
from tests.worlds.aggregates import ask_aggregate, rows_of
from tests.worlds.commands import OUTPUTS, run
from tests.worlds.functions import environment
from tidetable.query import parse_query, run_query
from tidetable.times import to_text

__all__ = ["environment"]

START = datetime(2026, 3, 2, 5, tzinfo=UTC)
CONFIG = """
[lifecycle]
stagger = "0s"
[streams.quakes]
period = "day"
late = "1h"
retention = 3
key = { partition_by = "time", bucket = "6h", shards = 2 }
[[streams.quakes.rollup]]
name = "hours"
every = "1h"
by = ["series"]
fields = ["mag"]
stats = ["count", "sum"]
retention = "90d"
"""


class FakeS3:
    """S3 with one archive bucket, and a bucket of files."""

    def __init__(self, bucket: FakeBucket) -> None:
        self.buckets = {"archive": bucket.objects, "files": {}}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, **_: Any) -> None:  # noqa: N803 - boto3's names
        self.buckets[Bucket][Key] = Body

    def get_object(self, *, Bucket: str, Key: str) -> Any:  # noqa: N803 - boto3's names
        body = self.buckets[Bucket][Key]

        class Body(BytesIO):
            def iter_chunks(self, size: int) -> Iterator[bytes]:
                return iter(lambda: self.read(size), b"")

        return {"Body": Body(body), "ETag": str(hash(body))}

    def get_paginator(self, name: str) -> Any:
        assert name == "list_objects_v2"
        return self

    def paginate(self, *, Bucket: str, Prefix: str) -> Any:  # noqa: N803 - boto3's names
        found = sorted((key, body) for key, body in self.buckets[Bucket].items() if key.startswith(Prefix))
        for key, body in found:
            yield {"Contents": [{"Key": key, "Size": len(body), "ETag": str(hash(body))}]}


class Functions:
    """The functions of a stage."""

    def __init__(self, stage: Stage) -> None:
        self.pipeline = stage.pipeline
        self.pipeline.work_queue = FakeWorkQueue()

    def invoke(self, FunctionName: str, Payload: bytes) -> Any:  # noqa: N803 - boto3's names
        from handlers import archiver, lifecycle, refresher, restorer

        handlers = {"archiver": archiver, "lifecycle": lifecycle, "refresher": refresher, "restorer": restorer}
        handle: Callable[..., Any] = handlers[FunctionName].handler
        with wiring.serve_pipeline(self.pipeline), redirect_stdout(StringIO()):
            body = json.dumps(handle(json.loads(Payload), Context())).encode()

        class Body:
            def read(self) -> bytes:
                return body

        return {"Payload": Body()}


@prepare_once
def prepare() -> Stage:
    """A stage with a day that is archived: an event in each hour, which the rollup has."""
    stage = Stage(START, CONFIG)
    stage.run_lifecycle()
    for _ in range(18):
        event = {"series": "a", "time": to_text(stage.clock.now()), "id": "old", "data": {"mag": 1}}
        assert stage.send("quakes", json.dumps([event]).encode()).status == 200
        stage.clock.sleep(3600)
    for _ in range(6):
        stage.run_lifecycle()
        stage.refresh()
        stage.clock.sleep(86_400)
    return stage


@pytest.fixture
def stage(environment: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stage:
    stage = prepare()
    s3 = FakeS3(stage.bucket)
    outputs = OUTPUTS | {"RefresherFunction": "refresher", "ArchiveBucket": "archive"}
    account = Account(stage.pipeline, outputs, Functions(stage), make_client=lambda _: s3)
    monkeypatch.setattr(common, "connect", lambda *_, **__: account)
    monkeypatch.setattr(clock, "read_clock", stage.clock.now)
    monkeypatch.setattr(command, "Parquet", FakeFormat)
    monkeypatch.setattr(command, "sleep", stage.clock.sleep)
    monkeypatch.chdir(tmp_path)
    rows = "series,time,id,mag\n" + "".join(f"b,2026-03-0{day}T07:30:00Z,new,{day}\n" for day in (1, 2))
    s3.buckets["files"] |= {"in/1.csv": rows.encode(), "in/_SUCCESS": b"done", "in/empty.csv": b""}
    pq.write_table(pa.table({"series": ["b"], "time": ["2026-03-02T07:45:00Z"], "mag": [5]}), "two.parquet")
    return stage


def count(stage: Stage, **parameters: str) -> Any:
    end = START.replace(hour=0) + timedelta(days=1)
    found = ask_aggregate(
        stage, "quakes", end - timedelta(days=2), end, stat="count,sum", field="mag", step="1h", **parameters
    )
    return rows_of(found, "count,sum")


FILES = ("import", "s3://files/in/", "two.parquet", "--to", "archive", "--stream", "quakes")


def test_files_are_imported_and_rollups_follow(stage: Stage) -> None:
    before = {**stage.bucket.objects}
    planned = run(*FILES, "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert "3 rows in 2 periods, 0 would be refused; about 0 s of a core, $0.00" in planned.output
    assert stage.bucket.objects == before
    stage.lake_queue.messages.clear()
    shown = run(*FILES)
    assert shown.exit_code == 0, shown.output
    assert "2 of 2 periods are imported, 0 rows are refused" in shown.output
    woken = {message.name for message in stage.lake_queue.messages}
    assert {"quakes#2026-03-01", "quakes#2026-03-02"} <= woken
    policy, now = stage.config.streams["quakes"], stage.clock.now()
    query = parse_query(policy, {"series": ["b"], "from": ["2026-03-01T00:00:00Z"]}, now, stage.seal)
    answer: Any = run_query(query, policy, stage.reader(), now, lambda: 100.0).document()
    assert [event["data"]["mag"] for event in answer["events"]] == [5, 2, 1]
    # The former files are gone, and aggregates have the new events at once, by their marks.
    assert not {key for key in before if "2026-03-02/" in key} & stage.bucket.objects.keys()
    exact = count(stage, rollups="false")
    assert sum(row["count"] for row in exact.values()) == 21
    assert count(stage) == exact
    for _ in range(12):
        stage.clock.sleep(60)
        stage.refresh()
        stage.run_lifecycle()
    assert count(stage) == exact
    state = stage.rollups.read_state("quakes")
    # The bucket before the beginning of the rollup was ordered and computed.
    assert min(edge.start for edge in state.edges) <= datetime(2026, 3, 1, 7, tzinfo=UTC)
    assert not [mark for mark in state.marks if mark.meets(START, START + timedelta(days=1))]
    again = run(*FILES)
    assert again.exit_code == 64, again.output
    assert "these files are imported already (quakes.import): --again imports them once more" in again.output
    assert run(*FILES, "--again", "--json").exit_code == 0
    assert count(stage) == exact


def test_a_live_period_is_refused_with_the_way_out(stage: Stage, tmp_path: Path) -> None:
    live = f"{stage.clock.now():%Y-%m-%d}"
    file = tmp_path / "live.ndjson"
    file.write_text(
        "".join(f'{{"series": "b", "time": "{day}T00:00:00Z", "mag": 1}}\n' for day in ("2026-02-01", live))
    )
    words = ("import", "live.ndjson", "--to", "archive", "--stream", "quakes")
    stopped = run(*words)
    assert stopped.exit_code == 1
    assert f"period {live} of quakes is open, so its table has its events: import them without --to" in stopped.output
    assert "1 periods are not imported" in stopped.output
    assert "2026-02-01" not in [entry.period.label for entry in stage.catalog.entries("quakes", consistent=True)]
    skipped = json.loads(run(*words, "--on-error", "skip", "--json").stdout)
    assert skipped["not_imported"].keys() == {live}
    assert [period["merged"] and period["merged"]["events"] for period in skipped["periods"]] == [1, None]


def test_one_command_at_a_time_works_in_a_folder(stage: Stage) -> None:
    folder = ProgressFolder(Path("quakes.import"))
    with folder.hold(Progress({}, "")):
        assert "another command works in quakes.import: --state names another folder" in run(*FILES, "--again").output
    # It belongs to that import from its beginning on.
    assert "belongs to an import with other files or options" in run(*FILES).output
    assert run(*FILES, "--again").exit_code == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["two.parquet", "--stream", "quaks"], "quaks"),
        (["two.parquet", "--stream", "quakes", "--on-error", "go"], "--on-error go: use stop or skip"),
        (["none.csv", "--stream", "quakes"], "none.csv is not a file"),
        (["two.parquet", "two.parquet", "--stream", "quakes"], "a file is named twice"),
        (["s3://files/none/", "--stream", "quakes"], "s3://files/none/ has no objects"),
        (["s3://files/in/_SUCCESS", "--stream", "quakes"], "has no objects"),
        (["tidetable.txt", "--stream", "quakes"], "the name of tidetable.txt does not say its format"),
        (["two.parquet", "two.parquet", "--to", "api", "--stream", "quakes"], "--to is api, for one file, or archive"),
    ],
)
def test_a_command_that_cannot_be_followed_says_why(stage: Stage, words: list[str], message: str) -> None:
    Path("tidetable.txt").write_text("a")
    refused = run("import", "--to", "archive", *words)
    assert refused.exit_code in (1, 64)
    assert message in refused.output
