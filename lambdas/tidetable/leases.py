"""Leases: only one run of a kind works at a time, and a run that has died cannot hold its lease for ever."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta

from tidetable.ports import Catalog

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


def mark(catalog: Catalog, name: str, now: datetime) -> None:
    """Record a fact for ever, as a lease whose owner has the lease's own name."""
    catalog.acquire(name, name, now, _FOR_EVER)


def is_marked(catalog: Catalog, name: str, now: datetime) -> bool:
    """True if a fact was recorded: then no other owner can get its lease."""
    with hold_lease(catalog, name, "a look", now, timedelta(0)) as free:
        return not free
