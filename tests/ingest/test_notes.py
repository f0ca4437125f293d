"""Notes of series before events: the order of note, event and acknowledgement, and what a process remembers."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from tests.ingest.streams import CONFIG, NOW
from tests.worlds.intake import event
from tests.worlds.marked import AT, FAILURES, HOURS, PACKED, Recorder, Rolled, Stopped, message
from tidetable.catalog import State
from tidetable.config.stream import KeyPolicy, PackPolicy
from tidetable.errors import NotDrained
from tidetable.events import Event
from tidetable.ingest.drain import drain_message
from tidetable.ingest.marks import Marks
from tidetable.ingest.overflow import encode_message
from tidetable.ingest.recent_periods import RecentPeriods
from tidetable.ports import NotePage
from tidetable.problems import ProblemError

SERIES = KeyPolicy(partition_by="series", shards=2)
TODAY, DAY_BEFORE = ("quakes", "2026-03-01"), ("quakes", "2026-02-27")
PACKS = pytest.mark.parametrize("pack", [None, PACKED], ids=["plain", "packed"])


class Noted(Recorder):
    """Notes are written down beside marks and writes."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(log)
        self.noted: list[tuple[str, list[str]]] = []
        self.failing: Exception | None = None

    def put_notes(self, stream: str, period: str, pages: Sequence[NotePage], at: int) -> None:
        self.noted.append((period, sorted(name for page in pages for name in page.series)))
        self.log.append("note")
        if self.failing is not None:
            raise self.failing
        super().put_notes(stream, period, pages, at)


class BySeries(Rolled):
    """A stream that is partitioned by series, with a rollup unless ``rollups`` says otherwise."""

    def __init__(self, *rollups: Any, **policy: Any) -> None:
        super().__init__(*(rollups or (HOURS,)), **{"key": SERIES, **policy})
        self.noted = Noted(self.log)
        self.rollups = self.noted
        self.marks = Marks(self.noted)


def sent(series: str, number: int = 1, **ago: float) -> dict[str, Any]:
    return {**event(number, **ago), "series": series}


@PACKS
def test_a_series_is_noted_then_its_event_is_written_then_acknowledged(pack: PackPolicy | None) -> None:
    stage = BySeries(pack=pack)
    outcome = stage.send(sent("b"), sent("a", 2), sent("b", 3))
    assert (outcome.status, stage.log) == (200, ["note", "write"])
    assert stage.noted.noted == [("2026-03-01", ["a", "b"])]
    assert stage.noted.notes == {TODAY: {"a": AT, "b": AT}}


@PACKS
def test_a_late_event_has_a_mark_and_a_note(pack: PackPolicy | None) -> None:
    stage = BySeries(pack=pack)
    stage.send(sent("a", hours=30), sent("a", 2))
    assert stage.log == ["note", "note", "mark", "write"]
    assert set(stage.noted.notes) == {TODAY, DAY_BEFORE}


def test_a_process_notes_a_series_of_a_period_once() -> None:
    stage = BySeries()
    known = RecentPeriods()
    for number in range(3):
        stage.send(sent("a", number), sent("b", number), known=known)
    stage.send(sent("c", 9), sent("a", 9), known=known)
    assert stage.noted.noted == [("2026-03-01", ["a", "b"]), ("2026-03-01", ["c"])]


@pytest.mark.parametrize("rolled", [True, False])
def test_nothing_is_noted_where_no_rollup_reads_by_series(rolled: bool) -> None:
    stage = Rolled(HOURS) if rolled else Rolled(key=SERIES)
    # The process has the state of rollups, for this stream or for another.
    stage.marks = Marks(stage.rollups)
    notes: list[str] = []
    stage.rollups.put_notes = lambda *_: notes.append("note")  # type: ignore[method-assign]
    stage.send(sent("a"))
    stage.drain(message(event(2)), seconds=5)
    assert notes == []


def test_the_layout_of_the_period_decides_and_not_the_configuration() -> None:
    """A stream that is partitioned by time from the next period on: tables that are there keep their key."""
    stage = BySeries()
    quakes = replace(stage.config.streams["quakes"], key=CONFIG.streams["quakes"].key)
    stage.config = replace(stage.config, streams={**stage.config.streams, "quakes": quakes})
    stage.send(sent("a"))
    assert stage.log == ["note", "write"]


def test_series_are_noted_only_in_the_periods_that_are_partitioned_by_series() -> None:
    """The stream was partitioned by time until yesterday."""
    stage = BySeries()
    key = next(key for key in stage.catalog.items if key[1].label == "2026-02-27")
    entry = stage.catalog.items[key]
    stage.catalog.items[key] = replace(entry, layout=CONFIG.streams["quakes"].layout)
    assert stage.send(sent("a"), sent("b", 2, hours=30)).accepted == 2
    assert stage.drain(message(event(3), event(4, hours=30)), seconds=5) == 2
    assert [period for period, _ in stage.noted.noted] == ["2026-03-01"]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda error: type(error).__name__)
@PACKS
def test_events_whose_series_cannot_be_noted_are_queued(failure: Exception, pack: PackPolicy | None) -> None:
    stage = BySeries(pack=pack)
    stage.send(sent("known"))
    stage.noted.failing = failure
    outcome = stage.send(sent("new", 2), sent("known", 3))
    assert (outcome.status, outcome.accepted, outcome.queued, outcome.unmarked) == (202, 1, 1, 1)
    assert [(queued.series, queued.id) for queued in stage.overflow.queued] == [("new", "2")]
    # It was not remembered.
    stage.noted.failing = None
    assert stage.send(sent("new", 4)).status == 200
    assert set(stage.noted.notes[TODAY]) == {"known", "new"}


def test_what_can_be_neither_noted_nor_queued_is_not_acknowledged() -> None:
    stage = BySeries()
    stage.noted.failing = FAILURES[0]
    stage.overflow.send = lambda _, events, __: list(events)  # type: ignore[method-assign, assignment]
    with pytest.raises(ProblemError) as error:
        stage.send(sent("a"))
    assert (error.value.problem.code, stage.stored()) == ("not_durable", 0)


def test_a_process_that_dies_after_the_note_leaves_a_note_and_no_event() -> None:
    stage = BySeries()
    write = stage.store.write
    stage.store.write = lambda _: (_ for _ in ()).throw(Stopped)  # type: ignore[method-assign, assignment]
    with pytest.raises(Stopped):
        stage.send(sent("a"))
    assert (stage.noted.notes, stage.stored()) == ({TODAY: {"a": AT}}, 0)
    stage.store.write = write  # type: ignore[method-assign]
    stage.noted.failing = Stopped()
    with pytest.raises(Stopped):
        stage.send(sent("b"))
    assert stage.stored() == 0


@pytest.mark.parametrize("state", [State.OPEN, State.CLOSED])
def test_the_drain_notes_before_it_writes_whatever_the_periods_state(state: State) -> None:
    stage = BySeries()
    stage.move("2026-03-01", state)
    body = message(event(1), event(2))
    assert stage.drain(body, seconds=5) == 2
    assert stage.log[:1] == ["note"]
    assert (stage.noted.noted, stage.stored()) == ([("2026-03-01", ["a"])], 2)


def test_the_drain_notes_the_series_of_a_period_on_both_sides_of_the_windows_end() -> None:
    """The window begins five minutes after the period: the events before it are written in another way."""
    stage = BySeries()
    begin = NOW - timedelta(days=2)
    events = [
        Event(name, begin + timedelta(minutes=minutes), name, {}) for name, minutes in (("b", 1), ("a", -1), ("c", 2))
    ]
    assert stage.drain(encode_message("quakes", events, AT), seconds=5) == 3
    assert stage.noted.noted == [("2026-02-27", ["a"]), ("2026-02-27", ["b", "c"])]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda error: type(error).__name__)
def test_a_message_whose_series_cannot_be_noted_stays_in_the_queue_whole(failure: Exception) -> None:
    stage = BySeries()
    stage.noted.failing = failure
    stage.letters.takes = True
    with pytest.raises(NotDrained, match=f"series of quakes could not be noted .*: {failure}$"):
        drain_message(message(event(1), event(2)), stage.drainer(), lambda: 5.0)
    assert (stage.stored(), stage.letters.kept) == (0, [])
    stage.noted.failing = None
    assert stage.drain(message(event(1), event(2)), seconds=5) == 2
