"""What a restore refuses, and what it waits for: nothing is opened that is not complete."""

from collections.abc import Sequence
from datetime import timedelta
from hashlib import sha256
from threading import Event, Thread, current_thread
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from aws.archive.scan import RawScan
from tests.fakes.stage import Stage
from tests.worlds.killed import CONFIG, IDS, ids
from tests.worlds.restores import LABEL, TABLE, delete_first_tables, entry
from tidetable.archive.ports import ArchivedRows, RawPage
from tidetable.archive.restore_orders import RestorePieceMemo
from tidetable.archive.restore_piece import PieceRun
from tidetable.batch import Batch
from tidetable.catalog import SeenTable, State
from tidetable.config import TableClass, parse
from tidetable.errors import ArchiveBusy, ArchiveFailed, ArchiveMismatch, TableRefused, TableThrottled
from tidetable.layout import Layout
from tidetable.leases import LIFECYCLE_LEASE
from tidetable.ports import Put, Written


@pytest.fixture(scope="module")
def archived() -> Stage:
    """A stage that no test changes for another: none of these restores gets as far as its table."""
    return delete_first_tables()


@pytest.mark.parametrize("state", [State.OPEN, State.CREATING, State.CLOSED, State.ARCHIVING])
def test_a_period_that_has_its_table_is_not_restored(
    archived: Stage, monkeypatch: pytest.MonkeyPatch, state: State
) -> None:
    found = replace(entry(archived), state=state)
    monkeypatch.setattr(archived.catalog, "entries", lambda *_, **__: [found])
    with pytest.raises(ArchiveFailed, match=f"is {state}: it has its table"):
        archived.restore("s", LABEL)


def test_a_period_that_was_deleted_without_an_archive_says_so(archived: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    found = replace(entry(archived), archive=None)
    monkeypatch.setattr(archived.catalog, "entries", lambda *_, **__: [found])
    with pytest.raises(ArchiveFailed, match="was deleted without an archive"):
        archived.restore("s", LABEL)


def test_an_archive_that_has_expired_is_not_restored_from_what_may_be_left_of_it(
    archived: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = entry(archived)
    assert found.archive is not None
    gone = replace(found, archive=replace(found.archive, expired_at=found.period.end))
    monkeypatch.setattr(archived.catalog, "entries", lambda *_, **__: [gone])
    with pytest.raises(ArchiveFailed, match=r"expired at 2026-03-16T00:00:00\.000000Z$"):
        archived.restore("s", LABEL)


def test_two_runs_on_a_period_are_one(archived: Stage) -> None:
    lease = f"archive#s#{LABEL}"
    assert archived.catalog.acquire(lease, "another", archived.clock.now(), timedelta(minutes=1))
    with pytest.raises(ArchiveBusy, match="archived or restored by another run"):
        archived.restore("s", LABEL)
    archived.catalog.release(lease, "another")
    assert TABLE not in archived.dynamo.account.tables


def test_one_changed_byte_of_a_part_is_seen_before_anything_of_it_is_written() -> None:
    stage = delete_first_tables()
    part = next(key for key in stage.bucket.objects if LABEL in key and "part" in key)
    body = stage.bucket.objects[part]
    stage.bucket.objects[part] = bytes([*body[:50], body[50] ^ 1, *body[51:]])
    with pytest.raises(ArchiveMismatch, match="differs from the bytes that were written"):
        stage.restore("s", LABEL)


@pytest.mark.parametrize("kind", ["manifest", "part"])
def test_an_object_of_the_archive_that_somebody_deleted_is_named(kind: str) -> None:
    stage = delete_first_tables()
    (key, *_) = sorted(key for key in stage.bucket.objects if LABEL in key and kind in key)
    body = stage.bucket.objects.pop(key)
    with pytest.raises(ArchiveFailed, match=f"the archive's object {key} does not exist"):
        stage.restore("s", LABEL)
    stage.bucket.objects[key] = body
    stage.clock.sleep(900)
    assert stage.restore("s", LABEL).state == "closed"
    assert ids(stage) == IDS


def test_a_manifest_that_cannot_be_read_is_named() -> None:
    stage = delete_first_tables()
    (key,) = (key for key in stage.bucket.objects if LABEL in key and "manifest" in key)
    stage.bucket.objects[key] = b"{"
    with pytest.raises(ArchiveFailed, match=f"the archive's object {key} is missing or damaged"):
        stage.restore("s", LABEL)


def test_events_that_the_table_does_not_take_in_time_are_for_another_run(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = delete_first_tables()
    store = type(stage.pipeline.restorer.store)

    def take_nothing(self: object, puts: Sequence[Put], **_: object) -> Written:
        return Written(unwritten=list(puts))

    monkeypatch.setattr(store, "write", take_nothing)
    with pytest.raises(ArchiveBusy, match=r"events of \S+ could not be written in time; a later run goes on$"):
        stage.restore("s", LABEL, within=120)
    assert ids(stage) == IDS, "it is still read from its archive"
    monkeypatch.undo()
    stage.clock.sleep(900)
    assert stage.restore("s", LABEL).state == "closed"


def with_recovery() -> Stage:
    stage = delete_first_tables()
    recovery = "table = { point_in_time_recovery = true }\n[streams.s.key]"
    stage.config = parse(CONFIG.replace("[streams.s.key]", recovery))
    return stage


@pytest.mark.parametrize(
    ("transient", "error", "message"),
    [
        (True, ArchiveBusy, f"^table {TABLE} is complete, but .*; a later run goes on$"),
        (False, ArchiveFailed, f"^point-in-time recovery of {TABLE} is refused: "),
    ],
)
def test_a_table_without_the_recovery_of_its_stream_is_not_opened(
    transient: bool, error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = with_recovery()

    def refuse(name: str) -> None:
        raise TableRefused("no backups", transient=transient)

    monkeypatch.setattr(stage.tables, "enable_recovery", refuse)
    begun = stage.clock.now()
    with pytest.raises(error, match=message):
        stage.restore("s", LABEL)
    assert entry(stage).state is State.RESTORING
    assert transient == (stage.clock.now() - begun > timedelta(seconds=280)), (
        "it waits for what may pass, and only that"
    )


def test_a_comparison_that_is_throttled_goes_on_a_second_later(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = delete_first_tables()
    page, throttled = RawScan.page, list[Any]()

    def throttle_twice(*arguments: Any, **options: Any) -> RawPage:
        if len(throttled) < 2:
            throttled.append(stage.clock.now())
            raise TableThrottled(TABLE)
        return page(*arguments, **options)

    monkeypatch.setattr(RawScan, "page", throttle_twice)
    assert stage.restore("s", LABEL).state == "closed"
    assert throttled[1] - throttled[0] == timedelta(seconds=1)


def test_a_restored_table_is_opened_only_between_two_runs_of_the_lifecycle() -> None:
    """The catalog notes nothing of the table's units: it is on demand until the lifecycle has seen it."""
    stage = delete_first_tables()
    parts = sum(LABEL in key and "/part-" in key for key in stage.bucket.objects)
    # The run that compares the table is the next one.
    stage.restore("s", LABEL, most=1 + parts)
    begun = stage.clock.now()
    stage.catalog.acquire(LIFECYCLE_LEASE, "lifecycle", begun, timedelta(hours=1))
    with pytest.raises(ArchiveBusy, match=r"^a run of the lifecycle is under way; a later run goes on$"):
        stage.restore("s", LABEL, within=800)
    assert timedelta(seconds=797) < stage.clock.now() - begun <= timedelta(seconds=800), "it looks every second"
    assert entry(stage).state is State.RESTORING
    stage.catalog.release(LIFECYCLE_LEASE, "lifecycle")
    stage.clock.sleep(900)
    stage.catalog.note(entry(stage), SeenTable(9, 9, TableClass.STANDARD))
    assert stage.restore("s", LABEL).state == "closed"
    assert entry(stage).capacity.seen == SeenTable(None, None, TableClass.INFREQUENT)


def test_a_table_that_the_lifecycle_deleted_while_it_was_restored_is_not_opened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The run has read that the period is archived, and deletes its table; the restore began in between, and found the table."""
    stage = delete_first_tables()
    stage.restore("s", LABEL, keep_days=1)
    stage.clock.sleep(86_400)
    delete, acquire = stage.tables.delete, stage.catalog.acquire
    may_delete, has_read = Event(), Event()

    def wait_and_delete(name: str) -> None:
        if name == TABLE:
            has_read.set()
            assert may_delete.wait(60)
        delete(name)

    run = Thread(target=lambda: [stage.run_lifecycle() for _ in range(2)])

    def wait_for_the_run(lease: str, *arguments: Any) -> bool:
        free = acquire(lease, *arguments)
        if lease == LIFECYCLE_LEASE and current_thread() is not run:
            assert free is may_delete.is_set(), "the run holds its lease until it has deleted the table"
            may_delete.set()
            run.join(60)
        return free

    monkeypatch.setattr(stage.tables, "delete", wait_and_delete)
    monkeypatch.setattr(stage.catalog, "acquire", wait_for_the_run)
    run.start()
    assert has_read.wait(60)
    with pytest.raises(ArchiveBusy, match=f"^table {TABLE} was deleted meanwhile; a later run makes it anew$"):
        stage.restore("s", LABEL)
    assert not run.is_alive()
    assert entry(stage).state is State.RESTORING
    assert ids(stage) == IDS, "it is still read from its archive"
    stage.clock.sleep(900)
    assert stage.restore("s", LABEL).state == "closed"


def test_series_are_noted_for_rollups_before_their_events_are_written() -> None:
    """Rollups read the period by its noted series: an event of another series would be left out of them."""
    noted: list[Any] = []

    class Notes:
        def note(self, series_of: Any, now: Any) -> bool:
            noted.extend(series_of)
            return False

    layout = Layout("series", 1, "id", 0)
    rows = ArchivedRows(Batch([f"{LABEL}T00:00:00.000000Z"], ["a"], ["1"], [{}], [0]), {})
    archive: Any = SimpleNamespace(
        objects=SimpleNamespace(find=lambda _: b"part"),
        format=SimpleNamespace(rows=lambda *_: [rows]),
        config=SimpleNamespace(streams={"s": SimpleNamespace(rollup=["hourly"])}),
        clock=SimpleNamespace(now=lambda: None),
    )
    large = SimpleNamespace(compressor=None, unique=None, values=None)
    restorer: Any = SimpleNamespace(archive=archive, notes=Notes(), large=large, jitter=None, store=None)
    period: Any = SimpleNamespace(stream="s", period=SimpleNamespace(label=LABEL), table=TABLE, layout=layout)
    memo = RestorePieceMemo(key="part", sha256=sha256(b"part").hexdigest(), end=1)
    with pytest.raises(ArchiveBusy, match="series of s could not be noted"):
        PieceRun(period, 0, memo, restorer, lambda: 100.0).run()
    assert noted == [(period, {"a"})]


@pytest.mark.parametrize(
    ("layout", "rollups"),
    [(Layout("time", 1, "id", 86_400), ["hourly"]), (Layout("series", 1, "id"), []), (Layout("series", 1, "id"), None)],
    ids=["by time", "no rollup", "no such stream"],
)
def test_series_that_no_rollup_reads_a_period_by_are_not_noted(layout: Layout, rollups: list[str] | None) -> None:
    """A note that cannot be written would end the restore."""
    streams = {} if rollups is None else {"s": SimpleNamespace(rollup=rollups)}
    archive: Any = SimpleNamespace(config=SimpleNamespace(streams=streams), clock=SimpleNamespace(now=lambda: None))
    noted: list[Any] = []
    notes = SimpleNamespace(note=lambda *given: noted.append(given))
    period: Any = SimpleNamespace(stream="s", period=SimpleNamespace(label=LABEL), layout=layout)
    restorer: Any = SimpleNamespace(archive=archive, notes=notes)
    PieceRun(period, 0, RestorePieceMemo(), restorer, lambda: 100.0).note_series({"a"})
    assert noted == []
