"""One table per stream follows the catalog: what comes and leaves, what stops a run, and what heals."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from aws.iceberg import iceberg_tables
from aws.iceberg.file_io import MetadataFiles
from tests.worlds.lakes import LakeWorld, Row
from tidetable.catalog import State
from tidetable.lake.lake_tables import LakeChange, LakeConflict, LakeFile, LakeRefused
from tidetable.segmentation import Segmentation

DAY = 86_400
MAG = 'columns = { mag = "integer" }'
FIRST, SECOND = "2026-03-01", "2026-03-02"


@pytest.fixture
def world(tmp_path: Path) -> LakeWorld:
    return LakeWorld(tmp_path, archive=MAG)


def make_rows(day: int, *series: str) -> list[Row]:
    return [Row(day * DAY + n, name, f"{name}{day}", {"mag": n}) for n, name in enumerate(series)]


def list_series(world: LakeWorld) -> list[tuple[str, str, int]]:
    return sorted((row["period"], row["series"], row["mag"]) for row in world.read_by_pyiceberg())


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


@pytest.mark.parametrize("lost", ["*.metadata.json", "snap-*.avro", "*-m0.avro", "*"])
def test_lost_metadata_is_made_anew(world: LakeWorld, lost: str) -> None:
    world.archive(FIRST, make_rows(0, "a"))
    world.reconcile()
    files = list((world.bucket.folder / "iceberg/quakes/metadata").glob(lost))
    assert files
    for file in files:
        file.unlink()
    assert world.reconcile() == (1, 0, 1, True, {}, [])
    assert list_series(world) == [(FIRST, "a", 0)]


@pytest.mark.parametrize("body", [None, b"", b"[{}]"])
def test_lost_notes_of_manifests_are_made_anew(world: LakeWorld, body: bytes | None) -> None:
    world.archive(FIRST, make_rows(0, "a"))
    world.reconcile()
    notes = world.bucket.folder / "iceberg/quakes/periods.json"
    notes.unlink()
    if body is not None:
        notes.write_bytes(body)
    assert world.reconcile() == (0, 0, 1, False, {}, [])
    assert notes.stat().st_size > 100


def test_what_others_did_to_the_table_is_undone(world: LakeWorld) -> None:
    """Another program deleted a file of the table, and added one that the archive does not have."""
    world.archive(FIRST, make_rows(0, "a"), make_rows(0, "b"))
    world.reconcile()
    table = world.make_tables().open("quakes")
    files, columns = table.list_files(), table.list_columns()
    (first, *_) = files
    stranger = LakeFile(key="elsewhere/x.parquet", period="x", events=1, size=1)
    table.commit(LakeChange({**columns, "more": "string"}, ("more",), [first], [stranger]))
    assert world.reconcile() == (1, 1, 2, True, {}, [])
    assert list_series(world) == [(FIRST, "a", 0), (FIRST, "b", 0)]
    assert world.make_tables().open("quakes").list_columns() == columns


def test_of_two_runs_the_one_that_opened_an_older_table_changes_nothing(world: LakeWorld) -> None:
    world.archive(FIRST, make_rows(0, "a"))
    world.reconcile()
    late = world.make_tables().open("quakes")
    world.archive(SECOND, make_rows(1, "b"))
    world.reconcile()
    stale = LakeChange(
        late.list_columns(), late.list_hidden(), [], [LakeFile(key="stale", period="x", events=1, size=1)]
    )
    with pytest.raises(LakeConflict):
        late.commit(stale)
    with pytest.raises(LakeConflict):
        late.commit(stale._replace(columns={**stale.columns, "n": "string"}, added=[]))
    assert list_series(world) == [(FIRST, "a", 0), (SECOND, "b", 0)]


def test_glue_refuses_a_commit_if_the_table_changes_while_it_is_made(world: LakeWorld) -> None:
    world.archive(FIRST, make_rows(0, "a"))
    world.reconcile()
    opened, other = world.make_tables().open("quakes"), world.make_tables().open("quakes")
    change = LakeChange({**opened.list_columns(), "x": "string"}, (), [], [])
    find, world.glue.get_database = world.glue.get_database, lambda **call: answer(**call)  # type: ignore[method-assign]

    def answer(**call: Any) -> Any:
        world.glue.get_database = find  # type: ignore[method-assign]
        other.commit(change)
        return find(**call)

    with pytest.raises(LakeConflict, match="concurrent update"):
        opened.commit(change._replace(columns={**change.columns, "y": "string"}))
    assert set(world.make_tables().open("quakes").list_columns()) == set(change.columns)


class Conflicting:
    """Tables of which another run commits first, so many times."""

    def __init__(self, world: LakeWorld, times: int) -> None:
        self._world, self.left = world, times

    def open(self, stream: str) -> Any:
        table = self._world.make_tables().open(stream)
        if self.left:
            self.left -= 1
            other = self._world.make_tables().open(stream)
            other.commit(LakeChange({**other.list_columns(), f"x{self.left}": "string"}, (), [], []))
        return table


def test_a_conflict_is_computed_anew_and_four_in_a_row_are_an_error(world: LakeWorld) -> None:
    world.archive(FIRST, make_rows(0, "a"))
    assert world.make_reconciler(lake_tables=Conflicting(world, 3)).reconcile(world.stream, full=True).added == 1
    assert list_series(world) == [(FIRST, "a", 0)]
    world.archive(SECOND, make_rows(1, "b"))
    with pytest.raises(LakeConflict):
        world.make_reconciler(lake_tables=Conflicting(world, 4)).reconcile(world.stream, full=True)


def test_a_stopped_run_leaves_a_table_that_the_next_run_completes(world: LakeWorld) -> None:
    """The bucket stops after each write of a run."""
    world.archive(FIRST, make_rows(0, "a"))
    world.reconcile()
    world.archive(FIRST, make_rows(0, "b"))
    put = world.bucket.put
    for allowed in range(5):
        left = iter([True] * allowed)

        def stop(key: str, body: bytes, left: Any = left) -> None:
            if next(left, None) is None:
                raise KeyboardInterrupt
            put(key, body)

        world.bucket.put = stop  # type: ignore[method-assign]
        try:
            world.reconcile()
        except KeyboardInterrupt:
            assert [row[1] for row in list_series_or_lost(world)] in (["a"], ["lost"])
    world.bucket.put = put  # type: ignore[method-assign]
    world.reconcile()
    assert list_series(world) == [(FIRST, "b", 0)]


def list_series_or_lost(world: LakeWorld) -> Sequence[tuple[Any, ...]]:
    """The archive has deleted the files of its former manifest already."""
    try:
        return list_series(world)
    except FileNotFoundError:
        return [("", "lost")]


def test_a_table_of_an_earlier_version_is_replaced_and_one_of_somebody_else_stays(world: LakeWorld) -> None:
    world.glue.create_table(
        DatabaseName="tidetable_dev", TableInput={"Name": "quakes", "Parameters": {"tidetable.digest": "1"}}
    )
    world.archive(FIRST, make_rows(0, "a"))
    world.reconcile()
    assert list_series(world) == [(FIRST, "a", 0)]
    world.glue.tables["quakes"]["Parameters"] = {"table_type": "ICEBERG"}
    with pytest.raises(LakeRefused, match="the database tidetable_dev has a table quakes that somebody else made"):
        world.reconcile()


def test_tables_of_streams_that_are_gone_are_dropped_with_their_metadata_only(world: LakeWorld) -> None:
    world.archive(FIRST, make_rows(0, "a"))
    world.reconcile()
    for name, parameters in (("old", {"tidetable.digest": "1"}), ("theirs", {"table_type": "ICEBERG"}), ("bare", None)):
        table: dict[str, Any] = {"Name": name} | ({} if parameters is None else {"Parameters": parameters})
        world.glue.create_table(DatabaseName="tidetable_dev", TableInput=table)
    assert world.make_tables().drop_others(["quakes"]) == ["old"]
    assert world.make_tables().drop_others(["other-stream"]) == ["quakes"]
    assert sorted(world.glue.tables) == ["bare", "theirs"]
    assert [key for key in world.bucket.sizes("") if key.startswith("iceberg/")] == []
    assert len(world.bucket.sizes("stream=quakes/")) == 2


def test_old_snapshots_and_metadata_that_nothing_needs_are_deleted_after_a_day(world: LakeWorld) -> None:
    for day in range(6):
        world.archive(f"2026-03-0{day + 1}", make_rows(day, "a"))
        world.reconcile()
        world.move(hours=7)
    metadata = world.bucket.sizes("iceberg/quakes/metadata/")
    lists = [key for key in metadata if "/snap-" in key]
    # Three snapshots are kept, and another one is not a day old.
    assert len(lists) == 4
    world.move(days=3)
    world.archive("2026-03-07", make_rows(6, "a"))
    world.reconcile()
    assert len([key for key in world.bucket.sizes("iceberg/quakes/metadata/") if "/snap-" in key]) == 3
    assert len(list_series(world)) == 7
    assert len(world.bucket.sizes("stream=")) == 14


def test_many_commits_leave_few_manifests(world: LakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(iceberg_tables._PROPERTIES, "commit.manifest.min-count-to-merge", "4")
    world.keep = 1
    for day in range(7):
        world.archive(f"2026-03-0{day + 1}", make_rows(day, "a"))
        world.reconcile()
    world.move(days=2)
    world.change(FIRST, state=State.CLOSED)
    world.reconcile()
    manifests = [key for key in world.bucket.sizes("iceberg/quakes/metadata/") if "-m" in key and "/snap-" not in key]
    assert len(manifests) == 2
    assert len(list_series(world)) == 6


def test_a_decimal_is_widened_and_a_changed_column_is_told(world: LakeWorld) -> None:
    world.configure("day", 'columns = { mag = "decimal(5,1)", n = "integer" }')
    world.archive(FIRST, [Row(0, "a", "1", {"mag": 3, "n": 4})])
    world.reconcile()
    world.configure("day", 'columns = { mag = "decimal(20, 1)", n = "double" }')
    world.archive(SECOND, [Row(DAY, "b", "2", {"mag": 5, "n": 6})])
    assert world.reconcile() == (1, 0, 2, True, {"n": ("n integer", "n double")}, [])
    rows = world.read_by_pyiceberg()
    assert sorted((row["series"], str(row["mag"])) for row in rows) == [("a", "3.0"), ("b", "5.0")]
    assert "n" not in rows[0]
    # The column comes back as soon as all files agree.
    world.change(FIRST, state=State.RESTORING)
    assert world.reconcile().refused == {}
    assert [(row["series"], row["n"]) for row in world.read_by_pyiceberg()] == [("b", 6.0)]


def test_an_undeclared_field_is_hidden_until_it_is_declared(world: LakeWorld) -> None:
    world.configure("day", "")
    world.archive(FIRST, [Row(0, "a", "1", {"place": "x", "n": 4})])
    world.reconcile()
    (row,) = world.read_by_pyiceberg()
    assert not {"place", "n"} & row.keys()
    world.configure("day", 'columns = { place = "string", n = "integer" }')
    # The file has numbers that were not declared as doubles.
    assert world.reconcile().refused == {"n": ("n integer", "n double")}
    (row,) = world.read_by_pyiceberg()
    assert (row["place"], "n" in row) == ("x", False)


def test_a_declared_column_is_refused_if_nobody_noted_which_columns_older_files_have(world: LakeWorld) -> None:
    world.archive(FIRST, [Row(0, "a", "1", {"mag": 1})])
    key = f"stream=quakes/period={FIRST}/_manifest.json"
    world.bucket.archiving = True
    world.bucket.put(key, world.bucket.get(key).replace(b'"columns": {}', b'"columns": null'))
    world.bucket.archiving = False
    world.configure("day", 'columns = { mag = "integer", later = "string" }')
    assert world.reconcile().refused == {"later": ("later string", "later of an unknown type")}
    assert [row["mag"] for row in world.read_by_pyiceberg()] == [1]


def test_data_files_are_out_of_reach(world: LakeWorld) -> None:
    world.archive(FIRST, make_rows(0, "a"))
    world.reconcile()
    before = {key: (world.bucket.folder / key).read_bytes() for key in world.bucket.sizes("stream=")}
    files = MetadataFiles(world.bucket, world.root)
    for key in before:
        for act in (
            files.delete,
            lambda at: files.new_output(at).create().close(),
            lambda at: files.new_input(at).open(),
        ):
            with pytest.raises(PermissionError, match="is not metadata of a table"):
                act(world.root + key)
    with pytest.raises(PermissionError):
        files.delete("s3://other/iceberg/x")
    world.change(FIRST, state=State.CLOSED)
    world.reconcile()
    assert {key: (world.bucket.folder / key).read_bytes() for key in world.bucket.sizes("stream=")} == before
    touched = [call for call in world.bucket.calls if call.startswith(("PUT", "DELETE"))]
    assert {call.partition(" ")[2].partition("/")[0] for call in touched[4:]} == {"iceberg"}


def test_a_failed_block_puts_nothing() -> None:
    put: dict[str, bytes] = {}

    class Bucket:
        def put(self, key: str, body: bytes) -> None:
            put[key] = body

        def find(self, key: str) -> bytes | None:
            return put.get(key)

    bucket: Any = Bucket()
    output = MetadataFiles(bucket, "s3://b/").new_output("s3://b/iceberg/x")
    assert not output.exists()
    with suppress(ZeroDivisionError), output.create() as stream:
        stream.write(b"half")
        raise ZeroDivisionError
    assert put == {}
    with output.create() as stream:
        stream.write(b"whole")
    assert (put, len(output), output.exists()) == ({"iceberg/x": b"whole"}, 5, True)


def test_the_newest_columns_of_all_periods_are_those_of_the_table(world: LakeWorld) -> None:
    columns: Mapping[str, str] = {"mag": "integer", "z": "boolean"}
    world.archive(FIRST, make_rows(0, "a"), columns=columns)
    world.reconcile()
    found = world.make_tables().open("quakes").list_columns()
    assert found == {
        "time": "timestamp",
        "series": "string",
        "id": "string",
        "id_hex": "binary",
        "shard": "int",
        "accepted_at": "timestamp",
        "data": "string",
        "attributes": "string",
        "period": "string",
        "mag": "integer",
        "z": "boolean",
    }


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
