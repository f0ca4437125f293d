"""Writing within a budget: unprocessed items are tried again with full jitter until the time is up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidetable.ports import Clock, EventStore, Put, Written

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0

# Seconds that may still be spent.
Remaining = Callable[[], float]
# A random share of a pause: ``random.uniform(0, pause)`` outside tests.
Jitter = Callable[[float], float]


def write_with_retries(
    store: EventStore, puts: Sequence[Put], *, remaining: Remaining, clock: Clock, jitter: Jitter
) -> Written:
    """Write what can be written before the time is up; what cannot is returned, in no state between.

    Full jitter, so that many throttled functions do not come back in step. Puts whose table is missing are not tried
    again: a table appears by the lifecycle's doing, in minutes, not in the time of a request.
    """
    total = Written()
    waiting = list(puts)
    pause = _FIRST_PAUSE
    while waiting:
        outcome = store.write(waiting)
        total.units += outcome.units
        total.throttled += outcome.throttled
        total.missing_tables |= outcome.missing_tables
        total.reasons += outcome.reasons
        lost = [put for put in outcome.unwritten if put.table in outcome.missing_tables]
        total.unwritten += lost
        waiting = [put for put in outcome.unwritten if put.table not in outcome.missing_tables]
        wait = jitter(pause)
        if not waiting or wait >= remaining():
            break
        clock.sleep(wait)
        pause = min(2 * pause, _LONGEST_PAUSE)
    total.unwritten += waiting
    return total
