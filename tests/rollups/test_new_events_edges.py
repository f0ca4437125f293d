"""New late events at the limits: of time, of a transaction, of former versions and definitions, and events that changed."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import refresh_rollups
from tests.worlds.divided import EVENTS, divide_short, list_cells
from tests.worlds.rolled import HOURS, LENGTH, MINUTES, QUERIES, START, Killed, World, reading
from tidetable.errors import CollectionFull, PutRefused, TableMissing
from tidetable.layout import Key
from tidetable.ports import LastPeriods, Transacted
from tidetable.rollup_model.bounds import to_millis
from tidetable.rollups import new_events
from tidetable.values import count_item_bytes

DAY, TEN = timedelta(days=1), timedelta(minutes=10)
COUNTS = {"step": "10m", "stat": "count", "from": "2026-03-02T01:00:00Z", "to": "2026-03-02T01:20:00Z"}


def begin() -> World:
    """02:50, two hours of events are sealed, and no event is late."""
    world = World()
    world.adds = True
    world.refresh()
    world.sleep(4_200 - 1)
    world.write(reading(69, 2, kind="x"))
    world.sleep(6_001)
    world.refresh()
    return world


def refresh(world: World) -> int:
    """Refresh; return how many events were added. Nothing failed."""
    report = world.refresh()
    assert report is not None
    assert report.failed == []
    return report.added


def list_marks(world: World) -> list[tuple[bool, bool]]:
    """Each mark: whether it is of a new event, and whether this event is added."""
    return [(mark.event != (), mark.is_added) for mark in world.rollups.read_state("s").marks]


def test_the_bucket_of_a_new_event_is_cut_out_of_the_covered_spans() -> None:
    world = begin()
    world.rollups.last["s"] = LastPeriods(((START, START + DAY),), START, START + DAY)
    world.write(reading(61, 10, kind="x"))
    assert refresh(world) == 1
    assert world.rollups.last["s"].covered == ((START, START + 6 * TEN), (START + 7 * TEN, START + DAY))


@pytest.mark.parametrize(("ahead", "added"), [(10.0, 0), (10.001, 1)])
def test_an_event_that_a_former_version_may_have_counted_is_read_with_its_bucket(ahead: float, added: int) -> None:
    """Its clock may be ahead by ten seconds."""
    world = begin()
    world.write(reading(61, 10, kind="x"))
    held_since = world.time - timedelta(seconds=ahead)
    world.catalog.share_lease = lambda *_: held_since  # type: ignore[method-assign]
    assert refresh(world) == added
    assert list_marks(world) == ([] if added else [(False, False)])


@pytest.mark.parametrize(("seconds", "added"), [(2.9, 0), (0.0, 0), (3.0, 1)])
def test_a_run_whose_time_ends_adds_nothing(seconds: float, added: int) -> None:
    """Its time ends behind the first read of the state."""
    world = begin()
    world.write(reading(61, 10, kind="x"))
    left = 100.0
    read = world.rollups.read_at_once

    def read_at_once(stream: str) -> Any:
        nonlocal left
        left = seconds
        return read(stream)

    world.rollups.read_at_once = read_at_once  # type: ignore[method-assign]
    report = refresh_rollups(world.definitions, replace(world.services(), remaining=lambda: left), "run", LENGTH)
    assert report is not None
    assert (report.added, report.failed, len(list_marks(world))) == (added, [], 1 - added)


def test_a_run_that_wakes_after_its_time_does_not_write_what_it_read_before() -> None:
    world = begin()
    world.write(reading(61, 10, kind="x"))
    left = 100.0
    get_many = world.store.get_many

    def fall_asleep(*args: Any, **options: Any) -> Any:
        nonlocal left
        left = 0.0
        return get_many(*args, **options)

    world.store.get_many = fall_asleep  # type: ignore[method-assign]
    refresh_rollups(world.definitions, replace(world.services(), remaining=lambda: left), "run", LENGTH)
    assert list_marks(world) == [(True, False)]


@pytest.mark.parametrize("limit", ["_MOST_ACTIONS", "_MOST_BYTES"])
@pytest.mark.parametrize("less", [0, 1])
def test_events_that_one_transaction_cannot_take_are_read_with_their_bucket(
    limit: str, less: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction of a pack of the minutes, a pack of the hours, and two marks."""
    sizes = list[tuple[int, int]]()
    for number in (0, 1):
        world = begin()
        world.write(reading(61, 10, kind="x"), reading(62, 1, kind="z"))
        transact = world.store.transact

        def measure(puts: Any, *args: Any, transact: Any = transact) -> Any:
            sizes.append((len(puts), sum(count_item_bytes(guarded.put.item) for guarded in puts)))
            return transact(puts, *args)

        world.store.transact = measure  # type: ignore[method-assign, assignment]
        assert refresh(world) == (2 if number == 0 or not less else 0)
        assert list_marks(world) == ([(False, False)] if number and less else [])
        actions, size = sizes[0]
        assert actions == 4
        monkeypatch.setattr(new_events, limit, {"_MOST_ACTIONS": actions, "_MOST_BYTES": size}[limit] - less)


@pytest.mark.parametrize(
    "error", [CollectionFull("t"), PutRefused("t"), TableMissing("t")], ids=lambda e: type(e).__name__
)
def test_an_event_whose_cells_are_refused_is_read_with_its_bucket(error: Exception) -> None:
    world = begin()
    world.write(reading(61, 10, kind="x"))

    def refuse(*_: object) -> Transacted:
        raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.store, "transact", refuse)
        assert refresh(world) == 0
    assert list_marks(world) == [(False, False)]
    world.check(QUERIES)


@pytest.mark.parametrize("is_damaged", [False, True], ids=["erased", "damaged"])
def test_an_event_that_cannot_be_read_is_computed_with_its_bucket(is_damaged: bool) -> None:
    world = begin()
    world.write(reading(61, 10, kind="x"), reading(62, 1, kind="z"))
    table, pk, sk = world.rollups.read_state("s").marks[0].event
    item = world.store.tables[table].pop(Key(pk, sk))
    if is_damaged:
        world.store.tables[table][Key(pk, sk)] = {name: value for name, value in item.items() if name != "data"} | {
            "z": b"damaged"
        }
    assert refresh(world) == 0
    assert list_marks(world) == [(False, False)]


def test_a_bucket_that_cannot_take_its_events_is_marked_as_late_as_its_newest_event() -> None:
    world = begin()
    for number in range(2):
        world.write(reading(61 + number, 10, kind="x"))
        world.sleep(30)
    world.definitions["s"] = [replace(MINUTES, max_groups=1), HOURS]
    assert refresh(world) == 0
    (mark,) = world.rollups.read_state("s").marks
    assert mark.at == to_millis(world.time - timedelta(seconds=30))


def test_events_of_a_longer_mark_are_added_each_to_its_own_bucket() -> None:
    """The writers' step is already coarser than that of the sealed buckets."""
    world = begin()
    finer = world.definitions["s"]
    world.definitions["s"] = [replace(MINUTES, every=2 * TEN), HOURS]
    world.write(reading(61, 10, kind="x"), reading(71, 4, kind="x"))
    world.definitions["s"] = finer
    assert refresh(world) == 2
    assert [row["count"] for row in world.ask(**COUNTS).rows] == [2, 1]
    assert world.check(QUERIES) == len(QUERIES)


def test_an_event_is_added_to_the_buckets_of_a_former_definition() -> None:
    world = begin()
    world.definitions["s"] = [replace(MINUTES, by=("kind",)), HOURS]
    refresh(world)
    world.sleep(4_000)
    refresh(world)
    world.write(reading(61, 10, kind="x"), reading(62, 3, kind="y"))
    assert refresh(world) == 2
    assert [row["count"] for row in world.ask(**COUNTS).rows] == [3]
    assert world.check(QUERIES[2:4]) == 2


@pytest.mark.parametrize(("most", "added"), [(2, 0), (3, 1)])
@pytest.mark.parametrize("is_removed", [False, True])
def test_a_bucket_that_may_have_too_many_groups_then_is_computed_anew(is_removed: bool, most: int, added: int) -> None:
    """It has one group, the new event has another, and the names of its fields count, too; but no removed group."""
    world = begin()
    if is_removed:
        world.write(reading(69, 2, kind="y"))
        world.sleep(300)
        refresh(world)
    world.write(reading(61, 10, kind="z"))
    world.definitions["s"] = [replace(MINUTES, max_groups=most), HOURS]
    assert refresh(world) == added
    assert list_marks(world) == ([] if added else [(False, False)])


def test_a_bucket_that_may_have_too_long_texts_then_is_computed_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    world = begin()
    world.write(reading(61, 10, kind="z"))
    monkeypatch.setattr(new_events, "MAX_TEXTS", 10)
    assert refresh(world) == 0
    assert list_marks(world) == [(False, False)]


def test_the_names_of_fields_of_a_bucket_stay_when_an_event_with_fewer_fields_is_added() -> None:
    world = begin()
    world.write(reading(61, 10))
    assert refresh(world) == 1
    (names,) = [text for _, text in list_cells(world) if '"names"' in text]
    assert ('"kind"' in names, '"mag"' in names) == (True, True)


def test_no_cell_is_written_into_a_bucket_that_is_over_or_before_the_first_of_its_rollup() -> None:
    """The rollup of minutes is over in the bucket of 01:00; that of hours begins at 01:00."""
    world = begin()
    world.rollups.put_over("s", "m", START + 6 * TEN, 2_000)
    before = list_cells(world)
    world.write(reading(61, 10, kind="x"))
    assert refresh(world) == 1
    assert list_cells(world) == before
    hours = dict(world.store.tables[world.entry("s-h", START).table])
    world.write(reading(30, 10, kind="x"))
    assert refresh(world) == 1
    assert list_cells(world) != before
    assert world.store.tables[world.entry("s-h", START).table] == hours


def test_an_overtaken_run_wakes_when_the_run_that_has_overtaken_it_is_stopped_at_any_request() -> None:
    """The second run computes the bucket anew, because of another event that is overwritten meanwhile."""
    kill, is_done = 1, False
    while not is_done:
        world, calls, is_asleep = begin(), 0, True
        world.write(reading(61, 10, kind="x"))

        def strike() -> None:
            nonlocal calls
            calls += 1
            if calls >= kill:  # noqa: B023
                raise Killed

        def overtake() -> None:
            nonlocal is_asleep, is_done
            if is_asleep:
                is_asleep = False
                world.write(reading(69, 7, kind="x"))  # noqa: B023
                world.sleep(LENGTH.total_seconds() + 300)  # noqa: B023
                try:
                    world.refresh(0.0, strike, owner="second")  # noqa: B023
                    is_done = True
                except Killed:
                    pass

        world.store.between = overtake
        world.refresh(owner="first")
        world.check(QUERIES[:1])
        for _ in range(3):
            world.sleep(LENGTH.total_seconds() + 300)
            refresh(world)
        assert world.check(QUERIES[:2]) == 2, kill
        assert list_marks(world) == [], kill
        assert [row["count"] for row in world.ask(**COUNTS).rows] == [2], kill
        kill += 2


def test_a_new_event_in_a_part_that_is_read_waits_until_its_bucket_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run is stopped when it has read some parts; the event lies in one of them. The others came on time."""
    divide_short(monkeypatch, part=10, whole=5)
    world = World((MINUTES,))
    world.adds = True
    world.refresh()
    world.sleep(4_420)
    world.put(world.entry("s", START), EVENTS, 1)
    put_part = world.rollups.put_part

    def stop(name: str, *rest: Any) -> None:
        put_part(name, *rest)
        if len(world.rollups.parts) == 4:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(world.rollups, "put_part", stop)
        with pytest.raises(Killed):
            world.refresh(owner="killed")
    world.write(reading(60.1, 10, kind="x"))
    world.sleep(LENGTH.total_seconds() + 1)
    refresh(world)
    world.sleep(700)
    refresh(world)
    assert world.check(QUERIES[:2]) > 0
    assert world.ask(**COUNTS).rows[0]["count"] == 41
