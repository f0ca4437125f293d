"""The plan for one period, from its entry and its table: a pure function, so each rule is tested alone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.lifecycle.world import INDEXED, SCALED, World, configuration, outcomes
from tests.worlds.entries import make_entry
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opening, SeenTable, State
from tidetable.config import Config, TableClass, parse
from tidetable.ladder import choose_level, compute_level
from tidetable.lifecycle.backfill import open_backfill
from tidetable.lifecycle.observe import Observed, observe
from tidetable.lifecycle.plan import plan
from tidetable.periods import parse_label
from tidetable.ports import Table
from tidetable.times import to_text
from tidetable.upkeep.actions import Action, Close, Create, Deferred, Reopen, SetCapacity

DAY = "2026-03-15"
TABLE = f"tidetable-t.s.{DAY}"
START = datetime(2026, 3, 15, tzinfo=UTC)
HOUR = timedelta(hours=1)
# Closed a day after its end; kept for five days after its end.
CLOSES, EXPIRES = START + timedelta(days=2), START + timedelta(days=6)
LOST = "INACCESSIBLE_ENCRYPTION_CREDENTIALS"


def recorded(config: Config, state: State, **more: Any) -> Entry:
    return make_entry(
        "s", parse_label(DAY), TABLE, config.streams["s"].layout, state, START - timedelta(days=2), **more
    )


def table(write: int | None = 10, read: int | None = 10, status: str = "ACTIVE", **more: Any) -> Table:
    return Table(TABLE, status, write, read, more.pop("table_class", TableClass.STANDARD), **more)


def planned(
    config: Config, entry: Entry, there: Table | None, now: datetime, backfills: Sequence[Backfill] = ()
) -> list[Action]:
    """The planned actions for the period."""
    observed = Observed([entry], {TABLE: there} if there is not None else {}, backfills=backfills)
    return [action for action in plan(config, "t", now, {"s": observed}) if action.entry.period == entry.period]


def names(actions: Sequence[Action]) -> list[str]:
    return [action.name for action in actions]


def backfill(until: datetime) -> Backfill:
    return Backfill("s", START, START + timedelta(days=1), Opening(until, None, None))


# Tables that are of no use


def test_an_expired_table_of_a_lost_key_is_not_tried_to_archive() -> None:
    """Each try would cost the archiver's time and could not succeed."""
    config = configuration()
    entry = recorded(config, State.CLOSED)
    assert names(planned(config, entry, table(), EXPIRES + HOUR)) == ["capacity", "class", "archive", "delete"]
    assert names(planned(config, entry, table(status=LOST), EXPIRES + HOUR)) == ["delete", "stuck"]
    # Without grace, the deletion reads the catalog again and waits for the archive.
    config = configuration(grace="1d")
    assert names(planned(config, entry, table(status=LOST), EXPIRES + HOUR)) == ["stuck"]


def test_a_table_of_a_lost_key_is_closed_when_its_window_ends() -> None:
    config = configuration()
    entry = recorded(config, State.OPEN)
    assert names(planned(config, entry, table(status=LOST), CLOSES)) == ["stuck"]
    assert names(planned(config, entry, table(status=LOST), CLOSES + HOUR)) == ["close", "stuck"]


def test_a_table_of_a_lost_key_that_a_backfill_holds_open_is_not_closed() -> None:
    config = configuration()
    entry = recorded(config, State.OPEN, opened=backfill(CLOSES + 3 * HOUR).opened)
    assert names(planned(config, entry, table(status=LOST), CLOSES + HOUR)) == ["stuck"]


@pytest.mark.parametrize(("minutes", "expected"), [(30, ["close"]), (30.1, ["close", "stuck"])])
def test_a_table_is_stuck_when_it_is_in_the_making_for_more_than_half_an_hour(
    minutes: float, expected: list[str]
) -> None:
    config = configuration()
    now = CLOSES + HOUR
    entry = replace(recorded(config, State.CREATING), created_at=now - timedelta(minutes=minutes))
    actions = planned(config, entry, table(2, 5, status="CREATING"), now)
    assert names(actions) == expected


# Tables that are made late


def test_only_a_table_whose_events_are_still_to_come_is_made_warm() -> None:
    warm = configuration(capacity='mode = "on-demand"\nwarm = { write = 8000, read = 12000 }')
    entry = recorded(warm, State.CREATING)
    for now, expected in ((START, (8000, 12_000)), (CLOSES, (8000, 12_000)), (CLOSES + HOUR, None)):
        made = [action for action in planned(warm, entry, None, now) if isinstance(action, Create)]
        assert [action.spec.warm for action in made] == [expected], now


# Decreases


def lowered(there: Table, now: datetime, config: Config | None = None) -> list[Action]:
    config = config or configuration(capacity=INDEXED)
    return planned(config, recorded(config, State.OPEN), there, now)


def test_a_decrease_of_an_index_alone_counts_and_waits_like_any_other() -> None:
    now = START + 12 * HOUR
    used: dict[str, Any] = {"decreases_today": 4, "last_decrease": now - timedelta(minutes=10)}
    (found,) = lowered(table(index_units={"status": (70, 2)}, **used), now)
    assert isinstance(found, Deferred)
    assert "deferred until 2026-03-15T12:50:00.000000Z: 4 decreases used today" in found.reason
    (later,) = lowered(table(index_units={"status": (70, 2)}, **used), now + timedelta(minutes=50))
    assert isinstance(later, SetCapacity)
    assert later.lowers
    # The write units rise, the read units fall: that is a decrease, too.
    (mixed,) = lowered(table(index_units={"status": (1, 3)}, **used), now)
    assert isinstance(mixed, Deferred)
    # What stays equal is no decrease.
    for units in ((1, 1), (1, 2)):
        (rises,) = lowered(table(index_units={"status": units}, **used), now)
        assert isinstance(rises, SetCapacity)
        assert not rises.lowers


def test_a_switch_to_on_demand_is_no_decrease() -> None:
    now = START + 12 * HOUR
    config = configuration(capacity='mode = "on-demand"')
    used: dict[str, Any] = {"decreases_today": 4, "last_decrease": now}
    for indexes in ({}, {"status": (70, 2)}):
        (found,) = lowered(table(index_units=indexes, **used), now, config)
        assert isinstance(found, SetCapacity)
        assert not found.lowers


# Backfills


def test_a_closed_period_is_opened_until_the_backfill_ends_and_closed_after_it() -> None:
    config = configuration()
    until = CLOSES + 5 * HOUR
    closed = recorded(config, State.CLOSED)
    now = CLOSES + HOUR
    assert names(planned(config, closed, table(2, 5), now, [backfill(until)])) == ["reopen", "capacity"]
    # A run that died may have closed the table, and have left the note of this backfill.
    noted = recorded(config, State.CLOSED, opened=backfill(until).opened)
    assert names(planned(config, noted, table(2, 5), now, [backfill(until)])) == ["reopen", "capacity"]
    opened = recorded(config, State.OPEN, opened=backfill(until).opened)
    assert names(planned(config, opened, table(None, None), until - HOUR, [backfill(until)])) == []
    assert names(planned(config, opened, table(None, None), until)) == ["capacity", "close"]


def test_a_backfill_that_still_runs_leaves_the_units_of_a_table_that_is_young_again() -> None:
    """A longer window has made the period open for live events, too."""
    longer = configuration(late="5d")
    opened = Opening(CLOSES + 5 * HOUR, 1, 1)
    entry = recorded(longer, State.OPEN, opened=opened)
    assert planned(longer, entry, table(10, 10), CLOSES + HOUR, [Backfill("s", START, CLOSES, opened)]) == []


def test_a_backfill_is_seen_though_all_before_a_later_time_was_noted_as_deleted() -> None:
    """A run that was in progress at the request may have noted this."""
    world = World(on_expiry="keep")
    world.run()
    world.after(days=3)
    assert world.states()[DAY] is State.CLOSED
    world.catalog.put_backfill(backfill(world.clock.now() + timedelta(days=1)))
    world.catalog.set_horizon("s", START + timedelta(days=2))
    report = world.after(minutes=5)
    assert ("reopen", DAY, "done") in outcomes(report)
    assert ("create", DAY) not in [outcome[:2] for outcome in outcomes(report)]
    assert world.states()[DAY] is State.OPEN


@pytest.mark.parametrize("state", [State.ARCHIVING, State.ARCHIVED, State.DELETED, State.RESTORING])
def test_a_period_without_a_table_of_its_own_is_not_opened_and_says_what_to_do(state: State) -> None:
    config = configuration(delete="false")
    entry = recorded(config, state)
    actions = planned(config, entry, None, CLOSES + HOUR, [backfill(CLOSES + 5 * HOUR)])
    reasons = [action.reason for action in actions if isinstance(action, Deferred)]
    until = to_text(CLOSES + 5 * HOUR)
    assert reasons == [f"a backfill asks for it until {until}, but it is {state}: restore it first"]
    assert "reopen" not in names(actions)


def test_a_period_of_the_window_is_opened_for_a_backfill_once_and_keeps_its_units() -> None:
    """Its table takes events of the window without a backfill, but not those before the window."""
    config = configuration()
    entry = recorded(config, State.OPEN)
    request = backfill(CLOSES + 5 * HOUR)
    (action,) = planned(config, entry, table(), CLOSES, [request])
    assert isinstance(action, Reopen)
    assert (action.state, action.opened) == (State.OPEN, request.opened)
    opened = msgspec.structs.replace(entry, opened=request.opened)
    assert planned(config, opened, table(), CLOSES, [request]) == []


def test_a_planned_backfill_is_looked_at_for_its_own_stream_only() -> None:
    config = configuration()
    other = msgspec.structs.replace(config.streams["s"], name="other")
    both = msgspec.structs.replace(config, streams={**config.streams, "other": other})
    observed = observe(World().begin_run(config=both), START, [backfill(CLOSES)])
    assert {name: len(stream.backfills) for name, stream in observed.streams.items()} == {"s": 1, "other": 0}


# What a run reads and leaves


def test_a_run_reads_the_catalog_consistently() -> None:
    """A period that an earlier run has just recorded or archived must not be planned again."""
    world = World()
    for _ in range(2):
        world.catalog.reads.clear()
        world.run()
        assert world.catalog.reads
        assert all(consistent for *_, consistent in world.catalog.reads)


def test_the_periods_of_a_backfill_are_seen_after_its_end_wherever_the_horizon_is() -> None:
    """A backfill years before the horizon. Runs read its periods, and none of those between."""
    world = World()
    world.run()
    world.catalog.set_horizon("s", START)
    day = datetime(2020, 3, 10, tzinfo=UTC)
    early = Backfill("s", day, day + timedelta(days=2), backfill(CLOSES).opened)
    open_backfill(early, world.begin_run("b", lambda: 1000.0))
    assert world.catalog.read_horizon("s").at == START
    assert {day: world.states()[day] for day in ("2020-03-10", "2020-03-11")} == dict.fromkeys(
        ("2020-03-10", "2020-03-11"), State.OPEN
    )
    world.catalog.reads.clear()
    world.clock.time = CLOSES
    report = world.run()
    assert {("close", "2020-03-10", "done"), ("close", "2020-03-11", "done")} <= set(outcomes(report))
    spans = [(start, end) for start, end, _ in world.catalog.reads if end is not None]
    assert all(end - start <= timedelta(days=4) for start, end in spans if start is not None)


def test_a_table_that_could_not_be_described_counts_towards_the_quota() -> None:
    config = configuration(more='cold = ["raw"]')
    entry = recorded(config, State.OPEN)
    assert Observed([entry], {}).table_names == set()
    for seen in (Observed([entry], {TABLE: table()}), Observed([entry], {}, {TABLE: "no answer"})):
        assert seen.table_names == {TABLE, f"{TABLE}.parts"}


def test_a_run_makes_the_secret_of_cursors_or_says_why_not() -> None:
    world = World()

    def fail() -> None:
        raise ConnectionError("no answer")

    ensure, world.catalog.ensure_secret = world.catalog.ensure_secret, fail  # type: ignore[method-assign]
    report = world.run()
    assert report.troubles == ["the secret of cursors could not be made: ConnectionError: no answer"]
    assert (report.healthy, world.catalog.key) == (False, None)
    world.catalog.ensure_secret = ensure  # type: ignore[method-assign]
    assert world.run().healthy
    assert world.catalog.secret() == b"as secret as can be"


# The end


@pytest.mark.parametrize(("units", "expected"), [(4, []), (5, []), (6, [(2, 6)])])
def test_an_export_never_lowers_what_a_table_can_be_read_with(units: int, expected: list[tuple[int, int]]) -> None:
    ladder = 'mode = "provisioned"\nladder = [{ age = 0, write = 10, read = 10 }, { age = 1, write = 2, read = 5 }]'
    config = configuration(capacity=ladder, more=f"archive = {{ read_units = {units} }}")
    actions = planned(config, recorded(config, State.CLOSED), table(2, 5), EXPIRES + HOUR)
    assert [
        (action.level.write, action.level.read) for action in actions if isinstance(action, SetCapacity)
    ] == expected
    assert names(actions)[-2:] == ["archive", "delete"]


@pytest.mark.parametrize(("hours", "expected"), [(0, []), (1, []), (24, ["delete"]), (25, ["delete"])])
def test_an_archived_table_is_deleted_its_grace_after_it_was_verified(hours: int, expected: list[str]) -> None:
    config = configuration(grace="1d")
    archived = EXPIRES + HOUR
    facts = ArchiveFacts("m", 1, 1, archived)
    entry = recorded(config, State.ARCHIVED, archive=facts)
    there = table(None, None, table_class=TableClass.INFREQUENT)
    assert names(planned(config, entry, there, archived + timedelta(hours=hours))) == expected


def test_a_restored_table_that_has_an_archive_is_archived_again_before_it_is_deleted() -> None:
    """Its entry still names the first archive, whose grace is over."""
    config = configuration(grace="1d")
    facts = ArchiveFacts("m", 1, 1, EXPIRES)
    entry = recorded(config, State.CLOSED, archive=facts, keep_until=EXPIRES + timedelta(days=7))
    there = table(1, 1, table_class=TableClass.INFREQUENT)
    assert names(planned(config, entry, there, EXPIRES + timedelta(days=7))) == []
    assert names(planned(config, entry, there, EXPIRES + timedelta(days=8))) == ["capacity", "archive"]


def test_of_all_streams_the_oldest_period_is_deleted_first() -> None:
    """A run deletes as many tables as it may; a stream that is named first must not keep another's for ever."""
    stream = 'period = "day"\nlate = "1d"\nretention = 5\non_expiry = "delete"\nkey = { partition_by = "series" }\n'
    lifecycle = "[lifecycle]\ndelete_expired = true\nmax_deletes = 1\n"
    config = parse(f"{lifecycle}[streams.a]\n{stream}[streams.b]\n{stream}")
    observed = {}
    for name, label in (("a", "2026-03-15"), ("b", "2026-03-14")):
        table_name = f"tidetable-t.{name}.{label}"
        entry = Entry(name, parse_label(label), table_name, config.streams[name].layout, State.CLOSED, START)
        observed[name] = Observed([entry], {table_name: Table(table_name, "ACTIVE", None, None, TableClass.STANDARD)})
    made = [action for action in plan(config, "t", EXPIRES + HOUR, observed) if action.entry.table in str(observed)]
    leaving = [(action.name, action.entry.stream) for action in made if action.entry.state is State.CLOSED]
    assert leaving == [("delete", "b"), ("deferred", "a")]


def test_a_table_that_is_deleted_in_this_run_is_not_lowered_first() -> None:
    config = configuration(on_expiry="delete")
    assert names(planned(config, recorded(config, State.CLOSED), table(), EXPIRES + HOUR)) == ["delete"]


def test_a_table_that_can_be_read_fast_enough_is_exported_in_the_class_that_it_has() -> None:
    ladder = 'mode = "provisioned"\nladder = [{ age = 0, write = 10, read = 10 },'
    ladder += ' { age = 1, write = 2, read = 5, class = "infrequent-access" }]'
    config = configuration(capacity=ladder, more="archive = { read_units = 5 }")
    assert names(planned(config, recorded(config, State.CLOSED), table(2, 5), EXPIRES + HOUR)) == ["archive", "delete"]


def test_a_table_is_scaled_when_it_is_open_and_not_before() -> None:
    config = configuration(capacity=SCALED)
    now = START + 12 * HOUR
    assert names(planned(config, recorded(config, State.CREATING), table(), now)) == ["open"]
    assert names(planned(config, recorded(config, State.OPEN), table(), now)) == ["scale"]


def test_a_class_that_was_changed_by_hand_is_put_back() -> None:
    config = configuration()
    seen = SeenTable(1, 1, TableClass.INFREQUENT)
    entry, now = recorded(config, State.CLOSED, seen=seen), START + timedelta(days=5, hours=1)
    assert names(planned(config, entry, table(1, 1), now)) == ["class"]
    assert names(planned(config, entry, table(1, 1, table_class=TableClass.INFREQUENT), now)) == []


@pytest.mark.parametrize(
    ("until", "reason"),
    [
        (CLOSES - HOUR, "its events could arrive until 2026-03-17T00:00:00.000000Z"),
        (CLOSES + HOUR, "it was open for a backfill until 2026-03-17T01:00:00.000000Z"),
    ],
)
def test_a_closing_says_what_ended_last(until: datetime, reason: str) -> None:
    config = configuration()
    entry = recorded(config, State.OPEN, opened=Opening(until, None, None))
    actions = planned(config, entry, table(), CLOSES + 2 * HOUR)
    assert [action.reason for action in actions if isinstance(action, Close)] == [reason]


def test_a_table_has_its_units_twenty_minutes_before_its_period() -> None:
    """Events may come five minutes before it, and a raise is begun a quarter of an hour before that."""
    stream, period = configuration().streams["s"], parse_label(DAY)
    rises = START - timedelta(minutes=20)
    assert compute_level(period, stream, rises - timedelta(microseconds=1)).write == 1
    assert compute_level(period, stream, rises).write == 10


@pytest.mark.parametrize(("write", "most"), [(None, (500, 600)), (7, None)])
def test_a_table_of_a_backfill_on_demand_has_the_maxima_of_its_stream(write: int | None, most: Any) -> None:
    config = configuration(capacity='mode = "on-demand"\nmax = { write = 500, read = 600 }')
    entry = recorded(config, State.OPEN, opened=Opening(CLOSES + 9 * HOUR, write, write))
    assert choose_level(entry, config.streams["s"], CLOSES + HOUR).most == most
