"""Long buckets are divided into parts, which several runs compute; the cells are those of a bucket that was read as a whole."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import expect_failures
from tests.worlds.divided import EVENTS, divide_short, draw_event, list_cells, list_filled, prepare
from tests.worlds.rolled import (
    HOURS,
    LENGTH,
    MINUTES,
    PLAIN,
    QUERIES,
    START,
    Killed,
    World,
    reading,
    show_edges,
)
from tests.worlds.runs import kill_run, refresh
from tidetable.layout import Layout, Packing
from tidetable.periods import Kind
from tidetable.rollups import bucket_parts
from tidetable.rollups.collect import collect_bucket
from tidetable.work.claim import Pause

SHORT_PACKS = Layout("time", 2, "id", 21_600, pack=Packing(300, 65_536))


@pytest.fixture
def divided(monkeypatch: pytest.MonkeyPatch) -> None:
    divide_short(monkeypatch, part=10, whole=20)


def list_whole(events: Any = EVENTS) -> list[Any]:
    """The cells of the same events, of buckets that were read as a whole."""
    with pytest.MonkeyPatch.context() as patch:
        divide_short(patch, part=1_000, whole=1_000)
        world = prepare(events=events)
        refresh(world, "run")
        assert not world.work.list_items("part")
    return list_cells(world)


def count_stored(world: World) -> list[str]:
    """List the parts that are stored from now on."""
    stored: list[str] = []
    put_part = world.rollups.put_part

    def note(name: str, generation: int, pieces: Any) -> None:
        stored.append(name.rpartition("#")[2])
        put_part(name, generation, pieces)

    world.rollups.put_part = note  # type: ignore[method-assign]
    return stored


def test_a_bucket_with_many_events_is_sealed_from_its_parts(divided: None) -> None:
    world = prepare()
    stored = count_stored(world)
    report = refresh(world, "run")
    assert (report.sealed, report.finished, report.lag) == (6, True, timedelta(0))
    assert show_edges(world, "m") == ["00:10-01:10"]
    assert len(list_cells(world)) == 7
    assert list_cells(world) == list_whole()
    # Forty events were read when the bucket was found to be long. It is taken to have four times as many.
    assert sorted(stored) == [f"{number:04}" for number in range(16)]
    assert (world.work.list_items("part"), world.rollups.parts) == ([], {})


def test_the_events_of_the_last_bucket_say_whether_the_next_is_divided_before_it_is_read(
    divided: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = prepare()
    refresh(world, "run")
    world.write(*(reading(70 + n / 4, n, "a", f"{n}", kind="x") for n in range(30)))
    world.sleep(700)
    spans: list[timedelta] = []
    collect = collect_bucket

    def note(definition: Any, segments: Any, *rest: Any) -> Any:
        spans.append(segments[0].end - segments[0].start)
        return collect(definition, segments, *rest)

    monkeypatch.setattr("tidetable.rollups.bucket_parts.collect_bucket", note)
    assert refresh(world, "run").finished
    # The bucket before had forty events, so this one has four parts, and so has the one before, which is marked.
    assert spans == [timedelta(minutes=2.5)] * 8
    assert world.work.records["seal", "s"].memo == '{"m":40}'


def test_a_bucket_that_is_made_of_finer_cells_is_not_divided(divided: None) -> None:
    world = prepare(definitions=(MINUTES, HOURS))
    world.sleep(3_600)
    stored = count_stored(world)
    refresh(world, "run")
    # The next bucket has no events, but is expected to have as many as this one.
    assert (show_edges(world, "h"), len(stored)) == (["01:00-02:00"], 16 + 4)
    assert world.check(QUERIES) > 0


def stop_at_every_request(act: Callable[[World, int], None]) -> None:
    """Count the requests of a run over two parts, and let ``act`` do something at a third of them."""
    events = EVENTS[::4]
    calls: list[int] = []
    refresh(prepare(events=events), "count", lambda: calls.append(1))
    assert len(calls) > 100
    for number in range(2, len(calls) + 1, 3):
        act(prepare(events=events), number)


def test_a_run_may_be_killed_at_any_request_and_the_next_run_seals_the_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = list_whole(EVENTS[::4])
    divide_short(monkeypatch, part=20, whole=5)

    def act(world: World, number: int) -> None:
        kill_run(partial(refresh, world, "killed"), number)
        world.sleep(LENGTH.total_seconds() + 1)
        assert refresh(world, "next").finished
        assert list_cells(world)[: len(whole)] == whole, number
        world.sleep(700)
        # What a killed run has left of parts is removed by the next run that has work.
        refresh(world, "later")
        assert (world.work.list_items("part"), world.rollups.parts) == ([], {}), number

    stop_at_every_request(act)


@expect_failures("moved by another run")
@pytest.mark.parametrize("pause", [0.0, LENGTH.total_seconds() + 1, 86_400.0], ids=["at once", "later", "a day late"])
def test_a_run_may_be_overtaken_at_any_request(monkeypatch: pytest.MonkeyPatch, pause: float) -> None:
    """While it stands still after a request, an event changes its group, and another run works."""
    divide_short(monkeypatch, part=20, whole=5)

    def act(world: World, number: int) -> None:
        calls, number = 0, number + number % 2

        def strike() -> None:
            nonlocal calls
            calls += 1
            if calls == number:
                world.write(reading(60, 9, "a", "0", kind="z"))
                world.sleep(pause)
                refresh(world, "other")

        refresh(world, "run", strike)
        assert world.check(QUERIES) > 0, number
        world.sleep(1_000 + LENGTH.total_seconds())
        # The mark of a bucket that waited for its parts is left to the run after its sealing.
        refresh(world, "next")
        assert refresh(world, "last").marks == 0
        assert world.check(QUERIES) > 0, number
        assert (world.work.list_items("part"), world.rollups.parts) == ([], {}), number

    stop_at_every_request(act)


def test_runs_at_the_same_time_share_the_parts(divided: None) -> None:
    """While a run stores its first part, another run computes the others; the first run seals the bucket."""
    world = prepare()
    stored = count_stored(world)
    put_part, reports = world.rollups.put_part, list[Any]()

    def interrupt(name: str, generation: int, pieces: Any) -> None:
        if not reports:
            reports.append(None)
            reports[0] = refresh(world, "other")
        put_part(name, generation, pieces)

    world.rollups.put_part = interrupt  # type: ignore[method-assign]
    assert refresh(world, "run").sealed == 6
    assert (reports[0].sealed, reports[0].finished) == (0, False)
    assert sorted(stored) == [f"{number:04}" for number in range(16)]
    assert list_cells(world) == list_whole()


def test_parts_that_are_too_long_are_divided_again(divided: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 16 parts of 38 seconds each, those with three events are too long, so there are 128 parts of 5 seconds."""
    monkeypatch.setattr(bucket_parts, "MOST_PART", 2)
    world = prepare()
    stored = count_stored(world)
    assert refresh(world, "run").finished
    assert sorted(stored[-128:]) == [f"{number:04}" for number in range(128)]
    assert list_cells(world) == list_whole()
    assert (world.work.list_items("part"), world.rollups.parts) == ([], {})


def test_a_part_that_cannot_be_read_blocks_its_bucket_until_it_can(divided: None) -> None:
    world = prepare()
    refresh(world, "run")
    world.write(*(reading(70 + n / 4, n, "a", f"{n}", kind="x") for n in range(30)))
    world.sleep(700)
    table = world.entry("s", START).table
    items = world.store.tables.pop(table)
    report = refresh(world, "blocked")
    assert show_edges(world, "m") == ["00:10-01:10"]
    reason = f"s-m: s cannot be read from 2026-03-02T01:10:00.000000Z on: table {table} does not exist"
    assert reason in report.blocked
    world.store.tables[table] = items
    # The blocked bucket is tried once a minute.
    assert reason in refresh(world, "still blocked").blocked
    world.sleep(61)
    assert refresh(world, "next").finished
    assert show_edges(world, "m") == ["00:10-01:20"]
    assert world.check(QUERIES) > 0


def test_a_bucket_with_too_many_groups_in_one_part_or_in_all_is_not_kept(divided: None) -> None:
    for most in (3, 5):
        definition = replace(MINUTES, max_groups=most)
        world = prepare(definitions=(definition,))
        report = refresh(world, "run")
        assert report.over == ["s-m 2026-03-02T01:00:00.000000Z: more than " + f"{most} groups"]
        assert world.rollups.over[("s", "m", START + timedelta(hours=1))] > most
        assert world.check(QUERIES) > 0


def test_parts_of_a_former_definition_are_removed(divided: None) -> None:
    world = prepare()
    assert world.work.add("part", "s#gone#2026-03-02T01:00:00.000000Z#0000", _memo("{}"))
    former = f"s#m#{'2026-03-02T01:00:00.000000Z'}#0000"
    assert world.work.add("part", former, _memo(replace(MINUTES, by=()).text))
    refresh(world, "run")
    assert world.work.list_items("part") == []
    assert list_cells(world) == list_whole()


def _memo(definition: str) -> str:
    import msgspec

    start, end = "2026-03-02T01:00:00.000000Z", "2026-03-02T01:10:00.000000Z"
    return msgspec.json.encode(bucket_parts.PartMemo(definition, start, end, 0, 1)).decode()


def test_parts_of_a_stream_that_rests_wait(divided: None) -> None:
    world = prepare()
    calls = 0

    def rest() -> None:
        nonlocal calls
        calls += 1
        if len(world.work.list_items("part")) == 16:
            raise Killed

    with pytest.raises(Killed):
        refresh(world, "killed", rest)
    world.work.set_pause(Pause("seal", "s"), on=True)
    world.sleep(LENGTH.total_seconds())
    stored = count_stored(world)
    assert refresh(world, "run").sealed == 0
    assert (stored, len(world.work.list_items("part"))) == ([], 16)
    world.work.set_pause(Pause("seal", "s"), on=False)
    assert refresh(world, "run").finished
    assert list_cells(world)[:7] == list_whole()


@pytest.mark.parametrize("layout", [PLAIN, SHORT_PACKS], ids=["plain", "packs"])
def test_two_weeks_of_late_and_doubled_events_give_the_cells_of_one_run_at_a_time(
    monkeypatch: pytest.MonkeyPatch, layout: Layout
) -> None:
    """Two worlds get the same events. In one, buckets are divided, and runs are killed, overtaken and at the same time."""
    half_hours = replace(MINUTES, every=timedelta(minutes=30))
    chance, days = Random(5), 14
    worlds = []
    for _ in range(2):
        world = World((half_hours,), layout)
        for day in range(4, days + 1):
            at = START + timedelta(days=day)
            world.add_period("s", Kind.DAY, at, world.layout)
            world.add_period("s-m", Kind.DAY, at, world.entry("s-m", START).layout)
        refresh(world, "begin")
        world.sleep(3_600)
        worlds.append(world)
    reference, other = worlds
    used = 0
    for step in range(days * 12 - 2):
        now = (reference.time - START).total_seconds() / 60
        events = [draw_event(chance, now) for _ in range(chance.randrange(12))]
        kill, interrupt = chance.randrange(400), chance.randrange(200)
        for world in worlds:
            world.write(*events)
        divide_short(monkeypatch, part=1_000, whole=1_000)
        refresh(reference, "run")
        divide_short(monkeypatch, part=1 if layout.pack else 2, whole=1 if layout.pack else 3)
        used += _refresh_roughly(other, step, kill, interrupt)
        for world in worlds:
            world.sleep(7_200)
    for world in worlds:
        world.sleep(7_200)
        divide_short(monkeypatch, part=2, whole=3)
        report = refresh(world, "last")
        assert (report.marks, report.failed, report.blocked) == (0, [], [])
    assert used > 50
    assert show_edges(other, "m") == show_edges(reference, "m")
    assert len(list_cells(reference)) > 500
    assert list_filled(other) == list_filled(reference)


def _refresh_roughly(world: World, step: int, kill: int, interrupt: int) -> int:
    """Run with a kill at one request and with another run at another request; return how many parts were stored."""
    stored, calls = count_stored(world), 0

    def strike() -> None:
        nonlocal calls
        calls += 1
        if calls == interrupt:
            refresh(world, f"another {step}")
        if calls >= kill:
            raise Killed

    with suppress(Killed):
        refresh(world, f"run {step}", strike)
    del world.rollups.put_part
    return len(stored)
