"""What a run looks at, and what a deploy finds in the catalog: on fakes, one rule at a time."""

from datetime import timedelta
from typing import Any, cast

import msgspec
import pytest
from msgspec.structs import replace

from tests.fakes.stage import Stage
from tests.lifecycle.world import LADDER, NOON, World, configuration
from tests.worlds.entries import change_entry
from tidetable.catalog import ArchiveFacts, Backfill, Entry, Opening, RecordedPolicy, State
from tidetable.config import Config, parse
from tidetable.config.record import render_policy
from tidetable.lifecycle.conflicts import find_conflicts
from tidetable.lifecycle.observe import Observation, observe
from tidetable.periods import Period

DAY = timedelta(days=1)
KEY = "arn:aws:kms:us-east-1:123456789012:key/11111111-2222-3333-4444-555555555555"
TODAY = "tidetable-t.s.2026-03-15"


def look(world: World, config: Config | None = None, **more: Any) -> Observation:
    return observe(world.begin_run(config=config or world.config), world.clock.now(), **more)


def change(world: World, label: str = "2026-03-15", **changes: Any) -> Entry:
    held = next(entry for entry in world.catalog.entries("s") if entry.period.label == label)
    world.catalog.items["s", held.period] = change_entry(held, **changes)
    return world.catalog.items["s", held.period]


def note_looks(world: World) -> list[str]:
    looked: list[str] = []
    describe = world.tables.describe
    cast("Any", world.tables).describe = lambda name: looked.append(name) or describe(name)  # type: ignore[func-returns-value]
    return looked


def make_backfill(days: int) -> Backfill:
    start = NOON.replace(hour=0) - days * DAY
    return Backfill("s", start, start + DAY, Opening(NOON + DAY, None, None))


def test_a_deleted_table_is_not_looked_at() -> None:
    world = World()
    world.run()
    change(world, state=State.DELETED, seen=None)
    looked = note_looks(world)
    assert TODAY not in look(world).streams["s"].tables
    assert sorted(looked) == [f"tidetable-t.s.2026-03-{day}" for day in (14, 16, 17)]


def test_a_run_for_one_stream_looks_at_no_other() -> None:
    world = World()
    other = msgspec.structs.replace(world.config.streams["s"], name="other")
    both = msgspec.structs.replace(world.config, streams={**world.config.streams, "other": other})
    assert list(look(world, both).streams) == ["s", "other"]
    assert list(look(world, both, only="other").streams) == ["other"]


def test_backfills_are_in_order_and_a_removed_stream_has_none() -> None:
    world = World()
    world.run()
    for days in (10, 30):
        world.catalog.put_backfill(make_backfill(days))
    planned = [make_backfill(20), make_backfill(40)]
    found = look(world, planned=planned).streams["s"].backfills
    assert [backfill.start for backfill in found] == [make_backfill(days).start for days in (40, 30, 20, 10)]
    world.clock.time = NOON + DAY
    assert look(world).streams["s"].backfills == [], "they are over at this instant"
    world.clock.time = NOON
    removed = look(world, msgspec.structs.replace(world.config, streams={})).streams["s"]
    assert (removed.backfills, removed.removed) == ([], NOON)


def test_a_table_that_is_not_looked_at_counts_as_it_was_last_seen() -> None:
    """With its units, its indexes and its copies; its maxima are not known."""
    index = '[[streams.s.index]]\nname = "status"\npartition_by = "status"'
    ladder = 'mode = "provisioned"\nladder = [{ age = 0, write = 10, read = 20 }]\n'
    world = World(retention=20, capacity=ladder + index)
    world.run()
    world.after(days=3)
    world.after(minutes=5)
    held = change(world, active=("eu-west-1",))
    assert (held.state, held.capacity.seen is not None) == (State.CLOSED, True)
    looked = note_looks(world)
    seen = []
    for _ in range(12):
        looked.clear()
        table = look(world).streams["s"].tables[TODAY]
        if TODAY not in looked:
            seen.append(table)
        world.clock.time += timedelta(minutes=5)
    assert len(seen) == 11, "it has one turn within an hour"
    (first, *others) = seen
    assert all(table == first for table in others)
    assert (first.write, first.read, first.index_units) == (10, 20, {"status": (10, 20)})
    assert (first.status, first.copies, first.shows_maxima) == ("ACTIVE", {"eu-west-1": "ACTIVE"}, False)


OTHER_STEP = LADDER.replace("write = 2, read = 5", "write = 3, read = 6")


@pytest.mark.parametrize("wait", range(12))
@pytest.mark.parametrize("ends", [False, True])
def test_a_step_that_comes_back_before_the_next_look_is_applied_by_the_next_run(wait: int, ends: bool) -> None:
    """Another step holds for one run, whenever the table has its turn. ``ends``: the run ends before the change."""
    world = World(retention=20)
    world.run()
    world.after(days=3)
    world.after(minutes=5)
    world.after(minutes=5 * wait)
    assert (world.states()["2026-03-15"], world.levels()["2026-03-15"][:2]) == (State.CLOSED, (2, 5))
    world.config = configuration(retention=20, capacity=OTHER_STEP)
    if ends:
        set_capacity = world.tables.set_capacity

        def end(name: str, *units: Any, **more: Any) -> None:
            set_capacity(name, *units, **more)
            raise KeyboardInterrupt  # The function ends here.

        world.tables.set_capacity = end  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            world.after(minutes=5)
        world.tables.set_capacity = set_capacity  # type: ignore[method-assign]
        world.catalog.leases.clear()
    else:
        world.after(minutes=5)
    world.config = configuration(retention=20)
    world.after(minutes=5)
    assert world.levels()["2026-03-15"][:2] == (2, 5)
    assert world.after(minutes=5).done == []
    looked = note_looks(world)
    for _ in range(11):
        look(world)
        world.clock.time += timedelta(minutes=5)
    assert looked.count(TODAY) <= 1, "afterwards it is looked at in its turn"


def recorded(world: World, policy: str, **changes: Any) -> None:
    """Record a policy of the removed stream ``x``, which has one period."""
    held = world.catalog.entries("s")[0]
    entry = replace(held, stream="x", table="tidetable-t.x.2026-03-14", **changes)
    world.catalog.items["x", entry.period] = entry
    world.catalog.put_policy(RecordedPolicy("x", policy, NOON))


ENCRYPTED = render_policy(configuration(more=f'table = {{ encryption = "{KEY}" }}').streams["s"])
MANAGED = render_policy(configuration(more='table = { encryption = "aws-managed" }').streams["s"])
GONE: dict[str, Any] = {"state": State.DELETED}


@pytest.mark.parametrize(
    ("policy", "changes", "found"),
    [
        (ENCRYPTED, {}, True),
        (ENCRYPTED, GONE, False),
        (MANAGED, {}, False),
        # The runs of the lifecycle report a policy that this version cannot read.
        ('{"period": "fortnight"}', {}, False),
    ],
)
def test_a_key_is_missed_while_tables_need_it(policy: str, changes: dict[str, Any], *, found: bool) -> None:
    world = World()
    world.run()
    recorded(world, policy, **changes)
    # An eventually consistent read does not show the tables that were made a moment ago.
    world.catalog.stale = {}
    assert [KEY in problem for problem in find_conflicts(world.config, world.catalog)] == [True] * found


@pytest.mark.parametrize(("changes", "found"), [({}, False), ({"active": ("eu-west-1",)}, True)])
def test_copies_are_missed_while_tables_have_them(changes: dict[str, Any], *, found: bool) -> None:
    world = World()
    world.run()
    change(world, **changes)
    world.catalog.stale = {}
    problems = list(find_conflicts(world.config, world.catalog))
    assert ["1 tables have copies in eu-west-1" in problem for problem in problems] == [True] * found
    stream = 'period = "day"\nlate = "1d"\nretention = 5\nkey = { partition_by = "series" }\n'
    former = parse(f'[storage]\nformer_regions = ["eu-west-1"]\n[streams.s]\n{stream}')
    assert list(find_conflicts(former, world.catalog)) == []


FACTS = ArchiveFacts("m", 1, 1, NOON)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({}, True),
        (GONE, False),
        (GONE | {"archive": FACTS}, True),
        (GONE | {"archive": replace(FACTS, expired_at=NOON)}, False),
    ],
)
def test_a_name_is_taken_while_its_tables_or_archives_hold_something_else(
    changes: dict[str, Any], *, found: bool
) -> None:
    text = """
    [streams.s]
    period = "day"
    late = "1d"
    retention = 5
    key = { partition_by = "time", bucket = "6h" }
    [[streams.s.rollup]]
    name = "hours"
    every = "1h"
    retention = "30d"
    """
    world = World()
    world.run()
    recorded(world, render_policy(world.config.streams["s"]), **changes)
    held = world.catalog.items.pop(("x", world.catalog.entries("x")[0].period))
    world.catalog.items["s-hours", held.period] = replace(held, stream="s-hours")
    world.catalog.recorded["s-hours"] = world.catalog.recorded.pop("x")._replace(stream="s-hours")
    world.catalog.stale = {}
    problems = list(find_conflicts(parse(text), world.catalog))
    assert [problem.startswith("s-hours: its tables or archives hold events") for problem in problems] == [True] * found


@pytest.mark.parametrize("way", ["recorded", "restored"])
def test_a_period_before_the_horizon_is_read_from_its_record_or_its_restore_until_it_is_deleted(way: str) -> None:
    """It was recorded after its end, by a backfill, or it was deleted and is restored."""
    world = World(period="month")
    world.run()
    held = world.catalog.entries("s")[0]
    former = replace(held, period=held.period.shift(-30), table="tidetable-t.s.2023-09")
    world.catalog.add(replace(former, created_at=former.period.start) if way == "restored" else former)
    world.catalog.set_horizon("s", held.period.start)
    if way == "restored":
        world.catalog.move(former, State.DELETED, expected=(State.OPEN,))
        assert former.period not in list_periods(world)
        world.catalog.move(former, State.RESTORING, expected=(State.DELETED,))
        world.catalog.move(former, State.CLOSED, expected=(State.RESTORING,))
    world.catalog.reads.clear()
    assert list_periods(world)[:2] == [former.period, held.period]
    assert world.catalog.reads == [(former.period.start, former.period.start, True), (held.period.start, None, True)]
    world.catalog.move(former, State.DELETED, expected=State)
    assert list_periods(world)[0] == held.period


def list_periods(world: World) -> list[Period]:
    return [entry.period for entry in look(world).streams["s"].entries]


def test_periods_within_the_window_are_read_also_before_the_horizon() -> None:
    """``late`` was raised after tables had been deleted."""
    world = World(late="3d")
    world.run()
    world.catalog.set_horizon("s", NOON.replace(hour=0))
    days = [entry.period.label for entry in look(world).streams["s"].entries]
    assert days[:3] == ["2026-03-12", "2026-03-13", "2026-03-14"]


@pytest.mark.parametrize("method", ["list_backfills", "list_horizons"])
def test_without_the_backfills_or_the_horizons_a_run_plans_nothing(method: str) -> None:
    """Without its backfill an open period would be closed."""
    world = World()

    def fail() -> None:
        raise ConnectionError("no answer")

    setattr(world.catalog, method, fail)
    seen = look(world)
    assert seen.streams == {}
    assert seen.troubles == ["the backfills and horizons could not be read: ConnectionError: no answer"]


def test_an_idle_stream_costs_a_query_and_a_twelfth_of_its_tables_per_run() -> None:
    policy = 'period = "day"\nlate = "1d"\nretention = 5\npremake = 1\nkey = {{ partition_by = "series" }}\n'
    stage = Stage(NOON, "".join(f"[streams.n{number}]\n{policy}".format() for number in range(20)))
    for _ in range(3):
        stage.run_lifecycle()
        stage.clock.sleep(300)
    counted = []
    for _ in range(12):
        before = stage.client.calls
        assert stage.run_lifecycle().done == []
        counted.append(stage.client.calls - before)
        stage.clock.sleep(300)
    # Of 20 streams with three tables: 20 Queries, 60 descriptions in 12 runs, and a few calls per run.
    assert sum(counted) == 12 * 20 + 60 + 12 * 6
    assert max(counted) <= 2 * 20
