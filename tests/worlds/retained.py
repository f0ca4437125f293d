"""A stage whose stream is archived at the close: its table answers on, and takes events that were queued for long."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import pytest

from tests.fakes.bucket import FakeFormat
from tests.fakes.stage import Stage
from tests.worlds.killed import BY_SUFFIX, CONFIG, NOON, PACKED, built
from tidetable.archive import Manifest, turn
from tidetable.archive.export import work_on_message
from tidetable.archive.manifest import make_manifest_key
from tidetable.catalog import Entry, State
from tidetable.events import Event
from tidetable.query import parse_query, run_query
from tidetable.times import from_text, to_text

LABEL = "2026-03-15"
AT_CLOSE = "retention = 5", 'retention = 5\narchive_at = "close"'
FORMS = {
    "items": CONFIG.replace(*AT_CLOSE),
    "packs": PACKED.replace(*AT_CLOSE),
    "suffixes": BY_SUFFIX.replace(*AT_CLOSE),
    "versions": CONFIG.replace(*AT_CLOSE).replace("large =", 'versions = "keep"\nlarge ='),
    "series": CONFIG.replace(*AT_CLOSE).replace('"time"', '"series"').replace('bucket = "6h"\n', ""),
}


def divide_small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a table of some events be divided, and be read in slices of three items."""
    monkeypatch.setattr(turn, "PARTITION_BYTES", 0)
    monkeypatch.setattr(turn, "SLICE_ITEMS", 3)


def make_closed(form: str = "items", *, hours: float = 36.5) -> Stage:
    """A stage some hours after noon of the 15th: this day is closed after 36 hours, and settled 15 minutes later."""
    stage = built(FORMS[form])
    stage.clock.sleep(hours * 3_600)
    stage.run_lifecycle()
    stage.clock.sleep(300)
    return stage


def make_retained(form: str = "items", segments: int = 1) -> Stage:
    """A stage whose 15th is archived and retained, in so many segments."""
    stage = make_closed(form)
    if segments > 1:
        # The table's size is described six hours later.
        stage.clock.sleep(6 * 3_600)
        table = stage.tables.describe(find_entry(stage).table)
        assert table is not None
        stage.at_once_bytes, stage.segment_bytes = 0, -(-table.size_bytes // segments)
    for _ in range(4):
        work(stage)
    assert find_entry(stage).is_retained
    return stage


def find_entry(stage: Stage, label: str = LABEL) -> Entry:
    return next(entry for entry in stage.catalog.entries("s", consistent=True) if entry.period.label == label)


def work(stage: Stage) -> None:
    """Run the lifecycle, and let workers have all messages."""
    stage.run_lifecycle()
    work_on_messages(stage)
    stage.clock.sleep(300)


def work_on_messages(stage: Stage) -> None:
    exporter, numbers = stage.exporter(), iter(range(1_000))

    def take(name: Any) -> None:
        owner = f"{stage.runs}-{next(numbers)}"
        work_on_message(name, exporter, owner, stage._remaining(230))

    stage.work_queue.deliver(take)


def queue_late(stage: Stage, *hours: float, label: str = "late", n: int = 1) -> None:
    """Queue events of the 15th whose requests were accepted long ago: so many hours after its midnight."""
    midnight = NOON - timedelta(hours=12)
    events = [Event("a", midnight + timedelta(hours=hour), f"{label}{hour}", {"n": n}) for hour in hours]
    assert not stage.queue.send("s", events, int((midnight + timedelta(hours=30)).timestamp() * 1000) + n)


def drain(stage: Stage) -> None:
    stage.drain()
    stage.drain_saved()


def read_archive(stage: Stage, label: str = LABEL) -> list[tuple[str, str, Any]]:
    """Read the events that the files of the manifest hold, sorted; in streams with versions, all versions."""
    entry = find_entry(stage, label)
    manifest = Manifest.decode(stage.bucket.objects[make_manifest_key("s", label)])
    items = [
        item for part in manifest.parts for item in FakeFormat().items(stage.bucket.objects[part.key], entry.layout)
    ]
    assert entry.archive is not None
    assert entry.archive.events == manifest.events == len(items)
    named = {part.key for part in manifest.parts}
    assert {key for key in stage.bucket.objects if key.startswith(f"stream=s/period={label}/part-")} == named
    return sorted((item["pk"].rpartition("#")[0], item["sk"], json.dumps(item["data"], default=str)) for item in items)


def read_table(stage: Stage, label: str = LABEL) -> list[tuple[str, str, Any]]:
    """Archive a copy of the stage's table by one scan, and read that."""
    stage.restart()
    stage.clock.sleep(120)
    stage.dynamo.account.settle()
    copied = stage.copy()
    copied.at_once_bytes = copied.segment_bytes = 10**9
    entry = find_entry(copied, label)
    copied.catalog.move(entry, State.ARCHIVING, expected=list(State))
    recorded = copied.catalog.begin_segments(find_entry(copied, label), State.CLOSED, entry.segments)  # type: ignore[arg-type]
    assert recorded is not None
    copied.clock.sleep(30 * 86_400)
    copied.archive("s", label, within=230)
    return read_archive(copied, label)


def ask(stage: Stage, start: datetime = NOON - timedelta(days=3)) -> dict[str, Any]:
    """The data of all events that a query over the whole time finds, by id; with the sources."""
    stage.settle()
    policy, now = stage.config.streams["s"], stage.clock.now()
    parameters = {"from": [to_text(start)], "to": [to_text(now)], "limit": ["1000"]}
    answer: Any = run_query(
        parse_query(policy, parameters, now, stage.seal), policy, stage.reader(), now, lambda: 100.0
    ).document()
    return {event["id"]: event["data"] for event in answer["events"]} | {"sources": answer["sources"]}


def parse_hour(time: str) -> float:
    return (from_text(time) - (NOON - timedelta(hours=12))).total_seconds() / 3600
