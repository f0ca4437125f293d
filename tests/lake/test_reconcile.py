"""One table per stream follows the catalog: what comes and leaves."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.worlds.lakes import FIRST, MAG, SECOND, LakeWorld, list_series, make_rows
from tidetable.catalog import State
from tidetable.segmentation import Segmentation


def test_archived_periods_come_and_a_run_without_news_changes_nothing(world: LakeWorld) -> None:
    world.archive(FIRST, make_rows(0, "a", "b"), make_rows(0, "c"))
    world.archive(SECOND, make_rows(1, "a"))
    assert world.reconcile() == (3, 0, 3, True, {}, [])
    found = [(FIRST, "a", 0), (FIRST, "b", 1), (FIRST, "c", 0), (SECOND, "a", 0)]
    assert list_series(world) == found
    before = world.find_metadata()
    world.bucket.calls.clear()
    assert world.reconcile() == (0, 0, 3, False, {}, [])
    assert world.find_metadata() == before
    assert [call for call in world.bucket.calls if not call.startswith("GET iceberg/quakes/")] == []


def test_a_period_is_found_by_its_partition_which_no_file_has(world: LakeWorld) -> None:
    world.archive(FIRST, make_rows(0, "a", "b"))
    world.archive("2026-W11", make_rows(8, "a"))
    world.reconcile()
    (row,) = world.read_by_pyiceberg("period = '2026-W11'")
    assert (row["series"], row["id"], row["period"]) == ("a", "a8", "2026-W11")
    assert len(world.read_by_pyiceberg("series = 'b'")) == 1
    assert world.read_by_pyiceberg("series = 'z'") == []


def test_the_rows_of_a_replaced_period_are_never_there_twice(world: LakeWorld) -> None:
    world.archive(FIRST, make_rows(0, "a", "b"))
    world.reconcile()
    world.archive(FIRST, make_rows(0, "c"), make_rows(0, "d"))
    assert world.reconcile() == (2, 1, 2, True, {}, [])
    assert list_series(world) == [(FIRST, "c", 0), (FIRST, "d", 0)]


def test_a_file_of_the_same_name_with_other_rows_replaces_the_former(world: LakeWorld) -> None:
    world.archive(FIRST, make_rows(0, "a", "b"))
    world.reconcile()
    world.numbers = iter([1])
    world.archive(FIRST, make_rows(0, "c"))
    assert world.reconcile() == (1, 1, 1, True, {}, [])
    assert list_series(world) == [(FIRST, "c", 0)]


@pytest.mark.parametrize("state", [State.RESTORING, State.CLOSED, State.ARCHIVING, State.OPEN])
def test_a_period_that_is_restored_leaves_and_a_deleted_table_does_not_matter(world: LakeWorld, state: State) -> None:
    world.archive(FIRST, make_rows(0, "a"))
    world.archive(SECOND, make_rows(1, "b"))
    world.change(SECOND, state=State.DELETED)
    world.reconcile()
    world.change(FIRST, state=state)
    assert world.reconcile() == (0, 1, 1, True, {}, [])
    assert list_series(world) == [(SECOND, "b", 0)]


@pytest.mark.parametrize("state", [State.RETAINED, State.ARCHIVING])
def test_a_period_whose_table_still_answers_is_there_until_its_files_are_cleared(
    world: LakeWorld, state: State
) -> None:
    """An archive of all segments that was begun later has cleared the files of the former one."""
    entry = world.archive(FIRST, make_rows(0, "a"))
    assert entry.archive is not None
    for made, whole, files in (("1", "1", 1), ("2", "1", 1), ("1", "2", 0)):
        plan = Segmentation(1, 0, whole, "2")
        world.change(FIRST, state=state, archive=replace(entry.archive, made=made), segments=plan)
        assert world.reconcile().files == files


def test_an_expired_period_leaves_two_hours_before_its_files_may_be_deleted(world: LakeWorld) -> None:
    world.configure("day", f'{MAG}\nexpire_after = "10d"')
    entry = world.archive(FIRST, make_rows(0, "a"))
    assert entry.archive is not None
    world.clock.time = entry.archive.at + timedelta(days=10, hours=-2, seconds=-1)
    world.reconcile()
    assert len(list_series(world)) == 1
    world.move(seconds=1)
    world.reconcile()
    assert list_series(world) == []


def test_an_archive_that_the_catalog_marked_as_expired_leaves(world: LakeWorld) -> None:
    entry = world.archive(FIRST, make_rows(0, "a"))
    world.reconcile()
    assert entry.archive is not None
    world.change(FIRST, archive=replace(entry.archive, expired_at=world.clock.now()))
    assert world.reconcile().removed == 1


def test_a_lost_manifest_of_the_archive_is_told_and_stops_no_other_period(world: LakeWorld) -> None:
    entry = world.archive(FIRST, make_rows(0, "a"))
    world.archive(SECOND, make_rows(1, "b"))
    assert entry.archive is not None
    (world.bucket.folder / entry.archive.manifest).unlink()
    assert world.reconcile() == (1, 0, 1, True, {}, [FIRST])
    assert list_series(world) == [(SECOND, "b", 0)]


def test_all_entries_are_read_once_a_day_and_in_between_the_periods_that_are_named(world: LakeWorld) -> None:
    world.archive(FIRST, make_rows(0, "a"))
    world.reconcile(full=False)
    looked = len(world.catalog.reads)
    world.archive(SECOND, make_rows(1, "b"))
    world.archive("2026-W11", make_rows(8, "c"))
    world.change(FIRST, state=State.RESTORING)
    world.move(hours=23)
    assert world.reconcile(full=False).changed is False
    assert len(world.catalog.reads) == looked
    assert world.reconcile(SECOND, full=False) == (1, 0, 2, True, {}, [])
    assert world.reconcile("2026-03-09", full=False).changed is False
    assert world.reconcile(FIRST, full=False) == (0, 1, 1, True, {}, [])
    world.move(minutes=30)
    assert world.reconcile(full=False) == (1, 0, 2, True, {}, [])
    assert [series for _, series, _ in list_series(world)] == ["b", "c"]


def test_an_archive_expires_without_a_look_at_the_catalog_and_an_entry_that_is_gone_leaves(world: LakeWorld) -> None:
    world.configure("day", f'{MAG}\nexpire_after = "10d"')
    entry = world.archive(FIRST, make_rows(0, "a"))
    world.archive(SECOND, make_rows(1, "b"))
    assert entry.archive is not None
    world.reconcile()
    world.catalog.items.pop(("quakes", entry.period))
    assert world.reconcile() == (0, 1, 1, True, {}, [])
    world.clock.time = entry.archive.at + timedelta(days=9, hours=21)
    world.reconcile()
    world.move(hours=1, minutes=2)
    assert world.reconcile(full=False) == (0, 1, 0, True, {}, [])


def test_a_lost_manifest_is_looked_for_in_each_run(world: LakeWorld) -> None:
    entry = world.archive(FIRST, make_rows(0, "a"))
    assert entry.archive is not None
    manifest = world.bucket.folder / entry.archive.manifest
    body = manifest.read_bytes()
    manifest.unlink()
    assert world.reconcile(full=False).lost == [FIRST]
    assert world.reconcile(full=False).lost == [FIRST]
    manifest.write_bytes(body)
    assert world.reconcile(full=False) == (1, 0, 1, True, {}, [])
