"""Builds the real objects of the functions that callers wait for, once per process.

What they need at every request comes without boto3, whose import alone takes as long as a whole answer; what is rarely needed is
imported when it is. ``wiring_control`` and ``wiring_archive`` build the rest.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from aws.lean.catalog import LeanCatalog
from aws.lean.client import LeanClient
from aws.lean.store import LeanStore
from settings import config, settings
from tidetable.events import Event
from tidetable.ports import (
    ArchivePage,
    ArchiveRange,
    ArchiveReader,
    CatalogReader,
    Clock,
    EventStore,
    Overflow,
    Tables,
)

if TYPE_CHECKING:
    from aws.overflow import DeadLetters
    from tidetable.ingest.drain import Drain
    from tidetable.ingest.request import Ingest
    from tidetable.query import Reader


class SystemClock:
    """The time of this machine."""

    def now(self) -> datetime:
        """The present instant in UTC."""
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        time.sleep(seconds)


def jitter(pause: float) -> float:
    """A random share of a pause."""
    return random.uniform(0, pause)  # noqa: S311 - spreading retries needs no secrecy


@cache
def clock() -> Clock:
    return SystemClock()


@cache
def dynamodb() -> LeanClient:
    return LeanClient.of_process()


@cache
def catalog() -> CatalogReader:
    return LeanCatalog(dynamodb(), settings().catalog_table)


@cache
def store() -> EventStore:
    return LeanStore(dynamodb(), settings().catalog_table)


@cache
def tables() -> Tables:
    import wiring_control

    return wiring_control.tables()


@cache
def ingest() -> Ingest:
    from tidetable.ingest.circuit import Circuit
    from tidetable.ingest.request import Ingest

    return Ingest(config(), catalog(), store(), _LateOverflow(_overflow), clock(), jitter, Circuit(clock()))


@cache
def drain() -> Drain:
    from tidetable.ingest.drain import Drain

    return Drain(config(), catalog(), store(), clock(), jitter)


@cache
def reader() -> Reader:
    from tidetable.query import Reader

    return Reader(catalog(), store(), _LateReader(_archive_reader))


class _LateOverflow:
    """The overflow queue, made when the first event overflows."""

    def __init__(self, make: Callable[[], Overflow]) -> None:
        self._make = make

    def send(self, stream: str, events: Sequence[Event]) -> Sequence[Event]:
        """Queue the events."""
        return self._make().send(stream, events)


class _LateReader:
    """The archive's reader, made when the first archived period is read."""

    def __init__(self, make: Callable[[], ArchiveReader]) -> None:
        self._make = make

    def read(self, keys: ArchiveRange, *, limit: int, ascending: bool) -> ArchivePage:
        """A page of an archived period."""
        return self._make().read(keys, limit=limit, ascending=ascending)


@cache
def _overflow() -> Overflow:
    from aws import clients
    from aws.overflow import SqsOverflow

    return SqsOverflow(clients.sqs(), settings().overflow_queue_url)


@cache
def dead_letters() -> DeadLetters:
    from aws import clients
    from aws.overflow import DeadLetters

    return DeadLetters(clients.sqs(), settings().dead_letter_queue_url)


@cache
def _archive_reader() -> ArchiveReader:
    from aws import clients
    from aws.archive.clients import LambdaArchiveReader

    return LambdaArchiveReader(clients.functions(25), settings().archive_reader_function)
