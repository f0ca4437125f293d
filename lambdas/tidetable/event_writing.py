"""Write within a budget of time: unprocessed items are tried again with full jitter until the time is up.

The chunks and the object that an item refers to are written before the item, so that nobody sees an item without its
data.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import msgspec

from tidetable.ports import Clock, EventStore, Put, Values, Written
from tidetable.remaining import Remaining

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0

# A random share of a pause: ``random.uniform(0, pause)`` outside tests.
Jitter = Callable[[float], float]


class Writer(msgspec.Struct, frozen=True):
    """Writes puts within the time that ``remaining`` tells. A put that a table of ``once`` throttles is not tried again."""

    store: EventStore
    values: Values
    remaining: Remaining
    clock: Clock
    jitter: Jitter
    once: Collection[str] = ()

    def retry_writes(self, attempt: Callable[[Sequence[Put]], Written], puts: Sequence[Put]) -> Written:
        """Attempt puts until all are written or the time is up. The result's ``unwritten`` are the other puts.

        Pauses have full jitter, so that many throttled functions do not try again at the same instant. These puts are not
        tried again: puts whose table is missing, puts of the tables ``once``, puts of full item collections, and puts that
        DynamoDB refuses because of what is in them. The lifecycle makes a missing table in minutes, which is longer than a
        request takes.
        """
        total = Written()
        waiting = list(puts)
        pause = _FIRST_PAUSE
        while waiting:
            outcome = attempt(waiting)
            unwritten, outcome.unwritten = outcome.unwritten, []
            total.add(outcome)
            given_up = outcome.missing_tables.union(self.once)
            waiting = []
            for put in unwritten:
                is_final = put.table in given_up or total.is_final(put)
                (total.unwritten if is_final else waiting).append(put)
            wait = self.jitter(pause)
            if not waiting or wait >= self.remaining():
                break
            self.clock.sleep(wait)
            pause = min(2 * pause, _LONGEST_PAUSE)
        total.unwritten += waiting
        return total

    def write_outside(self, puts: Sequence[Put]) -> tuple[list[Put], Written]:
        """Write the chunks and objects that puts refer to.

        Return the puts whose data is durable, and the outcome of the writes. The outcome's ``unwritten`` are the other
        puts.
        """
        chunks = {chunk.place: chunk for put in puts for chunk in put.chunks}
        written = self.retry_writes(self.store.write, list(chunks.values()))
        missing = {chunk.place for chunk in written.unwritten}
        # An item whose chunk is refused can never be written, either.
        refused, written.refused = written.refused, {}
        ready: list[Put] = []
        written.unwritten = []
        for put in puts:
            if refused and (
                reason := next((refused[chunk.slot] for chunk in put.chunks if chunk.slot in refused), None)
            ):
                written.refused[put.slot] = reason
            safe = not any(chunk.place in missing for chunk in put.chunks)
            safe = safe and (put.blob is None or (self.remaining() > 0 and self.values.put(put.blob)))
            (ready if safe else written.unwritten).append(put)
        return ready, written
