"""Writing items with parts, and versions: no event is seen without its data, none overtakes another, none is lost."""

from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.noise import noise
from tests.ingest.streams import NOW
from tests.worlds.intake import LABEL, World, event, make_writer, numbered, versions, world
from tidetable.catalog import State
from tidetable.config.stream import LargePolicy
from tidetable.errors import NotDrained
from tidetable.events import Event, Item
from tidetable.ingest.overflow import encode_message
from tidetable.large.outside import write_outside
from tidetable.large.table_names import name_chunks_table
from tidetable.layout import Key
from tidetable.ports import Blob, Guarded, Put, Transacted
from tidetable.versions.writing import add_fenced, write_versions

TABLE = "tidetable-t.quakes.2026-03-01"


def test_an_item_is_not_written_while_its_parts_are_not() -> None:
    """The table of parts is throttled, the item's is not: otherwise the event would be seen without its data."""
    stage = world(large=LargePolicy(beyond="chunks"))
    stage.store.throttles = {name_chunks_table(TABLE)}
    outcome = stage.send(event(1) | {"data": {"text": noise(950_000)}}, event(2))
    assert (outcome.accepted, outcome.queued) == (1, 1)
    assert [item["sk"][-1] for item in stage.table(LABEL)] == ["2"]
    assert [message.id for message in stage.overflow.queued] == ["1"]


def test_a_drained_item_behind_the_window_is_not_written_while_its_parts_are_not() -> None:
    stage = world(large=LargePolicy(beyond="chunks"))
    stage.clock.time += timedelta(days=5)
    stage.move(LABEL, State.CLOSED)
    stage.store.throttles = {name_chunks_table(TABLE)}
    body = encode_message("quakes", [Event("a", NOW, "1", {"text": noise(950_000)})], 1)
    with pytest.raises(NotDrained, match="the data of a large event"):
        stage.drain(body)
    assert stage.count(LABEL) == 0


@pytest.mark.parametrize(("seconds", "kept"), [(0.0, 0), (0.1, 1)])
def test_an_object_is_put_only_while_there_is_time(seconds: float, kept: int) -> None:
    """A request of many large events would go on for as long as S3 takes for all of them."""
    stage = World()
    put = Put(TABLE, {"pk": "p", "sk": "s", "at": 1, "out": {}}, outside=(Blob("key", b"x", Key("p", "s")),))
    ready, written = write_outside(make_writer(stage, seconds), [put])
    assert (len(stage.values.blobs), ready, written.unwritten) == (kept, [put] * kept, [put] * (1 - kept))


def test_an_item_whose_part_is_not_written_waits_alone() -> None:
    """Its parts are written with it, and are no items that wait."""
    stage = World()
    stage.store.throttles = {name_chunks_table(TABLE)}
    part = Put(name_chunks_table(TABLE), {"pk": "part", "b": b"x"})
    put = Put(TABLE, {"pk": "p", "sk": "s", "at": 1, "out": {}}, outside=(part,))
    ready, written = write_outside(make_writer(stage, 0.0), [put])
    assert (ready, written.unwritten) == ([], [put])


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_an_item_waits_whichever_of_its_parts_is_not_written(missing: int) -> None:
    stage = World()
    stage.store.throttled = 1
    table = name_chunks_table(TABLE)
    parts = tuple(Put(table, {"pk": f"part {number}", "b": b"x"}) for number in range(3))
    # The parts of the first item are tried first, and the first part of all is throttled.
    first = Put(TABLE, {"pk": "o", "sk": "s", "at": 1, "out": {}}, outside=(parts[missing],))
    put = Put(TABLE, {"pk": "p", "sk": "s", "at": 1, "out": {}}, outside=parts)
    plain = Put(TABLE, {"pk": "q", "sk": "s", "at": 1, "data": {}})
    ready, written = write_outside(make_writer(stage, 0.0), [first, put, plain])
    assert (ready, written.unwritten) == ([plain], [first, put])


def test_no_pause_ends_at_the_very_end_of_the_time() -> None:
    """Nothing could be tried after it."""
    stage = World()
    stage.store.throttles = {TABLE}
    put = Put(TABLE, {"pk": "p", "sk": "s", "at": 1, "data": {}})
    written = make_writer(stage, 0.05).retry_writes(stage.store.write, [put])
    assert (written.unwritten, written.throttled, stage.clock.slept) == ([put], 1, [])


@pytest.mark.parametrize("policy", [{}, {"versions": "keep"}], ids=["plain", "versions"])
def test_an_event_without_a_table_is_queued_although_an_event_of_another_table_is_tried_again(
    policy: dict[str, Any],
) -> None:
    stage = world(**policy)
    del stage.store.tables["tidetable-t.quakes.2026-02-28"]
    stage.store.throttled = 1
    outcome = stage.send(event(1, days=1), event(2))
    assert (outcome.accepted, outcome.queued, outcome.throttled) == (1, 1, 1)
    assert ([queued.id for queued in stage.overflow.queued], stage.count(LABEL)) == (["1"], 1)


def test_versions_neither_overtake_the_one_that_was_throttled_nor_are_lost_behind_it() -> None:
    for throttled in range(1, 4):
        stage = world(versions="keep")
        stage.store.throttled = throttled
        outcome = stage.send(numbered("first"), numbered("second"), numbered("third"))
        assert (outcome.accepted, outcome.queued) == (3, 0)
        assert versions(stage) == {"v0": "third", "v1": "first", "v2": "second"}, throttled


def test_a_further_version_costs_the_units_of_its_transaction_and_a_repeat_costs_none() -> None:
    stage = world(versions="keep")
    assert [stage.send(numbered(name)).write_units for name in ("first", "second", "second")] == [1, 4, 0]


def test_versions_behind_one_that_cannot_be_written_are_queued_with_it() -> None:
    stage = world(versions="keep")
    stage.store.throttles = {TABLE}
    outcome = stage.send(numbered("first"), numbered("second"), event(2))
    assert (outcome.accepted, outcome.queued) == (0, 3)
    assert [message.data["n"] for message in stage.overflow.queued] == ["first", "second", 2]


def other_writer(stage: World) -> None:
    """Another process adds its version, once, between this process's read and its transaction."""
    (held,) = stage.table(LABEL)
    stage.store.between = lambda: None
    newest: Item = {**held, "data": {"n": "other"}, "digest": "other", "version": 2, "past": held["digest"]}
    earlier: Item = {**held, "sk": "v1#" + held["sk"].partition("#")[2]}
    stage.store.transact([Guarded(Put(TABLE, newest), 1), Guarded(Put(TABLE, earlier))])


def test_two_writers_of_versions_do_not_overwrite_each_other() -> None:
    stage = world(versions="keep")
    stage.send(numbered("first"))
    stage.store.between = lambda: other_writer(stage)
    assert stage.send(numbered("mine")).accepted == 1
    assert versions(stage) == {"v0": "mine", "v1": "first", "v2": "other"}


def test_a_version_that_waited_and_meets_another_writer_is_drained_later() -> None:
    stage = world(versions="keep")
    stage.send(numbered("first"))
    stage.clock.time += timedelta(days=5)
    stage.move(LABEL, State.CLOSED)
    body = encode_message("quakes", [Event("a", NOW, "1", {"n": "waited"})], 2**42)
    count = 0

    def between() -> None:
        nonlocal count
        count += 1
        if count == 2:  # The first transaction is refused because a version exists; the second would add one.
            other_writer(stage)

    stage.store.between = between
    with pytest.raises(NotDrained, match="another writer changes an event"):
        stage.drain(body)
    assert versions(stage) == {"v0": "other", "v1": "first"}
    assert stage.drain(body) == 1
    assert versions(stage) == {"v0": "waited", "v1": "first", "v2": "other"}


def test_the_order_of_what_waits_is_kept_when_the_time_is_up() -> None:
    stage = world(versions="keep")
    stage.store.throttles = {TABLE}
    puts = [
        Put(TABLE, {"pk": "p", "sk": "v0#s", "version": 1, "digest": str(n), "at": 1, "data": {"n": n}})
        for n in range(3)
    ]
    written = write_versions(make_writer(stage, 0.0), puts)
    assert [put.item["digest"] for put in written.unwritten] == ["0", "1", "2"]
    assert Key("p", "v0#s") not in stage.store.tables[TABLE]


def test_of_an_event_thirty_two_versions_before_the_newest_are_remembered() -> None:
    stage = world(versions="keep")
    for n in range(34):
        assert stage.send(numbered(n)).accepted == 1
    assert len(versions(stage)) == 34
    # The newest is 33: 1 is the last of 32 before it.
    assert stage.send(numbered(1)).accepted == 1
    assert len(versions(stage)) == 34
    assert stage.send(numbered(0)).accepted == 1
    assert (len(versions(stage)), versions(stage)["v0"]) == (35, 0)


def test_only_the_newest_version_remembers_the_past() -> None:
    stage = world(versions="keep")
    for n in ("first", "second", "third"):
        stage.send(numbered(n))
        stage.clock.sleep(1)
    items = {item["sk"].partition("#")[0]: item for item in stage.table(LABEL)}
    assert {place: (item["data"]["n"], "past" in item) for place, item in items.items()} == {
        "v0": ("third", True),
        "v1": ("first", False),
        "v2": ("second", False),
    }


def test_a_version_that_is_there_already_is_added_by_a_backfill_once() -> None:
    """The backfill may be repeated: what it finds done is done, and what is another version becomes one."""
    stage = world(versions="keep")
    stage.send(numbered("first"))
    (held,) = stage.table(LABEL)
    (entry,) = (entry for entry in stage.catalog.entries("quakes") if entry.period.label == LABEL)
    assert add_fenced(stage.store, Put(entry.table, held), entry) is Transacted.DONE
    assert versions(stage) == {"v0": "first"}
    other = held | {"data": {"n": "second"}, "digest": "0" * len(held["digest"]), "at": held["at"] + 1}
    assert add_fenced(stage.store, Put(entry.table, other), entry) is Transacted.DONE
    assert versions(stage) == {"v0": "second", "v1": "first"}
    closed = stage.move(LABEL, State.ARCHIVING)
    third = other | {"data": {"n": "third"}, "digest": "1" * len(held["digest"]), "at": held["at"] + 2}
    assert add_fenced(stage.store, Put(closed.table, third), closed) is Transacted.FENCED
    assert versions(stage) == {"v0": "second", "v1": "first"}
