"""What a run of the refresher leaves undisturbed, and the order in which it works."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.refresher import expect_failures
from tests.worlds.entries import change_entry
from tests.worlds.rebuilt import rebuild
from tests.worlds.rolled import (
    HOURS,
    MINUTES,
    QUERIES,
    SERIES,
    START,
    World,
    begin_rollups,
    reading,
    show_edges,
)
from tidetable.catalog import SeenTable
from tidetable.config import TableClass
from tidetable.errors import Outage, StoreUnavailable
from tidetable.periods import Kind
from tidetable.ports import Edge, Noting, RollupState
from tidetable.ports.rollups import Mark
from tidetable.rollup_model.bounds import to_millis
from tidetable.rollups import reseal as resealing
from tidetable.rollups.bucket import Computed
from tidetable.rollups.due import measure_lag
from tidetable.rollups.services import BucketBlocked

HOUR, MINUTE, SECOND = timedelta(hours=1), timedelta(minutes=1), timedelta(seconds=1)
BY_DAY = replace(MINUTES, period=Kind.DAY, ahead=5 * MINUTE)


@expect_failures("no answer: later")
def test_a_stream_whose_state_cannot_be_read_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World((MINUTES,))
    world.definitions = {"a": [replace(MINUTES, source="a", stream="a-m")], **world.definitions}
    read = world.rollups.read_state

    def refuse(stream: str, *args: Any) -> RollupState:
        if stream == "a":
            raise StoreUnavailable(Outage.NO_ANSWER, "later")
        return read(stream, *args)

    monkeypatch.setattr(world.rollups, "read_state", refuse)
    report = world.refresh()
    assert report is not None
    assert [failure.partition(":")[0] for failure in report.failed] == ["a"]
    assert show_edges(world, "m") == ["00:10-00:10"]


def test_the_buckets_of_an_older_definition_are_sealed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    world = begin_rollups((MINUTES,))
    world.refresh()
    world.definitions["s"] = [replace(MINUTES, by=("kind",))]
    world.refresh()
    world.sleep(40 * 60)
    moved: list[str] = []
    put_edge = world.rollups.put_edge

    def noted(stream: str, edge: Edge, expected: Edge | None) -> bool:
        moved.append(f"{edge.sealed:%H:%M}")
        return put_edge(stream, edge, expected)

    monkeypatch.setattr(world.rollups, "put_edge", noted)
    world.refresh()
    assert moved == ["01:20", "01:30", "01:40", "01:50"]


@pytest.mark.parametrize(("late", "lag"), [(-SECOND, 0), (timedelta(0), 0), (MINUTE, 60)])
def test_a_bucket_that_cannot_be_sealed_yet_is_not_late(late: timedelta, lag: int) -> None:
    """Its end, 120 seconds until events are marked, and 90 of a writer's life."""
    edge = Edge("m", START, START, MINUTES.text)
    state = RollupState([edge], [], [], None)
    assert measure_lag(MINUTES, state, START + 10 * MINUTE + 210 * SECOND + late) == timedelta(seconds=lag)


def test_a_rollup_whose_buckets_become_longer_is_late_by_the_buckets_that_it_has() -> None:
    edge = Edge("m", START, START, MINUTES.text)
    longer = replace(MINUTES, every=HOUR)
    lag = measure_lag(longer, RollupState([edge], [], [], None), START + 11 * MINUTE + 210 * SECOND)
    assert lag == MINUTE


def test_a_stream_notes_since_the_farthest_of_its_rollups() -> None:
    world = World((BY_DAY, replace(HOURS, period=Kind.DAY, ahead=HOUR)), SERIES)
    world.rollups.noting.clear()
    world.refresh()
    assert world.rollups.noting["s"] == Noting(START + HOUR + 10 * MINUTE, START)


def test_cells_are_as_old_as_the_events_that_they_were_read_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nine buckets are read together, and each write takes seven seconds; another run may write meanwhile."""
    world = World((BY_DAY,), SERIES)
    world.refresh()
    for minute in range(10, 100, 10):
        world.time = START + minute * MINUTE
        world.write(reading(minute, 1))
    world.time = began = START + 100 * MINUTE + 211 * SECOND
    # Two read units per second are the refresher's, so reading takes time too.
    entry = world.entry("s", START)
    world.catalog.items["s", entry.period] = change_entry(entry, seen=SeenTable(5, 4, TableClass.STANDARD))
    instants: list[int] = []
    write_each = world.store.write_each

    def slow(puts: Any, guard: Any) -> Any:
        instants.extend(put.item["at"] for put in puts)
        world.sleep(7)
        return write_each(puts, guard)

    monkeypatch.setattr(world.store, "write_each", slow)
    report = world.refresh()
    assert report is not None
    assert (report.sealed, world.time > began) == (9, True)
    assert set(instants) == {to_millis(began)}


def test_no_cell_is_written_of_a_bucket_with_too_many_groups() -> None:
    world = begin_rollups((replace(MINUTES, max_groups=2),))
    world.write(*[reading(62, n, str(n)) for n in range(3)])
    world.refresh()
    assert world.rollups.over == {("s", "m", START + HOUR): 3}
    assert world.store.tables["tidetable-t.s-m.2026-03-02"] == {}


def test_a_rollup_of_longer_buckets_is_rebuilt_from_the_events_and_not_from_its_own_older_cells() -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(62, 1, kind="x"))
    world.refresh()
    longer = replace(MINUTES, every=HOUR)
    world.definitions["s"] = [longer]
    world.refresh()
    world.sleep(3 * 3_600)
    world.refresh()
    # No mark says that the older cells lack it.
    world.put(world.entry("s", START), [reading(63, 5, kind="x")], 1)
    rebuild(world, longer, START + HOUR, START + 2 * HOUR)
    assert show_edges(world, "m")[-1] == "01:00-04:00"
    assert world.check(QUERIES) > 0


def test_a_mark_whose_bucket_could_not_be_computed_stands_for_the_rest_of_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = begin_rollups((MINUTES,))
    world.refresh()
    marks = [Mark(START + minute * MINUTE, 0, MINUTES.every) for minute in (20, 40)]
    world.rollups.put_marks("s", [mark.bucket for mark in marks], 0, MINUTES.every)
    seen: list[datetime] = []

    def compute(_: Any, bucket: datetime, *__: Any, **___: Any) -> Computed:
        seen.append(bucket)
        if bucket == marks[1].bucket:
            raise BucketBlocked("later")
        return Computed(world.time, is_kept=True)

    monkeypatch.setattr(resealing, "compute_bucket", compute)
    report = world.refresh()
    assert report is not None
    # The newest bucket comes first.
    assert seen == [marks[1].bucket, marks[0].bucket]
    assert (report.resealed, world.rollups.read_state("s").marks) == (1, [marks[1]])
    assert report.blocked == ["s-m 2026-03-02T00:40:00.000000Z: later"]


def test_a_rebuild_begins_with_the_bucket_that_holds_its_first_instant() -> None:
    world = begin_rollups((MINUTES,))
    world.refresh()
    rebuild(world, MINUTES, START + MINUTE, START + HOUR)
    assert show_edges(world, "m") == ["00:00-01:10"]


@expect_failures("is throttled")
def test_marks_and_lag_are_those_of_all_streams() -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1))
    world.store.throttles = {"tidetable-t.s-m.2026-03-02"}
    world.definitions["z"] = [replace(MINUTES, source="z", stream="z-m")]
    world.rollups.put_marks("z", [START], to_millis(world.now()), MINUTES.every)
    report = world.refresh()
    assert report is not None
    # The bucket from 00:40 on could have been sealed at 00:53:30, and it is 01:20; nothing of z is due.
    assert (report.marks, report.lag) == (2, timedelta(minutes=26, seconds=30))


def test_a_rollup_that_begins_anew_begins_behind_all_events_that_were_deleted() -> None:
    """Its buckets of seven hours do not end with the day; the bucket of midnight lacks events."""
    seven = replace(HOURS, every=7 * HOUR)
    world = World((seven,))
    world.refresh()
    world.sleep(40 * 3_600)
    world.forget("s", START)
    world.refresh()
    newest = max(edge.start for edge in world.rollups.read_state("s").edges)
    assert START + timedelta(days=1) < newest <= START + timedelta(days=1, hours=7)
    assert newest == seven.floor(newest)


def test_a_rollup_is_not_made_of_cells_that_lack_its_groups() -> None:
    world = begin_rollups((replace(MINUTES, by=("series",)), HOURS))
    world.write(reading(62, 1, kind="x"), reading(75, 2, kind="y"))
    world.sleep(2 * 3_600)
    world.refresh()
    answer = world.ask(step="1h", by="kind", **{"from": "2026-03-02T01:00:00Z", "to": "2026-03-02T02:00:00Z"})
    assert [(row["group"]["kind"], row["count"]) for row in answer.rows] == [("x", 1), ("y", 1)]
    assert [scan.entry.stream for scan in answer.sources] == ["s-h"]


def test_every_mark_of_a_bucket_that_could_not_be_computed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer marks ten minutes, and a rebuild marks a second."""
    world = begin_rollups((MINUTES,))
    world.refresh()
    for length in (MINUTES.every, SECOND):
        world.rollups.put_marks("s", [START + 20 * MINUTE], 0, length)

    def refuse(*_: Any, **__: Any) -> None:
        raise BucketBlocked("later")

    monkeypatch.setattr(resealing, "compute_bucket", refuse)
    world.refresh()
    assert {mark.length for mark in world.rollups.read_state("s").marks} == {MINUTES.every, SECOND}


def test_a_bucket_with_too_many_groups_does_not_count_as_sealed() -> None:
    world = begin_rollups((replace(MINUTES, max_groups=2),))
    world.write(*[reading(62, n, str(n)) for n in range(3)])
    report = world.refresh()
    assert report is not None
    # 00:10 to 01:10 are six buckets; the last of them has three groups.
    assert (report.sealed, len(report.over)) == (5, 1)
    world.rollups.marks = {("s", START + HOUR, MINUTES.every): 0}
    report = world.refresh()
    assert report is not None
    assert (report.resealed, report.marks, len(report.over)) == (0, 0, 1)
