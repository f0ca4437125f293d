"""The steps of the drain: what it writes first, for how long it tries, what it says is left, and what belongs behind a fence."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.ingest.streams import NOW
from tests.worlds.intake import LABEL, World
from tidetable.catalog import SeenTable, State
from tidetable.config import TableClass
from tidetable.errors import NotDrained, Outage, StoreUnavailable, TableMissing
from tidetable.events import Event
from tidetable.ingest.drain import drain_message
from tidetable.ingest.overflow import encode_message, encode_ticket
from tidetable.ingest.pace import Pace
from tidetable.layout import Key
from tidetable.ports import Blob, Guard, Put, Written
from tidetable.remaining import limit_time

TODAY = f"tidetable-t.quakes.{LABEL}"


def make_message(*events: Event, at: int = 1) -> str:
    return encode_message("quakes", events, at)


def make_events(count: int) -> list[Event]:
    return [Event("a", NOW, str(number), {}) for number in range(count)]


def log_writes(stage: World) -> list[tuple[str, str]]:
    """Each write from now on: how it was made, and the period."""
    log: list[tuple[str, str]] = []
    write_each, transact = stage.store.write_each, stage.store.transact

    def write(puts: Sequence[Put], guard: Guard) -> Written:
        if puts:
            log.append(("put", puts[0].table[-10:]))
        return write_each(puts, guard)

    def fence(puts: Any, entry: Any = None, total: Any = None) -> Any:
        log.append(("fenced", entry.period.label))
        return transact(puts, entry, total)

    stage.store.write_each, stage.store.transact = write, fence  # type: ignore[method-assign]
    return log


def test_what_needs_a_fence_is_written_before_what_does_not() -> None:
    """Its table may be archived soon: then nothing of it could be written any more."""
    stage = World()
    stage.move(LABEL, State.CLOSED)
    log = log_writes(stage)
    body = make_message(Event("a", NOW - timedelta(days=1), "1", {}), Event("a", NOW, "2", {}))
    assert stage.drain(body) == 2
    assert log == [("fenced", "2026-03-01"), ("put", "2026-02-28")]


@pytest.mark.parametrize("error", [StoreUnavailable(Outage.NO_ANSWER, "time-out"), TableMissing(TODAY)], ids=repr)
def test_a_table_that_does_not_answer_keeps_no_events_of_another_table_waiting(error: Exception) -> None:
    stage = World()
    stage.move(LABEL, State.CLOSED)
    transact = stage.store.transact

    def fail(*_: Any) -> Any:
        raise error

    stage.store.transact = fail  # type: ignore[method-assign, assignment]
    body = make_message(Event("a", NOW, "1", {}), Event("a", NOW - timedelta(days=1), "2", {}))
    with pytest.raises(NotDrained, match=f"^{error}$"):
        stage.drain(body)
    assert (stage.count(LABEL), stage.count("2026-02-28")) == (0, 1)
    stage.store.transact = transact  # type: ignore[method-assign]
    assert (stage.drain(body), stage.count(LABEL)) == (2, 1)


def test_a_message_whose_events_the_bucket_does_not_give_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = World()
    kept = encode_message("quakes", make_events(2), 1)
    stage.values.put(Blob("overflow/kept", stage.large.compressor.compress(kept.encode()), Key("a", "1")))
    body = encode_ticket("quakes", "overflow/kept")

    def fail(_: str) -> bytes | None:
        raise StoreUnavailable(Outage.NO_ANSWER, "time-out")

    with monkeypatch.context() as outage:
        outage.setattr(stage.values, "get", fail)
        with pytest.raises(NotDrained, match=r"^no answer: time-out$") as refused:
            stage.drain(body)
        assert type(refused.value) is NotDrained, "and not one that is buried"
    assert (stage.drain(body), stage.count(LABEL)) == (2, 2)


@pytest.mark.parametrize(("earlier", "way"), [(0, "put"), (1, "fenced")])
def test_the_oldest_instant_of_the_window_needs_no_fence(earlier: int, way: str) -> None:
    """The stream takes events of two days by its API."""
    stage = World()
    log = log_writes(stage)
    at = NOW - timedelta(days=2, microseconds=earlier)
    assert stage.drain(make_message(Event("a", at, "1", {}))) == 1
    assert log == [(way, "2026-02-27")]


def test_the_number_of_items_that_are_left_counts_those_that_were_not_tried() -> None:
    """On demand, the rounds have 20 and 21: of the second, four are not written, and four were not tried."""
    stage = World()
    write_each = stage.store.write_each

    def write(puts: Sequence[Put], guard: Guard) -> Written:
        written = write_each(puts, guard)
        if puts:
            stage.store.throttled = 4
        return written

    stage.store.write_each = write  # type: ignore[method-assign]
    with pytest.raises(NotDrained, match=r"^8 of 45 items of quakes are still to be written$"):
        drain_message(make_message(*make_events(45)), stage.drainer(), limit_time(0.1, stage.clock, lambda: 60.0))
    assert stage.count(LABEL) == 37


@pytest.mark.parametrize(("seconds", "waited"), [(0.5, 0.35), (60, 0.75)])
def test_a_throttled_table_is_tried_for_a_second_and_no_longer_than_the_function_has(
    seconds: float, waited: float
) -> None:
    """The pauses are 50 ms, 100 ms and so on; the next would end too late."""
    stage = World()
    stage.store.throttles = {TODAY}
    deadline = stage.clock.now() + timedelta(seconds=seconds)
    with pytest.raises(NotDrained, match="1 of 1"):
        drain_message(
            make_message(*make_events(1)),
            stage.drainer(),
            lambda: (deadline - stage.clock.now()).total_seconds(),
        )
    assert (stage.clock.now() - NOW).total_seconds() == pytest.approx(waited)


def test_what_one_table_took_lets_no_other_table_wait() -> None:
    stage = World()
    first, second = stage.catalog.entries("quakes")[:2]
    pace = Pace(stage.clock, 0.05)
    for entry in (first, second):
        stage.catalog.note(entry, SeenTable(200, 80, TableClass.STANDARD))
    pace.record_units(first, 1_000)
    pace.wait(second, lambda: 60.0)
    assert stage.clock.now() == NOW
    pace.wait(first, lambda: 60.0)
    # Nothing was known of the units of the table when they were spent: a fifth of 1,000 per second.
    assert stage.clock.now() - NOW == timedelta(seconds=5)


def test_what_two_messages_took_of_a_table_is_waited_for_together() -> None:
    """Its consumer may write 10 units per second, and then 12.5."""
    stage = World()
    entry = stage.catalog.entries("quakes")[0]
    stage.catalog.note(entry, SeenTable(200, 80, TableClass.STANDARD))
    entry = stage.catalog.entries("quakes")[0]
    pace = Pace(stage.clock, 0.05)
    for _ in range(2):
        pace.record_units(entry, 20)
    pace.wait(entry, lambda: 60.0)
    assert stage.clock.now() - NOW == timedelta(seconds=3.6)
