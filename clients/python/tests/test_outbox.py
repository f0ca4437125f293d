"""The state machine: whatever the API answers, every event is settled once, or still there."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tidetable_client.answers import Later, Refused, Rejected, Stored, TooLarge, Verdict
from tidetable_client.outbox import Batch, Outbox, Settled
from tidetable_client.policy import Policy

SMALL = Policy(batch_events=4, batch_bytes=120, linger=1, buffer_bytes=5000, retry_for=60, backoff=1)


def line(number: int) -> bytes:
    return json.dumps({"n": number}).encode()


def refuse_some(count: int, draw: Any) -> list[Refused]:
    places = draw(st.sets(st.integers(0, count - 1)))
    return [Refused(place, "invalid", "no") for place in sorted(places)]


def choose_verdict(count: int, draw: Any) -> Verdict:
    kind = draw(st.sampled_from(["stored", "some", "all", "rest", "denied", "large", "later", "narrow", "long"]))
    refused = refuse_some(count, draw)
    if kind == "rest":
        return Rejected(422, "all_refused", "all", refused, again=0 < len(refused) < count)
    verdicts: dict[str, Verdict] = {
        "stored": Stored(count, 0),
        "some": Stored(count - len(refused), 0, refused),
        "all": Rejected(422, "all_refused", "all", [Refused(place, "too_old", "") for place in range(count)]),
        "denied": Rejected(403, "forbidden", "no"),
        "large": TooLarge("too many"),
        "later": Later("503", 2.0),
        "narrow": Later("500", 0.0, wide=False),
        "long": Later("503", 500.0),
    }
    return verdicts[kind]


class World:
    """An outbox, the requests on their way, and what became of each event."""

    def __init__(self, draw: Any, in_flight: int) -> None:
        policy = Policy(**{name: getattr(SMALL, name) for name in SMALL.__slots__} | {"in_flight": in_flight})
        self.draw, self.now, self.added = draw, 0.0, 0
        self.outbox = Outbox(policy, lambda: 0.5)
        self.flying: list[Batch] = []
        self.settled: Counter[int] = Counter()
        self.failed: Counter[int] = Counter()

    def add(self) -> None:
        if self.outbox.has_room(line(self.added)):
            self.outbox.add(self.draw(st.sampled_from("ab")), line(self.added), self.now)
            self.added += 1

    def wait(self) -> None:
        self.now += self.draw(st.sampled_from([0.1, 1.0, 30.0, 100.0]))

    def take(self) -> None:
        batch = self.outbox.take(self.now)
        if batch is not None:
            assert 1 <= len(batch.lines) <= 4
            self.flying.append(batch)

    def settle(self) -> None:
        if self.flying:
            batch = self.flying.pop(self.draw(st.integers(0, len(self.flying) - 1)))
            self.note(self.outbox.settle(batch, choose_verdict(len(batch.lines), self.draw), self.now))

    def close(self) -> None:
        self.outbox.close_batches(self.now)

    def note(self, many: list[Settled]) -> None:
        for outcome in many:
            self.settled.update(outcome.indexes)
            self.failed.update(failure.index for failure in outcome.failures)
            assert all(failure.event == {"n": failure.index} for failure in outcome.failures)

    def finish(self, *, patient: bool) -> None:
        """Either the API takes what is left, or the client gives up."""
        if not patient:
            self.note(self.outbox.abandon("the end"))
        for batch in self.flying:
            self.note(self.outbox.settle(batch, Stored(len(batch.lines), 0), self.now))
        self.outbox.close_batches(self.now)
        while not self.outbox.is_idle:
            batch_or_none = self.outbox.take(self.now)
            if batch_or_none is None:
                self.now += self.outbox.find_wait(self.now) or 0
            else:
                self.note(self.outbox.settle(batch_or_none, Stored(len(batch_or_none.lines), 0), self.now))


@given(st.data(), st.integers(1, 3), st.booleans())
@settings(max_examples=300, deadline=None)
def test_every_event_is_settled_exactly_once_whatever_the_api_answers(
    data: st.DataObject, in_flight: int, patient: bool
) -> None:
    world = World(data.draw, in_flight)
    steps = [world.add, world.add, world.add, world.wait, world.take, world.settle, world.close]
    for _ in range(data.draw(st.integers(1, 40))):
        data.draw(st.sampled_from(steps))()
        assert len(world.flying) <= in_flight
        assert world.outbox.weight <= 5000
        assert world.outbox.pending == world.added - world.settled.total()
    world.finish(patient=patient)
    assert world.settled == Counter(range(world.added))
    assert not world.failed - world.settled
    assert max(world.failed.values(), default=1) == 1
    assert (world.outbox.weight, world.outbox.pending) == (0, 0)


def fill(outbox: Outbox, count: int, now: float = 0.0) -> None:
    for number in range(count):
        outbox.add("s", line(number), now)


def test_a_batch_goes_when_it_is_full_or_when_its_first_event_has_waited() -> None:
    outbox = Outbox(SMALL, lambda: 0.0)
    fill(outbox, 6)
    first = outbox.take(0.0)
    assert first is not None
    assert first.indexes == [0, 1, 2, 3]
    outbox.settle(first, Stored(4, 0), 0.0)
    assert outbox.take(0.9) is None
    assert outbox.find_wait(0.9) == 1.0 - 0.9
    second = outbox.take(1.0)
    assert second is not None
    assert second.indexes == [4, 5]


def test_bytes_close_a_batch_too_and_a_giant_goes_alone() -> None:
    outbox = Outbox(SMALL, lambda: 0.0)
    for text in (b"x" * 50, b"x" * 50, b"x" * 50, b"y" * 9000):
        assert outbox.has_room(text) == (text[:1] == b"x")
        outbox.add("s", text, 0.0)
    outbox.close_batches(0.0)
    sizes = []
    while (batch := outbox.take(0.0)) is not None:
        sizes.append([len(text) for text in batch.lines])
        outbox.settle(batch, Stored(len(batch.lines), 0), 0.0)
    assert sizes == [[50, 50], [50], [9000]]


def test_with_one_request_at_a_time_a_failed_one_keeps_its_place() -> None:
    outbox = Outbox(SMALL, lambda: 0.0)
    fill(outbox, 8)
    first = outbox.take(0.0)
    assert first is not None
    outbox.settle(first, Later("503"), 0.0)
    assert outbox.take(0.0) is first


def test_while_the_api_is_in_trouble_one_request_at_a_time_looks_whether_it_is_over() -> None:
    outbox = Outbox(Policy(batch_events=1, in_flight=3, backoff=1), lambda: 1.0)
    fill(outbox, 5)
    flying = [outbox.take(0.0) for _ in range(3)]
    for batch in flying:
        assert batch is not None
        outbox.settle(batch, Later("503", 10.0), 0.0)
    assert outbox.take(10.0) is None
    # Retry-After, and a random part of 8 seconds after three failures: all of it here.
    assert outbox.find_wait(0.0) == 18.0
    probe = outbox.take(18.0)
    assert probe is not None
    assert outbox.take(18.0) is None
    outbox.settle(probe, Stored(1, 0), 18.0)
    assert [outbox.take(18.0) is not None for _ in range(4)] == [True, True, True, False]


def test_a_request_that_always_fails_does_not_stop_the_others() -> None:
    """It fails alone, with 500, so it goes behind the others, and is given up after its own time."""
    outbox = Outbox(Policy(batch_events=1, in_flight=2, backoff=1, retry_for=60), lambda: 0.5)
    fill(outbox, 4)
    now, order, failures = 0.0, [], []
    while not outbox.is_idle:
        batch = outbox.take(now)
        if batch is None:
            now += outbox.find_wait(now) or 0
            continue
        poison = batch.indexes == [0]
        if not poison:
            order.append(batch.indexes[0])
        verdict: Verdict = Later("500 broken", wide=False, status=500) if poison else Stored(1, 0)
        failures += [failure for outcome in outbox.settle(batch, verdict, now) for failure in outcome.failures]
    assert order == [1, 2, 3]
    assert [(failure.index, failure.code, failure.status) for failure in failures] == [(0, "unsent", 500)]
    assert 30 <= now <= 60


def test_an_outage_longer_than_retry_for_gives_up_all_that_are_too_old_at_once() -> None:
    outbox = Outbox(Policy(batch_events=1, retry_for=60, backoff=1, longest_backoff=8), lambda: 1.0)
    fill(outbox, 3)
    now = 0.0
    settled: list[Settled] = []
    while not settled:
        batch = outbox.take(now)
        if batch is None:
            now += outbox.find_wait(now) or 0
        else:
            settled = outbox.settle(batch, Later("no answer"), now)
    assert [outcome.indexes for outcome in settled] == [[0], [1], [2]]
    assert 40 <= now <= 60
    assert settled[0].failures[0].detail == "not acknowledged within 60 s; the last answer: no answer"


def test_a_request_that_waited_long_behind_others_still_has_its_tries() -> None:
    """The API is slow, and answers: the last request of a long queue meets one 503, and is not given up for its age."""
    outbox = Outbox(Policy(batch_events=1, retry_for=60, backoff=1), lambda: 1.0)
    fill(outbox, 2)
    first = outbox.take(0.0)
    assert first is not None
    outbox.settle(first, Stored(1, 0), 100.0)
    second = outbox.take(100.0)
    assert second is not None
    assert outbox.settle(second, Later("503"), 101.0) == []
    assert outbox.pending == 1


def test_failures_that_nobody_collects_take_room() -> None:
    outbox = Outbox(SMALL, lambda: 0.0)
    fill(outbox, 4)
    batch = outbox.take(0.0)
    assert batch is not None
    before = outbox.weight
    for outcome in outbox.settle(batch, Rejected(403, "forbidden", "no"), 0.0):
        outbox.keep(outcome.failures)
    assert outbox.weight == before
    assert [failure.index for failure in outbox.collect_failures()] == [0, 1, 2, 3]
    assert outbox.weight == 0


def test_a_request_has_exactly_the_bytes_of_the_policy_at_the_most() -> None:
    """With the ends of lines: 10 and 11 bytes are more than 20, 10 and 10 are not."""
    for second, lines in ((b"x" * 10, 1), (b"x" * 9, 2)):
        box = Outbox(Policy(batch_bytes=20, linger=0), lambda: 0.0)
        box.add("s", b"x" * 9, 0.0)
        box.add("s", second, 0.0)
        batch = box.take(0.0)
        assert batch is not None
        assert len(batch.lines) == lines


def test_requests_whose_driver_ended_are_sent_again_in_their_order() -> None:
    box = Outbox(Policy(batch_events=1, in_flight=2), lambda: 0.0)
    for number in range(3):
        box.add("s", line(number), 0.0)
    assert [box.take(0.0) is None for _ in range(3)] == [False, False, True]
    box.release_flying()
    assert [batch.lines for batch in (box.take(0.0), box.take(0.0)) if batch is not None] == [[line(0)], [line(1)]]


def test_the_buffer_counts_96_bytes_of_python_for_each_event() -> None:
    """3 bytes and the end of their line are 100 bytes: two such events fill 200 bytes."""
    box = Outbox(Policy(buffer_bytes=200), lambda: 0.0)
    for room in (True, True, False):
        assert box.has_room(b"abc") is room
        box.add("s", b"abc", 0.0)
    assert box.weight == 300


def test_a_long_retry_after_does_not_stop_later_events() -> None:
    """A request is given up if its wait would be longer than ``retry_for``. The next one is tried after that time."""
    outbox = Outbox(Policy(batch_events=1, retry_for=60), lambda: 0.0)
    fill(outbox, 1)
    first = outbox.take(0.0)
    assert first is not None
    (settled,) = outbox.settle(first, Later("503", 86_400.0), 0.0)
    assert [failure.code for failure in settled.failures] == ["unsent"]
    outbox.add("s", line(1), 1.0)
    assert outbox.find_wait(1.0) == 59.0
    assert outbox.take(60.0) is not None


def test_an_outbox_is_idle_when_no_event_is_open_queued_or_on_its_way() -> None:
    """A client that is closed ends its threads when its outbox is idle: an open event would be lost."""
    box = Outbox(SMALL, lambda: 0.0)
    assert box.is_idle
    fill(box, 1)
    assert not box.is_idle
    box.close_batches(0.0)
    assert not box.is_idle
    batch = box.take(0.0)
    assert batch is not None
    assert not box.is_idle
    box.settle(batch, Stored(1, 0), 0.0)
    assert box.is_idle
