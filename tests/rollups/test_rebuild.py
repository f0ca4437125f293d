"""Rebuilding a rollup: past buckets are computed, sealed buckets are marked, and a rebuild can stop anywhere."""

from dataclasses import replace
from datetime import timedelta

from tests.worlds.rolled import HOURS, LENGTH, MINUTES, QUERIES, START, World, begin_rollups, reading, show_edges
from tidetable.rollups.rebuild import Progress, rebuild
from tidetable.times import to_text


def rebuilt(world: World, hours: float, to: float = 100) -> Progress:
    begin, end = START + timedelta(hours=hours), START + timedelta(hours=to)
    some = world.definitions["s"]
    found = rebuild(some[0], begin, end, some, world.services(), "rebuild", LENGTH)
    assert found is not None
    return found


def test_a_rebuild_extends_a_rollup_to_the_events_of_before() -> None:
    world = World((HOURS,))
    world.sleep(5 * 3_600)
    world.write(*[reading(30 * n, n, kind="x") for n in range(10)])
    world.refresh()
    assert (
        rebuilt(world, 1).problem
        == "the rollup begins at 2026-03-02T06:00:00.000000Z: rebuild it when its first bucket is sealed"
    )
    world.sleep(3 * 3_600)
    world.refresh()
    progress = rebuilt(world, 1)
    assert (progress.reached, progress.buckets, progress.left, progress.problem) == (
        START + timedelta(hours=1),
        5,
        0,
        None,
    )
    assert show_edges(world, "h") == ["01:00-07:00"]
    assert world.check(QUERIES) > 0
    sources = world.ask(
        step="1h", **{"from": to_text(START + timedelta(hours=1)), "to": to_text(START + timedelta(hours=6))}
    ).sources
    assert {scan.entry.stream for scan in sources} == {"s-h"}


def test_a_rebuild_over_an_older_definition_never_mixes_their_cells() -> None:
    world = begin_rollups()
    world.write(*[reading(5 * n, n, kind="xy"[n % 2]) for n in range(16)])
    world.refresh()
    world.definitions["s"] = [replace(MINUTES, by=("kind",)), HOURS]
    world.refresh()
    world.sleep(5_000)
    world.refresh()
    assert rebuilt(world, 0.5).done
    assert show_edges(world, "m") == ["00:10-01:30", "00:30-02:30"]
    assert world.check(QUERIES) == len(QUERIES)


def test_a_rebuild_that_cannot_go_on_says_why() -> None:
    world = begin_rollups()
    world.refresh()
    world.forget("s-m", START)
    progress = rebuilt(world, 0)
    assert progress.left == 1
    assert "backfill s-m" in str(progress.problem)


def test_a_rebuild_of_sealed_buckets_has_them_computed_anew() -> None:
    world = begin_rollups((MINUTES,))
    world.write(reading(45, 1))
    world.refresh()
    world.rollups.marks.clear()
    # Somebody damaged the cells.
    world.store.tables["tidetable-t.s-m.2026-03-02"].clear()
    assert world.ask(step="10m").rows == []
    progress = rebuilt(world, 0.5)
    assert progress.marked == 4
    assert world.check(QUERIES) > 0
    world.sleep(121)
    world.refresh()
    assert not world.rollups.marks
    assert [row["count"] for row in world.ask(step="10m").rows] == [1]


def test_nothing_is_rebuilt_while_the_refresher_runs() -> None:
    world = begin_rollups()
    world.catalog.acquire("rollups", "another", world.now(), LENGTH)
    some = world.definitions["s"]
    assert rebuild(some[0], START, START, some, world.services(), "rebuild", LENGTH) is None
