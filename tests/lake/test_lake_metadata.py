"""The metadata of tables: what is lost, what others change, what stops a run, and what is deleted."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from aws.iceberg import iceberg_tables
from aws.iceberg.file_io import MetadataFiles
from tests.worlds.lakes import FIRST, SECOND, LakeWorld, list_series, make_rows
from tidetable.catalog import State
from tidetable.lake.lake_tables import LakeChange, LakeConflict, LakeFile, LakeRefused


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
