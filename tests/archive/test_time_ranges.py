"""Segments of a table by time are ranges of its time: every event is read once, and each file has its own piece of time."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.fakes.bucket import FakeFormat
from tests.fakes.stage import Stage
from tests.worlds.killed import BY_SUFFIX, CONFIG, EVENTS, NOON, PACKED, built, ids, killed_after_every_change
from tidetable.archive import Manifest, archive_period, turn
from tidetable.archive.export import work_on_message
from tidetable.archive.manifest import make_manifest_key
from tidetable.archive.ports import TimeRange
from tidetable.catalog import Entry, State
from tidetable.layout import Layout
from tidetable.times import divide_time, to_text

LABEL = "2026-03-15"
FORMS = {"items": CONFIG, "packs": PACKED, "suffixes": BY_SUFFIX}
in_every_form = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a table of some events be divided, and be read in slices of three items."""
    monkeypatch.setattr(turn, "PARTITION_BYTES", 0)
    monkeypatch.setattr(turn, "SLICE_ITEMS", 3)
    monkeypatch.setattr("aws.archive.unpack_packs._PAGE_BYTES", 300)


def closed(form: str) -> Stage:
    """A stage whose day is closed: some events came twice, with other data, and at the edges of segments and slices."""
    stage = built(FORMS[form])
    again = [{**event, "data": {"n": -1}} for event in EVENTS[3:9]]
    edges = [
        {
            "series": "a",
            "id": f"edge{number}",
            "time": to_text(NOON - timedelta(hours=12, microseconds=number)),
            "data": {},
        }
        for number in (-1, 0, 1)
    ]
    stage.send("s", json.dumps(again).encode())
    stage.send("s", json.dumps(edges).encode())
    stage.send("s", json.dumps([{**EVENTS[6], "data": {"n": -6}}]).encode())
    # The table's size is described six hours later.
    stage.clock.sleep(6 * 86_400)
    for entry in stage.catalog.entries("s", consistent=True):
        if entry.period.label == LABEL:
            stage.catalog.move(entry, State.CLOSED, expected=[State.OPEN])
    stage.at_once_bytes, stage.part_bytes = 0, 400
    return stage


def find_entry(stage: Stage) -> Entry:
    return next(entry for entry in stage.catalog.entries("s", consistent=True) if entry.period.label == LABEL)


def run(stage: Stage, count: int = 4) -> None:
    """Begin or go on with the archive, in so many segments, and let workers have all messages."""
    stage.runs += 1
    table = stage.tables.describe(find_entry(stage).table)
    assert table is not None
    exporter = stage.exporter()
    exporter.segment_bytes = max(1, -(-table.size_bytes // count))
    archive_period("s", LABEL, exporter, f"run-{stage.runs}", stage._remaining(230))
    numbers = iter(range(1_000))
    stage.work_queue.deliver(
        lambda name: work_on_message(name, exporter, f"{stage.runs}-{next(numbers)}", stage._remaining(230))
    )


def read_manifest(stage: Stage) -> Manifest:
    return Manifest.decode(stage.bucket.objects[make_manifest_key("s", LABEL)])


def list_times(stage: Stage) -> Iterator[list[str]]:
    """The times of each file, in the order of the files."""
    layout = find_entry(stage).layout
    for part in read_manifest(stage).parts:
        yield sorted(item["sk"][:27] for item in FakeFormat().items(stage.bucket.objects[part.key], layout))


@in_every_form
def test_ranges_of_time_hold_what_a_scan_holds_and_their_files_follow_each_other_in_time(form: str) -> None:
    stage, scanned = closed(form), closed(form)
    scanned.at_once_bytes = 10**9
    scanned.archive("s", LABEL, within=230)
    # The edges are not those of buckets, so packs lie on both sides.
    run(stage, 5)
    written, expected = read_manifest(stage), read_manifest(scanned)
    assert (written.events, written.digest, written.packs) == (expected.events, expected.digest, expected.packs)
    files = list(list_times(stage))
    assert len(files) >= 3
    assert written.events == 15
    assert len({part.key.split("-")[4] for part in written.parts}) == 3, "the events are in three fifths of the day"
    for before, after in pairwise(files):
        assert before[-1] <= after[0]
    assert ids(stage) == ids(scanned)


def test_a_worker_that_is_killed_after_any_change_is_followed_by_others() -> None:
    expected = closed("packs")
    run(expected)
    whole = read_manifest(expected)
    for calls, stage in killed_after_every_change(lambda: closed("packs"), lambda stage: run(stage, 2)):
        for _ in range(3):
            stage.clock.sleep(1_000)
            if find_entry(stage).state is not State.ARCHIVED:
                run(stage)
        found = read_manifest(stage)
        assert (found.events, found.digest, found.packs) == (whole.events, whole.digest, whole.packs), calls
        named = {part.key for part in found.parts}
        assert {key for key in stage.bucket.objects if "/part-" in key and LABEL in key} == named, calls


START = datetime(2026, 3, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("count", "slices", "edges"),
    [
        (1, 1, [[0, 86_400]]),
        (2, 2, [[0, 21_600, 43_200], [43_200, 64_800, 86_400]]),
        (7, 1, None),
    ],
)
def test_ranges_have_no_hole_and_do_not_overlap(count: int, slices: int, edges: list[list[int]] | None) -> None:
    parts = divide_time(START, START + timedelta(days=1), count)
    found = [TimeRange(start, end, slices).list_edges() for start, end in pairwise(parts)]
    assert (found[0][0], found[-1][-1]) == (START, START + timedelta(days=1))
    assert all(before[-1] == after[0] for before, after in pairwise(found))
    assert all(start < end for own in found for start, end in pairwise(own))
    if edges is not None:
        assert [[(edge - START).total_seconds() for edge in own] for own in found] == edges


@pytest.mark.parametrize(
    ("layout", "ordered"),
    [
        (Layout("time", 2, "id", 21_600), True),
        (Layout("series", 2, "id"), False),
        (Layout("time", 2, "id", 21_600, versioned=True), False),
    ],
)
def test_only_tables_by_time_without_versions_are_read_by_time(layout: Layout, ordered: bool) -> None:
    """A former version has a sort key that begins with its number."""
    assert layout.is_ordered_by_time is ordered


def test_a_table_with_many_small_partitions_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day has 4 buckets with 2 suffixes each."""
    stage = closed("items")
    table = stage.tables.describe(find_entry(stage).table)
    assert table is not None
    found: Callable[..., Any] = turn._count_slices
    monkeypatch.setattr(turn, "PARTITION_BYTES", table.size_bytes // 8)
    # 16 items: two segments with three slices of three items.
    assert found(find_entry(stage), table, 2) == 3
    monkeypatch.setattr(turn, "PARTITION_BYTES", table.size_bytes // 8 + 1)
    assert found(find_entry(stage), table, 2) == 0
