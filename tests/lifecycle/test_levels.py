"""Levels: when a table suits its level, and which level an entry has for copies, a backfill and an export."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.rollups import FakeRollups
from tests.lifecycle.world import LADDER, NOON, World, configuration
from tests.worlds.copied import text
from tests.worlds.entries import make_entry
from tidetable.catalog import Entry, Opening, RecordedPolicy, SeenTable, State
from tidetable.config import Config, TableClass, parse
from tidetable.expiry import compute_entry_expiry
from tidetable.ladder import Level, choose_level, compute_level, compute_stagger, is_exported
from tidetable.lifecycle import reconcile
from tidetable.periods import parse_label
from tidetable.ports import Table

DAY = timedelta(days=1)
START = datetime(2026, 3, 15, tzinfo=NOON.tzinfo)
STANDARD, INFREQUENT = TableClass.STANDARD, TableClass.INFREQUENT
TIGHT = 'mode = "provisioned"\nladder = [{ age = 0, write = 10, read = 10 }]\n'


def recorded(config: Config, state: State = State.OPEN, **more: Any) -> Entry:
    label = "2026-03-15"
    return make_entry(
        "s", parse_label(label), f"tidetable-t.s.{label}", config.streams["s"].layout, state, START, **more
    )


@pytest.mark.parametrize(
    ("write", "read", "table_class", "index", "suits"),
    [
        (10, 20, STANDARD, (7, 2), True),
        (11, 20, STANDARD, (7, 2), False),
        (10, 21, STANDARD, (7, 2), False),
        (10, 20, STANDARD, (7, 3), False),
        # A table is never put back to the dearer class.
        (10, 20, INFREQUENT, (7, 2), True),
    ],
)
def test_a_table_suits_a_level_whose_units_it_has(
    write: int, read: int, table_class: TableClass, index: tuple[int, int], *, suits: bool
) -> None:
    level = Level(10, 20, STANDARD, "", {"status": (7, 2)})
    assert level.suits(SeenTable(write, read, table_class, (("status", index),))) is suits
    assert not replace_class(level).suits(SeenTable(10, 20, STANDARD, (("status", (7, 2)),)))


def replace_class(level: Level) -> Level:
    return Level(level.write, level.read, INFREQUENT, "", level.index_units)


ON_DEMAND = Table("t", "ACTIVE", None, None, STANDARD, most=(5, 6), index_most={"status": (5, 6)})


@pytest.mark.parametrize(
    ("changes", "caps"),
    [
        ({}, False),
        ({"most": None}, True),
        ({"most": (6, 5)}, True),
        ({"index_most": {"status": None}}, True),
        ({"most": None, "shows_maxima": False}, False),
        ({"most": None, "write": 1, "read": 1}, False),
    ],
)
def test_a_table_on_demand_gets_other_maxima_if_its_maxima_are_known(changes: dict[str, Any], *, caps: bool) -> None:
    there = replace(ON_DEMAND, **changes)
    assert Level(None, None, STANDARD, "", most=(5, 6)).caps(there) is caps
    assert not Level(1, 1, STANDARD, "", most=(5, 6)).caps(there)


@pytest.mark.parametrize(("sides", "write"), [("write", 10), ("read", None), ("", None)])
def test_a_table_with_copies_is_provisioned_only_if_its_writes_are_scaled(sides: str, write: int | None) -> None:
    scaled = f"autoscaling = {{ {sides} = {{ min = 5, max = 100 }} }}" if sides else ""
    config = configuration(capacity=TIGHT + scaled)
    level = choose_level(recorded(config, replicas=("eu-west-1",)), config.streams["s"], NOON)
    assert level.write == write
    assert choose_level(recorded(config), config.streams["s"], NOON).write == 10


@pytest.mark.parametrize(("replicas", "write"), [((), 1), (("eu-west-1",), 10)])
def test_a_table_stands_by_unless_it_was_recorded_with_copies(replicas: tuple[str, ...], write: int) -> None:
    """The stream's present configuration names a Region, or it names none any more: both change nothing."""
    scaled = TIGHT + "autoscaling = { write = { min = 5, max = 100 } }"
    for config in (parse(text("eu-west-1", capacity=scaled)), configuration(capacity=scaled)):
        held = recorded(config, replicas=replicas)
        assert choose_level(held, config.streams["s"], START - DAY).write == write
        # Without an entry the configuration decides, such as for an estimate of costs.
        expected = 10 if config.replicas else 1
        assert compute_level(held.period, config.streams["s"], START - DAY).write == expected


@pytest.mark.parametrize(
    ("ladder", "days", "scaled", "reason"),
    [
        ("{ age = 0, write = 10, read = 10 }", 1, True, "age 0: step 0 of the ladder"),
        ("{ age = 0, write = 10, read = 10 }", 3, False, "age 1: step 0 of the ladder"),
        ('{ age = 0, write = 10, read = 10 }, { age = "late", write = 2, read = 2 }', 1.5, False,
         "its period is over: step late of the ladder"),
        ('{ age = 0, write = 10, read = 10 }, { age = "late", write = 2, read = 2 }', 3, False,
         "age 1: step late of the ladder"),
    ],
)  # fmt: skip
def test_only_a_table_that_takes_events_of_its_period_is_scaled(
    ladder: str, days: float, *, scaled: bool, reason: str
) -> None:
    capacity = f'mode = "provisioned"\nautoscaling = {{ write = {{ min = 1, max = 100 }} }}\nladder = [{ladder}]'
    stream = configuration(capacity=capacity).streams["s"]
    level = compute_level(parse_label("2026-03-15"), stream, START + days * DAY)
    assert (level.scaling is not None, level.reason) == (scaled, reason)


def test_a_backfill_gives_units_and_leaves_the_class() -> None:
    config = configuration(capacity=LADDER)
    late = START + 5 * DAY
    held = recorded(config, opened=Opening(late + DAY, 7, 8))
    level = choose_level(held, config.streams["s"], late)
    assert (level.write, level.read, level.table_class) == (7, 8, INFREQUENT)


@pytest.mark.parametrize(
    ("on_expiry", "days", "more"),
    [("archive", 7, {"creating", "open", "closed", "retained"}), ("delete", 7, set()), ("archive", 5, set())],
)
def test_a_table_is_exported_from_its_expiry_until_it_is_deleted(on_expiry: str, days: int, more: set[str]) -> None:
    """An archive by hand may begin before the expiry."""
    config = configuration(on_expiry=on_expiry)
    stream, now = config.streams["s"], START + days * DAY
    exported = {state.value for state in State if is_exported(recorded(config, state), stream, now)}
    assert exported == {"archiving", "archived"} | more


def test_a_backfill_keeps_a_table_for_a_quarter_of_an_hour_after_its_end() -> None:
    config = configuration()
    until = START + 20 * DAY
    held = recorded(config, opened=Opening(until, None, None))
    assert compute_entry_expiry(held, config.streams["s"]) == until + timedelta(minutes=15)
    assert compute_entry_expiry(recorded(config), config.streams["s"]) == START + 6 * DAY


def test_the_delay_of_a_table_is_a_part_of_the_stagger_and_always_the_same() -> None:
    hour = timedelta(hours=1)
    delays = [compute_stagger(f"tidetable-t.s{number}.2026-03-15", hour) for number in range(100)]
    assert delays == [compute_stagger(f"tidetable-t.s{number}.2026-03-15", hour) for number in range(100)]
    assert timedelta(0) <= min(delays) < timedelta(minutes=6)
    assert timedelta(minutes=54) < max(delays) < hour


ROLLED = """
[streams.s]
period = "day"
late = "1d"
retention = 5
key = { partition_by = "time", bucket = "6h" }
[[streams.s.rollup]]
name = "hours"
every = "1h"
retention = "730d"
"""


def run(world: World, rollups: FakeRollups, config: Config) -> list[str]:
    """Run on a configuration, and return the troubles."""
    return reconcile(world.begin_run(config=config, find_rollups=lambda: rollups)).troubles


def test_a_rollup_whose_policy_changes_keeps_its_sealed_buckets() -> None:
    world, rollups = World(), FakeRollups()
    run(world, rollups, parse(ROLLED))
    (begun,) = rollups.read_state("s").edges
    edge = begun._replace(sealed=begun.start + DAY)
    assert rollups.put_edge("s", edge, begun)
    run(world, rollups, parse(ROLLED.replace("730d", "365d")))
    assert list(rollups.read_state("s").edges) == [edge]


def test_the_removal_of_a_stream_is_recorded_though_its_policy_cannot_be_read() -> None:
    world, rollups = World(), FakeRollups()
    world.catalog.put_policy(RecordedPolicy("gone", '{"period": "fortnight"}'))
    troubles = run(world, rollups, parse(ROLLED))
    assert ["gone" in trouble for trouble in troubles] == [True]
    assert world.catalog.recorded["gone"].removed == NOON
