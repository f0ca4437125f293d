"""The report of a run on future changes, and its notices of actions."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.lifecycle.world import World, configuration
from tidetable.catalog import Entry, State
from tidetable.config import TableClass
from tidetable.errors import TableRefused
from tidetable.layout import Index, Layout
from tidetable.lifecycle.observe import Observed
from tidetable.lifecycle.outlook import Outlook, derive_outlook, measure_lead
from tidetable.lifecycle.report import make_notices
from tidetable.periods import Kind, find_containing, parse_label
from tidetable.ports import Table

TODAY, TOMORROW = "tidetable-t.s.2026-03-15", "tidetable-t.s.2026-03-16"


def test_a_next_table_that_is_missing_worries_from_an_hour_before_its_first_event() -> None:
    world = World()
    world.tables.fails = {TOMORROW}
    world.run()
    assert world.at(datetime(2026, 3, 15, 22, 54, tzinfo=UTC)).outlook.without_next_table == ()
    # Events may come five minutes before the period, and the hour counts from then.
    report = world.at(datetime(2026, 3, 15, 22, 56, tzinfo=UTC))
    assert report.outlook.without_next_table == ("s",)
    assert report.document()["without_next_table"] == ["s"]
    world.tables.fails = set()
    world.after(minutes=5)
    assert world.after(minutes=5).outlook.without_next_table == ()


def test_a_stream_without_a_present_table_worries_at_once() -> None:
    world = World()
    world.tables.fails = {TODAY}
    assert world.run().outlook.without_next_table == ("s",)


def test_a_good_life_worries_about_nothing() -> None:
    world = World()
    world.run()
    for _ in range(24 * 6):
        report = world.after(hours=1)
        assert (report.outlook.without_next_table, report.outlook.overdue) == ((), ())


def test_an_archive_that_fails_for_a_day_is_overdue() -> None:
    world = World()
    world.run()
    world.archiver.fails = True
    assert world.at(datetime(2026, 3, 20, 12, tzinfo=UTC)).outlook.overdue == ()
    report = world.at(datetime(2026, 3, 21, 1, tzinfo=UTC))
    assert report.outlook.overdue == ("s 2026-03-14",)
    world.archiver.fails = False
    world.after(minutes=5)
    assert world.after(minutes=5).outlook.overdue == ()


def test_a_table_s_life_is_told_in_four_notices() -> None:
    world = World()
    notices = []
    for report in (world.run(), *(world.after(hours=12) for _ in range(14))):
        notices += [
            (notice.kind, notice.detail["table"], notice.detail["stage"]) for notice in make_notices(report, "t")
        ]
    mine = [(kind, stage) for kind, table, stage in notices if table == TODAY]
    assert mine == [(f"Period Table {kind}", "t") for kind in ("Created", "Closed", "Archived", "Deleted")]


def test_a_failure_is_not_told_as_done() -> None:
    world = World()
    world.tables.fails = {TOMORROW}
    assert TOMORROW not in {notice.detail["table"] for notice in make_notices(world.run(), "t")}
    assert make_notices(world.run(dry_run=True), "t") == []


def test_a_change_that_does_not_hold_yet_says_from_when_it_does() -> None:
    world = World()
    world.run()
    assert world.after(minutes=5).document()["changes"] == []
    world.config = World(period="hour", late="1d", retention=50).config
    report = world.after(minutes=5)
    assert report.outlook.changes == ("s: period day -> hour from 2026-03-18T00:00:00.000000Z on",)
    assert world.at(datetime(2026, 3, 18, 0, 1, tzinfo=UTC)).outlook.changes == ()


CONFIG = configuration()


def look_ahead(entries: Mapping[str, State], statuses: Mapping[str, str], now: datetime, **more: Any) -> Outlook:
    """The outlook of a stream whose periods have these states, and whose tables that there are have these statuses."""
    layout = more.pop("layout", CONFIG.streams["s"].layout)
    names = {label: f"tidetable-t.s.{label}" for label in entries}
    made = [Entry("s", parse_label(label), names[label], layout, state, now) for label, state in entries.items()]
    tables = {
        names[label]: Table(names[label], status, 1, 1, TableClass.STANDARD) for label, status in statuses.items()
    }
    return derive_outlook(CONFIG, {"s": Observed(made, tables, **more)}, now)


@pytest.mark.parametrize(("kind", "minutes"), [(Kind.HOUR, 15), (Kind.DAY, 60), (Kind.MONTH, 60)])
def test_the_next_table_should_be_there_a_quarter_of_a_period_or_an_hour_before(kind: Kind, minutes: int) -> None:
    assert measure_lead(find_containing(datetime(2026, 3, 15, tzinfo=UTC), kind)) == timedelta(minutes=minutes)


@pytest.mark.parametrize(("status", "streams"), [("ACTIVE", ()), ("CREATING", ("s",))])
def test_a_next_table_in_the_making_is_not_there_yet(status: str, streams: tuple[str, ...]) -> None:
    entries = {"2026-03-15": State.OPEN, "2026-03-16": State.CREATING}
    found = look_ahead(
        entries, {"2026-03-15": "ACTIVE", "2026-03-16": status}, datetime(2026, 3, 15, 23, 30, tzinfo=UTC)
    )
    assert found.without_next_table == streams


@pytest.mark.parametrize(
    ("state", "overdue"),
    [
        (State.CLOSED, ("s 2026-03-15",)),
        (State.ARCHIVING, ("s 2026-03-15",)),
        (State.ARCHIVED, ()),
        (State.DELETED, ()),
        (State.RESTORING, ()),
    ],
)
def test_an_archive_is_overdue_while_there_is_none(state: State, overdue: tuple[str, ...]) -> None:
    now = datetime(2026, 3, 23, tzinfo=UTC)
    assert look_ahead({"2026-03-15": state}, {"2026-03-15": "ACTIVE"}, now).overdue == overdue


def test_every_part_of_a_key_that_changes_is_named() -> None:
    layout = replace(CONFIG.streams["s"].layout, shards=3, shard_by="series")
    now = datetime(2026, 3, 15, 12, tzinfo=UTC)
    found = look_ahead({"2026-03-15": State.OPEN}, {"2026-03-15": "ACTIVE"}, now, layout=layout)
    (change,) = found.changes
    assert change.endswith("shards 3 -> 1, shard_by series -> id from 2026-03-16T00:00:00.000000Z on")


def test_an_index_that_is_added_is_named_and_a_period_that_is_over_changes_no_more() -> None:
    indexed = Layout("series", 1, "id", indexes=(Index("status", "status"),))
    now = datetime(2026, 3, 15, 12, tzinfo=UTC)
    found = look_ahead({"2026-03-15": State.OPEN}, {"2026-03-15": "ACTIVE"}, now, layout=indexed)
    assert found.changes == ("s: indexes status -> none from 2026-03-16T00:00:00.000000Z on",)
    stream = CONFIG.streams["s"]
    made = [
        Entry("s", parse_label(label), label, layout, State.OPEN, now)
        for label, layout in (("2026-03-14", indexed), ("2026-03-15", stream.layout))
    ]
    assert derive_outlook(CONFIG, {"s": Observed(made, {})}, now).changes == ()


def test_a_removed_stream_is_shown_as_long_as_it_has_tables() -> None:
    now = datetime(2026, 3, 15, 12, tzinfo=UTC)
    entries = {"2026-03-14": State.CLOSED, "2026-03-15": State.OPEN}
    found = look_ahead(entries, dict.fromkeys(entries, "ACTIVE"), now, removed=now)
    assert [removed.document() for removed in found.removed] == [
        {"stream": "s", "since": "2026-03-15T12:00:00.000000Z", "tables": 2}
    ]
    assert look_ahead(entries, {}, now, removed=now).removed == ()


def test_a_run_holds_the_lease_for_five_minutes_at_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    lengths: list[timedelta] = []
    acquire = world.catalog.acquire

    def note(lease: str, owner: str, now: datetime, length: timedelta) -> bool:
        lengths.append(length)
        return acquire(lease, owner, now, length)

    monkeypatch.setattr(world.catalog, "acquire", note)
    world.run()
    assert lengths == [timedelta(minutes=5)]


def test_a_run_whose_archive_took_all_of_its_time_holds_the_lease_until_it_has_written_down_what_it_saw(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another run would write down what it saw, too."""
    world = World()
    world.run()
    world.clock.time += timedelta(days=6)
    monkeypatch.setattr(world.archiver, "archive", lambda *_, within, **_retain: world.clock.sleep(within))
    another: list[bool] = []
    monkeypatch.setattr(
        world.catalog,
        "ensure_secret",
        lambda: another.append(world.catalog.acquire("lifecycle", "another", world.clock.now(), timedelta(minutes=1))),
    )
    world.run()
    assert another == [False]


def test_a_report_counts_the_tables_that_are_left_after_its_deletions() -> None:
    world = World(on_expiry="delete")
    world.run()
    world.at(datetime(2026, 3, 21, 1, tzinfo=UTC))
    report = world.at(datetime(2026, 3, 22, 1, tzinfo=UTC))
    assert "delete" in {done.action.name for done in report.done if done.outcome == "done"}
    there = [entry for entry in world.catalog.entries("s") if world.tables.describe(entry.table) is not None]
    assert report.tables == len(there)


def test_a_report_counts_no_table_that_could_not_be_made_and_each_that_could_not_be_deleted() -> None:
    world = World(on_expiry="delete")
    world.tables.fails = {TOMORROW}
    assert world.run().tables == len(world.tables.names) == 3
    world.tables.fails = set()
    world.at(datetime(2026, 3, 19, 12, tzinfo=UTC))

    def refuse(name: str) -> None:
        raise TableRefused(f"AccessDeniedException: {name}", transient=False)

    world.tables.delete = refuse  # type: ignore[method-assign]
    report = world.at(datetime(2026, 3, 21, 12, tzinfo=UTC))
    assert [done.outcome for done in report.done if done.action.name == "delete"] == ["failed"] * 2
    assert report.tables == len(world.tables.names)


def test_no_archive_is_overdue_of_a_stream_that_deletes_without_one() -> None:
    config, now = configuration(on_expiry="delete", delete="false"), datetime(2026, 3, 23, tzinfo=UTC)
    held = Entry("s", parse_label("2026-03-15"), TODAY, config.streams["s"].layout, State.CLOSED, now)
    assert derive_outlook(config, {"s": Observed([held], {})}, now).overdue == ()
