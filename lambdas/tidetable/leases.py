"""Leases: only one run of a kind works at a time, and a run that has died cannot hold its lease for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

from tidetable.ports import Catalog, Clock
from tidetable.remaining import Remaining

# The lease of a run of the lifecycle. No run holds it for longer than ``LEASE_MOST``. Runs are five minutes apart, so a
# dead run's lease blocks at most one other run.
LIFECYCLE_LEASE = "lifecycle"
LEASE_MOST = timedelta(minutes=5)
# The seconds from one scheduled run to the next.
RUN_SECONDS = 300
_FOR_EVER = timedelta(days=36_500)


def name_archive_lease(stream: str, label: str) -> str:
    """The lease of a run that archives or restores a period."""
    return f"archive#{stream}#{label}"


@contextmanager
def hold_lease(catalog: Catalog, lease: str, owner: str, now: datetime, length: timedelta) -> Iterator[bool]:
    """Hold a lease during the block, and give it back afterwards; yield False if another run has it."""
    if not catalog.acquire(lease, owner, now, length):
        yield False
        return
    try:
        yield True
    finally:
        # The work of the block is done. A lease that could not be given back expires.
        with suppress(Exception):
            catalog.release(lease, owner)


@contextmanager
def wait_for_lease(
    catalog: Catalog, lease: str, owner: str, clock: Clock, remaining: Remaining, poll: float, least: float = 0.0
) -> Iterator[bool]:
    """Hold a lease, for ``least`` seconds or more, as soon as it is free; yield False if it is not free in time."""
    while True:
        with hold_lease(catalog, lease, owner, clock.now(), limit_lease_length(remaining, least)) as free:
            if free or remaining() < 2 * poll:
                yield free
                return
        clock.sleep(poll)


def limit_lease_length(remaining: Remaining, least: float = 0.0) -> timedelta:
    """Choose a length within the time that a run has, so that a dead run does not block the next run."""
    return min(timedelta(seconds=max(remaining(), least)), LEASE_MOST)


def record_fact(catalog: Catalog, name: str, now: datetime) -> None:
    """Record a fact for ever, as a lease whose owner has the lease's own name."""
    catalog.acquire(name, name, now, _FOR_EVER)


def is_recorded(catalog: Catalog, name: str, now: datetime) -> bool:
    """True if a fact was recorded: then no other owner can get its lease."""
    with hold_lease(catalog, name, "a look", now, timedelta(0)) as free:
        return not free
