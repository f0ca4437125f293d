"""Long marked buckets are divided into parts, too; so are long buckets of packs. The cells are those of one reading."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.divided import EVENTS, divide_short, list_cells, list_filled, prepare
from tests.worlds.rolled import HOURS, LENGTH, MINUTES, PACKED, QUERIES, START, Killed, World, reading, show_edges
from tests.worlds.runs import kill_run, refresh
from tidetable.layout import Layout, Packing
from tidetable.query.packs.unit import PackedUnit
from tidetable.query.units import OutOfTime
from tidetable.rollup_model.cover import list_versions
from tidetable.rollups import bucket as rollup_bucket
from tidetable.rollups.bucket_parts import divide_bucket
from tidetable.work.claim import ItemName

# Packs whose events are less than two minutes apart, so ten minutes have several parts.
SHORT_PACKS = Layout("time", 5, "id", 21_600, pack=Packing(120, 65_536))
CHANGED = reading(60, 9, "a", "0", kind="q")


def prepare_marked(layout: Layout | None = None, events: Any = EVENTS, definitions: Any = (MINUTES,)) -> World:
    """The bucket of 01:00 is sealed, then one of its events changes its group."""
    world = prepare(layout, definitions, events)
    refresh(world, "seal")
    world.sleep(700)
    refresh(world, "reseal")
    world.write(CHANGED)
    world.sleep(400)
    return world


def list_whole(events: Any = EVENTS) -> list[Any]:
    world = prepare_marked(events=events)
    refresh(world, "run")
    return list_filled(world)


def count_stored(world: World) -> list[str]:
    """List the parts that are stored from now on."""
    stored: list[str] = []
    put_part = world.rollups.put_part

    def note(name: str, generation: int, pieces: Any) -> None:
        stored.append(name)
        put_part(name, generation, pieces)

    world.rollups.put_part = note  # type: ignore[method-assign]
    return stored


@pytest.mark.parametrize(("layout", "part", "count"), [(None, 10, 6), (SHORT_PACKS, 4, 2)], ids=["plain", "packs"])
def test_a_marked_bucket_with_many_events_is_computed_from_its_parts(
    monkeypatch: pytest.MonkeyPatch, layout: Layout | None, part: int, count: int
) -> None:
    world = prepare_marked(layout)
    divide_short(monkeypatch, part=part, whole=part)
    stored = count_stored(world)
    report = refresh(world, "run")
    # A bucket with more events than are read is taken to have four times as many.
    assert (report.resealed, report.marks, report.finished, len(stored)) == (1, 0, True, count)
    assert world.check(QUERIES) > 0
    assert (world.work.list_items("part"), world.rollups.parts) == ([], {})
    expected = list_whole()
    assert ['"kind":"q"' in text for _, text in expected].count(True) == 1
    assert list_filled(world) == expected


def stop_at_requests(act: Callable[[World, int], None]) -> None:
    """Count the requests of a run that computes a marked bucket in two parts, and act at every seventh of them."""
    calls: list[int] = []
    refresh(prepare_marked(events=EVENTS[::4]), "count", lambda: calls.append(1))
    assert len(calls) > 60
    for number in range(2, len(calls) + 1, 7):
        act(prepare_marked(events=EVENTS[::4]), number)


def test_a_run_may_be_killed_at_any_request(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = list_whole(EVENTS[::4])
    divide_short(monkeypatch, part=5, whole=5)

    def act(world: World, number: int) -> None:
        kill_run(partial(refresh, world, "killed"), number)
        assert world.check(QUERIES) > 0, number
        world.sleep(LENGTH.total_seconds() + 1)
        assert refresh(world, "next").marks == 0, number
        assert list_filled(world)[: len(expected)] == expected, number
        world.sleep(700)
        # What a killed run has left of parts is removed by the next run that has work.
        refresh(world, "later")
        assert (world.work.list_items("part"), world.rollups.parts) == ([], {}), number

    stop_at_requests(act)


@pytest.mark.parametrize("pause", [0.0, LENGTH.total_seconds() + 1], ids=["at once", "later"])
def test_a_run_may_be_overtaken_at_any_request(monkeypatch: pytest.MonkeyPatch, pause: float) -> None:
    """While it stands still after a request, another event changes its group, and another run works."""
    divide_short(monkeypatch, part=5, whole=5)

    def act(world: World, number: int) -> None:
        calls = 0

        def strike() -> None:
            nonlocal calls
            calls += 1
            if calls == number:
                world.write(reading(61, 8, "a", "4", kind="w"))
                world.sleep(pause)
                refresh(world, "other")

        refresh(world, "run", strike)
        assert world.check(QUERIES) > 0, number
        for name in ("next", "last"):
            world.sleep(1_000 + LENGTH.total_seconds())
            report = refresh(world, name)
        assert (report.marks, report.blocked, report.failed) == (0, [], []), number
        assert world.check(QUERIES) > 0, number
        assert (world.work.list_items("part"), world.rollups.parts) == ([], {}), number
        texts = [text for _, text in list_filled(world)]
        assert [any(f'"kind":"{kind}"' in text for text in texts) for kind in "qw"] == [True, True], number

    stop_at_requests(act)


def test_an_event_that_changes_while_parts_are_read_keeps_its_bucket_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    world = prepare_marked()
    divide_short(monkeypatch, part=10, whole=10)
    put_part, changes = world.rollups.put_part, [reading(60, 7, "a", "0", kind="v")]

    def change(name: str, generation: int, pieces: Any) -> None:
        put_part(name, generation, pieces)
        if changes and name.endswith("0000"):
            world.write(changes.pop())

    world.rollups.put_part = change  # type: ignore[method-assign]
    report = refresh(world, "run")
    assert (report.resealed, report.marks) == (1, 1)
    assert world.check(QUERIES) > 0
    assert not [text for _, text in list_cells(world) if '"kind":"v"' in text]
    world.sleep(1_300)
    assert refresh(world, "again").marks == 0
    assert [text for _, text in list_filled(world) if '"kind":"v"' in text]


def test_a_mark_stays_if_its_writer_may_have_written_after_the_first_part_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second writer marks the bucket just before it is divided, and writes after it is read. The parts take minutes."""
    world = prepare_marked()
    refresh(world, "reseal")
    world.sleep(4_000)
    world.write(reading(60, 5, "a", "0", kind="v"))
    world.sleep(230)
    writer = world.begin([reading(60, 6, "a", "0", kind="w")])
    writer.step()
    world.sleep(15)
    divide_short(monkeypatch, part=40, whole=10)
    put_part = world.rollups.put_part

    def put_slowly(name: str, generation: int, pieces: Any) -> None:
        put_part(name, generation, pieces)
        if writer.steps and "T01:00" in name and name.endswith("0001"):
            writer.step()
            world.sleep(140)

    world.rollups.put_part = put_slowly  # type: ignore[method-assign]
    assert refresh(world, "run").marks == 1
    assert (writer.steps, world.check(QUERIES) > 0) == ([], True)
    world.sleep(1_300)
    assert refresh(world, "again").marks == 0
    assert [text for _, text in list_filled(world) if '"kind":"w"' in text]


def test_a_mark_rests_when_all_long_buckets_with_it_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cells of the ten minutes do not tell the hour, because it has other fields."""
    hours = replace(HOURS, fields=("mag", "x"))
    world = prepare_marked(definitions=(MINUTES, hours))
    world.sleep(3_000)
    refresh(world, "seal the hour")
    assert show_edges(world, "h") == ["01:00-02:00"]
    world.write(reading(60, 5, "a", "0", kind="w"))
    world.sleep(1_300)
    divide_short(monkeypatch, part=10, whole=10)
    stored = count_stored(world)
    report = refresh(world, "run")
    # The parts of the ten minutes are merged twice: when they are finished, and when those of the hour are, too.
    assert (report.resealed, report.marks) == (3, 0)
    assert sorted({name.split("#")[1] for name in stored}) == ["h", "m"]
    assert len(stored) == len(set(stored)) == 6 + 4
    assert world.check(QUERIES) > 0


def test_a_longer_bucket_is_computed_from_marked_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mark of the ten minutes is also a mark of the hour, so the hour is computed again before the mark rests."""
    world = prepare(definitions=(MINUTES, HOURS))
    refresh(world, "seal")
    world.sleep(700)
    refresh(world, "reseal")
    world.sleep(2_460)
    world.write(CHANGED)
    world.sleep(30)
    read = list[Any]()
    query = world.store.query_many

    def note(reads: Any, **options: Any) -> Any:
        read.extend(one.keys for one in reads)
        return query(reads, **options)

    monkeypatch.setattr(world.store, "query_many", note)
    assert refresh(world, "seal the hour").marks == 1
    assert show_edges(world, "h") == ["01:00-02:00"]
    table = world.entry("s", START).table
    assert not [keys for keys in read if keys.table == table and str(keys.low) < "2026-03-02T01:10"]
    assert world.check(QUERIES) > 0
    world.sleep(400)
    assert refresh(world, "reseal").marks == 0
    assert [text for _, text in list_filled(world) if '"kind":"q"' in text]
    assert world.check(QUERIES) == len(QUERIES)


def test_only_some_marked_buckets_are_divided_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = prepare_marked(events=[reading(20 + n / 4, n, "a", f"{n}", kind="x") for n in range(160)])
    world.write(*(reading(minute, 1, "b", f"late {minute}", kind="x") for minute in (21, 31, 41, 51)))
    world.sleep(400)
    divide_short(monkeypatch, part=10, whole=10)
    monkeypatch.setattr(rollup_bucket, "_MOST_DIVIDED", 2)
    most = 0
    add = world.work.add

    def note(kind: str, name: str, memo: str) -> bool:
        nonlocal most
        added = add(kind, name, memo)
        most = max(most, len({item.name.split("#")[2] for item in world.work.list_items("part")}))
        return added

    world.work.add = note  # type: ignore[method-assign]
    assert refresh(world, "run").marks == 0
    assert most == 2
    assert world.check(QUERIES) > 0


def test_a_worker_that_wakes_late_does_not_change_the_parts_of_a_later_division(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bucket is divided once more; the new parts have other ranges, and other names."""
    world = prepare_marked()
    divide_short(monkeypatch, part=10, whole=10)
    stored = count_stored(world)
    refresh(world, "run")
    names = set(stored)
    late = [world.work.claim("part", name, "late", world.time, world.time, added=True) for name in names]
    assert late == [None] * 6
    world.write(reading(60, 5, "a", "0", kind="w"))
    world.sleep(1_300)
    stored.clear()
    refresh(world, "next")
    stored = [name for name in stored if "T01:00" in name]
    assert len(stored) == 4
    assert names.isdisjoint(stored)


def test_parts_of_an_earlier_computation_count_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run was stopped before it removed the parts of a bucket that it computed; then an event of the bucket changes."""
    world = prepare_marked()
    divide_short(monkeypatch, part=10, whole=10)

    def stop(_: str) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(world.rollups, "clear_part", stop)
        with pytest.raises(Killed):
            refresh(world, "killed")
    assert len(world.work.list_items("part")) == 6
    world.write(reading(60, 5, "a", "0", kind="w"))
    world.sleep(1_300)
    assert refresh(world, "next").marks == 0
    assert [text for _, text in list_filled(world) if '"kind":"w"' in text]
    assert world.check(QUERIES) > 0


def test_only_the_parts_of_the_last_division_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    world = prepare_marked()
    divide_short(monkeypatch, part=10, whole=10)
    (version,) = list_versions(MINUTES, world.rollups.read_state("s"))
    for events in (20, 40):
        divide_bucket(version, START + timedelta(hours=1), events, world.services())
        world.sleep(1)
    stored = count_stored(world)
    assert refresh(world, "run").marks == 0
    assert len(stored) == 2 + 4
    assert list_filled(world) == list_whole()
    assert (world.work.list_items("part"), world.rollups.parts) == ([], {})


def test_the_cells_of_a_part_that_was_removed_meanwhile_are_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run computed the parts, and the bucket was sealed, while this run stood still."""
    world = prepare()
    divide_short(monkeypatch, part=20, whole=20)
    put_part, names = world.rollups.put_part, list[ItemName]()

    def stand_still(name: str, generation: int, pieces: Any) -> None:
        if not names:
            names.append(ItemName("part", name))
            for item in world.work.list_items("part"):
                world.work.remove("part", item.name)
            world.sleep(1)
        put_part(name, generation, pieces)

    world.rollups.put_part = stand_still  # type: ignore[method-assign]
    refresh(world, "run")
    assert world.rollups.parts == {}


def test_a_bucket_whose_packs_do_not_fit_into_memory_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    world = prepare(PACKED)
    divide_short(monkeypatch, part=10, whole=15)
    monkeypatch.setattr("tidetable.rollups.collect._MOST_HELD", 10)
    settle = PackedUnit.settle

    def fill_memory(unit: PackedUnit, edge: str | None) -> Any:
        if unit.scan.end - unit.scan.start > timedelta(minutes=6):
            raise OutOfTime
        return settle(unit, edge)

    monkeypatch.setattr(PackedUnit, "settle", fill_memory)
    stored = count_stored(world)
    # Each of six buckets has two parts.
    assert (refresh(world, "run").finished, len(stored)) == (True, 12)
    monkeypatch.undo()
    assert world.check(QUERIES) > 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("layout", [SHORT_PACKS, PACKED], ids=["short", "long"])
def test_packs_that_meet_the_borders_of_parts_count_each_event_once(
    monkeypatch: pytest.MonkeyPatch, layout: Layout, seed: int
) -> None:
    """Requests overlap in time, copies of events are in packs of other suffixes, and some events lie alone."""
    chance = Random(seed)
    world, expected = prepare(layout, events=()), dict[Any, Any]()
    entry = world.entry("s", START)
    for at in range(1, 25):
        begin = 59 + chance.random() * 12
        events = []
        for _ in range(chance.randrange(1, 9)):
            # Whole quarters of a minute, also the borders of parts, so that copies meet.
            minutes = min(begin + chance.randrange(8) * 0.25, begin + layout_span(layout)) // 0.25 * 0.25
            large = chance.random() < 0.1
            data = {"kind": "xyz"[at % 3], **({"text": f"{chance.random()}" * 5_000} if large else {})}
            events.append(reading(minutes, at, chance.choice("ab"), chance.choice("pq"), **data))
        events = [*{(one.time, one.series, one.id): one for one in events}.values()]
        world.put(entry, events, at)
        expected |= {(one.time, one.series, one.id): one for one in events}
    divide_short(monkeypatch, part=1, whole=1)
    stored = count_stored(world)
    assert refresh(world, "run").failed == []
    assert len(stored) > 1
    own = [
        one
        for (time, *_), one in expected.items()
        if START + timedelta(hours=1) <= time < START + timedelta(minutes=70)
    ]
    with pytest.MonkeyPatch.context() as patch:
        divide_short(patch, part=1_000, whole=1_000)
        plain = prepare(events=())
        plain.put(plain.entry("s", START), [*expected.values()], 1)
        refresh(plain, "run")
    assert sum(text.count('"kind"') for _, text in list_filled(plain)) > 3
    assert len(own) > 20
    assert list_filled(world) == list_filled(plain)


def layout_span(layout: Layout) -> float:
    """The minutes within which the events of a pack lie."""
    assert layout.pack is not None
    return layout.pack.span / 60 - 0.25
