"""What a run notes: nothing that is not new, and all that can be noted though one note is refused."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from tests.fakes.stage import Stage
from tests.lifecycle.world import World
from tests.worlds.copied import IRELAND, NOON, TODAY, copies, run, table_of, text
from tidetable.catalog import Entry, SeenTable, State

LABEL = "2026-03-14"
TABLE = f"tidetable-t.s.{LABEL}"


def note_calls(catalog: Any, *methods: str) -> list[str]:
    """The names of the methods that are called from now on."""
    calls: list[str] = []
    for method in methods:
        original = getattr(catalog, method)

        def calling(*members: Any, method: str = method, original: Any = original, **named: Any) -> Any:
            calls.append(method)
            return original(*members, **named)

        setattr(catalog, method, calling)
    return calls


def test_a_run_that_finds_nothing_new_notes_nothing() -> None:
    """Each write costs a unit, and runs come every five minutes."""
    world = World()
    world.run()
    for _ in range(8):
        world.after(days=1)
    for _ in range(3):
        world.after(minutes=5)
    assert world.states()[LABEL] is State.DELETED
    calls = note_calls(world.catalog, "note", "set_horizon", "put_policy", "mark_copies", "move", "add")
    for _ in range(12):
        assert world.after(minutes=5).done == []
    assert calls == []


def test_a_table_that_is_being_restored_is_looked_at_in_its_turn_only() -> None:
    """Its units are those of the filling, which the ladder changes afterwards."""
    world = World(retention=20)
    world.run()
    world.after(days=5)
    world.after(minutes=5)
    closed = next(entry for entry in world.catalog.entries("s") if entry.period.label == LABEL)
    assert closed.state is State.CLOSED
    assert closed.capacity.seen is not None
    world.catalog.note(closed, closed.capacity.seen._replace(write=None, read=None))
    world.catalog.move(closed, State.RESTORING, expected=[State.CLOSED])
    looked: list[str] = []
    describe = world.tables.describe

    def counted(name: str) -> Any:
        looked.append(name)
        return describe(name)

    cast("Any", world.tables).describe = counted
    start = world.clock.now()
    for number in range(12):
        world.run(dry_run=True)
        world.clock.time = start + (number + 1) * timedelta(minutes=5)
    assert looked.count(TABLE) == 1


def test_a_run_goes_on_without_copies_if_the_catalog_cannot_say_whether_the_stage_stands() -> None:
    stage = Stage(NOON, text(IRELAND), regions=[IRELAND])
    stage.catalog.mark_deployed()
    run(stage)

    def fail() -> bool:
        raise ConnectionError("no answer")

    stands, stage.catalog.is_deployed = stage.catalog.is_deployed, fail  # type: ignore[method-assign]
    assert (run(stage).done, copies(stage, table_of(TODAY))) == ([], {})
    stage.catalog.is_deployed = stands  # type: ignore[method-assign]
    run(stage)
    assert copies(stage, table_of(TODAY)) == {IRELAND: "ACTIVE"}


def test_what_a_table_has_and_cannot_be_noted_is_told_and_stops_no_other_note() -> None:
    world = World()
    world.run()
    note = world.catalog.note

    def refuse_one(entry: Entry, seen: SeenTable) -> None:
        if entry.period.label == LABEL:
            raise ConnectionError("no answer")
        note(entry, seen)

    world.catalog.note = refuse_one  # type: ignore[method-assign]
    report = world.after(minutes=5)
    assert report.troubles == [f"the state of {TABLE} could not be recorded for s: ConnectionError: no answer"]
    noted = [entry.period.label for entry in world.catalog.entries("s") if entry.capacity.seen is not None]
    assert noted == ["2026-03-15", "2026-03-16", "2026-03-17"]
    world.catalog.note = note  # type: ignore[method-assign]
    assert world.after(minutes=5).healthy


def test_a_horizon_that_cannot_be_noted_is_told_and_noted_by_a_later_run() -> None:
    world = World(on_expiry="delete")
    world.run()
    world.after(days=6)
    assert world.states()[LABEL] is State.DELETED

    def refuse(stream: str, at: datetime) -> None:
        raise ConnectionError(f"no answer for {stream} and {at:%d}")

    set_horizon, world.catalog.set_horizon = world.catalog.set_horizon, refuse  # type: ignore[method-assign]
    report = world.after(minutes=5)
    assert report.troubles == ["the horizon of s could not be noted: ConnectionError: no answer for s and 16"]
    assert world.catalog.read_horizon("s").at is None
    world.catalog.set_horizon = set_horizon  # type: ignore[method-assign]
    assert world.after(minutes=5).healthy
    # The 14th and the 15th are deleted.
    assert world.catalog.read_horizon("s").at == datetime(2026, 3, 16, tzinfo=UTC)
