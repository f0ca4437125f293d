"""Send the changes of a batch to one target, and decide what becomes of changes that it does not accept.

``max_age`` counts from the first failure of a change, which the process remembers, not from the age of its record: a
record may be old because the function did not run. If a target *refuses* a change for longer, although it accepts
others, the change is wrong by itself and becomes a dead letter. If a request is refused as a whole, halves of it show
which change is meant. If a target is *busy* (it does not answer, is throttled, or refuses every change), the batch
comes again, until the last hour of its records. With several targets, a target that was busy for ``max_age`` is out of
order: its changes become dead letters at once, so that the other targets do not wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tidetable.errors import ChangesRefused, TargetBusy, describe_error
from tidetable.feed.intake import TIME_IS_UP
from tidetable.feed.memory import ChangeKey
from tidetable.feed.targets import Delivered, Failure, Feed, FeedMessage, ReadRecord, Target
from tidetable.ports import Clock
from tidetable.remaining import Remaining

TRIES = 3
_PAUSE_SECONDS = 0.2
# The time that is reserved for burying the changes that fail, and for the answer.
_RESERVE_SECONDS = 5.0
# If a target refuses so many changes, each alone, and accepts none, then the target is at fault, not the changes.
_MOST_SUSPECTS = 10


class _Attempt(NamedTuple):
    """The outcome of a request: the messages that were not accepted, the reason, and if the target was busy."""

    refused: Sequence[FeedMessage]
    reason: str
    busy: bool


class _LettersFailed(Exception):
    """The dead letters did not take a message: its record must come again."""


def send_to_target(
    read: Sequence[ReadRecord], target: Target, feed: Feed, remaining: Remaining, delivered: Delivered
) -> Failure | None:
    """Send the changes of records to a target. Return the first record that must come again, and the reason.

    The first request is always made. A further request is made only if the remaining time is enough for the slowest
    request so far. If the function's time-out ended this call, Lambda would get no answer and would send all records
    again, also the records that every target has accepted.
    """
    taken_count = feed.memory.count_taken(target.arn, [record for record, _ in read]) if read else 0
    pending = [
        FeedMessage(change.identity, change.encode(target.most_bytes), number)
        for number, (_, changes) in enumerate(read)
        if number >= taken_count
        for change in changes
    ]
    sending = _Sending(read, target, feed, remaining, delivered, pending)
    try:
        failure = sending.run()
    except _LettersFailed as failed:
        # Messages before the one that could not be buried may wait, too, from the beginning of its request on.
        failure = Failure(sending.pending[0].record if sending.pending else len(read), str(failed))
    # Suspects wait for a decision, and are before everything that was sent after them.
    if failure is not None and sending.suspects:
        return failure._replace(number=min(failure.number, sending.suspects[0].record))
    return failure


def send_messages(
    messages: Sequence[FeedMessage], target: Target, clock: Clock, remaining: Remaining
) -> tuple[Sequence[FeedMessage], str]:
    """Send messages to a target until it refuses one. Return the messages that were not accepted, and the reason."""
    pending = messages
    while pending:
        chunk, rest = _cut_request(pending, target, target.most_messages)
        attempt = _send_chunk(chunk, target, clock, remaining)
        if attempt.refused:
            return [*attempt.refused, *rest], attempt.reason
        pending = rest
    return [], ""


@dataclass(slots=True)
class _Sending:
    """The sending of a batch to one target.

    ``suspects`` are messages that the target refused alone for longer than ``max_age``, while nothing shows yet that
    it accepts others. ``width`` limits the messages of a request while a refused message is looked for.
    """

    read: Sequence[ReadRecord]
    target: Target
    feed: Feed
    remaining: Remaining
    delivered: Delivered
    pending: Sequence[FeedMessage]
    suspects: list[FeedMessage] = field(default_factory=list)
    width: int = 0
    slowest: float | None = None
    reason: str = ""

    def run(self) -> Failure | None:
        """Send all messages; return the first record that must come again."""
        memory, arn = self.feed.memory, self.target.arn
        self.width = self.target.most_messages
        if self.pending and memory.is_out_of_order(arn) and not memory.may_try(arn, self.feed.clock.now()):
            self._bury_waiting("the target has accepted nothing for a while")
        while self.pending:
            if self.slowest is not None and self.remaining() < self.slowest + _RESERVE_SECONDS:
                return Failure(self.pending[0].record, TIME_IS_UP)
            failure = self._send_next()
            if failure is not None:
                return failure
        return self._judge_suspects()

    def _send_next(self) -> Failure | None:
        memory, arn, clock = self.feed.memory, self.target.arn, self.feed.clock
        identities = {message.identity for message in self.suspects}
        chunk, rest = _cut_request(self.pending, self.target, self.width, identities)
        if not chunk:
            # The next change is of the same event as a suspect, so it waits for the suspect.
            return self._judge_suspects()
        is_narrow = self.width < self.target.most_messages
        tries = 1 if memory.is_out_of_order(arn) or is_narrow else TRIES
        begun_at = clock.now()
        attempt = _send_chunk(chunk, self.target, clock, self.remaining, tries=tries)
        seconds = (clock.now() - begun_at).total_seconds()
        self.slowest = max(self.slowest or 0.0, seconds)
        self._note_accepted(chunk, attempt)
        if not attempt.refused:
            self.pending = rest
            self.width = min(2 * self.width, self.target.most_messages)
            return None
        self.reason = attempt.reason
        was_out_of_order = memory.is_out_of_order(arn)
        memory.note_failure(arn, list(map(self._find_key, attempt.refused)), clock.now())
        if len(attempt.refused) < len(chunk):
            return self._bury_overdue(attempt, rest)
        if was_out_of_order:
            return self._give_up(seconds)
        overdue = self._find_overdue(attempt.refused)
        if not overdue:
            return Failure(attempt.refused[0].record, self.reason)
        if attempt.busy:
            return self._give_up()
        return self._look_for_refused(chunk, rest)

    def _note_accepted(self, chunk: Sequence[FeedMessage], attempt: _Attempt) -> None:
        """Note the accepted messages. They show that the target works, and that the suspects are wrong themselves."""
        accepted = _leave_out(chunk, attempt.refused)
        if not accepted:
            return
        self.delivered.sent += len(accepted)
        self.feed.memory.note_success(self.target.arn, list(map(self._find_key, accepted)), self.feed.clock.now())
        self._bury(self.suspects, self.reason)
        self.suspects = []

    def _bury_overdue(self, attempt: _Attempt, rest: Sequence[FeedMessage]) -> Failure | None:
        """Go on after a request of which the target accepted some messages."""
        # A busy target refuses any of its messages.
        overdue = self._find_last(attempt.refused) if attempt.busy else self._find_overdue(attempt.refused)
        self.pending = [*attempt.refused, *rest]
        self._bury(overdue, attempt.reason)
        young = _leave_out(attempt.refused, overdue)
        if young:
            # The changes after a failed change wait too: another change of the same event must not overtake it.
            return Failure(young[0].record, attempt.reason)
        self.pending = rest
        return None

    def _look_for_refused(self, chunk: Sequence[FeedMessage], rest: Sequence[FeedMessage]) -> Failure | None:
        """Go on after a request that was refused as a whole, for longer than ``max_age``."""
        if len(chunk) > 1:
            self.width = len(chunk) // 2
            return None
        (message,) = chunk
        if self.feed.memory.accepted_since(self.target.arn, self._find_key(message)):
            self._bury(chunk, self.reason)
            self.pending = rest
            return None
        self.suspects.append(message)
        self.pending = rest
        return self._judge_suspects() if len(self.suspects) >= _MOST_SUSPECTS else None

    def _judge_suspects(self) -> Failure | None:
        """Bury a suspect, if no other change can be tried. Several suspects show that the target accepts nothing."""
        if len(self.suspects) <= 1:
            self._bury(self.suspects, self.reason)
            self.suspects = []
            return None
        self.pending, self.suspects = [*self.suspects, *self.pending], []
        return self._give_up()

    def _give_up(self, seconds: float = 0.0) -> Failure | None:
        """Give up with a target that accepts nothing: bury the changes that cannot wait, and let the others come again.

        One request took ``seconds``; three tries include pauses, so their time does not show that.
        """
        memory, arn, pending = self.feed.memory, self.target.arn, self.pending
        self._bury_waiting(self.reason)
        if len(self.pending) < len(pending):
            memory.note_out_of_order(arn, seconds, self.feed.clock.now())
        return Failure(self.pending[0].record, self.reason) if self.pending else None

    def _bury_waiting(self, reason: str) -> None:
        """Bury the pending messages that do not wait for a target that is out of order.

        With other targets beside it, none waits. Otherwise the messages in their last hour do not wait.
        """
        due = self.pending if len(self.feed.targets) > 1 else self._find_last(self.pending)
        self._bury(due, reason)
        self.pending = _leave_out(self.pending, due)

    def _find_overdue(self, messages: Sequence[FeedMessage]) -> list[FeedMessage]:
        """Find the messages that have failed for longer than ``max_age``, or are in their last hour."""
        feed, arn, now = self.feed, self.target.arn, self.feed.clock.now()
        overdue = []
        for message in messages:
            failed_at = feed.memory.find_first_failure(arn, self._find_key(message), now)
            if feed.is_last_call(self.read[message.record].record) or now - failed_at > feed.max_age:
                overdue.append(message)
        return overdue

    def _find_key(self, message: FeedMessage) -> ChangeKey:
        record = self.read[message.record].record
        return record.table, record.sequence, message.identity

    def _find_last(self, messages: Sequence[FeedMessage]) -> list[FeedMessage]:
        return [message for message in messages if self.feed.is_last_call(self.read[message.record].record)]

    def _bury(self, messages: Sequence[FeedMessage], reason: str) -> None:
        if not messages:
            return
        bodies = [message.body for message in messages]
        try:
            self.feed.letters.bury(self.feed.stream, self.target.arn, reason, bodies)
        except Exception as error:
            raise _LettersFailed(f"no dead letter could be written: {describe_error(error)}") from error
        self.delivered.buried += len(messages)


def _leave_out(messages: Sequence[FeedMessage], others: Sequence[FeedMessage]) -> Sequence[FeedMessage]:
    if not others:
        return messages
    # The same objects: to compare the bodies would take long.
    numbers = set(map(id, others))
    return [message for message in messages if id(message) not in numbers]


def _cut_request(
    pending: Sequence[FeedMessage], target: Target, width: int, identities: set[tuple[str, str, str]] | None = None
) -> tuple[Sequence[FeedMessage], Sequence[FeedMessage]]:
    """Split off the next request: one change per event, because a target might accept only the second of two.

    It ends before a change of the ``identities``, and has at most ``width`` messages.
    """
    size, events = 0, set(identities or ())
    for end, message in enumerate(pending):
        size += len(message.body)
        full = end >= width or (end and size > target.most_together)
        if full or message.identity in events:
            return pending[:end], pending[end:]
        events.add(message.identity)
    return pending, []


def _send_chunk(
    chunk: Sequence[FeedMessage], target: Target, clock: Clock, remaining: Remaining, *, tries: int = TRIES
) -> _Attempt:
    """Send changes, and send the refused changes again."""
    reason, busy = "", False
    for attempt in range(tries):
        if attempt:
            if remaining() < _RESERVE_SECONDS:
                break
            clock.sleep(_PAUSE_SECONDS * attempt)
        try:
            target.send(chunk)
        except (ChangesRefused, TargetBusy) as error:
            chunk = [chunk[number] for number in error.numbers]
            reason, busy = str(error), isinstance(error, TargetBusy)
        except Exception as error:
            reason, busy = describe_error(error), True
        else:
            return _Attempt([], "", busy=False)
    return _Attempt(chunk, reason, busy)
