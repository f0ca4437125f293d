"""Mappings follow the tables of streams with a feed, and stay where they are needed."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.fakes import FakeStore, FakeTables
from tests.fakes.catalog import FakeCatalog
from tests.fakes.clock import FakeClock
from tests.fakes.mappings import FakeMappings
from tidetable.catalog import Entry, Opening, State
from tidetable.config import Config, TableClass, parse
from tidetable.errors import TableMissing, TableRefused
from tidetable.feed.mappings import FeedTables, FollowedFeeds
from tidetable.periods import Kind, find_containing
from tidetable.ports import TableSpec
from tidetable.ports.feeds import FeedSettings, StreamMapping

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
_STREAM = """
[streams.{name}]
period = "day"
late = "1d"
retention = 5
key = {{ partition_by = "series" }}
{feed}
"""
_FEED = 'feed = { targets = ["arn:aws:sqs:eu-central-1:123456789012:changes"], batch = 50, window = "2s" }'
FEED = parse(_STREAM.format(name="s", feed=_FEED) + _STREAM.format(name="plain", feed=""))
WITHOUT = parse(_STREAM.format(name="s", feed=""))


class World:
    """Tables of some days, and the mappings of their streams."""

    def __init__(self, shows: str = "new-image", days: int = 2, config: Config = FEED) -> None:
        self.clock = FakeClock(NOW)
        self.tables = FakeTables(self.clock, FakeStore(FakeCatalog()))
        self.mappings = FakeMappings(self.clock)
        self.entries: list[Entry] = []
        self.unread: set[str] = set()
        for name in config.streams:
            for day in range(days):
                self.add(name, day, shows if name == "s" else "none")
        self.config = config
        self.clock.sleep(60)

    def add(self, name: str, day: int, shows: str) -> Entry:
        period = find_containing(NOW + timedelta(days=day), Kind.DAY)
        table = f"tidetable-t.{name}.{period.label}"
        entry = Entry(name, period, table, self.config_layout, State.OPEN, NOW)
        self.tables.create(TableSpec(table, None, None, TableClass.STANDARD, {}, stream=shows))
        self.entries.append(entry)
        return entry

    config_layout = FEED.streams["s"].layout

    @property
    def feeds(self) -> FeedTables:
        """The feeds in a new process."""
        return self.make_feeds(FollowedFeeds())

    def make_feeds(self, followed: FollowedFeeds) -> FeedTables:
        catalog: Any = SimpleNamespace(entries=self.entries_of)
        return FeedTables(self.config, "t", self.tables, self.mappings, catalog, followed)

    def entries_of(self, stream: str, *_: datetime, consistent: bool) -> list[Entry]:
        return [entry for entry in self.entries if entry.stream == stream]

    @property
    def periods(self) -> dict[str, list[Entry]]:
        streams = {name for name, stream in self.config.streams.items() if stream.feed is not None} - self.unread
        return {name: [entry for entry in self.entries if entry.stream == name] for name in streams}

    def follow(self, **options: Any) -> list[tuple[str, str, str]]:
        steps = self.feeds.follow(self.periods, self.clock.now(), **options)
        return [(step.action, step.table.removeprefix("tidetable-t."), step.outcome) for step in steps]

    def settle(self) -> list[tuple[str, str, str]]:
        """Run until nothing is left to do; the first run's steps."""
        first = self.follow()
        for _ in range(10):
            self.clock.sleep(60)
            if not self.follow():
                return first
        raise AssertionError("it does not settle")

    @property
    def mapped(self) -> dict[str, StreamMapping]:
        return {mapping.table.removeprefix("tidetable-t."): mapping for mapping in self.mappings.list()}


def test_every_open_table_of_a_stream_with_a_feed_is_mapped_once_and_no_other() -> None:
    world = World()
    assert world.settle() == [("map", "s.2026-03-05", "done"), ("map", "s.2026-03-06", "done")]
    assert set(world.mapped) == {"s.2026-03-05", "s.2026-03-06"}
    assert {(mapping.state, mapping.settings) for mapping in world.mapped.values()} == {
        ("Enabled", FeedSettings(50, 2))
    }
    table = world.tables.describe("tidetable-t.s.2026-03-05")
    assert table is not None
    assert world.mapped["s.2026-03-05"].source == table.stream_arn


def test_a_dry_run_says_what_it_would_do_and_does_nothing() -> None:
    world = World()
    assert world.follow(dry_run=True) == [("map", "s.2026-03-05", "planned"), ("map", "s.2026-03-06", "planned")]
    assert world.mapped == {}


def test_a_table_made_before_the_feed_gets_its_stream_and_then_its_mapping() -> None:
    world = World(shows="none")
    shown: list[str] = []
    set_stream = world.tables.set_stream
    world.tables.set_stream = lambda name, shows: shown.append(shows) or set_stream(name, shows)  # type: ignore[func-returns-value, method-assign]
    assert [step[0] for step in world.follow()] == ["stream", "stream"]
    assert shown == ["new-image", "new-image"], "older images would be paid for and never read"
    assert world.follow() == [], "the tables are changing"
    world.clock.sleep(60)
    assert [step[0] for step in world.follow()] == ["map", "map"]


def test_a_table_whose_stream_shows_keys_only_waits_for_the_next_table() -> None:
    """Another reader may follow that stream, and AWS changes what it shows only by a new one."""
    world = World(shows="keys-only")
    assert world.follow() == [("look", "s.2026-03-05", "deferred"), ("look", "s.2026-03-06", "deferred")]
    assert world.mapped == {}


def test_a_mapping_that_somebody_deleted_or_disabled_is_put_back() -> None:
    world = World()
    world.settle()
    world.mappings.remove("tidetable-t.s.2026-03-05")
    world.mappings.disable("tidetable-t.s.2026-03-06")
    assert world.settle() == [("map", "s.2026-03-05", "done"), ("remap", "s.2026-03-06", "done")]
    assert {mapping.state for mapping in world.mapped.values()} == {"Enabled"}


class Listed:
    """A process that follows feeds, and counts how often it lists the mappings."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.followed = FollowedFeeds()
        self.lists = 0
        listed = world.mappings.list

        def count() -> Sequence[StreamMapping]:
            self.lists += 1
            return listed()

        world.mappings.list = count  # type: ignore[method-assign]

    def follow(self, minutes: float, **options: Any) -> tuple[list[str], int]:
        """Follow the feeds some minutes later; the actions, and how often the mappings were listed."""
        self.world.clock.sleep(60 * minutes)
        before, world = self.lists, self.world
        steps = world.make_feeds(self.followed).follow(world.periods, world.clock.now(), **options)
        return [step.action for step in steps], self.lists - before


def test_mappings_are_listed_until_they_are_right_and_then_once_per_hour() -> None:
    process = Listed(World(days=1))
    assert process.follow(0) == (["map"], 1)
    assert process.follow(0.1) == ([], 1), "the mapping is still being made"
    assert process.follow(5) == ([], 1)
    assert [process.follow(5) for _ in range(11)] == [([], 0)] * 11
    process.world.mappings.remove("tidetable-t.s.2026-03-05")
    assert process.follow(4.9) == ([], 0)
    assert process.follow(0.1) == (["map"], 1)


def test_mappings_are_listed_when_a_table_has_come_has_changed_or_is_changing() -> None:
    world = World(days=1, shows="none")
    process = Listed(world)
    assert process.follow(0) == (["stream"], 1)
    assert process.follow(0) == ([], 1), "the table is changing, so its mapping is still to come"
    assert process.follow(5) == (["map"], 1)
    assert [process.follow(5) for _ in range(2)] == [([], 1), ([], 0)]
    world.add("s", 1, "new-image")
    assert process.follow(5) == (["map"], 1)
    assert [process.follow(5) for _ in range(2)] == [([], 1), ([], 0)]
    world.entries = [replace(entry, state=State.DELETED) for entry in world.entries]
    assert process.follow(5) == ([], 1), "records may be unread for a day"
    assert process.follow(5) == ([], 0)
    world.entries = []
    assert process.follow(5) == (["unmap", "unmap"], 1)


def test_mappings_are_listed_when_the_records_of_a_closed_table_have_ended() -> None:
    """The day ends at midnight and is late for a day. Its records are read until 15 minutes and a day later."""
    world = World(days=1)
    process = Listed(world)
    process.follow(0)
    world.entries = [replace(entry, state=State.CLOSED) for entry in world.entries]
    world.clock.time = datetime(2026, 3, 8, 0, 10, tzinfo=UTC)
    assert [process.follow(1) for _ in range(6)] == [([], 1), ([], 0), ([], 0), ([], 0), ([], 1), ([], 0)]


@pytest.mark.parametrize(
    "change", ["dry run", "another configuration", "a stream is not read", "the clock is set back"]
)
def test_mappings_are_listed_also_for(change: str) -> None:
    world = World(days=1)
    process = Listed(world)
    assert [process.follow(minutes)[1] for minutes in (0, 5, 5)] == [1, 1, 0]
    if change == "another configuration":
        world.config = WITHOUT
    elif change == "a stream is not read":
        world.unread = {"s"}
    elif change == "the clock is set back":
        world.clock.time -= timedelta(hours=2)
    assert process.follow(1, dry_run=change == "dry run")[1] == 1


def test_new_settings_reach_the_mappings_that_there_are() -> None:
    world = World()
    world.settle()
    stream = world.config.streams["s"]
    assert stream.feed is not None
    feed = msgspec.structs.replace(stream.feed, batch=7)
    world.config = msgspec.structs.replace(
        world.config, streams={"s": msgspec.structs.replace(stream, feed=feed), "plain": world.config.streams["plain"]}
    )
    assert world.settle() == [("remap", "s.2026-03-05", "done"), ("remap", "s.2026-03-06", "done")]
    assert {mapping.settings for mapping in world.mapped.values()} == {FeedSettings(7, 2)}


def test_a_mapping_that_is_changing_is_left_alone() -> None:
    world = World()
    world.follow()
    assert {mapping.state for mapping in world.mapped.values()} == {"Creating"}
    assert world.follow() == []


def test_new_settings_wait_for_a_mapping_that_is_changing() -> None:
    world = World(days=1)
    world.follow()
    stream = world.config.streams["s"]
    assert stream.feed is not None
    feed = msgspec.structs.replace(stream.feed, batch=7)
    world.config = msgspec.structs.replace(world.config, streams={"s": msgspec.structs.replace(stream, feed=feed)})
    assert world.follow() == []
    world.clock.sleep(60)
    assert world.follow() == [("remap", "s.2026-03-05", "done")]


def test_a_mapping_that_is_being_deleted_is_not_deleted_again() -> None:
    world = World()
    world.settle()
    world.config = WITHOUT
    assert [step[2] for step in world.follow()] == ["done", "done"]
    assert world.follow() == []


def test_a_mapping_of_a_source_that_is_no_table_of_the_stage_goes() -> None:
    world = World(days=1)
    world.settle()
    strange = "arn:aws:dynamodb:eu-central-1:123456789012:table/someone-elses/stream/2026-03-01T00:00:00.000"
    world.mappings.create(strange, FeedSettings(1, 1))
    world.clock.sleep(60)
    steps = world.feeds.follow(world.periods, world.clock.now())
    assert [(step.action, step.table, step.outcome) for step in steps] == [("unmap", "someone-elses", "done")]


def test_a_table_that_goes_meanwhile_is_left_to_a_later_run(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(shows="none", days=1)

    def refuse(name: str, shows: str) -> None:
        raise TableMissing(name)

    monkeypatch.setattr(world.tables, "set_stream", refuse)
    assert world.follow() == [("stream", "s.2026-03-05", "deferred")]


def test_a_new_mapping_that_cannot_be_listed_yet_is_not_made_twice() -> None:
    world = World(days=1)
    world.mappings.hidden = timedelta(seconds=90)
    assert [world.follow() for _ in range(2)] == [[("map", "s.2026-03-05", "done")]] * 2
    assert world.mappings.changes == ["create tidetable-t.s.2026-03-05"]


@pytest.mark.parametrize("state", [State.CLOSED, State.ARCHIVING, State.ARCHIVED])
def test_the_mapping_of_a_closed_table_stays_as_long_as_the_table(state: State) -> None:
    """Its last records may not be read yet."""
    world = World()
    world.settle()
    world.entries[0] = replace(world.entries[0], state=state)
    assert world.follow() == []
    world.clock.time = datetime(2026, 3, 9, tzinfo=UTC)
    assert world.follow() == []
    world.entries[0] = replace(world.entries[0], state=State.DELETED)
    assert world.settle() == [("unmap", "s.2026-03-05", "done")]
    assert set(world.mapped) == {"s.2026-03-06"}


@pytest.mark.parametrize("read", [True, False])
def test_the_mapping_of_a_deleted_table_stays_while_its_records_can_be_read(read: bool) -> None:
    """AWS: the change stream of a deleted table is there for 24 hours more. A run may not read the periods of deleted tables."""
    world = World(days=1)
    world.settle()
    deleted = replace(world.entries[0], state=State.DELETED)
    world.entries[0] = deleted
    for time, steps in ((timedelta(0), []), (timedelta(seconds=1), [("unmap", "s.2026-03-05", "done")])):
        world.clock.time = datetime(2026, 3, 8, 0, 14, 59, tzinfo=UTC) + time
        periods = {"s": [deleted] if read else []}
        done = world.feeds.follow(periods, world.clock.now())
        assert [(step.action, step.table.removeprefix("tidetable-t."), step.outcome) for step in done] == steps


@pytest.mark.parametrize("state", [State.CLOSED, State.ARCHIVING, State.ARCHIVED])
def test_the_mapping_of_a_closed_table_is_put_back_while_its_records_stay(state: State) -> None:
    """The day 03-05 closes after its day of late events, settles within 15 minutes, and its records stay for 24 hours."""
    world = World(days=1)
    world.settle()
    world.mappings.remove("tidetable-t.s.2026-03-05")
    world.mappings.changes.clear()
    world.entries[0] = replace(world.entries[0], state=state)
    world.clock.time = datetime(2026, 3, 8, 0, 14, 59, tzinfo=UTC)
    assert world.follow() == [("map", "s.2026-03-05", "done")]
    assert world.mappings.changes == ["create tidetable-t.s.2026-03-05"]
    world.clock.time = datetime(2026, 3, 8, 0, 15, tzinfo=UTC)
    world.mappings.remove("tidetable-t.s.2026-03-05")
    assert world.follow() == []


def test_the_mapping_of_a_table_that_comes_back_from_its_archive_goes() -> None:
    """Its restored table has another change stream, and none for a feed."""
    world = World(days=1)
    world.settle()
    world.entries[0] = replace(world.entries[0], state=State.RESTORING)
    assert world.follow() == [("unmap", "s.2026-03-05", "done")]


def test_a_closed_table_that_a_backfill_had_opened_counts_from_the_end_of_that() -> None:
    world = World(days=1)
    until = datetime(2026, 3, 20, tzinfo=UTC)
    world.entries[0] = replace(world.entries[0], state=State.CLOSED, opened=Opening(until, None, None))
    world.clock.time = until + timedelta(hours=24)
    assert world.follow() == [("map", "s.2026-03-05", "done")]
    world.clock.time = until + timedelta(hours=25)
    world.mappings.remove("tidetable-t.s.2026-03-05")
    assert world.follow() == []


@pytest.mark.parametrize("shows", ["none", "keys-only"])
def test_a_closed_table_gets_no_change_stream(shows: str) -> None:
    """Of a restored table the records would be of events that came back from the archive."""
    world = World(shows=shows, days=1)
    world.entries[0] = replace(world.entries[0], state=State.CLOSED)
    assert world.follow() == []


@pytest.mark.parametrize("state", [State.CREATING, State.RESTORING, State.DELETED])
def test_a_table_that_takes_no_events_yet_or_no_more_gets_no_mapping(state: State) -> None:
    world = World(days=1)
    world.entries[0] = replace(world.entries[0], state=state)
    assert world.follow() == []


def test_mappings_go_when_the_feed_leaves_the_configuration() -> None:
    world = World()
    world.settle()
    world.config = WITHOUT
    assert world.settle() == [("unmap", "s.2026-03-05", "done"), ("unmap", "s.2026-03-06", "done")]
    assert world.mapped == {}


def test_mappings_of_a_stream_that_left_the_configuration_go() -> None:
    world = World()
    world.settle()
    world.config = parse(_STREAM.format(name="other", feed=""))
    assert [step[0] for step in world.settle()] == ["unmap", "unmap"]


def test_mappings_of_a_stream_whose_periods_could_not_be_read_stay() -> None:
    world = World()
    world.settle()
    world.unread.add("s")
    assert world.follow() == []


def test_a_dry_run_says_which_mappings_it_would_remove_and_removes_none() -> None:
    world = World(days=1)
    world.settle()
    world.config = WITHOUT
    assert world.follow(dry_run=True) == [("unmap", "s.2026-03-05", "planned")]
    assert world.mapped["s.2026-03-05"].state == "Enabled"


def test_the_mapping_of_a_table_whose_creation_is_not_confirmed_yet_stays() -> None:
    world = World(days=1)
    world.settle()
    world.entries[0] = replace(world.entries[0], state=State.CREATING)
    assert world.follow() == []


def test_one_refusal_keeps_no_other_table_from_its_mapping() -> None:
    world = World()
    table = world.tables.describe("tidetable-t.s.2026-03-05")
    assert table is not None
    world.mappings.refused.add(table.stream_arn)
    assert world.follow() == [("map", "s.2026-03-05", "failed"), ("map", "s.2026-03-06", "done")]


def test_a_refusal_that_passes_is_left_to_the_next_run_and_another_is_a_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for transient, outcome in ((True, "deferred"), (False, "failed")):
        world = World(days=1)

        def refuse(source: str, settings: FeedSettings, transient: bool = transient) -> bool:
            raise TableRefused("TooManyRequestsException", transient=transient)

        monkeypatch.setattr(world.mappings, "create", refuse)
        (step,) = world.feeds.follow(world.periods, world.clock.now())
        assert (step.action, step.reason, step.outcome) == ("map", "its stream has a feed", outcome)
        assert step.detail == "TooManyRequestsException"


def test_the_first_feed_is_mapped_by_the_run_after_its_right_arrived() -> None:
    """The deploy that adds the feed adds the right, too. Its own run is healthy: nothing is lost by waiting."""
    world = World(days=1)
    world.mappings.rights_from = world.clock.now() + timedelta(seconds=20)
    (step,) = world.feeds.follow(world.periods, world.clock.now())
    assert (step.action, step.outcome) == ("map", "deferred")
    assert "Cannot access stream" in step.detail
    world.clock.sleep(30)
    assert world.follow() == [("map", "s.2026-03-05", "done")]


def test_a_table_that_cannot_be_described_is_told() -> None:
    world = World()
    world.tables.unseen.add("tidetable-t.s.2026-03-05")
    assert world.follow() == [("look", "s.2026-03-05", "failed"), ("map", "s.2026-03-06", "done")]


def test_all_mappings_go_before_the_function_does() -> None:
    world = World()
    world.settle()
    steps = world.feeds.remove_all()
    assert [(step.action, step.outcome) for step in steps] == [("unmap", "done")] * 2
    world.clock.sleep(60)
    assert world.mapped == {}
