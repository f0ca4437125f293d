"""The lifecycle's runs with feeds: mappings come, stay and go with the tables, and a deleted stage leaves none behind."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

import wiring
from tests.lifecycle.calls import call
from tests.lifecycle.world import NOON, World
from tidetable.catalog import State
from tidetable.config import TableClass
from tidetable.ladder import Level
from tidetable.lifecycle import reconcile
from tidetable.table_specs import make_filling_spec, make_table_spec

QUEUE = "arn:aws:sqs:eu-central-1:123456789012:changes"
FEED = f'feed = {{ targets = ["{QUEUE}"] }}'


def find_tables(world: World) -> set[str]:
    return {mapping.table for mapping in world.mappings.list()}


def open_tables(world: World) -> set[str]:
    return {entry.table for entry in world.catalog.entries("s") if entry.state is State.OPEN}


def test_a_table_is_mapped_by_the_run_that_makes_it() -> None:
    world = World(more=FEED)
    report = world.run()
    assert find_tables(world) == open_tables(world) == world.tables.names
    assert [step._asdict() for step in report.feeds] == [
        {"action": "map", "table": table, "reason": "its stream has a feed", "outcome": "done", "detail": ""}
        for table in sorted(find_tables(world))
    ]
    assert report.document()["feeds"] == [step._asdict() for step in report.feeds]
    assert report.healthy


def test_a_table_that_was_recorded_a_moment_ago_is_mapped_too() -> None:
    """An eventually consistent read does not show it yet."""
    world = World(more=FEED)
    world.catalog.stale = {}
    world.run()
    assert find_tables(world) == world.tables.names


def test_a_run_with_a_feed_does_not_read_what_has_long_been_deleted() -> None:
    world = World(more=FEED)
    world.run()
    for _ in range(20):
        world.after(days=1)
    world.run()
    read: list[int] = []
    entries = world.catalog.entries

    def count(*arguments: Any, **options: Any) -> Any:
        found = entries(*arguments, **options)
        read.append(len(found))
        return found

    world.catalog.entries = count  # type: ignore[method-assign]
    assert world.run().feeds == []
    assert len(entries("s")) > 20
    # The tables are observed, and a table that was deleted within a day is looked up for its mapping.
    assert read == [len(world.tables.names), 1]


def test_without_a_feed_no_table_shows_its_changes_and_none_is_mapped() -> None:
    world = World()
    assert world.run().feeds == []
    assert {world.tables.describe(name).stream_arn for name in world.tables.names} == {""}  # type: ignore[union-attr]


def test_a_dry_run_says_which_mappings_it_would_make() -> None:
    world = World(more=FEED)
    world.run()
    world.mappings.remove(min(world.tables.names))
    report = world.run(dry_run=True)
    assert [(step.action, step.table, step.outcome) for step in report.feeds] == [
        ("map", min(world.tables.names), "planned")
    ]
    assert len(world.mappings.list()) == len(world.tables.names) - 1


def test_a_mapping_that_is_refused_makes_the_run_unhealthy() -> None:
    world = World(more=FEED)
    world.run()
    world.mappings.remove(min(world.tables.names))
    world.mappings.refused |= {world.tables.describe(min(world.tables.names)).stream_arn}  # type: ignore[union-attr]
    assert world.run().healthy is False


def test_over_a_month_the_mappings_are_those_of_the_tables() -> None:
    """Every six hours a run; a table's mapping is there from its first run until the table is gone."""
    world = World(more=FEED)
    seen: set[str] = set()
    for hours in range(0, 31 * 24, 6):
        world.at(NOON + timedelta(hours=hours))
        assert open_tables(world) <= find_tables(world)
        assert find_tables(world) <= {
            entry.table for entry in world.catalog.entries("s") if entry.state is not State.DELETED
        } | {mapping.table for mapping in world.mappings.list() if mapping.state == "Deleting"}
        seen |= find_tables(world)
    assert len(seen) >= 31
    assert len(find_tables(world)) <= 12


def test_a_run_for_one_stream_leaves_the_mappings_to_the_next() -> None:
    world = World(more=FEED)
    assert reconcile(world.begin_run("owner", lambda: 1000.0), only="s").feeds == []
    assert find_tables(world) == set()
    world.run()
    assert find_tables(world) == open_tables(world)


def test_a_run_that_does_not_know_the_function_of_feeds_makes_the_tables_alone() -> None:
    world = World(more=FEED)
    report = reconcile(world.begin_run(mappings=None))
    assert (report.healthy, report.feeds) == (True, [])
    assert world.tables.names
    assert find_tables(world) == set()


def test_feeds_that_cannot_be_looked_at_are_told_and_stop_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(more=FEED)

    def fail() -> Any:
        raise ConnectionError("no answer")

    monkeypatch.setattr(world.mappings, "list", fail)
    report = world.run()
    assert report.troubles == ["the feeds could not be checked: ConnectionError: no answer"]
    assert world.tables.names


def test_a_feed_that_leaves_the_configuration_takes_its_mappings_along() -> None:
    world = World(more=FEED)
    world.run()
    stream = msgspec.structs.replace(world.config.streams["s"], feed=None)
    world.config = msgspec.structs.replace(world.config, streams={"s": stream})
    world.at(NOON + timedelta(minutes=5))
    world.at(NOON + timedelta(minutes=10))
    assert find_tables(world) == set()
    assert world.tables.names


def test_a_restored_table_shows_no_changes() -> None:
    """Its events come back from the archive, and nobody changed them."""
    world = World(more=FEED)
    stream = world.config.streams["s"]
    world.run()
    entry = world.catalog.entries("s")[0]
    level = Level(None, None, TableClass.STANDARD, "")
    assert make_table_spec(entry, stream, level, {}, young=False).stream == "new-image"
    assert make_filling_spec(entry, stream, level, {}).stream == "none"
    shows = msgspec.structs.replace(stream.table, stream="new-image")
    assert make_filling_spec(entry, msgspec.structs.replace(stream, table=shows), level, {}).stream == "new-image"


@pytest.mark.parametrize("removal", ["keep", "delete"])
def test_a_stage_that_goes_leaves_no_mapping_behind(removal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapping outlives its function, whether the tables stay or go."""
    monkeypatch.setenv("TIDETABLE_STAGE", "t")
    world = World(more=f'{FEED}\nremoval = "{removal}"')
    world.run()
    world.clock.sleep(60)
    assert find_tables(world)
    # These fakes have no table for the catalog. Any table shows that nobody has deleted it.
    with wiring.serve_pipeline(world.pipeline(event_bus=None, catalog_table=min(world.tables.names))):
        call("Delete")
    assert {mapping.state for mapping in world.mappings.list()} == {"Deleting"}


def test_a_table_that_is_deleted_soon_after_it_closed_keeps_its_mapping_while_its_records_stay() -> None:
    """A target that was down for some hours gets the changes of hours whose tables are gone."""
    world = World(period="hour", late="1h", retention=2, on_expiry="delete", more=FEED)
    world.run()
    table = "tidetable-t.s.2026-03-15T12"
    world.at(NOON + timedelta(hours=4, minutes=5))
    world.after(minutes=5)
    assert table not in world.tables.names
    # It closed at 14:00, and the last write into it ended by 14:15.
    for hours in range(5, 26):
        world.at(NOON + timedelta(hours=hours))
        assert table in find_tables(world), hours
    world.at(NOON + timedelta(hours=26, minutes=15))
    world.after(minutes=5)
    assert table not in find_tables(world)
