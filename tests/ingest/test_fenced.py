"""Events of a table that may be archived at any moment, and whose units are few: each try goes on behind the one before."""

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta

import pytest

from tests.ingest.streams import NOW
from tests.worlds.intake import LABEL, World
from tidetable.catalog import Entry, State
from tidetable.errors import NotDrained, Outage, Paced, StoreUnavailable
from tidetable.events import Event
from tidetable.ingest.drain import Drained, drain_messages
from tidetable.ingest.overflow import encode_message
from tidetable.ingest.puts import merge_copies
from tidetable.ports import Guarded, Put, Transacted, Written


class SmallTable:
    """A closed table that takes ``units`` items until it is filled again, and no transaction of more items than that."""

    def __init__(self, units: int) -> None:
        self.stage, self.units, self.left = World(), units, units
        self.written, self.sizes = Counter[str](), list[int]()
        self.stage.letters.takes = True
        self.stage.move(LABEL, State.CLOSED)
        self._transact = self.stage.store.transact
        self.stage.store.transact = self._take  # type: ignore[method-assign]

    def drain(self, *messages: Sequence[Event]) -> list[Drained | NotDrained]:
        """Deliver messages once, after the table is filled. Those without events were written before."""
        self.left = self.units
        end = self.stage.clock.now() + timedelta(seconds=60)
        bodies = [(encode_message("quakes", events, at), 1) for at, events in enumerate(messages, 1) if events]
        ports = self.stage.drainer()
        return [*drain_messages(bodies, ports, lambda: (end - ports.clock.now()).total_seconds())]

    def _take(self, puts: Sequence[Guarded], entry: Entry | None = None, total: Written | None = None) -> Transacted:
        self.sizes.append(len(puts))
        if len(puts) > self.left:
            raise StoreUnavailable(Outage.THROTTLED, "units are missing")
        self.left -= len(puts)
        self.written.update(guarded.put.item["sk"].rpartition("#")[2] for guarded in puts)
        return self._transact(puts, entry, total)


def make_events(count: int) -> list[Event]:
    return [Event("a", NOW, f"{number:03d}", {}) for number in range(count)]


@pytest.mark.parametrize("units", [1, 3, 25, 40])
def test_each_try_writes_what_the_table_takes_and_leaves_only_the_others(units: int) -> None:
    table, left, tries = SmallTable(units), make_events(60), 0
    while left:
        (outcome,), tries = table.drain(left), tries + 1
        left = list(outcome.rest) if isinstance(outcome, NotDrained) else []
        assert tries <= 60
    assert tries == -(-60 // units)
    assert table.written == {f"{number:03d}": 1 for number in range(60)}
    assert table.stage.count(LABEL) == 60


def test_a_transaction_that_needs_too_many_units_is_halved() -> None:
    table = SmallTable(6)
    table.drain(make_events(25))
    # What is left of the units decides how far the halves go.
    assert table.sizes == [25, 12, 6, 6, 3, 1]


def test_a_table_that_takes_nothing_is_told_as_blocked_with_all_events() -> None:
    table = SmallTable(0)
    (outcome,) = table.drain(make_events(30))
    assert type(outcome) is NotDrained
    assert (str(outcome), len(outcome.rest)) == ("throttled: units are missing", 30)
    # A transaction of one item is the smallest.
    assert table.sizes == [25, 12, 6, 3, 1]


def test_a_request_without_an_answer_is_not_halved() -> None:
    table = SmallTable(100)
    transact = table.stage.store.transact

    def lose(puts: Sequence[Guarded], entry: Entry | None = None, total: Written | None = None) -> Transacted:
        if table.written:
            raise StoreUnavailable(Outage.NO_ANSWER, "lost")
        return transact(puts, entry, total)

    table.stage.store.transact = lose  # type: ignore[method-assign]
    (outcome,) = table.drain(make_events(60))
    assert isinstance(outcome, Paced), "the table took something, so it is not blocked"
    assert [event.id for event in outcome.rest] == [f"{number:03d}" for number in range(25, 60)]
    assert table.sizes == [25]


def test_what_the_fence_refuses_after_a_half_is_given_up_with_the_rest() -> None:
    table = SmallTable(12)
    transact = table.stage.store.transact

    def close(puts: Sequence[Guarded], entry: Entry | None = None, total: Written | None = None) -> Transacted:
        if table.written:
            return Transacted.FENCED
        return transact(puts, entry, total)

    table.stage.store.transact = close  # type: ignore[method-assign]
    (outcome,) = table.drain(make_events(30))
    assert outcome == Drained(12, "period 2026-03-01 of quakes is closed: restore it, then replay")
    assert table.stage.count(LABEL) == 12


def test_messages_with_the_same_events_go_on_together() -> None:
    """A copy that is not written yet is no reason to begin with the other copy again."""
    table, messages, tries = SmallTable(10), [make_events(20), make_events(40)], 0
    while any(messages):
        outcomes, tries = iter(table.drain(*messages)), tries + 1
        left = [next(outcomes) if events else None for events in messages]
        messages = [list(outcome.rest) if isinstance(outcome, NotDrained) else [] for outcome in left]
        assert tries <= 4
    assert tries == 4
    assert table.written == {f"{number:03d}": 1 for number in range(40)}
    # The state that was accepted last counts.
    assert {item["at"] for item in table.stage.table(LABEL)} == {2}


def make_put(at: int, text: str, **more: object) -> Put:
    return Put("t", {"pk": "p", "sk": "s", "at": at, "data": {"text": text}, **more})


@pytest.mark.parametrize(
    ("puts", "kept"),
    [
        ([make_put(2, "a"), make_put(1, "b")], [make_put(2, "a")]),
        ([make_put(1, "a"), make_put(2, "b")], [make_put(2, "b")]),
        ([make_put(1, "a"), make_put(1, "b")], [make_put(1, "b")]),
    ],
    ids=["the newer first", "the newer last", "the same time"],
)
def test_of_several_states_of_an_item_the_newest_stays(puts: list[Put], kept: list[Put]) -> None:
    other = Put("t", {"pk": "p", "sk": "other", "at": 0})
    assert merge_copies([puts[0], other, puts[1]]) == [*kept, other]


def test_equal_versions_are_one_unless_another_is_between_them() -> None:
    first, again, other = (make_put(at, "a", version=1, digest=digest) for at, digest in ((1, "a"), (2, "a"), (3, "b")))
    assert merge_copies([first, again, other]) == [first, other]
    assert merge_copies([first, other, again]) == [first, other, again]
