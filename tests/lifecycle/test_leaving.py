"""The end of a table: raised for its export, lowered if it stays, deleted after its grace and not too many at once."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.fakes.threads import SharedClock, side_by_side
from tests.lifecycle.world import NOON, World, outcomes
from tidetable.catalog import State
from tidetable.errors import ArchiveFailed

LAST = (1, 1, "infrequent-access")
OLDEST = "2026-03-14"


def test_an_archived_table_is_deleted_only_after_its_grace() -> None:
    world = World(grace="2d")
    world.run()
    archived = None
    while world.states().get(OLDEST) is not State.DELETED:
        world.after(hours=1)
        entry = world.catalog.entries("s")[0]
        if entry.state is State.ARCHIVED:
            archived = archived or entry.archive
            assert entry.table in world.tables.names
    assert archived is not None
    waited = world.clock.now() - archived.at
    assert timedelta(days=2) <= waited < timedelta(days=2, hours=2)


def test_one_run_deletes_no_more_tables_than_it_may() -> None:
    world = World(delete="false")
    world.run()
    for _ in range(12):
        world.after(days=1)
        world.after(minutes=5)
    archived = [label for label, state in world.states().items() if state is State.ARCHIVED]
    assert len(archived) > 4
    world.config = World(max_deletes=2).config
    for first in range(0, len(archived) - 1, 2):
        report = world.after(minutes=5)
        deleted = [label for name, label, outcome in outcomes(report) if (name, outcome) == ("delete", "done")]
        assert deleted == archived[first : first + 2], "the oldest go first"
        left = [label for name, label, outcome in outcomes(report) if (name, outcome) == ("deferred", "deferred")]
        assert left == archived[first + 2 :]
        assert report.healthy


def test_a_table_is_raised_for_its_export_and_lowered_again_if_it_stays() -> None:
    world = World(delete="false", more="archive = { read_units = 400 }")
    world.run()
    seen: list[tuple[object, object]] = []
    while world.states()[OLDEST] is not State.ARCHIVED or world.levels()[OLDEST] != LAST:
        world.after(minutes=55)
        read = world.levels()[OLDEST][1]
        seen.append((world.states()[OLDEST].value, read))
        assert len(seen) < 400, seen[-3:]
    changes = [change for change, before in zip(seen, [None, *seen], strict=False) if change != before]
    assert ("archived", 400) in changes
    assert changes[-1] == ("archived", 1)
    assert all(read != 400 for state, read in changes if state in ("open", "closed")), "never before it is due"
    assert world.after(minutes=5).done == []


def test_a_table_is_switched_to_on_demand_for_its_export() -> None:
    """It is read once. On demand this costs only the reads, and no function waits for units."""
    world = World(delete="false")
    world.run()
    seen: list[tuple[object, object]] = []
    while world.states()[OLDEST] is not State.ARCHIVED:
        world.after(minutes=55)
        seen.append((world.states()[OLDEST].value, world.levels()[OLDEST]))
        assert len(seen) < 400, seen[-3:]
    assert seen[-1] == ("archived", (None, None, "infrequent-access"))
    assert {level for state, level in seen if state == "closed"} == {
        (2, 5, "standard"),
        (1, 1, "infrequent-access"),
    }, "never before it is due"
    for _ in range(30):
        world.after(hours=1)
    assert world.levels()[OLDEST] == (None, None, "infrequent-access"), "and stays so: it costs its storage alone"
    mine = [change for change in world.tables.changes if OLDEST in change]
    assert len([change for change in mine if change.startswith("capacity")]) == 3, "the ladder's two steps and this"


def test_a_table_is_archived_once_it_has_become_fast() -> None:
    world = World()
    world.run()
    called: list[str | None] = []
    archive = world.archiver.archive

    def noting(stream: str, label: str, *, within: float, retain: bool = False) -> None:
        table = world.tables.describe(f"tidetable-t.s.{label}")
        called.append(None if table is None else f"{table.status} {table.write}")
        archive(stream, label, within=within, retain=retain)

    world.archiver.archive = noting  # type: ignore[method-assign]
    for _ in range(9):
        world.after(days=1)
    assert set(called) == {"ACTIVE None"}


def test_a_table_that_already_has_the_units_is_not_raised() -> None:
    world = World(more="archive = { read_units = 1 }")
    world.run()
    for _ in range(9):
        world.after(days=1)
        world.after(minutes=5)
    mine = [change for change in world.tables.changes if OLDEST in change]
    assert world.states()[OLDEST] is State.DELETED
    assert len([change for change in mine if change.startswith("capacity")]) == 2, "the ladder's two steps"


def test_the_archiver_is_called_for_every_expired_table_though_one_fails() -> None:
    world = World()
    world.run()
    world.archiver.fails = True
    report = world.after(days=12)
    archives = [(label, outcome) for name, label, outcome in outcomes(report) if name == "archive"]
    assert archives == [(f"2026-03-{day}", "failed") for day in (14, 15, 16, 17)]
    world.archiver.fails = False
    world.after(minutes=5)
    assert world.states()[OLDEST] is State.DELETED


def test_one_archive_that_fails_keeps_no_other_from_being_written_and_its_own_table() -> None:
    world = World()
    world.run()
    archive = world.archiver.archive

    def failing(stream: str, label: str, *, within: float, retain: bool = False) -> None:
        if label == "2026-03-15":
            raise ArchiveFailed("the bucket is gone")
        archive(stream, label, within=within, retain=retain)

    world.archiver.archive = failing  # type: ignore[method-assign]
    report = world.after(days=12)
    steps = [outcome for outcome in outcomes(report) if outcome[0] in ("archive", "delete")]
    days = [(f"2026-03-{day}", "failed" if day == 15 else "done") for day in (14, 15, 16, 17)]
    # A table without an archive is deleted by a later run.
    deletions = [(label, "done" if outcome == "done" else "deferred") for label, outcome in days]
    assert steps == [("archive", *day) for day in days] + [("delete", *deletion) for deletion in deletions]
    assert "tidetable-t.s.2026-03-15" in world.tables.names
    assert [label for label, state in world.states().items() if state is State.DELETED] == [
        "2026-03-14",
        "2026-03-16",
        "2026-03-17",
    ]


def test_a_table_is_open_at_the_last_instant_of_its_window_and_closed_after_it() -> None:
    world = World()
    world.run()
    last = datetime(2026, 3, 16, tzinfo=UTC)
    # The end of 14 March plus a day; an event of 23:59:59.999999 may come until then.
    report = world.at(last)
    assert [outcome for outcome in outcomes(report) if outcome[1] == OLDEST] == []
    assert (world.states()[OLDEST], world.levels()[OLDEST]) == (State.OPEN, (10, 10, "standard"))
    world.at(last + timedelta(microseconds=1))
    assert (world.states()[OLDEST], world.levels()[OLDEST]) == (State.CLOSED, (2, 5, "standard"))


def test_a_table_whose_retention_is_its_window_is_archived_only_when_every_write_has_settled() -> None:
    # ArchivedEvent for a day after its end, and open for as long: the writes of its last instant may take 15 minutes.
    world = World(retention=1, late="1d")
    world.run()
    closes = datetime(2026, 3, 16, tzinfo=UTC)
    for minutes, expected in ((1, State.CLOSED), (14, State.CLOSED), (15, State.CLOSED), (15.1, State.DELETED)):
        world.at(closes + timedelta(minutes=minutes))
        assert world.states()[OLDEST] is expected, minutes


@pytest.mark.parametrize("on_expiry", ["archive", "delete"])
def test_without_the_switch_no_stream_loses_a_table_whatever_it_says(on_expiry: str) -> None:
    world = World(delete="false", on_expiry=on_expiry)
    world.run()
    for _ in range(20):
        world.after(days=1)
        world.after(minutes=5)
    assert [change for change in world.tables.changes if change.startswith("delete")] == []
    assert f"tidetable-t.s.{OLDEST}" in world.tables.names


def test_four_archives_are_written_at_once_however_many_are_due() -> None:
    clock = SharedClock(NOON)
    world = World(retention=5)
    world.run()
    world.pools = side_by_side(clock)
    world.clock.time = clock.time = NOON + timedelta(days=4)
    world.run()
    world.clock.time = NOON + timedelta(days=30)
    under_way, most = [0], [0]
    archive = world.archiver.archive

    def slowly(stream: str, label: str, *, within: float, retain: bool = False) -> None:
        under_way[0] += 1
        most[0] = max(most[0], under_way[0])
        clock.sleep(60)
        archive(stream, label, within=within, retain=retain)
        under_way[0] -= 1

    world.archiver.archive = slowly  # type: ignore[method-assign]
    report = world.run()
    done = [label for name, label, outcome in outcomes(report) if (name, outcome) == ("archive", "done")]
    assert len(done) == 8
    assert most == [4]
