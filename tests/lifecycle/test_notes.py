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
from tidetable.catalog import Backfill, Entry, Horizon, Opening, State
from tidetable.catalog_steps import read_kept_entries
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


def test_the_horizon_is_behind_the_last_deleted_period_and_periods_before_it_are_noted_as_far() -> None:
    """Beyond the horizon, nobody would look at the table of a restored period. A former version has noted none as far."""
    world, config = World(), configuration()
    first, *others = (make_entry(config, f"2026-03-{day}", State.DELETED) for day in (10, 11, 12, 13))
    restored, last = replace(others[0], state=State.CLOSED), make_entry(config, "2026-03-14", State.CLOSED)
    noted: list[Any] = []
    for name in ("set_horizon", "note_far"):
        write = getattr(world.catalog, name)

        def note(*given: Any, write: Any = write) -> None:
            noted.append(given[-1].day if isinstance(given[-1], datetime) else given[-1].period.label)
            write(*given)

        setattr(world.catalog, name, note)
    for entries in ((restored,), (first,), (first, restored, *others[1:], last), (first, *others, last), (first,)):
        horizon = world.catalog.read_horizon("s")
        remember_horizons(world.catalog, see(config, *entries, horizon=horizon), NOON)
    assert noted == [11, restored.period.label, 14]
    assert world.catalog.read_horizon("s") == horizon == Horizon(last.period.start, (restored.period,))
    deleted = replace(last, state=State.DELETED)
    remember_horizons(world.catalog, see(config, first, restored, deleted, horizon=horizon), NOON + DAY)
    assert noted == [11, restored.period.label, 14, 15], "it is noted once"


def test_a_deleted_period_within_the_window_leaves_the_horizon() -> None:
    """A period that is made later could lie before it, and nobody would note it as far."""
    world, config = World(), configuration()
    gone = make_entry(config, "2026-03-14", State.DELETED)
    closing = NOON.replace(day=15, hour=0) + config.streams["s"].late
    for now in (closing - MOMENT, closing):
        assert world.catalog.read_horizon("s") == Horizon()
        remember_horizons(world.catalog, see(config, gone), now)
    assert world.catalog.read_horizon("s") == Horizon(gone.period.end)


def test_a_far_period_whose_table_a_former_version_deleted_is_forgotten() -> None:
    world, config = World(), configuration()
    gone = make_entry(config, "2020-03-10", State.RESTORING)
    world.catalog.add(gone)
    deleted = replace(gone, state=State.DELETED)
    world.catalog.items["s", gone.period] = deleted
    horizon = Horizon(START, (gone.period,))
    assert world.catalog.read_horizon("s").far == horizon.far
    remember_horizons(world.catalog, see(config, deleted, horizon=horizon), NOON)
    assert world.catalog.read_horizon("s").far == ()


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


@pytest.mark.parametrize("stop", range(4))
def test_a_run_that_stops_while_it_moves_a_low_horizon_hides_no_period(stop: int) -> None:
    """A former version has left the horizon before two restored periods, and noted none as far."""
    world, config = World(), configuration()
    days = {label: make_entry(config, label, State.DELETED) for label in ("2026-03-08", "2026-03-10", "2026-03-12")}
    days |= {label: make_entry(config, label, State.CLOSED) for label in ("2026-03-09", "2026-03-11", "2026-03-14")}
    world.catalog.items = {("s", entry.period): entry for entry in days.values()}
    world.catalog.set_horizon("s", days["2026-03-08"].period.start)
    kept = ["2026-03-09", "2026-03-11", "2026-03-14"]
    writes: list[None] = []

    def fail_at_stop(method: Any) -> Any:
        def write(*given: Any) -> None:
            if len(writes) == stop:
                raise ConnectionError("no answer")
            writes.append(None)
            method(*given)

        return write

    for name in ("note_far", "set_horizon"):
        setattr(world.catalog, name, fail_at_stop(getattr(world.catalog, name)))
    entries = sorted(days.values(), key=lambda entry: entry.period.start)
    seen = see(config, *entries, horizon=world.catalog.read_horizon("s"))
    remember_horizons(world.catalog, seen, NOON)
    assert (len(seen.troubles), len(writes)) == (stop < 3, stop)
    found = read_kept_entries(world.catalog, "s", world.catalog.read_horizon("s"))
    assert [entry.period.label for entry in found if entry.state is not State.DELETED] == kept
    stop = 9
    remember_horizons(world.catalog, see(config, *entries, horizon=world.catalog.read_horizon("s")), NOON)
    horizon = world.catalog.read_horizon("s")
    assert horizon == Horizon(days["2026-03-12"].period.end, tuple(parse_label(label) for label in kept[:2]))
    assert [entry.period.label for entry in read_kept_entries(world.catalog, "s", horizon)] == kept
