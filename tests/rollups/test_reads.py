"""What a run of the refresher reads: everything strongly consistent, as many buckets at once as fit, and nothing in vain."""

from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.worlds.rolled import HOURS, MINUTES, PACKED, SERIES, START, World, begin_rollups, reading, show_edges
from tidetable.periods import Kind
from tidetable.ports import Noting, RollupState
from tidetable.rollups import collect as collecting
from tidetable.rollups.collect import collect_together
from tidetable.rollups.status import describe_rollup

DAY, HOUR, MINUTE = timedelta(days=1), timedelta(hours=1), timedelta(minutes=1)
BY_DAY = replace(MINUTES, period=Kind.DAY, ahead=5 * MINUTE)


def note_reads(world: World) -> list[bool]:
    """Whether each read of the store from now on is consistent."""
    noted: list[bool] = []
    query_many = world.store.query_many

    def query(*members: Any, consistent: bool, **options: Any) -> Any:
        noted.append(consistent)
        return query_many(*members, consistent=consistent, **options)

    world.store.query_many = query  # type: ignore[method-assign, assignment]
    return noted


@pytest.mark.parametrize("series", [False, True])
def test_every_read_of_a_run_is_consistent(*, series: bool) -> None:
    """A stale read could miss an event whose mark is cleared, or a table that was deleted or restored."""
    world = begin_rollups((BY_DAY,) if series else (MINUTES, HOURS), SERIES if series else PACKED)
    noted = note_reads(world)
    # Notes of deleted tables are looked for once an hour, and are two days old then.
    world.rollups.noting["s"] = Noting(START, START - 5 * DAY)
    world.write(reading(62, 1, kind="x"), reading(75, 2, kind="y"))
    world.catalog.reads.clear()
    world.refresh()
    # A delayed event comes. Then its day is deleted, the rest of which is not sealed.
    world.write(reading(62.5, 5, kind="x"))
    world.sleep(3_600)
    world.refresh()
    world.forget("s", START)
    world.sleep(1_800)
    world.refresh()
    assert len(world.catalog.reads) > 10
    assert all(consistent for *_, consistent in world.catalog.reads)
    assert noted
    assert all(noted)


def test_a_note_of_too_many_groups_is_cleared_only_where_there_is_one() -> None:
    """Each request costs a write unit, and a rollup of minutes seals 1,440 buckets a day."""
    world = begin_rollups((replace(MINUTES, max_groups=2),))
    world.write(*[reading(62, n, str(n)) for n in range(3)])
    cleared: list[object] = []
    clear_over = world.rollups.clear_over
    world.rollups.clear_over = lambda *given: cleared.append(given) or clear_over(*given)  # type: ignore[func-returns-value, method-assign]
    world.refresh()
    assert (show_edges(world, "m"), cleared) == (["00:10-01:10"], [])
    world.store.tables[world.entry("s", START).table].clear()
    world.rollups.marks = {("s", START + HOUR, MINUTES.every): 0}
    world.refresh()
    assert cleared == [("s", "m", START + HOUR)]


def test_a_damaged_pack_keeps_its_bucket_from_being_sealed() -> None:
    world = begin_rollups((MINUTES,), PACKED)
    world.refresh()
    world.write(reading(78, 1))
    table = world.store.tables[world.entry("s", START).table]
    for key, item in table.items():
        table[key] = {**item, "pack": b"no pack"}
    # A later day is deleted: that is no reason to begin anew behind it.
    world.forget("s", START + DAY)
    world.sleep(30 * 3_600)
    report = world.refresh()
    assert report is not None
    assert "s-m: s cannot be read from 2026-03-02T" in report.blocked[0]
    assert show_edges(world, "m") == ["00:10-01:10"]


def test_so_many_buckets_are_read_together_as_their_groups_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five series are noted. Each group may have a sketch of 9 KB per field, if the rollup keeps percentiles."""
    sizes = collecting.MOST_TOGETHER, collecting.MOST_GROUPS, collecting.MOST_SKETCHES
    assert sizes == (10, 200_000, 20_000)
    monkeypatch.setattr(collecting, "MOST_GROUPS", 30)
    monkeypatch.setattr(collecting, "MOST_SKETCHES", 20)
    world = World((BY_DAY,), SERIES)
    world.write(*(reading(21 + n, n, f"s{n}") for n in range(5)))
    plain = replace(BY_DAY, stats=("sum",))
    definitions = (BY_DAY, plain, replace(plain, fields=("mag", "depth")), replace(plain, fields=()))
    counts = [len(collect_together(definition, START, 10, world.services())) for definition in definitions]
    assert counts == [4, 6, 3, 6]
    monkeypatch.setattr(collecting, "MOST_SKETCHES", 9)
    assert collect_together(BY_DAY, START, 10, world.services()) == {}, "one bucket is read alone"


@pytest.mark.parametrize(("seconds", "due"), [(0, []), (1, [3])])
def test_only_buckets_that_can_be_sealed_are_read_together(
    monkeypatch: pytest.MonkeyPatch, seconds: int, due: list[int]
) -> None:
    """An event may still come in any other bucket. The bucket until 00:40 can be sealed 210 seconds after its end."""
    world = World((BY_DAY,), SERIES)
    world.refresh()
    world.time = START + 40 * MINUTE + timedelta(seconds=209 + seconds, microseconds=1)
    together: list[int] = []

    def note(definition: Any, start: Any, due: int, services: Any) -> Any:
        together.append(due)
        return collect_together(definition, start, due, services)

    monkeypatch.setattr("tidetable.rollups.seal.collect_together", note)
    world.refresh()
    assert [number for number in together if number > 2] == due
    assert show_edges(world, "m") == [f"00:10-00:{40 if due else 30}"]


def test_two_due_buckets_are_read_in_one_pass_over_the_series() -> None:
    """A request per series costs at least a unit, whether it reads one bucket or two."""
    world = World((BY_DAY,), SERIES)
    world.refresh()
    world.write(*(reading(15, n, f"s{n}") for n in range(4)))
    world.time = START + 30 * MINUTE + timedelta(seconds=210, microseconds=1)
    table, reads = world.entry("s", START).table, list[int]()
    query_many = world.store.query_many

    def note_reads(given: Any, **options: Any) -> Any:
        reads.append(sum(read.keys.table == table for read in given))
        return query_many(given, **options)

    world.store.query_many = note_reads  # type: ignore[method-assign, assignment]
    report = world.refresh()
    assert report is not None
    assert (report.sealed, show_edges(world, "m")) == (2, ["00:10-00:30"])
    # Four series of two suffixes each.
    assert sum(reads) == 8


def test_of_the_buckets_with_too_many_groups_twenty_are_named() -> None:
    over = [("m", START + number * MINUTES.every) for number in range(21)] + [("h", START)]
    described = describe_rollup(MINUTES, RollupState([], [], over), START)
    assert (len(described["overfull"]), described["overfull_count"]) == (20, 21)
