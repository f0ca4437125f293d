"""Pieces of a rebuild: what they read in one pass, which marks they clear, which count; and the estimate of a bucket."""

import json
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.divided import divide_short
from tests.worlds.queued import Queued
from tests.worlds.rebuilt import cut_short, order, rebuild, seal_hours
from tests.worlds.rolled import (
    HOURS,
    MINUTES,
    PACKED,
    PLAIN,
    QUERIES,
    SERIES,
    START,
    World,
    reading,
    show_edges,
)
from tests.worlds.runs import refresh
from tidetable.catalog import State
from tidetable.layout import Layout
from tidetable.periods import Kind
from tidetable.ports import Edge
from tidetable.rollup_model.cover import find_present
from tidetable.rollups.collect import collect_range
from tidetable.rollups.rebuild import cancel_rebuild, list_rebuilds
from tidetable.rollups.rebuild_estimate import estimate_rebuild
from tidetable.values import count_item_bytes
from tidetable.work.claim import ItemName

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def test_an_estimate_measures_the_last_sealed_bucket_and_counts_the_requests_of_its_events() -> None:
    by_series = replace(HOURS, by=("series", "kind"))
    world = World((MINUTES, by_series))
    world.refresh()
    world.write(*[reading(60 + n / 100, n, f"series-{n:04}", kind="x") for n in range(800)])
    world.sleep(74 * 60)
    world.refresh()
    (minutes, hours) = world.definitions["s"]

    def estimate(definition: Any) -> dict[str, Any]:
        state = world.rollups.read_state("s")
        version = find_present(definition, state)
        assert version is not None
        return estimate_rebuild(version, world.definitions["s"], state, (START, START + HOUR), world.services())

    found = estimate(minutes)
    # The last bucket, from 01:00 to 01:10, has packs of 800 cells; two shards are read.
    assert (found["from"], found["to"]) == ("2026-03-02T00:00:00.000000Z", "2026-03-02T01:00:00.000000Z")
    table = world.store.tables[world.entry("s-m", START).table]
    sizes = [count_item_bytes(item) for item in table.values() if "01:00" in item["sk"]]
    assert found["cell_units"] == sum(-(-size // 1024) for size in sizes) > 10
    assert (found["finer"], found["read_units"]) == (None, 2.0)
    # An hour reads six buckets of minutes; a read unit reads four times as much as a write unit writes.
    assert estimate(hours)["finer"] == "s-m"
    assert estimate(hours)["read_units"] == 6 * found["cell_units"] / 4
    # The cells of the hours are in a table that is gone.
    world.forget("s-h", START)
    assert estimate(hours)["cell_units"] == 1


def test_pieces_before_a_hole_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rollup begins anew after events that are gone, while its pieces are computed."""
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    cut_short(monkeypatch)
    world = World((MINUTES,))
    edge = Edge("m", START + 2 * HOUR, START + 40 * HOUR, MINUTES.text)
    world.rollups.put_edge("s", edge, None)
    world.sleep(40 * 3_600)
    order(world, MINUTES, START, START + HOUR)
    queued = Queued(world)
    queued.schedule()
    queued.work_on(ItemName("seal", "s"))
    for item in world.work.list_items("rebuild")[1:]:
        claim = world.work.claim("rebuild", item.name, "worker", world.now(), world.now() + HOUR, added=True)
        assert claim is not None
        world.work.release(claim, claim.memo, done=True)
    world.rollups.put_edge("s", Edge("m", START + 41 * HOUR, START + 41 * HOUR, MINUTES.text), None)
    refresh(world, "run")
    assert show_edges(world, "m") == ["02:00-16:00", "17:00-17:00"]
    assert world.work.list_items("rebuild") == []


def test_a_mark_of_two_rollups_stays_until_both_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    hours = replace(HOURS, by=("other",))
    world = World((MINUTES, hours))
    world.write(reading(62, 1, kind="x"))
    for definition in (MINUTES, hours):
        world.rollups.put_edge("s", Edge(definition.name, START, START + 4 * HOUR, definition.text), None)
    world.sleep(4 * 3_600)
    for definition in (MINUTES, hours):
        order(world, definition, START + HOUR, START + 2 * HOUR)
    queued = Queued(world)
    queued.work_on(ItemName("seal", "s"))
    world.sleep(121)
    (_, of_hours, _, of_minutes) = world.work.list_items("rebuild")
    for item, left in ((of_minutes, ["01:00"]), (of_hours, [])):
        queued.work_on(ItemName("rebuild", item.name))
        queued.work_on(ItemName("seal", "s"))
        assert [
            f"{mark.bucket:%H:%M}" for mark in world.rollups.read_state("s").marks if mark.length < HOUR / 6
        ] == left
    assert world.check(QUERIES) > 0


@pytest.mark.parametrize("layout", [PLAIN, PACKED, SERIES], ids=["items", "packs", "items by series"])
def test_short_buckets_are_read_in_one_pass(monkeypatch: pytest.MonkeyPatch, layout: Layout) -> None:
    definition = replace(MINUTES, period=Kind.DAY) if layout is SERIES else MINUTES
    world = World((definition,), layout)
    world.write(*[reading(4 * n, n, "ab"[n % 2], f"{n}", kind="xyz"[n % 3]) for n in range(80)])
    world.rollups.put_edge("s", Edge("m", START + 6 * HOUR, START + 6 * HOUR, definition.text), None)
    world.sleep(6 * 3_600 + 300)
    spans: list[int] = []
    collect = collect_range

    def note(definition: Any, start: Any, end: Any, services: Any) -> Any:
        buckets = collect(definition, start, end, services)
        spans.append(len(buckets))
        return buckets

    monkeypatch.setattr("tidetable.rollups.rebuild_piece.collect_range", note)
    rebuild(world, definition, START, START + HOUR)
    assert spans == [20, 16]
    assert world.check(QUERIES) > 0


def test_buckets_whose_groups_do_not_fit_into_memory_are_read_in_a_later_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.rollups.collect.MOST_SKETCHES", 4)
    world = seal_hours(40, 41)
    world.write(*[reading(10 * n, n, "ab"[n % 2], f"{n}", kind="x") for n in range(60)])
    world.rollups.marks.clear()
    services = world.services()
    held = collect_range(MINUTES, START, START + HOUR, services)
    assert list(held) == [START + 10 * number * MINUTE for number in (5, 4, 3, 2)]
    assert [bucket.count_events() for bucket in held.values()] == [1] * 4
    monkeypatch.setattr("tidetable.rollups.collect.MOST_IN_RANGE", 5)
    assert collect_range(MINUTES, START, START + HOUR, services) == {}
    rebuild(world, MINUTES, START, START + HOUR)
    assert world.check(QUERIES) > 0


def test_a_period_with_hardly_an_event_has_pieces_of_the_most_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """At its rate, the events of a piece would take thousands of years."""
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    world = World((HOURS,))
    world.write(reading(1, 1, kind="x"))
    world.rollups.put_edge("s", Edge("h", START + 30 * HOUR, START + 30 * HOUR, HOURS.text), None)
    world.sleep(31 * 3_600)
    world.move_to_archive("s", START)
    order(world, HOURS, START, START + 24 * HOUR)
    Queued(world).work_on(ItemName("seal", "s"))
    pieces = [piece.memo for rebuild in list_rebuilds(world.services(), "s") for piece in rebuild.pieces]
    assert [(memo.start, memo.together) for memo in pieces] == [(START + 24 * HOUR, 20), (START, 20)]


def test_the_marks_of_a_cancelled_piece_that_a_run_had_stay_until_its_buckets_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run may have written some cells of a bucket, and not the others."""
    cut_short(monkeypatch)
    world = seal_hours(20, 24)
    order(world, MINUTES, START + 20 * HOUR, START + 24 * HOUR)
    refresh(world, "cut")
    first, *_ = world.work.list_items("rebuild")[1:]
    claim = world.work.claim("rebuild", first.name, "worker", world.now(), world.now() + HOUR, added=True)
    assert claim is not None
    world.work.release(claim, claim.memo)
    cancel_rebuild(MINUTES, world.services())
    refresh(world, "cancelled")
    assert (len(world.rollups.marks), world.work.list_items("rebuild")) == (2, [])
    world.sleep(125)
    assert refresh(world, "run").resealed == 2


def test_a_finer_rollup_waits_for_the_pieces_of_a_coarser_one_that_may_be_reading_its_cells(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    cut_short(monkeypatch, buckets=3, at_once=2)
    hours = replace(HOURS, by=("series", "kind"))
    world = World((MINUTES, hours))
    for definition in (MINUTES, hours):
        world.rollups.put_edge("s", Edge(definition.name, START, START + 9 * HOUR, definition.text), None)
    world.sleep(9 * 3_600)
    order(world, hours, START + 3 * HOUR, START + 6 * HOUR)
    queued = Queued(world)
    queued.work_on(ItemName("seal", "s"))
    order(world, MINUTES, START + 2 * HOUR, START + 7 * HOUR)

    def list_finer() -> list[str]:
        pieces = world.work.list_items("rebuild", "s#m#")
        return [piece.name.split("#")[2][11:16] for piece in pieces]

    queued.work_on(ItemName("seal", "s"))
    # Pieces of the last hour are cut; the hours from 03:00 to 06:00 are being computed.
    assert list_finer() == ["06:00", "06:30"]
    for _ in range(3):
        world.sleep(121)
        for item in world.work.list_items("rebuild", "s#m#"):
            queued.work_on(ItemName("rebuild", item.name))
        queued.work_on(ItemName("seal", "s"))
    assert list_finer() == []
    for item in world.work.list_items("rebuild", "s#h#"):
        queued.work_on(ItemName("rebuild", item.name))
    # A turn begins with the finer rollup, so it is cut in the turn after that in which the coarser one counts.
    for _ in range(2):
        queued.work_on(ItemName("seal", "s"))
    assert list_finer() == ["05:00", "05:30"]


def test_a_run_that_was_stopped_before_it_noted_its_pieces_is_continued_below_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = seal_hours(20, 24)
    order(world, MINUTES, START, START + 24 * HOUR)
    order_record = world.work.list_items("rebuild")[0].memo
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    cut_short(monkeypatch, buckets=3, at_once=2)
    queued = Queued(world)
    queued.work_on(ItemName("seal", "s"))
    world.work.records["rebuild", "s#m"].memo = order_record
    cut_short(monkeypatch, buckets=4, at_once=4)
    queued.work_on(ItemName("seal", "s"))
    (found,) = list_rebuilds(world.services(), "s")
    spans = [(f"{piece.memo.start:%H:%M}", f"{piece.memo.end:%H:%M}") for piece in found.pieces]
    assert spans == [("23:30", "00:00"), ("23:00", "23:30"), ("22:20", "23:00"), ("21:40", "22:20")]


def test_a_message_that_comes_too_early_or_for_a_former_definition_computes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    world = seal_hours(20, 24)
    order(world, MINUTES, START + 20 * HOUR, START + 24 * HOUR)
    queued = Queued(world)
    queued.work_on(ItemName("seal", "s"))
    _, piece = world.work.list_items("rebuild")
    queued.work_on(ItemName("rebuild", piece.name))
    world.sleep(121)
    changed = replace(MINUTES, by=("kind",))
    world.definitions["s"] = [changed]
    world.rollups.put_edge("s", Edge("m", START + 60 * HOUR, START + 61 * HOUR, changed.text), None)
    queued.work_on(ItemName("rebuild", piece.name))
    assert [report.rebuilt for report in queued.reports if report is not None] == [0, 0, 0]
    world.definitions["s"] = [MINUTES]
    del world.rollups.edges["s", "m", START + 60 * HOUR]
    queued.work_on(ItemName("rebuild", piece.name))
    assert queued.reports[-1] is not None
    assert queued.reports[-1].rebuilt == 24


def test_sealed_buckets_whose_events_are_gone_are_left_as_they_are() -> None:
    world = seal_hours(0, 41)
    world.forget("s", START)
    # The bucket of midnight can be read, and is computed.
    order(world, MINUTES, START + 23 * HOUR, START + 24 * HOUR + 10 * MINUTE)
    refresh(world, "cut")
    world.sleep(121)
    assert refresh(world, "run").rebuilt == 7
    assert (world.rollups.marks, world.work.list_items("rebuild")) == ({}, [])
    # A bucket whose cells cannot be written is no such bucket.
    world.set_state("s-m", START + 24 * HOUR, State.ARCHIVING)
    order(world, MINUTES, START + 24 * HOUR, START + 24 * HOUR + 10 * MINUTE)
    refresh(world, "cut")
    world.sleep(121)
    assert refresh(world, "run").rebuilt == 0
    assert len(world.rollups.marks) == 1


def test_the_parts_of_a_bucket_of_a_piece_stay_while_the_stream_has_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    divide_short(monkeypatch, part=2, whole=3)
    world = World((MINUTES,))
    world.rollups.put_edge("s", Edge("m", START + 6 * HOUR, START + 6 * HOUR, MINUTES.text), None)
    world.write(*[reading(350 + n, n, "ab"[n % 2], f"{n}", kind="x") for n in range(6)])
    world.sleep(6 * 3_600 + 300)
    order(world, MINUTES, START + 5 * HOUR, START + 6 * HOUR)
    monkeypatch.setattr("tidetable.rollups.rebuild_turn.MOST_TOGETHER", 1)
    queued = Queued(world)
    queued.work_on(ItemName("seal", "s"))
    _, piece = world.work.list_items("rebuild")
    queued.work_on(ItemName("rebuild", piece.name))
    parts = world.work.list_items("part")
    assert len(parts) > 2
    queued.work_on(ItemName("seal", "s"))
    assert world.work.list_items("part") == parts
    # The next bucket is expected to have as many events, and is divided, too.
    for _ in range(2):
        for part in world.work.list_items("part"):
            queued.work_on(ItemName("part", part.name))
        queued.work_on(ItemName("rebuild", piece.name))
    queued.work_on(ItemName("seal", "s"))
    assert (show_edges(world, "m"), world.work.list_items("part")) == (["05:00-06:00"], [])
    assert world.check(QUERIES) > 0


def test_the_records_of_an_order_and_of_a_piece_are_stored_like_this(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later version must read them, because a rebuild may be under way during a deploy."""
    monkeypatch.setattr("tidetable.rollups.worker._CHAIN", 0.0)
    world = seal_hours(20, 24)
    order(world, MINUTES, START + 22 * HOUR, START + 24 * HOUR)
    Queued(world).work_on(ItemName("seal", "s"))
    found = {
        item.name: item.memo.replace(json.dumps(MINUTES.text), '"TEXT"') for item in world.work.list_items("rebuild")
    }
    assert found == {
        "s#m": (
            '{"definition":"TEXT","start":"2026-03-02T22:00:00Z","end":"2026-03-03T00:00:00Z",'
            '"cut":"2026-03-02T22:00:00Z","made":1772625600000}'
        ),
        "s#m#2026-03-02T22:00:00.000000Z#1772625600000": (
            '{"made":1772625600000,"definition":"TEXT","start":"2026-03-02T22:00:00Z","end":"2026-03-03T00:00:00Z",'
            '"reached":"2026-03-03T00:00:00Z","cut_at":1772625600000,"marked":true,"together":20}'
        ),
    }
