"""The messages of a batch are written together, and what happens to one of them concerns no other."""

import json
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.ingest.streams import CONFIG, NOW
from tests.worlds.intake import LABEL, World
from tidetable.catalog import Entry, SeenTable, State
from tidetable.config import TableClass
from tidetable.config.capacity import Capacity, Units
from tidetable.errors import NotDrained, PutRefused, Undrainable
from tidetable.events import Event
from tidetable.ingest.drain import Drained, drain_messages
from tidetable.ingest.overflow import encode_message
from tidetable.ingest.pace import Pace
from tidetable.ports import Guard, Guarded, Put, Transacted, Written

WARM = Capacity(warm=Units(write=20_000, read=12_000))
TODAY = f"tidetable-t.quakes.{LABEL}"


def make_body(*ids: str, stream: str = "quakes", **ago: float) -> str:
    return encode_message(stream, [Event("a", NOW - timedelta(**ago), id, {}) for id in ids], 1)


def drain(stage: World, *bodies: str, seconds: float = 60.0, received: int = 1) -> list[Drained | str]:
    """Drain messages; the result has a text in place of each that must come again."""
    end = stage.clock.now() + timedelta(seconds=seconds)
    letters = [(body, received) for body in bodies]
    outcomes = drain_messages(letters, stage.drainer(), lambda: (end - stage.clock.now()).total_seconds())
    return [str(outcome) if isinstance(outcome, NotDrained) else outcome for outcome in outcomes]


def two_streams() -> World:
    """A second stream, whose table of today is another."""
    stage = World(replace(CONFIG, streams={**CONFIG.streams, "tides": replace(CONFIG.streams["quakes"], name="tides")}))
    (own,) = [entry for entry in stage.catalog.entries("quakes") if entry.period.label == LABEL]
    stage.catalog.add(Entry("tides", own.period, "tides-table", own.layout, State.OPEN, NOW))
    stage.store.tables["tides-table"] = {}
    return stage


def watch_rounds(stage: World) -> list[list[str]]:
    """The ids of the events of each round of puts from now on."""
    rounds: list[list[str]] = []
    write_each = stage.store.write_each

    def watched(puts: Sequence[Put], guard: Guard) -> Written:
        if puts:
            rounds.append([put.item["sk"].rpartition("#")[2] for put in puts])
        return write_each(puts, guard)

    stage.store.write_each = watched  # type: ignore[method-assign]
    return rounds


def test_messages_of_a_stream_are_one_read_of_the_catalog_and_one_round_of_puts() -> None:
    stage = World()
    stage.catalog.reads.clear()
    rounds = watch_rounds(stage)
    assert drain(stage, make_body("1", "2"), make_body("3"), make_body("4")) == [Drained(2), Drained(1), Drained(1)]
    assert (rounds, len(stage.catalog.reads)) == ([["1", "2", "3", "4"]], 1)


def test_only_messages_with_events_that_are_not_written_come_again() -> None:
    stage = World()
    write_each = stage.store.write_each

    def throttle(puts: Sequence[Put], guard: Guard) -> Written:
        written = write_each([put for put in puts if not put.item["sk"].endswith("#2")], guard)
        late = [put for put in puts if put.item["sk"].endswith("#2")]
        written.unwritten += late
        written.throttles.update(put.table for put in late)
        return written

    stage.store.write_each = throttle  # type: ignore[method-assign]
    outcomes = drain(stage, make_body("1"), make_body("2", "3"), make_body("4"), seconds=0.0)
    assert outcomes == [Drained(1), "1 of 4 items of quakes are still to be written", Drained(1)]
    assert stage.count(LABEL) == 3


def test_each_message_has_its_own_end() -> None:
    """One waits for a table, one is buried, and one cannot be read."""
    stage = World()
    stage.letters.takes = True
    stage.move("2026-02-28", State.ARCHIVED)
    outcomes = drain(stage, make_body("1", days=9), make_body("2", days=1), "no message", make_body("3"))
    waits, buried, unreadable, written = outcomes
    assert "is recorded for 2026-02-20" in str(waits)
    assert buried == Drained(0, "period 2026-02-28 of quakes is archived: restore it, then replay")
    assert str(unreadable).startswith("Drained(events=0, buried='the message cannot be read")
    assert written == Drained(1)
    assert len(stage.letters.kept) == 2


def test_a_fault_in_one_message_keeps_no_other_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    from tidetable.forms.plain import PlainForm

    make_puts = PlainForm.make_puts

    def fail(self: Any, batch: Any, *given: Any) -> Any:
        if "bad" in batch.ids:
            raise ArithmeticError("a fault")
        return make_puts(self, batch, *given)

    monkeypatch.setattr(PlainForm, "make_puts", fail)
    stage = World()
    outcomes = drain(stage, make_body("1"), make_body("bad", "2"), make_body("3"))
    assert outcomes == [Drained(1), "ArithmeticError: a fault", Drained(1)]
    assert stage.count(LABEL) == 2


def test_a_stream_whose_table_takes_nothing_is_tried_for_a_second_and_then_left_alone() -> None:
    stage = two_streams()
    stage.store.throttles = {TODAY}
    ports, begun = stage.drainer(), stage.clock.now()

    def drain_both() -> list[str]:
        letters = [(make_body("1"), 2), (make_body("2", stream="tides"), 1)]
        return [str(outcome)[-12:] for outcome in drain_messages(letters, ports, lambda: 60.0)]

    assert drain_both() == ["o be written", "ne, saved=0)"]
    assert (stage.clock.now() - begun).total_seconds() == pytest.approx(0.75)
    begun = stage.clock.now()
    assert drain_both() == ["a moment ago", "ne, saved=0)"]
    assert stage.clock.now() == begun, "the table is left alone for two seconds"
    stage.store.throttles = set()
    stage.clock.time += timedelta(seconds=2)
    assert drain_both()[0] == "ne, saved=0)"


def test_the_time_is_divided_among_the_streams_and_repeated_messages_are_last() -> None:
    """The units of a small table would take all of the time."""
    stage = two_streams()
    (entry,) = [entry for entry in stage.catalog.entries("quakes") if entry.period.label == LABEL]
    stage.catalog.note(entry, SeenTable(20, 20, TableClass.STANDARD))
    ids = [str(number) for number in range(100)]
    small, quick = make_body(*ids), make_body("1", stream="tides")
    outcomes = drain(stage, small, quick, seconds=60.0)
    # A unit per second, and a quarter more after each round: rounds of ten begin after 0, 10, 18, 24.4 and 29.5 seconds.
    assert outcomes == ["50 of 100 items of quakes are still to be written: the time was up", Drained(1)]
    again = [(small, 2), (quick, 1)]
    rounds = watch_rounds(stage)
    drain_messages(again, stage.drainer(), lambda: 0.0)
    assert rounds[0] == ["1"]


def test_events_behind_the_window_are_written_in_transactions_of_twenty_five() -> None:
    stage = World()
    stage.move(LABEL, State.CLOSED)
    sizes: list[int] = []
    transact = stage.store.transact

    def watched(puts: Sequence[Guarded], entry: Entry | None = None, total: Written | None = None) -> Transacted:
        sizes.append(len(puts))
        return transact(puts, entry, total)

    stage.store.transact = watched  # type: ignore[method-assign]
    assert drain(stage, make_body(*map(str, range(40))), make_body("x", *map(str, range(50, 60)))) == [
        Drained(40),
        Drained(11),
    ]
    assert (sizes, stage.count(LABEL)) == ([25, 25, 1], 51)


@pytest.mark.parametrize("refusal", [None, PutRefused("the reason")], ids=["a newer state", "a refused item"])
def test_a_transaction_that_one_event_prevents_is_repeated_event_by_event(refusal: Exception | None) -> None:
    stage = World()
    stage.letters.takes = True
    stage.move(LABEL, State.CLOSED)
    newer = encode_message("quakes", [Event("a", NOW, "2", {"n": "newer"})], 9)
    assert drain(stage, newer) == [Drained(1)]
    transact = stage.store.transact

    def refuse(puts: Sequence[Guarded], entry: Entry | None = None, total: Written | None = None) -> Transacted:
        if refusal is not None and any(own.put.item["sk"].endswith("#3") for own in puts):
            raise refusal
        return transact(puts, entry, total)

    stage.store.transact = refuse  # type: ignore[method-assign]
    outcomes = drain(stage, make_body("1", "2"), make_body("3", "4"))
    if refusal is None:
        assert (outcomes, stage.count(LABEL)) == ([Drained(2), Drained(2)], 4)
    else:
        reason = "DynamoDB refuses 1 items of quakes: the reason"
        assert (outcomes, stage.count(LABEL)) == ([Drained(2), Drained(1, reason)], 3)
    (stored,) = [item for item in stage.table(LABEL) if item["sk"].endswith("#2")]
    assert (stored["data"], stored["at"]) == ({"n": "newer"}, 9)


def test_what_comes_behind_the_fence_is_given_up_and_the_rest_is_written() -> None:
    """The archive begins between two transactions."""
    stage = World()
    stage.move(LABEL, State.CLOSED)
    transact, calls = stage.store.transact, [0]

    def archive_later(puts: Sequence[Guarded], entry: Entry | None = None, total: Written | None = None) -> Transacted:
        calls[0] += 1
        if calls[0] == 2:
            stage.move(LABEL, State.ARCHIVING)
        return transact(puts, entry, total)

    stage.store.transact = archive_later  # type: ignore[method-assign]
    first, second = drain(stage, make_body(*map(str, range(25))), make_body(*map(str, range(25, 60))))
    assert first == Drained(25)
    assert second == "period 2026-03-01 of quakes is closed: restore it, then replay"
    assert stage.count(LABEL) == 25


def test_an_id_that_followed_from_content_may_have_a_newer_state() -> None:
    """A client reads the id that the service made, and sends other data with it. So no put of the drain may be without a
    condition.
    """
    stage = World()
    stage.store.throttled = 10**6
    stage.post(json.dumps([{"series": "a", "time": "2026-03-01T00:00:00Z", "data": {"n": 1}}]).encode())
    stage.store.throttled = 0
    (waiting,) = stage.overflow.queued
    assert len(waiting.id) == 32
    body = encode_message("quakes", [waiting], 1)
    stage.clock.time += timedelta(seconds=60)
    sent = {"series": "a", "time": "2026-03-01T00:00:00Z", "id": waiting.id, "data": {"n": 2}}
    assert stage.send(sent).accepted == 1
    assert drain(stage, body) == [Drained(1)]
    assert [item["data"]["n"] for item in stage.table(LABEL)] == [2]


def test_the_last_try_of_a_message_buries_it_alone() -> None:
    stage = World()
    stage.letters.takes = True
    bodies = [(make_body("1", days=9), 120), (make_body("2", days=9), 119)]
    buried, waits = drain_messages(bodies, stage.drainer(), lambda: 60.0)
    assert isinstance(buried, Drained)
    assert "is recorded for 2026-02-20" in str(buried.buried)
    assert type(waits) is NotDrained
    stage.letters.takes = False
    buried, _ = drain_messages(bodies, stage.drainer(), lambda: 60.0)
    assert isinstance(buried, NotDrained)
    assert not isinstance(buried, Undrainable)


def test_the_units_of_a_round_are_those_of_the_time_since_it_began() -> None:
    """Otherwise a slow answer of DynamoDB would make the drain slower than its share."""
    stage = World()
    entry = stage.catalog.entries("quakes")[0]
    pace = Pace(stage.clock, 0.05)
    assert pace.wait(entry, lambda: 60.0)
    stage.clock.sleep(0.5)
    # On demand: 200 units per second.
    pace.record_units(entry, 200)
    begun = stage.clock.now()
    assert pace.wait(entry, lambda: 60.0)
    assert stage.clock.now() - begun == timedelta(seconds=0.5)


def test_the_pace_grows_and_halves_when_it_is_throttled() -> None:
    stage = World(replace(CONFIG, streams={"quakes": replace(CONFIG.streams["quakes"], capacity=WARM)}))
    entry = stage.catalog.entries("quakes")[0]
    pace = Pace.of_config(stage.config, stage.clock, workers=5)
    amounts = [pace.find_amount(entry)]
    for throttled in (False, True, True, True, True, True, True):
        pace.record_units(entry, 1, throttled=throttled)
        amounts.append(pace.find_amount(entry))
    # A twentieth of 20,000 units per second, in a tenth of a second.
    assert amounts == [100, 105, 52, 26, 13, 10, 10, 10]
    for _ in range(200):
        pace.record_units(entry, 1)
    assert pace.find_rate(entry) == 5_000, "five times as many: all together a quarter more than 20,000"
    assert pace.find_amount(entry) == 400, "no more than keep all connections busy"
    stage.catalog.note(entry, SeenTable(20_000, 80, TableClass.STANDARD))
    provisioned = stage.catalog.entries("quakes")[0]
    assert pace.find_rate(provisioned) == 5_000
    pace.record_units(provisioned, 1, throttled=True)
    assert pace.find_rate(provisioned) == 2_500
