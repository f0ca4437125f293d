"""A new late event is added to the cells without reading its bucket, exactly once, wherever a run or a writer stops."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.rollups import FakeRollups
from tests.worlds.divided import divide_short
from tests.worlds.rolled import (
    BY_SUFFIX,
    HOURS,
    LENGTH,
    MINUTES,
    PACKED,
    PLAIN,
    QUERIES,
    SERIES,
    START,
    Killed,
    World,
    reading,
)
from tests.worlds.runs import kill_runs
from tidetable.catalog import State
from tidetable.ports import Transacted
from tidetable.rollups import new_events, worker

TEN = timedelta(minutes=10)
LAYOUTS = [PLAIN, SERIES, replace(PLAIN, versioned=True)]
NAMES = ["by time", "by series", "with versions"]
ONE_HOUR = {"step": "1h", "stat": "count,sum,min,max,first,last,p50", "field": "mag", "from": "2026-03-02T01:00:00Z"}


def begin(layout: Any = PLAIN, minutes: int = 170) -> World:
    """02:50, two hours of events are sealed, and no event is late."""
    world = World(layout=layout)
    world.adds = True
    world.refresh()
    world.sleep(4_200 - 1)
    world.write(reading(69, 2, kind="x"), reading(69.5, 4, kind="y", series="b"))
    world.sleep(minutes * 60 - 4_199)
    world.refresh()
    return world


def count_reads(world: World, act: Callable[[], object]) -> int:
    before = world.store.items_read
    act()
    return world.store.items_read - before


@pytest.mark.parametrize("layout", LAYOUTS, ids=NAMES)
def test_a_new_event_is_added_to_the_cells_of_every_rollup_and_its_bucket_is_not_read(layout: Any) -> None:
    world = begin(layout)
    world.write(reading(61, 10, kind="x"), reading(68, 1, kind="z", other=True))
    marks = world.rollups.read_state("s").marks
    assert [(mark.bucket, mark.length, mark.is_added) for mark in marks] == [(START + 6 * TEN, TEN, False)] * 2
    # Until then the bucket is read from the events.
    assert world.check(QUERIES) == len(QUERIES)
    sealed = {table: dict(items) for table, items in world.store.tables.items() if ".s." in table}
    world.store.tables |= {table: {} for table in sealed}
    for table, items in sealed.items():
        # Only the two late events can still be found.
        keys = {(mark.event[1], mark.event[2]) for mark in marks}
        world.store.tables[table] = {key: item for key, item in items.items() if (key.pk, key.sk) in keys}
    report = world.refresh()
    assert report is not None
    assert (report.added, report.resealed, report.failed, report.marks) == (2, 0, [], 0)
    world.store.tables |= sealed
    assert not world.rollups.new
    (row,) = world.ask(**ONE_HOUR).rows[:1]
    assert {name: row[name] for name in ("count", "sum", "min", "max", "first", "last")} == {
        "count": 4, "sum": 17, "min": 1, "max": 10, "first": 10, "last": 4,
    }  # fmt: skip
    assert world.check(QUERIES) == len(QUERIES)
    assert {scan.entry.stream for scan in world.ask(**ONE_HOUR | {"to": "2026-03-02T02:00:00Z"}).sources} == {"s-h"}


def test_an_event_that_is_sent_twice_is_read_with_its_bucket() -> None:
    """The second request finds the event, so nobody knows what it changes."""
    world = begin()
    for _ in range(2):
        world.write(reading(61, 10, kind="x", id="same"))
    assert [bool(mark.event) for mark in world.rollups.read_state("s").marks] == [False, True]
    report = world.refresh()
    assert report is not None
    assert (report.added, report.resealed) == (0, 0)
    assert [mark.event for mark in world.rollups.read_state("s").marks] == [()]
    world.sleep(121)
    report = world.refresh()
    assert report is not None
    assert (report.added, report.resealed, report.marks) == (0, 2, 0)
    (row,) = world.ask(**ONE_HOUR).rows[:1]
    assert row["count"] == 3
    assert world.check(QUERIES) == len(QUERIES)


@pytest.mark.parametrize("layout", [PACKED, BY_SUFFIX], ids=["packs", "packs by suffix"])
def test_an_event_in_packs_may_have_a_copy_elsewhere_and_is_read_with_its_bucket(layout: Any) -> None:
    world = begin(layout)
    world.write(reading(61, 10, kind="x"))
    assert [mark.event for mark in world.rollups.read_state("s").marks] == [()]


def test_a_new_event_of_a_bucket_that_is_not_sealed_is_read_by_sealing() -> None:
    world = begin()
    world.write(reading(166, 10, kind="x"))
    before = dict(world.store.tables["tidetable-t.s-m.2026-03-02"])
    report = world.refresh()
    assert report is not None
    assert (report.added, report.marks) == (1, 0)
    assert world.store.tables["tidetable-t.s-m.2026-03-02"] == before
    world.sleep(1_000)
    world.refresh()
    assert world.check(QUERIES) == len(QUERIES)
    (row,) = world.ask(**ONE_HOUR | {"from": "2026-03-02T02:40:00Z", "to": "2026-03-02T02:50:00Z"}).rows
    assert row["count"] == 1


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=NAMES[:2])
def test_a_run_that_adds_events_may_be_killed_at_any_request(layout: Any) -> None:
    def prepare() -> World:
        world = begin(layout)
        world.write(reading(61, 10, kind="x"), reading(62, 11, kind="y"), reading(131, 12, kind="x"))
        world.write(reading(166, 13, kind="x"))
        return world

    for world in kill_runs(prepare):
        world.check(QUERIES[:1])
        world.sleep(LENGTH.total_seconds() + 1)
        report = world.refresh(owner="next")
        assert report is not None
        assert (report.failed, report.marks, world.rollups.new) == ([], 0, {})
        assert world.check(QUERIES[:2]) == 2


@pytest.mark.parametrize(
    ("at", "divided"),
    [(61, False), (166, False), (171, False), (166, True)],
    ids=["sealed long ago", "sealed next", "sealed in this run", "divided"],
)
def test_a_new_event_comes_at_any_request_of_a_run(at: int, divided: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bucket is sealed and another computed anew meanwhile: nobody knows whether they have the event."""
    if divided:
        divide_short(monkeypatch)

    def prepare() -> World:
        world = begin()
        world.write(reading(166.5, 3, kind="y"), reading(171.5, 3, kind="y"), reading(172.5, 3, kind="y"))
        # Overwritten, so its bucket is computed anew.
        world.write(reading(69, 7, kind="x"))
        world.sleep(900)
        return world

    total = 0

    def count() -> None:
        nonlocal total
        total += 1

    prepare().refresh(0.0, count)
    # Before its first request, and after each; a run that divides buckets has many that are alike.
    for number in (1, *range(2, total + 1, 14 if divided else 2)):
        world, calls = prepare(), 0

        def strike() -> None:
            nonlocal calls
            calls += 1
            if calls == number:  # noqa: B023
                world.write(reading(at, 10, kind="x"))  # noqa: B023

        world.refresh(0.0, strike)
        world.check(QUERIES[:1])
        for _ in range(4):
            world.sleep(130)
            world.refresh()
        world.check(QUERIES[:2])
        assert not world.rollups.read_state("s").marks, number


def test_new_events_wait_if_the_share_of_their_stream_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    world = begin()
    world.write(reading(131, 10, kind="x"), reading(69, 7, kind="x"))
    world.sleep(600)
    with monkeypatch.context() as patch:
        patch.setattr(worker, "_SHARE", -1.0)
        report = world.refresh()
    assert report is not None
    assert (report.added, report.resealed) == (0, 2)
    assert [(mark.event != (), mark.pauses) for mark in world.rollups.read_state("s").marks] == [(True, 0)]
    assert world.check(QUERIES[:2]) == 2
    report = world.refresh()
    assert report is not None
    assert report.added == 1
    assert not world.rollups.read_state("s").marks
    assert world.check(QUERIES) == len(QUERIES)


def test_two_runs_add_an_event_once() -> None:
    """The second run has the stream a day later; the first wakes at its transaction."""
    world = begin()
    world.write(reading(61, 10, kind="x"))
    is_first = True

    def overtake() -> None:
        nonlocal is_first
        if is_first:
            is_first = False
            world.time += LENGTH + timedelta(days=1)
            world.refresh(owner="second")

    world.store.between = overtake
    world.refresh(owner="first")
    (row,) = world.ask(**ONE_HOUR).rows[:1]
    assert row["count"] == 3
    world.sleep(130)
    world.refresh(owner="third")
    assert not world.rollups.read_state("s").marks
    assert world.check(QUERIES) == len(QUERIES)


def spoil(world: World, what: str) -> None:
    if what == "its cells are being archived":
        world.set_state("s-m", START, State.CLOSED)
    elif what == "its table is gone":
        world.move_to_archive("s", START)
    elif what == "another run changes the cells":
        transact = world.store.transact
        world.store.transact = lambda puts, entry=None, total=None: (  # type: ignore[method-assign]
            Transacted.CONFLICT if len(puts) > 2 else transact(puts, entry, total)
        )
    elif what == "too many groups":
        world.definitions["s"] = [replace(MINUTES, max_groups=2), HOURS]
    else:
        for number in range(new_events.MOST_ADDED):
            world.write(reading(62, 1, id=f"{number}"))


@pytest.mark.parametrize(
    "what",
    ["its cells are being archived", "its table is gone", "another run changes the cells", "too many groups", "too many events"],
)  # fmt: skip
def test_an_event_that_cannot_be_added_is_read_with_its_bucket(what: str) -> None:
    world = begin()
    world.write(reading(61, 10, kind="x"), reading(61, 10, kind="z", id="other"))
    spoil(world, what)
    report = world.refresh()
    assert report is not None
    assert (report.added, report.failed, world.rollups.new) == (0, [], {})
    assert [(mark.bucket, mark.event) for mark in world.rollups.read_state("s").marks] == [(START + 6 * TEN, ())]
    assert world.check(QUERIES) == len(QUERIES)


def test_marks_that_are_added_only_are_removed() -> None:
    """The run was stopped behind its transaction."""
    world = begin()
    world.write(reading(61, 10, kind="x"))
    clear = FakeRollups.clear_mark
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeRollups, "clear_mark", lambda *_: (_ for _ in ()).throw(Killed))
        with pytest.raises(Killed):
            world.refresh(owner="killed")
    assert FakeRollups.clear_mark is clear
    assert [mark.is_added for mark in world.rollups.read_state("s").marks] == [True]
    assert world.check(QUERIES) == len(QUERIES)
    world.sleep(LENGTH.total_seconds() + 1)
    report = world.refresh()
    assert report is not None
    assert (report.added, report.resealed, report.marks) == (0, 0, 0)
    (row,) = world.ask(**ONE_HOUR).rows[:1]
    assert row["count"] == 3
