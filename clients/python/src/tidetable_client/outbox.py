"""The state of writing: it knows the events that wait, the events on their way, and the settled events.

This is a state machine without input or output: it reads no clock, starts no thread and opens no connection. Its
drivers are ``writing.py`` (threads, under a lock) and ``aio.py`` (asyncio). They call its methods, and send the
requests that ``take`` returns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from tidetable_client.answers import Later, Rejected, Stored, TooLarge, Verdict
from tidetable_client.errors import UNSENT, Failure
from tidetable_client.policy import Policy

# The bytes that Python keeps per event beside its text: the headers of two objects and two references (measured: 33 +
# 32 + 16).
_PER_EVENT = 96


@dataclass(slots=True, eq=False)
class Batch:
    """The events of one request. ``indexes`` are their numbers among all events of the client.

    ``born`` is the instant when the batch was begun and, after the batch was closed, the instant when it was closed.
    """

    stream: str
    lines: list[bytes] = field(default_factory=list)
    indexes: list[int] = field(default_factory=list)
    bytes: int = 0
    born: float = 0.0
    failed_since: float | None = None

    def select(self, places: Iterable[int]) -> Batch:
        """Make a batch of the events at these positions, with the age of this batch."""
        kept = list(places)
        lines = [self.lines[place] for place in kept]
        size = sum(map(len, lines)) + len(lines)
        return Batch(self.stream, lines, [self.indexes[place] for place in kept], size, self.born, self.failed_since)

    @property
    def weight(self) -> int:
        """The bytes of memory that the batch's events take."""
        return self.bytes + _PER_EVENT * len(self.lines)


@dataclass(frozen=True, slots=True)
class Settled:
    """The events ``indexes`` of ``stream``, which an answer settled: ``failures`` failed, others are acknowledged."""

    stream: str
    indexes: Sequence[int] = ()
    failures: Sequence[Failure] = ()
    queued: int = 0
    write_units: float = 0.0


class Outbox:
    """The events between their ``add`` and their acknowledgement.

    ``random`` returns a number from 0 to 1 for the random part of a wait. At any time, every event that was added is in
    exactly one place: in an open batch, in the queue, on its way, among the failures that nobody has collected, or
    settled.
    """

    def __init__(self, policy: Policy, random: Callable[[], float]) -> None:
        self.policy = policy
        self.failures: list[Failure] = []
        self.weight = 0
        self._random = random
        self._open: dict[str, Batch] = {}
        self._queue: deque[Batch] = deque()
        self._flying: list[Batch] = []
        self._count = 0
        self._troubles = 0
        self._gate = 0.0
        self._progress = 0.0

    # Adding

    def has_room(self, line: bytes) -> bool:
        """True if an event fits. A single event that is larger than the buffer fits into an empty buffer."""
        return self.weight == 0 or self.weight + len(line) + 1 + _PER_EVENT <= self.policy.buffer_bytes

    def add(self, stream: str, line: bytes, now: float) -> bool:
        """Take an event. True if a batch began or is full: then a sender should call ``take``."""
        batch = self._open.get(stream)
        if batch is not None and batch.bytes + len(line) + 1 > self.policy.batch_bytes:
            self._close_batch(stream, now)
            batch = None
        if batch is None:
            batch = self._open[stream] = Batch(stream, born=now)
        batch.lines.append(line)
        batch.indexes.append(self._count)
        self._count += 1
        batch.bytes += len(line) + 1
        self.weight += len(line) + 1 + _PER_EVENT
        if len(batch.lines) >= self.policy.batch_events or batch.bytes >= self.policy.batch_bytes:
            self._close_batch(stream, now)
            return True
        return len(batch.lines) == 1

    def close_batches(self, now: float) -> None:
        """Close all open batches, so that no event waits for other events any longer."""
        for stream in list(self._open):
            self._close_batch(stream, now)

    @property
    def pending(self) -> int:
        """Events that are neither acknowledged nor reported."""
        batches = (*self._open.values(), *self._queue, *self._flying)
        return sum(len(batch.lines) for batch in batches)

    @property
    def is_idle(self) -> bool:
        """True if every event is settled or among the failures."""
        return not (self._open or self._queue or self._flying)

    # Sending

    def take(self, now: float) -> Batch | None:
        """Return the next request to send; None if there is no request, or if the client must wait before it sends
        again.
        """
        if len(self._flying) >= self._most_flying or now < self._gate:
            return None
        if not self._queue:
            # A batch is closed only when it can be sent at once. A batch that must wait stays open for more events, so
            # after an outage there are few requests.
            for stream, batch in list(self._open.items()):
                if now >= batch.born + self.policy.linger:
                    self._close_batch(stream, now)
        if not self._queue:
            return None
        batch = self._queue.popleft()
        self._flying.append(batch)
        return batch

    def find_wait(self, now: float) -> float | None:
        """Return the seconds until ``take`` may return a request if nothing else happens; None if no request waits."""
        if len(self._flying) >= self._most_flying or not (self._queue or self._open):
            return None
        due = now if self._queue else min(batch.born + self.policy.linger for batch in self._open.values())
        return max(due, self._gate) - now if max(due, self._gate) > now else 0.0

    @property
    def _most_flying(self) -> int:
        """The greatest number of requests at the same time.

        While the API is in trouble, it is 1: a single request tests the API.
        """
        return 1 if self._troubles else self.policy.in_flight

    def settle(self, batch: Batch, verdict: Verdict, now: float) -> list[Settled]:
        """Record the verdict on a request, and return the events that it settles.

        The caller reports the ``failures``, or keeps them with ``keep``.
        """
        if batch not in self._flying:
            return []  # the batch was abandoned meanwhile: its events are reported already
        self._flying.remove(batch)
        if isinstance(verdict, Later):
            return self._postpone_batch(batch, verdict, now)
        self._troubles, self._gate, self._progress = 0, 0.0, now
        if isinstance(verdict, TooLarge):
            if len(batch.lines) > 1:
                middle = len(batch.lines) // 2
                self._queue.appendleft(batch.select(range(middle, len(batch.lines))))
                self._queue.appendleft(batch.select(range(middle)))
                return []
            verdict = Rejected(413, "too_large", verdict.detail)
        return [self._finish_batch(batch, verdict)]

    def abandon(self, reason: str) -> list[Settled]:
        """Give up every event that is not settled, including the events on their way."""
        batches = [*self._flying, *self._queue, *self._open.values()]
        self._flying, self._queue, self._open = [], deque(), {}
        return [self._give_up(batch, reason) for batch in batches]

    def release_flying(self) -> None:
        """Queue again the requests that were on their way when their driver ended: sending them again is harmless."""
        self._queue.extendleft(reversed(self._flying))
        self._flying = []

    # Reporting

    def keep(self, failures: Iterable[Failure]) -> None:
        """Keep failures until somebody collects them.

        They take space in the buffer, so their number is limited, too.
        """
        for failure in failures:
            self.failures.append(failure)
            self.weight += len(failure.line) + 1 + _PER_EVENT

    def collect_failures(self) -> list[Failure]:
        """Return the failures since the last call. Each failure is returned only once."""
        failures, self.failures = self.failures, []
        self.weight -= sum(len(failure.line) + 1 + _PER_EVENT for failure in failures)
        return failures

    def _close_batch(self, stream: str, now: float) -> None:
        batch = self._open.pop(stream)
        batch.born = now
        self._queue.append(batch)

    def _postpone_batch(self, batch: Batch, verdict: Later, now: float) -> list[Settled]:
        if batch.failed_since is None:
            batch.failed_since = now
        self._troubles += 1
        ceiling = min(self.policy.backoff * 2.0 ** min(self._troubles, 30), self.policy.longest_backoff)
        self._gate = now + max(verdict.after, 0.0) + self._random() * ceiling
        if self._gate > self._find_deadline(batch, verdict):
            settled = self._give_up_late(batch, verdict)
            # A Retry-After of a day, or a date by a wrong clock, must not hold later events back for so long.
            self._gate = min(self._gate, now + self.policy.retry_for)
            return settled
        if self.policy.in_flight == 1:
            self._queue.appendleft(batch)  # the order of events is kept
        else:
            self._queue.append(batch)  # a request that always fails must not stop the other requests
        return []

    def _find_deadline(self, batch: Batch, verdict: Later) -> float:
        """Find the instant from which a request is given up: after ``retry_for`` seconds without success.

        If the whole API fails, the seconds count from its last final answer, or from the close of the batch if that is
        later. So a request that waited long in a slow queue still has its time. If only this request fails, the seconds
        count from its first failure.
        """
        since = max(batch.born, self._progress)
        if not verdict.wide and batch.failed_since is not None:
            since = batch.failed_since
        return since + self.policy.retry_for

    def _give_up_late(self, batch: Batch, verdict: Later) -> list[Settled]:
        """Give up a request whose time for retries is over, and the requests that would fail in the same way.

        Otherwise a client that is closed during an outage would try each request in its buffer, and wait for it.
        """
        doomed = [batch]
        if verdict.wide:
            doomed += [other for other in self._queue if self._gate > self._find_deadline(other, verdict)]
            self._queue = deque(other for other in self._queue if other not in doomed)
        reason = f"not acknowledged within {self.policy.retry_for:g} s; the last answer: {verdict.reason}"
        return [self._give_up(other, reason, verdict.status) for other in doomed]

    def _give_up(self, batch: Batch, reason: str, status: int = 0) -> Settled:
        return self._finish_batch(batch, Rejected(status, UNSENT, reason))

    def _finish_batch(self, batch: Batch, verdict: Stored | Rejected) -> Settled:
        refused = {refusal.index: (refusal.code, refusal.detail) for refusal in verdict.refused}
        status, done, queued, units = 200, range(len(batch.lines)), 0, 0.0
        places: Sequence[int] = done
        if isinstance(verdict, Rejected):
            status = verdict.status
            if verdict.again:
                places = sorted(refused)
                self._queue.appendleft(batch.select(place for place in done if place not in refused))
            else:
                refused = dict.fromkeys(done, (verdict.code, verdict.detail)) | refused
        else:
            queued, units = verdict.queued, verdict.write_units
        failures = [
            Failure(batch.stream, batch.indexes[place], code, detail, batch.lines[place], status, verdict.window)
            for place, (code, detail) in sorted(refused.items())
        ]
        self.weight -= sum(len(batch.lines[place]) + 1 + _PER_EVENT for place in places)
        return Settled(batch.stream, [batch.indexes[place] for place in places], failures, queued, units)
