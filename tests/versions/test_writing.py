"""Versions where something fails between two steps: each version is kept once, or waits, and none is lost."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.ingest.streams import NOW
from tests.worlds.intake import LABEL, World, make_writer, numbered, versions, world
from tidetable.catalog import State
from tidetable.errors import NotDrained, Outage, PutRefused, StoreUnavailable, TableMissing
from tidetable.events import Event
from tidetable.exact_json import decode_json
from tidetable.ingest.overflow import encode_message
from tidetable.ports import Put, Written
from tidetable.versions.writing import make_first_version, write_versions

TABLE = f"tidetable-t.quakes.{LABEL}"


def test_the_digest_of_a_version_is_the_same_in_every_release() -> None:
    """Versions that an older release wrote are compared by it. The first 16 digits of SHA-256 of the sorted JSON."""
    data = decode_json('{"b": [true, null, "é"], "a": 1.50}')
    item = make_first_version({"pk": "p", "sk": "v0#s", "at": 7, "data": data}, data)
    assert item == {"pk": "p", "sk": "v0#s", "at": 7, "data": data, "version": 1, "digest": "43488e05b09baef8"}


def keep_first(stage: World) -> None:
    assert stage.send(numbered("first")).accepted == 1


def answer_once(stage: World, name: str, answer: Callable[..., Any]) -> list[Any]:
    """Answer the next call of an operation of the store so, and each later one as usual. The calls are listed."""
    usual, calls = getattr(stage.store, name), list[Any]()

    def operation(*given: Any, **options: Any) -> Any:
        calls.append(given)
        return answer(*given) if len(calls) == 1 else usual(*given, **options)

    setattr(stage.store, name, operation)
    return calls


def test_a_version_is_tried_again_if_what_is_there_could_not_be_read() -> None:
    """The store answers no item then; the event may be there or not."""
    stage = world(versions="keep")
    keep_first(stage)
    calls = answer_once(stage, "write_each", lambda puts, _: Written(conflicts=[(put, {}) for put in puts]))
    outcome = stage.send(numbered("second"))
    assert (outcome.accepted, outcome.queued, len(calls)) == (1, 0, 2)
    assert versions(stage) == {"v0": "second", "v1": "first"}


def raise_error(error: Exception) -> Callable[..., Any]:
    def raising(*_: Any) -> Any:
        raise error

    return raising


def test_a_version_whose_transaction_had_no_answer_is_tried_again() -> None:
    stage = world(versions="keep")
    keep_first(stage)
    calls = answer_once(stage, "transact", raise_error(StoreUnavailable(Outage.NO_ANSWER, "time-out")))
    assert stage.send(numbered("second")).accepted == 1
    assert (len(calls), versions(stage)) == (2, {"v0": "second", "v1": "first"})


def test_a_version_whose_table_is_gone_is_queued_at_once() -> None:
    """A table appears by the lifecycle's doing, in minutes."""
    stage = world(versions="keep")
    keep_first(stage)
    calls = answer_once(stage, "transact", raise_error(TableMissing(TABLE)))
    outcome = stage.send(numbered("second"))
    assert (outcome.accepted, outcome.queued, len(calls)) == (0, 1, 1)
    assert stage.clock.now() == NOW
    assert stage.circuit.admits(TABLE), "a missing table is no throttled one"


def test_a_version_that_dynamodb_refuses_is_rejected_alone_with_its_reason() -> None:
    stage = world(versions="keep")
    keep_first(stage)
    calls = answer_once(stage, "transact", raise_error(PutRefused("ValidationException: Item size has exceeded")))
    outcome = stage.send(numbered("second"), numbered("other") | {"id": "other"})
    assert (outcome.accepted, outcome.queued, len(calls)) == (1, 0, 1)
    (rejection,) = outcome.rejections
    assert (rejection.index, rejection.code) == (0, "invalid")
    assert rejection.detail == "DynamoDB refuses the event: ValidationException: Item size has exceeded"
    assert sorted(item["data"]["n"] for item in stage.table(LABEL)) == ["first", "other"]


def test_versions_behind_one_that_had_no_answer_are_written_behind_it() -> None:
    stage = world(versions="keep")
    keep_first(stage)
    answer_once(stage, "transact", raise_error(StoreUnavailable(Outage.NO_ANSWER, "time-out")))
    item = stage.table(LABEL)[0]
    puts = [Put(TABLE, item | {"digest": digit * 16, "data": {"n": digit}}) for digit in "123"]
    written = write_versions(make_writer(stage, 9.0), puts)
    assert (written.unwritten, written.conflicts, written.missing_tables) == ([], [], set())
    assert versions(stage) == {"v0": "3", "v1": "first", "v2": "1", "v3": "2"}


def test_a_version_that_waited_comes_again_if_the_event_went_between_two_steps() -> None:
    """Behind the window: the first transaction says that the event is there, and a read does not find it."""
    stage = world(versions="keep")
    keep_first(stage)
    stage.move(LABEL, State.CLOSED)
    answer_once(stage, "get", lambda *_: None)
    body = encode_message("quakes", [Event("a", NOW, "1", {"n": "waited"})], 2**42)
    with pytest.raises(NotDrained, match="another writer changes an event of quakes at the same time"):
        stage.drain(body)
    assert versions(stage) == {"v0": "first"}
    assert stage.drain(body) == 1
    assert versions(stage) == {"v0": "waited", "v1": "first"}


def test_every_version_has_the_number_of_its_place() -> None:
    """Two versions come that were accepted before the newest, in turn."""
    stage = world(versions="keep")
    for n, at in (("new", 9), ("older", 2), ("oldest", 1)):
        assert stage.drain(encode_message("quakes", [Event("a", NOW, "1", {"n": n})], at), 10) == 1
    items = {item["sk"].partition("#")[0]: item for item in stage.table(LABEL)}
    assert {place: (item["data"]["n"], item["version"], item["at"]) for place, item in items.items()} == {
        "v0": ("new", 3, 9),
        "v1": ("older", 1, 2),
        "v2": ("oldest", 2, 1),
    }
