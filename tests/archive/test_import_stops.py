"""An import into the archive that is stopped, doubled or overtaken: no event is lost, and none is twice."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from cli.errors import CommandError
from tests.worlds.bulk import Importer, Small, list_named, make_days, write_rows
from tidetable.archive.importing import ImportOrder
from tidetable.catalog import State
from tidetable.errors import ArchiveMismatch

BEFORE = {"e10-0": 0, "e10-1": 1}
# One event of the former archive has other data, and a day is new.
ROWS = [*make_days((10, 1), n=7), *make_days((10, 2), first="f", n=3), *make_days((11, 2))]
AFTER = {"e10-0": 7, "e10-1": 1, "f10-0": 3, "f10-1": 4, "e11-0": 0, "e11-1": 1}


def make_world(folder: Path) -> Small:
    """A world with an archive of the tenth of March."""
    world = Small()
    Importer(world, "s", folder / "former").run([write_rows(folder / "former.ndjson", make_days((10, 2)))])
    assert world.read_ns() == BEFORE
    return world


def clean(world: Small) -> None:
    """Remove former files; at once none may go, as a query may read them."""
    for label in ("2026-03-10", "2026-03-11"):
        if world.rewrite(label).state != "current":
            world.clock.sleep(120)
            assert world.rewrite(label).state == "current"
    assert world.bucket.objects.keys() == list_named(world)


def test_a_command_that_stops_anywhere_is_finished_by_the_same_command(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "rows.ndjson", ROWS)
    ended = 0
    for calls in range(0, 200, 3):
        folder = tmp_path / str(calls)
        folder.mkdir()
        world = make_world(folder)
        importer = Importer(world, "s", folder / "import", strike=world.strike)
        world.calls = calls
        try:
            importer.run([file])
            ended += 1
        except KeyboardInterrupt:
            pass
        # Each period is as before, or complete.
        days = {id: n for id, n in AFTER.items() if id[1:3] == "10"}
        found = world.read_ns()
        tenth = {id: n for id, n in found.items() if id[1:3] == "10"}
        assert tenth in (BEFORE, days), f"stopped after {calls} calls"
        assert found.keys() - tenth.keys() in (set(), AFTER.keys() - days.keys()), f"stopped after {calls} calls"
        world.calls = 10**9
        # A run that died holds the lease of the period for a minute.
        world.clock.sleep(61)
        if not ended:
            Importer(world, "s", folder / "import").run([file])
        assert world.read_ns() == AFTER, f"stopped after {calls} calls"
        clean(world)
        if ended:
            break
    assert ended == 1
    assert calls > 60


def at_finish(importer: Importer, act: Any) -> None:
    """Act once, when files are written and are to count."""
    finish, left = importer.finish, [act]

    def answer(stream: str, label: str, order: ImportOrder) -> Any:
        if order.token and left:
            left.pop()()
        return finish(stream, label, order)

    importer.finish = answer  # type: ignore[method-assign]


def test_two_imports_at_once_keep_the_events_of_both(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    one, other = Importer(world, "s", tmp_path / "one"), Importer(world, "s", tmp_path / "other")
    more = write_rows(tmp_path / "more.ndjson", make_days((10, 1), first="g", n=9))
    at_finish(one, lambda: other.run([more]))
    one.run([write_rows(tmp_path / "rows.ndjson", ROWS)])
    assert one.answers == ["ready", "ready", "changed", "imported", "imported"]
    assert world.read_ns() == AFTER | {"g10-0": 9}
    clean(world)


def test_files_that_were_removed_meanwhile_are_written_again(tmp_path: Path) -> None:
    """Another import removes all files that no manifest names."""
    world = make_world(tmp_path)
    importer = Importer(world, "s", tmp_path / "import")

    def remove() -> None:
        world.clock.sleep(200)
        assert world.rewrite("2026-03-10").state == "current"

    at_finish(importer, remove)
    importer.run([write_rows(tmp_path / "rows.ndjson", ROWS)])
    assert "changed" in importer.answers
    assert world.read_ns() == AFTER
    clean(world)


def test_a_file_that_is_gone_is_written_again(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    importer = Importer(world, "s", tmp_path / "import")

    def remove() -> None:
        (part,) = {key for key in world.bucket.objects if key.endswith(".parquet")} - list_named(world)
        del world.bucket.objects[part]

    at_finish(importer, remove)
    importer.run([write_rows(tmp_path / "rows.ndjson", ROWS)])
    assert importer.answers == ["ready", "ready", "changed", "imported", "imported"]
    assert world.read_ns() == AFTER


def test_a_table_that_is_deleted_meanwhile_stays_deleted(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    (entry,) = world.known.entries("s")
    archived = world.known.move(entry, State.ARCHIVED, expected=(State.DELETED,))
    importer = Importer(world, "s", tmp_path / "import")
    put_marks = world.marked.put_marks

    def delete(*args: Any) -> None:
        put_marks(*args)
        if world.known.entries("s")[0].state is State.ARCHIVED:
            world.known.move(archived, State.DELETED, expected=(State.ARCHIVED,))

    world.marked.put_marks = delete
    importer.run([write_rows(tmp_path / "rows.ndjson", ROWS)])
    assert importer.answers == ["ready", "ready", "changed", "imported", "imported"]
    assert {entry.state for entry in world.known.entries("s")} == {State.DELETED}
    assert world.read_ns() == AFTER


def test_former_files_stay_for_two_minutes_after_the_new_ones_count(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    importer = Importer(world, "s", tmp_path / "import")
    at_finish(importer, lambda: world.clock.sleep(300))
    importer.run([write_rows(tmp_path / "rows.ndjson", ROWS)])
    done = world.rewrite("2026-03-10")
    assert (done.state, done.wait) == ("switched", 120.0)
    clean(world)


def test_an_answer_that_was_lost_is_asked_for_again(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    orders: list[ImportOrder] = []
    importer = Importer(world, "s", tmp_path / "import")
    finish = importer.finish

    def note(stream: str, label: str, order: ImportOrder) -> Any:
        orders.append(order)
        return finish(stream, label, order)

    importer.finish = note  # type: ignore[method-assign]
    importer.run([write_rows(tmp_path / "rows.ndjson", ROWS)])
    assert finish("s", "2026-03-11", orders[-1])["state"] == "imported"
    # An order of a former archive changes nothing, however late it comes.
    former = ImportOrder(token="former", base=orders[-1].base, oldest=orders[-1].oldest, newest=orders[-1].newest)
    assert finish("s", "2026-03-11", former)["state"] == "changed"
    assert world.read_ns() == AFTER


def test_a_period_whose_lease_another_run_has_is_waited_for(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    lease, until = "archive#s#2026-03-10", world.clock.now() + timedelta(seconds=20)
    importer = Importer(world, "s", tmp_path / "import")
    at_finish(importer, lambda: world.known.leases.update({lease: ("restorer", until)}))
    importer.run([write_rows(tmp_path / "rows.ndjson", ROWS)])
    assert importer.answers.count("busy") == 4
    assert world.read_ns() == AFTER


@pytest.mark.parametrize("state", [State.RESTORING, State.CLOSED])
def test_a_period_that_is_restored_meanwhile_keeps_its_archive(tmp_path: Path, state: State) -> None:
    world = make_world(tmp_path)
    (entry,) = world.known.entries("s")
    importer = Importer(world, "s", tmp_path / "import")
    at_finish(importer, lambda: world.known.move(entry, state, expected=(State.DELETED,)))
    work = importer.make([write_rows(tmp_path / "rows.ndjson", ROWS)])
    outcome = work.merge_periods(work.read_files())
    assert outcome.refused.keys() == {"2026-03-10"}
    assert outcome.merged.keys() == {"2026-03-11"}
    assert world.read_ns() == BEFORE | {"e11-0": 0, "e11-1": 1}
    # The same command goes on when the period is archived again.
    world.known.move(world.known.entries("s")[0], State.DELETED, expected=(state,))
    importer.run([tmp_path / "rows.ndjson"])
    assert world.read_ns() == AFTER


def test_the_marks_of_rollups_are_put_before_the_events_count(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    world.marked.marks.clear()
    importer = Importer(world, "s", tmp_path / "import")
    world.marked.refuses = True
    with pytest.raises(Exception, match="rollups"):
        importer.run([write_rows(tmp_path / "rows.ndjson", ROWS)])
    assert world.read_ns() == BEFORE
    world.marked.refuses = False
    world.clock.sleep(61)
    importer.run([tmp_path / "rows.ndjson"])
    hours = sorted(f"{bucket:%dT%H}" for _, bucket, length in world.marked.marks if length == timedelta(hours=1))
    assert hours == ["10T00", "10T01", "11T00", "11T01"]
    assert world.read_ns() == AFTER


def test_the_copy_that_was_accepted_last_counts_whichever_import_ends_first(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    slow = Importer(world, "s", tmp_path / "slow")
    work = slow.make([write_rows(tmp_path / "rows.ndjson", ROWS)])
    runs = work.read_files()
    world.clock.sleep(3600)
    later = write_rows(tmp_path / "later.ndjson", make_days((10, 1), n=8))
    Importer(world, "s", tmp_path / "later").run([later])
    assert work.merge_periods(runs).refused == {}
    assert world.read_ns() == AFTER | {"e10-0": 8}


def test_an_order_that_stands_still_behind_its_marks_changes_nothing(tmp_path: Path) -> None:
    """Marks count for a minute: then the buckets may have been computed anew, without the events."""
    world = make_world(tmp_path)
    importer = Importer(world, "s", tmp_path / "import")
    put_marks, pauses = world.marked.put_marks, [61.0]

    def put_and_wait(*args: Any) -> None:
        put_marks(*args)
        if pauses:
            world.clock.sleep(pauses.pop())

    world.marked.put_marks = put_and_wait
    importer.run([write_rows(tmp_path / "rows.ndjson", ROWS)])
    assert importer.answers == ["ready", "ready", "busy", "imported", "imported"]
    assert world.read_ns() == AFTER


def test_a_damaged_archive_is_not_merged(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    part = next(key for key in world.bucket.objects if key.endswith(".parquet"))
    former = dict(world.bucket.objects)
    world.bucket.objects[part] = b"[]"
    importer = Importer(world, "s", tmp_path / "import")
    rows = write_rows(tmp_path / "rows.ndjson", ROWS)
    with pytest.raises(ArchiveMismatch, match="differs from the bytes that were written"):
        importer.run([rows])
    del world.bucket.objects[part]
    with pytest.raises(CommandError, match="does not exist: call the command again"):
        importer.run([rows])
    (manifest,) = {key for key in former if key.endswith(".json")}
    world.bucket.objects |= former | {manifest: former[manifest].replace(b'"events": 2', b'"events": 3')}
    with pytest.raises(ArchiveMismatch, match="the archive of 2026-03-10 has 2 events, its manifest 3"):
        importer.run([rows])
    world.bucket.objects |= former
    importer.run([rows])
    assert world.read_ns() == AFTER


def test_an_upload_that_changes_its_bytes_is_seen(tmp_path: Path) -> None:
    world = make_world(tmp_path)
    put = world.bucket.put
    world.bucket.put = lambda key, body: put(key, body + b" ")  # type: ignore[method-assign]
    importer = Importer(world, "s", tmp_path / "import")
    with pytest.raises(ArchiveMismatch, match="differs from the bytes that were written"):
        importer.run([write_rows(tmp_path / "rows.ndjson", ROWS)])
    assert world.read_ns() == BEFORE
