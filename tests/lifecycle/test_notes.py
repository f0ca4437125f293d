"""What a run writes down, and the instants at which its outlook begins to worry."""

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from tests.lifecycle.world import NOON, World, configuration
from tests.worlds.copied import text
from tests.worlds.entries import change_entry
from tidetable.catalog import Backfill, Entry, Opening, State
from tidetable.config import Config, TableClass, parse
from tidetable.lifecycle.observe import (
    Observation,
    Observed,
    observe,
    remember_copies,
    remember_horizons,
    remember_tables,
)
from tidetable.lifecycle.outlook import derive_outlook
from tidetable.periods import parse_label
from tidetable.ports import Table
from tidetable.run_streams import RunStreams

DAY, MOMENT = timedelta(days=1), timedelta(microseconds=1)
START = NOON.replace(hour=0)
IRELAND, TOKYO = "eu-west-1", "ap-northeast-1"


def make_entry(config: Config, label: str = "2026-03-15", state: State = State.OPEN, **more: Any) -> Entry:
    return change_entry(
        Entry("s", parse_label(label), f"tidetable-t.s.{label}", config.streams["s"].layout, state, START), **more
    )


def make_table(entry: Entry, status: str = "ACTIVE", **more: Any) -> Table:
    return Table(entry.table, status, 1, 1, TableClass.STANDARD, **more)


def see(config: Config, *entries: Entry, **more: Any) -> Observation:
    return Observation(RunStreams(config), {"s": Observed(entries, **{"tables": {}, **more})})


def test_a_table_is_noted_when_it_is_active_and_has_changed() -> None:
    world, config = World(), configuration()
    held = make_entry(config)
    world.catalog.add(held)
    noted: list[Any] = []
    cast("Any", world.catalog).note = lambda *given: noted.append(given)
    active, changing = make_table(held), make_table(held, "UPDATING")
    seen = change_entry(held, seen=active.seen)
    for entry, table in ((held, changing), (seen, changing), (seen, active), (held, active)):
        remember_tables(world.catalog, see(config, entry, tables={entry.table: table}))
    assert noted == [(held, active.seen)]


def test_only_a_new_copy_gets_the_tags_of_its_table() -> None:
    world, config = World(), parse(text(IRELAND, TOKYO))
    held = make_entry(config, replicas=(IRELAND, TOKYO), active=(IRELAND,))
    world.catalog.add(held)
    tagged: list[Any] = []
    tables: Any = SimpleNamespace(tags=lambda _: {"a": "b"}, tag_copy=lambda *given: tagged.append(given))
    there = make_table(held, copies={IRELAND: "ACTIVE", TOKYO: "ACTIVE"})
    seen = see(config, held, tables={held.table: there})
    remember_copies(world.catalog, tables, seen, START)
    assert tagged == [(held.table, TOKYO, {"a": "b"})]
    assert world.catalog.entries("s")[0].copies.active == (IRELAND, TOKYO)


def test_the_copies_of_a_table_that_could_not_be_described_stay_marked() -> None:
    """Readers in other Regions read the copies that the catalog names."""
    world, config = World(), parse(text(IRELAND))
    held = make_entry(config, replicas=(IRELAND,), active=(IRELAND,))
    world.catalog.add(held)
    seen = see(config, held, unseen={held.table: "ConnectionError: no answer"})
    remember_copies(world.catalog, world.tables, seen, START)
    assert (world.catalog.entries("s")[0].copies.active, seen.troubles) == ((IRELAND,), [])


def test_the_horizon_is_before_the_first_period_that_is_there_and_never_goes_back() -> None:
    """A restored period lies between deleted ones. Beyond the horizon nobody would look at its table."""
    world, config = World(), configuration()
    first, *others = (make_entry(config, f"2026-03-{day}", State.DELETED) for day in (10, 11, 12, 13))
    restored = replace(others[0], state=State.CLOSED)
    noted: list[Any] = []
    set_horizon = world.catalog.set_horizon

    def note(stream: str, at: datetime) -> None:
        noted.append(at.day)
        set_horizon(stream, at)

    world.catalog.set_horizon = note  # type: ignore[method-assign]
    for entries in ((restored,), (first, restored, *others[1:]), (first,), (first, *others), (first,)):
        remember_horizons(world.catalog, see(config, *entries))
    assert noted == [11, 14]


@pytest.mark.parametrize(
    ("replicas", "changes", "looks"),
    [
        # A copy is missing.
        ((IRELAND,), {}, 12),
        # A table that waits for its deletion, with and without copies.
        ((IRELAND,), {"state": State.ARCHIVED, "active": (IRELAND,)}, 12),
        ((), {"state": State.ARCHIVED}, 1),
        ((IRELAND,), {"active": (IRELAND,)}, 1),
    ],
)
def test_a_closed_table_is_looked_at_once_an_hour_unless_it_should_change(
    replicas: tuple[str, ...], changes: dict[str, Any], looks: int
) -> None:
    world = World()
    world.config = parse(text(IRELAND))
    held = make_entry(world.config, "2026-03-14", replicas=replicas)
    seen = Table(held.table, "ACTIVE", None, None, TableClass.INFREQUENT).seen
    world.catalog.add(change_entry(held, **{"state": State.CLOSED, **changes}, seen=seen))
    looked: list[str] = []
    cast("Any", world.tables).describe = looked.append
    for run in range(12):
        observe(world.begin_run(), START + run * timedelta(minutes=5))
    assert len(looked) == looks


@pytest.mark.parametrize(("hours", "looks"), [(0, 0), (1, 6)])
def test_a_table_whose_step_is_delayed_is_looked_at_in_each_run_only_after_its_delay(hours: int, looks: int) -> None:
    """The table steps down when it has been closed for two days; its delay is 36 minutes. It is not its turn."""
    world = World(stagger="1h")
    held = make_entry(world.config, state=State.CLOSED)
    world.catalog.add(change_entry(held, seen=Table(held.table, "ACTIVE", 2, 5, TableClass.STANDARD).seen))
    looked: list[str] = []
    cast("Any", world.tables).describe = looked.append
    step = START + 4 * DAY + timedelta(hours=hours)
    for run in range(6):
        observe(world.begin_run(), step + run * timedelta(minutes=5) + MOMENT)
    assert len(looked) == looks


def test_the_outlook_worries_at_its_instants_and_not_before() -> None:
    config = configuration()
    stream = config.streams["s"]
    closed = make_entry(config, state=State.CLOSED)
    # It expires five days after its end, and an archive may take a day.
    due = START + 7 * DAY
    for now, overdue in ((due, ()), (due + MOMENT, ("s 2026-03-15",))):
        assert derive_outlook(config, {"s": Observed([closed], {})}, now).overdue == overdue
    held = make_entry(config)
    lead = START + DAY - stream.ahead - timedelta(hours=1)
    for now, missing in ((lead - MOMENT, ()), (lead, ("s",))):
        found = derive_outlook(config, {"s": Observed([held], {held.table: make_table(held)})}, now)
        assert found.without_next_table == missing


def test_the_outlook_has_the_backfills_of_all_streams() -> None:
    config = configuration()
    other = msgspec.structs.replace(config.streams["s"], name="other")
    both = msgspec.structs.replace(config, streams={**config.streams, "other": other})
    opened = Opening(NOON + DAY, None, None)
    backfills = {name: Backfill(name, START - DAY, START, opened) for name in ("s", "other")}
    seen = {name: Observed([], {}, backfills=[backfill]) for name, backfill in backfills.items()}
    assert derive_outlook(both, seen, NOON).backfills == tuple(backfills.values())


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"partition_by": "time", "bucket": 3_600}, "partition_by time -> series, bucket 3600 -> 0"),
        ({"shards": 2, "shard_by": "series"}, "shards 2 -> 1, shard_by series -> id"),
    ],
)
def test_a_change_of_the_key_holds_from_the_end_of_the_last_table_with_the_former_one(
    changes: dict[str, Any], what: str
) -> None:
    config = configuration()
    layout = replace(config.streams["s"].layout, **changes)
    days = [make_entry(config, f"2026-03-{day}") for day in (17, 16, 15, 14)]
    former = [replace(entry, layout=layout) for entry in days[1:]]
    found = derive_outlook(config, {"s": Observed([days[0], *former], {})}, NOON)
    assert found.changes == (f"s: {what} from 2026-03-17T00:00:00.000000Z on",)
    # At its end the last of them has no say any more.
    assert derive_outlook(config, {"s": Observed([days[0], *former], {})}, START + 2 * DAY).changes == ()
