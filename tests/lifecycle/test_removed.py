"""A stream that left the configuration: its last policy holds for its tables until the last table has expired."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.fakes.stage import Stage
from tests.lifecycle.world import NOON, World, configuration, outcomes
from tests.worlds import killed as crash
from tidetable.catalog import RecordedPolicy, State
from tidetable.config import Config, parse
from tidetable.config.record import parse_policy, render_policy
from tidetable.lifecycle.removal import remove
from tidetable.run_streams import find_recorded_policy, lower_fully

OTHER = """
[streams.other]
period = "day"
late = "1d"
retention = 5
[streams.other.key]
partition_by = "series"
"""
# The stream s of a world: one table per day, kept for five days; and the switches of that world.
SWITCHES = '[lifecycle]\ndelete_expired = {switch}\ndelete_grace = "0s"\nstagger = "0s"\n'


def without(world: World, switch: str = "true") -> None:
    """Replace the stream s by another stream."""
    world.config = parse(SWITCHES.format(switch=switch) + OTHER)


def lived(**changes: Any) -> World:
    """A world in which s has lived for six days: closed tables, open tables and tables made ahead."""
    world = World(**changes)
    for _ in range(12):
        world.after(hours=12)
    return world


def mine(world: World) -> dict[str, tuple[int | None, int | None, str]]:
    return {name: level for name, level in world.levels().items() if not name.startswith("tidetable")}


def test_a_removed_stream_gets_no_new_tables_and_its_old_ones_expire_as_it_last_said() -> None:
    world = lived()
    labels = set(world.states())
    without(world)
    for _ in range(24):
        assert world.after(hours=12).healthy
    assert set(world.states()) == labels, "the periods that it had, and no others"
    assert set(world.states().values()) == {State.DELETED}
    archived = {name.removeprefix("tidetable-t.s.") for name in world.archive.periods if ".s." in name}
    assert archived == labels, "on_expiry = archive: each was archived before"
    assert mine(world) == {}


def test_its_tables_go_no_sooner_than_its_retention() -> None:
    world = lived()
    without(world)
    # 2026-03-20 with a retention of five days: it expires at the end of 2026-03-25.
    world.at(datetime(2026, 3, 25, 23, 55, tzinfo=UTC))
    assert world.states()["2026-03-20"] is State.CLOSED
    world.at(datetime(2026, 3, 26, 0, 1, tzinfo=UTC))
    assert world.states()["2026-03-20"] in (State.ARCHIVED, State.DELETED)


def test_it_is_told_with_its_tables_until_the_last_is_gone() -> None:
    world = lived()
    without(world)
    since = world.clock.now() + timedelta(minutes=5)
    report = world.after(minutes=5)
    assert report.document()["removed_streams"] == [
        {"stream": "s", "since": since.strftime("%Y-%m-%dT%H:%M:%S.%fZ"), "tables": len(mine(world))}
    ]
    assert report.outlook.without_next_table == ("other",), "not s, which needs no next table"
    for _ in range(24):
        report = world.after(hours=12)
    assert report.document()["removed_streams"] == []


def test_a_day_after_its_removal_its_tables_have_the_lowest_units_of_their_ladder() -> None:
    world = lived()
    without(world)
    world.after(minutes=5)
    # Until then the drain may still write events of the overflow.
    assert mine(world)["2026-03-21"] == (10, 10, "standard")
    world.after(hours=25)
    world.after(minutes=5)
    assert {(write, read) for write, read, _ in mine(world).values()} == {(1, 1)}


@pytest.mark.parametrize(("on_expiry", "switch", "left"), [("keep", "true", True), ("delete", "false", True)])
def test_nothing_goes_that_its_last_policy_and_the_switches_keep(on_expiry: str, switch: str, left: bool) -> None:
    world = lived(on_expiry=on_expiry, delete="false")
    names = set(mine(world))
    without(world, switch)
    for _ in range(24):
        world.after(hours=12)
    assert set(mine(world)) == names
    assert not any(".s." in name for name in world.archive.periods)


def test_a_stream_that_comes_back_is_itself_again() -> None:
    world = lived()
    config = world.config
    without(world)
    for _ in range(4):
        world.after(hours=12)
    world.config = config
    report = world.after(minutes=5)
    created = [period for action, period, outcome in outcomes(report) if (action, outcome) == ("create", "done")]
    assert created == ["2026-03-24", "2026-03-25"]
    world.after(minutes=5)
    assert mine(world)["2026-03-23"] == (10, 10, "standard")
    (record,) = [policy for policy in world.catalog.list_policies() if policy.stream == "s"]
    assert (record.removed, parse_policy("s", record.policy)) == (None, config.streams["s"])


def test_the_last_policy_counts_and_not_the_first() -> None:
    world = lived()
    world.config = configuration(retention=9)
    world.after(minutes=5)
    without(world)
    world.at(datetime(2026, 3, 29, 0, 0, tzinfo=UTC))
    assert world.states()["2026-03-20"] is State.CLOSED, "nine days, not five"


def test_the_policy_is_recorded_before_a_table_is_made() -> None:
    world = World()

    class Dead(BaseException):
        pass

    def dies(*_: Any) -> bool:
        raise Dead

    world.tables.create = dies  # type: ignore[method-assign, assignment]
    with pytest.raises(Dead):
        world.run()
    assert [policy.stream for policy in world.catalog.list_policies()] == ["s"]


def test_a_dry_run_records_nothing_and_shows_what_would_become_of_a_removed_stream() -> None:
    world = World()
    world.run(dry_run=True)
    assert world.catalog.list_policies() == []
    world = lived()
    without(world)
    report = world.run(dry_run=True)
    assert [stream["stream"] for stream in report.document()["removed_streams"]] == ["s"]
    (record,) = [policy for policy in world.catalog.list_policies() if policy.stream == "s"]
    assert record.removed is None


def test_a_policy_that_cannot_be_read_leaves_its_tables_alone_and_is_told() -> None:
    world = lived()
    without(world)
    world.catalog.put_policy(RecordedPolicy("s", '{"period": "fortnight"}', NOON))
    names = set(mine(world))
    for _ in range(24):
        report = world.after(hours=12)
    assert set(mine(world)) == names
    (trouble,) = report.troubles
    assert "recorded policy of the removed stream s cannot be read" in trouble
    assert "add [streams.s] again" in trouble


def test_a_recorded_policy_that_cannot_be_read_is_none() -> None:
    world = World()
    world.run()
    assert find_recorded_policy("s", world.catalog) == world.config.streams["s"]
    world.catalog.put_policy(RecordedPolicy("s", '{"period": "fortnight"}', NOON))
    assert find_recorded_policy("s", world.catalog) is None
    assert find_recorded_policy("other", world.catalog) is None


def test_a_catalog_that_cannot_tell_its_policies_keeps_no_table_from_being_made() -> None:
    world = World()

    def fails() -> Any:
        raise OSError("unreachable")

    world.catalog.list_policies = fails  # type: ignore[method-assign]
    report = world.run()
    assert [outcome for _, _, outcome in outcomes(report)] == ["done"] * 4
    assert report.troubles == ["the recorded policies could not be read: OSError: unreachable"]


def removing(world: World, config: Config) -> list[str]:
    return remove(world.begin_run(config=config)).tables


@pytest.mark.parametrize(("removal", "deleted"), [("keep", 0), ("delete", 4)])
def test_on_destroy_its_last_removal_decides(removal: str, deleted: int) -> None:
    world = World()
    stream = msgspec.structs.replace(world.config.streams["s"], removal=removal)
    world.config = Config(streams={"s": stream}, lifecycle=world.config.lifecycle)
    world.run()
    without(world)
    assert len([name for name in removing(world, world.config) if name.startswith("tidetable-t.s.")]) == deleted


def test_a_policy_reads_back_as_it_was_written() -> None:
    text = (
        '[streams.s]\nperiod = "hour"\nlate = "90m"\nretention = 7\nremoval = "delete"\ncold = ["raw"]\n'
        '[streams.s.key]\npartition_by = "time"\nbucket = "15m"\nshards = 3\n'
        '[[streams.s.index]]\nname = "by_kind"\nkind = "type"\npartition_by = { a = "b" }\nproject = ["c"]\n'
        '[streams.s.table]\ntags = { team = "x" }\n'
        '[streams.s.archive]\ncolumns = { mag = "decimal(5, 2)" }\n'
        '[streams.s.capacity]\nmode = "provisioned"\nautoscaling = { write = { min = 1, max = 9 } }\n'
        "ladder = [{ age = 0, write = 5, read = 4, index = { by_kind = { write = 9, read = 8 } } },"
        ' { age = 2, write = 2, read = 7, class = "infrequent-access" }]\n'
    )
    stream = parse(text).streams["s"]
    assert parse_policy("s", render_policy(stream)) == stream
    lowest = lower_fully(stream).capacity
    assert [(step.write, step.read, step.index, step.table_class.value) for step in lowest.ladder] == [
        (2, 4, {}, "standard"),
        (2, 4, {}, "infrequent-access"),
    ]
    assert lowest.autoscaling is None


def test_a_removed_streams_tables_are_not_made_warm() -> None:
    """Its events do not come any more. A table that was begun is still made."""
    warm = 'mode = "provisioned"\nwarm = { write = 8000, read = 9000 }\nladder = [{ age = 0, write = 9, read = 9 }]'
    assert lower_fully(configuration(capacity=warm).streams["s"]).capacity.warm is None


def test_its_tables_are_archived_with_the_columns_that_were_recorded() -> None:
    text = crash.CONFIG.replace("[streams.s.key]", '[streams.s.archive]\ncolumns = { n = "integer" }\n[streams.s.key]')
    stage = Stage(crash.NOON, text)
    stage.run_lifecycle()
    stage.config = parse(OTHER)
    stage.run_lifecycle()
    exporter = stage.exporter()
    recorded = exporter.stream("s")
    assert recorded is not None
    assert recorded.archive.columns == {"n": "integer"}
    assert exporter.stream("nobody") is None


def test_every_table_that_exists_is_counted() -> None:
    """Alarm TableQuotaNear watches this number."""
    world = World(delete="false", more='cold = ["raw"]')
    # At noon of the 15th, with late = 1d: the 14th, the 15th and two ahead, each with its table of parts.
    assert world.run().tables == 8
    for _ in range(18):
        report = world.after(hours=12)
    # Nine days later: the 14th to the 26th. Nothing is deleted, so five archived tables still exist.
    assert sorted(world.states()) == [f"2026-03-{day}" for day in range(14, 27)]
    assert [state for state in world.states().values() if state is State.ARCHIVED] == [State.ARCHIVED] * 5
    assert report.tables == 26
    assert len(world.tables.names) == 26
    without(world, "false")
    assert world.after(minutes=5).tables == 26 + 4, "a removed stream's count, too"
    without(world, "true")
    report = world.after(minutes=5)
    assert (report.count("done"), report.tables) == (5, 30 - 10)


def test_a_restored_table_is_counted() -> None:
    world = World()
    for _ in range(14):
        report = world.after(hours=12)
    # At noon of the 22nd: five days that are kept, the present day and two ahead.
    assert (report.tables, len(world.tables.names)) == (8, 8)
    deleted = next(entry for entry in world.catalog.entries("s") if entry.state is State.DELETED)
    restoring = world.catalog.move(deleted, State.RESTORING, expected=[State.DELETED])
    world.tables.create(_spec(restoring.table))
    world.clock.sleep(60)
    assert world.run().tables == 9


def _spec(name: str) -> Any:
    from tidetable.config import TableClass
    from tidetable.ports import TableSpec

    return TableSpec(name, None, None, TableClass.STANDARD, {})
