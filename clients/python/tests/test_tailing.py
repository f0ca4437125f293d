"""Following a stream: events that an overlapping reading has again."""

from __future__ import annotations

from tidetable_client.tailing import Tail

EVENT = {"series": "s", "time": "2026-03-15T12:00:00.000000Z", "id": "e", "data": {}}


def test_a_tail_repeats_no_event_after_an_outage() -> None:
    """The API counts the range of a reading from the instant when it answers, which may be long after its beginning."""
    tail = Tail(60)
    assert list(tail.pass_reading(0.0, [EVENT])) == [EVENT]
    assert tail.find_start(2.0) == "-62s"
    assert list(tail.pass_reading(2.0, [])) == []  # answered after ten minutes: its range begins after the event
    assert tail.find_start(602.0) == "-660s"
    assert list(tail.pass_reading(602.0, [EVENT])) == []


def test_an_event_that_a_reading_has_twice_is_shown_once() -> None:
    """A page may begin with the last event of the page before it, if events arrive meanwhile."""
    other = {**EVENT, "id": "f"}
    assert list(Tail(60).pass_reading(0.0, [EVENT, other, EVENT])) == [EVENT, other]
