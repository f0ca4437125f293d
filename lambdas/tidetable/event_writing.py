"""Write within a budget of time: unprocessed items are tried again with full jitter until the time is up."""

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
    """Writes puts within the time that ``remaining`` tells. A put that a table of ``find_once`` throttles is not tried
    again.
    """

    store: EventStore
    values: Values
    remaining: Remaining
    clock: Clock
    jitter: Jitter
    find_once: Callable[[], Collection[str]] = tuple

    def retry_writes(self, attempt: Callable[[Sequence[Put]], Written], puts: Sequence[Put]) -> Written:
        """Attempt puts until all are written or the time is up. The result's ``unwritten`` are the other puts.

        Pauses have full jitter, so that many throttled functions do not try again at the same instant. These puts are not
        tried again: puts whose table is missing, puts of the tables of ``find_once``, puts of full item collections, and puts
        that DynamoDB refuses because of what is in them. The lifecycle makes a missing table in minutes, which is longer
        than a request takes.
        """
        total = attempt(puts) if puts else Written()
        pause = _FIRST_PAUSE
        while total.unwritten:
            given_up = total.missing_tables.union(self.find_once())
            waiting = [put for put in total.unwritten if not (put.table in given_up or total.is_final(put))]
            wait = self.jitter(pause)
            if not waiting or wait >= self.remaining():
                break
            self.clock.sleep(wait)
            left = set(map(id, waiting))
            total.unwritten = [put for put in total.unwritten if id(put) not in left]
            total.add(attempt(waiting))
            pause = min(2 * pause, _LONGEST_PAUSE)
        return total
