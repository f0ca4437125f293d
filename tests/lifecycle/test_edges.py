"""The instants, states and orders that decide in a run, in a deploy and in a backfill."""

from datetime import datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from tests.lifecycle.world import NOON, World, configuration
from tests.worlds.copied import text
from tests.worlds.entries import change_entry, make_entry
from tidetable.catalog import Backfill, Entry, Opening, State
from tidetable.config import TableClass, parse
from tidetable.copies.catalog_copies import CatalogCopy, follow_catalog, remove_catalog_copies
from tidetable.copies.table_copies import Copy, CopyTrouble, find_copies_to_mark, fit_copies
from tidetable.errors import BadBackfill, NotReady, TableRefused
from tidetable.ladder import Level
from tidetable.lifecycle.backfill import open_backfill
from tidetable.lifecycle.observe import Observed, observe
from tidetable.lifecycle.plan import plan
from tidetable.periods import parse_label
from tidetable.ports import Table
from tidetable.run_streams import find_run_streams
from tidetable.upkeep.actions import Deferred, Lost, SetCapacity, SetClass

IRELAND, TOKYO = "eu-west-1", "ap-northeast-1"
COPIED = parse(text(IRELAND, TOKYO))
STREAM = COPIED.streams["s"]
LABEL = "2026-03-15"
MIDNIGHT = NOON.replace(hour=0)
SECOND, DAY = timedelta(seconds=1), timedelta(days=1)


def table(**changes: Any) -> Table:
    held = Table(f"tidetable-t.s.{LABEL}", "ACTIVE", None, None, TableClass.STANDARD)
    return replace(held, **changes)


def copied(**changes: Any) -> Entry:
    held = make_entry("s", parse_label(LABEL), table().name, STREAM.layout, State.OPEN, NOON, replicas=(IRELAND, TOKYO))
    return change_entry(held, **changes)


def fitted(entry: Entry, there: Table, now: datetime, planned: Any = ()) -> list[tuple[type, str]]:
    """The kinds of the actions beside those that were planned, and the Region that each is about."""
    actions = [action for action in fit_copies(planned, entry, STREAM, there, now, makes=True) if action not in planned]
    return [
        (type(action), next((region for region in (IRELAND, TOKYO) if region in action.reason), ""))
        for action in actions
    ]


RAISE = SetCapacity(copied(), "", Level(None, None, TableClass.STANDARD, ""))
CLASS = SetClass(copied(), "", TableClass.INFREQUENT)
BEGUN = (IRELAND, NOON)
MINUTES = timedelta(minutes=1)


@pytest.mark.parametrize(
    ("entry", "there", "now", "planned", "expected"),
    [
        (copied(), table(), NOON, [], [(Copy, IRELAND)]),
        # AWS takes one change of a table at a time.
        (copied(), table(), NOON, [RAISE], []),
        (copied(), table(), NOON, [CLASS], []),
        # AWS refuses every change of a table while a copy of it is made, whoever makes that.
        (copied(), table(copies={IRELAND: "ACTIVE", TOKYO: "CREATING"}), NOON, [RAISE], [(Deferred, TOKYO)]),
        (copied(replicas=()), table(copies={TOKYO: "CREATING"}), NOON, [RAISE], [(Deferred, TOKYO)]),
        (copied(), table(status="UPDATING"), NOON, [], []),
        # Its run is still making it, and marks it open at the end.
        (copied(state=State.CREATING), table(), NOON, [], []),
        # A copy is listed within four minutes of its beginning.
        (copied(begun=BEGUN), table(), NOON + 4 * MINUTES - SECOND, [], [(Deferred, IRELAND)]),
        (copied(begun=BEGUN), table(), NOON + 4 * MINUTES, [], [(Copy, TOKYO)]),
        # A copy that is not listed two hours after the table was made needs somebody, unless one is being made.
        (copied(begun=BEGUN), table(), NOON + 2 * 60 * MINUTES, [], [(CopyTrouble, IRELAND), (Copy, TOKYO)]),
        (copied(begun=BEGUN), table(copies={TOKYO: "CREATING"}), NOON + 2 * 60 * MINUTES, [], []),
        # Somebody else's copy is no trouble of the stage.
        (
            copied(),
            table(copies={IRELAND: "ACTIVE", TOKYO: "ACTIVE", "us-east-1": "REGION_DISABLED"}),
            NOON, [], [],
        ),
        (copied(), table(copies={IRELAND: "REGION_DISABLED", TOKYO: "ACTIVE"}), NOON, [], [(CopyTrouble, IRELAND)]),
    ],
)  # fmt: skip
def test_a_copy_is_begun_when_its_table_takes_it_and_reported_when_it_does_not_come(
    entry: Entry, there: Table, now: datetime, planned: Any, expected: list[tuple[type, str]]
) -> None:
    assert fitted(entry, there, now, planned) == expected


def test_a_copy_that_a_removed_stream_lacks_is_no_trouble() -> None:
    """Nobody makes it any more, so nobody needs to act."""
    held, now = copied(begun=BEGUN), NOON + 2 * 60 * MINUTES
    assert list(fit_copies([], held, STREAM, table(), now, makes=False)) == []


@pytest.mark.parametrize(("state", "marked"), [(State.CLOSED, (IRELAND,)), (State.ARCHIVED, ())])
def test_a_copy_of_a_table_that_waits_for_its_deletion_is_not_marked_again(
    state: State, marked: tuple[str, ...]
) -> None:
    """A period may be archived by hand, long before it expires. Its copies go first, and nobody is to read them."""
    held, there = copied(state=state), table(copies={IRELAND: "ACTIVE"})
    assert find_copies_to_mark(held, STREAM, there, NOON) == marked


class Service:
    """The catalog's table, as its description says it is, and the requests for it."""

    def __init__(self, there: Table, error: TableRefused | None = None) -> None:
        self.there, self.error = there, error
        self.requests: list[str] = []

    def describe(self, _: str) -> Table:
        return self.there

    def _do(self, what: str) -> None:
        self.requests.append(what)
        if self.error is not None:
            raise self.error

    def set_stream(self, _: str, shows: str) -> None:
        self._do(f"stream {shows}")

    def create_copy(self, _: str, region: str) -> None:
        self._do(f"copy {region}")

    def delete_copy(self, _: str, region: str) -> None:
        self._do(f"delete {region}")


def followed(service: Service, now: datetime = NOON, catalog: Any = None) -> list[tuple[str, str, str]]:
    world = World()
    world.catalog.deployed = True
    run = world.begin_run(config=COPIED, catalog=catalog or world.catalog, tables=service)
    steps: list[CatalogCopy] = follow_catalog(run, now)
    return [(step.action, step.region, step.outcome) for step in steps]


SHOWN = {"stream_arn": "arn"}


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (table(), ("stream", "done")),
        (table(**SHOWN), ("copy", "done")),
        (table(status="UPDATING"), None),
        (table(**SHOWN, copies={IRELAND: "CREATING"}), None),
    ],
)
def test_the_catalog_gets_a_stream_and_then_copies_one_at_a_time(
    there: Table, expected: tuple[str, str] | None
) -> None:
    assert [(action, outcome) for action, _, outcome in followed(Service(there))] == ([expected] if expected else [])


@pytest.mark.parametrize(("transient", "outcome"), [(True, "deferred"), (False, "failed")])
def test_a_copy_of_the_catalog_that_is_refused_for_a_moment_is_no_failure(transient: bool, outcome: str) -> None:
    refusal = TableRefused("LimitExceededException: too many", transient=transient)
    ((_, _, found),) = followed(Service(table(**SHOWN), refusal))
    assert found == outcome


def test_a_copy_of_the_catalog_in_a_region_that_no_stream_names_is_no_trouble() -> None:
    there = table(**SHOWN, copies={IRELAND: "ACTIVE", TOKYO: "ACTIVE", "us-east-1": "CREATION_FAILED"})
    assert followed(Service(there)) == []


def test_a_trouble_in_one_region_is_told_beside_the_copy_that_is_begun_in_another() -> None:
    there = table(**SHOWN, copies={IRELAND: "CREATION_FAILED"})
    assert followed(Service(there)) == [("copy", IRELAND, "failed"), ("copy", TOKYO, "done")]
    assert followed(Service(cast("Any", None))) == [], "the catalog is not there"


def test_no_copy_of_the_catalog_is_begun_within_four_minutes_of_another() -> None:
    world = World()
    world.catalog.deployed = True
    service = Service(table(**SHOWN))
    instants = (NOON, NOON + 4 * MINUTES - SECOND, NOON + 4 * MINUTES)
    assert [followed(service, now, world.catalog)[0][2] for now in instants] == ["done", "deferred", "done"]


def test_a_copy_of_the_catalog_that_may_not_be_deleted_stops_its_removal() -> None:
    world = World()
    applied = world.begin_run("owner", lambda: 1000.0)
    refusal = TableRefused("AccessDeniedException: no", transient=False)
    applied.tables = cast("Any", Service(table(copies={IRELAND: "ACTIVE"}), refusal))
    with pytest.raises(TableRefused):
        remove_catalog_copies(applied)


def test_a_copy_of_the_catalog_that_is_going_is_not_deleted_again() -> None:
    world = World()
    seconds = iter([10.0, 10.0, 0.0])
    applied = world.begin_run("owner", lambda: next(seconds))
    service = Service(table(copies={IRELAND: "DELETING"}))
    applied.tables = cast("Any", service)
    with pytest.raises(NotReady, match="still has copies in eu-west-1"):
        remove_catalog_copies(applied)
    assert service.requests == []


def asked(world: World, start: datetime, end: datetime, *, hours: float = 24) -> None:
    until = world.clock.now() + timedelta(hours=hours)
    open_backfill(Backfill("s", start, end, Opening(until, None, None)), world.begin_run("me", lambda: 300.0))


def test_a_backfill_may_reach_up_to_now_and_no_further() -> None:
    world = World()
    asked(world, MIDNIGHT - 3 * DAY, world.clock.now())
    with pytest.raises(BadBackfill, match="is in the future"):
        asked(world, MIDNIGHT - 3 * DAY, world.clock.now() + SECOND)


def test_a_backfill_opens_no_more_than_two_hundred_tables() -> None:
    world = World()
    with pytest.raises(BadBackfill, match="more than 200 tables; import the history in pieces"):
        asked(world, MIDNIGHT - 201 * DAY, MIDNIGHT)
    asked(world, MIDNIGHT - 200 * DAY, MIDNIGHT)


@pytest.mark.parametrize("state", [State.ARCHIVING, State.ARCHIVED, State.DELETED, State.RESTORING])
def test_a_backfill_of_a_period_that_takes_no_writes_is_refused_by_what_the_catalog_holds_now(state: State) -> None:
    world = World()
    world.run()
    held = next(entry for entry in world.catalog.entries("s") if entry.period.label == LABEL)
    world.catalog.stale = dict(world.catalog.items)
    world.catalog.items["s", held.period] = replace(held, state=state)
    with pytest.raises(BadBackfill, match=f"{LABEL} of s are archived or gone: restore them first"):
        asked(world, MIDNIGHT, NOON)


@pytest.mark.parametrize(("hours", "far"), [(-25, True), (-24, True), (-23, False), (0, False)])
def test_a_period_that_is_recorded_after_its_end_may_be_a_far_one(hours: int, far: bool) -> None:
    """``hours`` is the time from the end of the day to the instant at which its period is recorded, backwards."""
    config = configuration()
    period = parse_label(LABEL)
    entry = Entry("s", period, "t", config.streams["s"].layout, State.CREATING, period.start - timedelta(hours=hours))
    assert entry.is_far is far


def test_a_new_period_beside_a_backfill_overlaps_no_deleted_one() -> None:
    """The days of a month that are recorded lie outside of the backfill, and before the horizon. So its days are made."""
    world = World(period="month")
    early = MIDNIGHT - 400 * DAY
    for day in (4, 25):
        period = parse_label(f"{early:%Y-%m}-{day:02}")
        layout = world.config.streams["s"].layout
        world.catalog.add(Entry("s", period, f"tidetable-t.s.{period.label}", layout, State.DELETED, period.start))
    world.catalog.set_horizon("s", MIDNIGHT - 60 * DAY)
    asked(world, early, early + DAY)
    labels = [entry.period.label for entry in world.catalog.entries("s", early - 40 * DAY, early + 40 * DAY)]
    assert labels == [f"{early:%Y-%m}-{day:02}" for day in (4, early.day, 25)]


def test_the_rollups_of_a_stream_are_opened_before_the_stream() -> None:
    """Once the stream takes events, the marks of their buckets can be cleared."""
    world = World(more='rollup = [{ name = "hours", every = "1h", retention = "730d" }]', capacity='mode = "on-demand"')
    order: list[str] = []
    put = world.catalog.put_backfill

    def noting(backfill: Backfill) -> None:
        order.append(backfill.stream)
        put(backfill)

    world.catalog.put_backfill = noting  # type: ignore[method-assign]
    asked(world, MIDNIGHT - 3 * DAY, MIDNIGHT)
    assert order == ["s-hours", "s"]


@pytest.mark.parametrize(("after", "kinds"), [(-SECOND, [Lost]), (timedelta(0), [Lost]), (SECOND, [])])
def test_a_table_that_is_missing_is_lost_unless_its_time_was_over(after: timedelta, kinds: list[type]) -> None:
    """Of a stream that deletes its tables without an archive. Kept for five days after its end, and then deleted."""
    config = configuration(on_expiry="delete")
    period = parse_label(LABEL)
    entry = Entry("s", period, table().name, config.streams["s"].layout, State.CLOSED, NOON)
    now = period.end + 5 * DAY + after
    planned = plan(config, "t", now, {"s": Observed([entry], {})})
    assert [type(action) for action in planned if action.entry.period == period and isinstance(action, Lost)] == kinds


@pytest.mark.parametrize(("after", "writes"), [(DAY - SECOND, 10), (DAY, 1)])
def test_a_removed_streams_tables_keep_their_units_for_a_day(after: timedelta, writes: int) -> None:
    """So long the drain may try to write what waited in the queue."""
    world = World()
    world.run()
    removed = msgspec.structs.replace(world.config, streams={})
    world.catalog.recorded["s"] = world.catalog.recorded["s"]._replace(removed=NOON)
    policy = find_run_streams(removed, world.catalog, NOON + after).config.streams["s"]
    assert policy.capacity.ladder[0].write == writes


def test_periods_that_were_deleted_are_read_as_far_as_a_window_that_became_longer() -> None:
    """Their instants are theirs for ever: a second table for them would hide what is in the archive of the first."""
    world = World()
    world.run()
    for entry in list(world.catalog.items.values()):
        world.catalog.items["s", entry.period] = replace(entry, state=State.DELETED)
    world.catalog.set_horizon("s", MIDNIGHT + 3 * DAY)
    seen = observe(world.begin_run(), NOON)
    assert [entry.period.label for entry in seen.streams["s"].entries][:2] == ["2026-03-14", LABEL]


def test_a_table_with_copies_whose_time_is_over_is_looked_at_in_every_run() -> None:
    world = World()
    world.config = parse(text(IRELAND))
    world.run()
    world.clock.sleep(60)
    held = next(entry for entry in world.catalog.entries("s") if entry.period.label == LABEL)
    described = world.tables.describe(held.table)
    assert described is not None
    closed = change_entry(held, state=State.CLOSED, active=(IRELAND,), seen=described.seen)
    closed = change_entry(
        closed, seen=closed.capacity.seen and closed.capacity.seen._replace(table_class=TableClass.INFREQUENT)
    )
    world.catalog.items["s", held.period] = closed
    looked: list[str] = []
    cast("Any", world.tables).describe = looked.append
    # It is kept for two days after its end; twelve runs are an hour.
    expired = held.period.end + 2 * DAY + SECOND
    for runs in range(12):
        observe(world.begin_run(), expired + runs * 5 * MINUTES)
    assert looked.count(held.table) == 12
