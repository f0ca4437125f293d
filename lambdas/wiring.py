"""Builds the real objects of the functions that callers wait for, once per process.

What they need at every request comes without boto3, whose import alone takes as long as a whole answer; what is rarely needed is
imported when it is. ``wiring_control`` and ``wiring_archive`` build the rest.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING

from aws.lean.catalog import LeanCatalog
from aws.lean.client import LeanClient
from aws.lean.store import LeanStore
from aws.zstd import Zstd
from settings import config, settings
from tidetable.events import Event
from tidetable.ports import (
    ArchivePage,
    ArchiveRange,
    ArchiveReader,
    Blob,
    CatalogReader,
    Clock,
    EventStore,
    Overflow,
    Tables,
    Values,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from aws.overflow import DeadLetters
    from tidetable.ingest.drain import Drain
    from tidetable.ingest.request import Ingest
    from tidetable.ingest.routing import LargeValueServices
    from tidetable.large.whole import Unpacker
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
    # From the system's own source: functions that start from one snapshot would draw the same numbers.
    return random.SystemRandom().uniform(0, pause)


def pools(width: int) -> Executor:
    """A pool of so many threads."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(width)


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
    """To describe tables while a caller waits: not by the control plane's client, which retries for half a minute."""
    from aws import clients
    from aws.tables import DynamoTables

    return DynamoTables(clients.dynamodb())


@cache
def values() -> Values:
    return _LateValues(_values)


@cache
def large_values() -> LargeValueServices:
    from tidetable.ingest.routing import LargeValueServices

    return LargeValueServices(values(), Zstd(), lambda: os.urandom(16).hex())


@cache
def ingest() -> Ingest:
    from tidetable.ingest.circuit import Circuit
    from tidetable.ingest.request import Ingest

    overflow = _LateOverflow(_overflow)
    return Ingest(config(), catalog(), store(), overflow, clock(), jitter, Circuit(clock()), large_values())


@cache
def drain() -> Drain:
    from tidetable.ingest.drain import Drain, Pace

    return Drain(config(), catalog(), store(), clock(), jitter, large_values(), Pace(clock()))


@cache
def unpacker() -> Unpacker:
    from tidetable.large.whole import Unpacker

    return Unpacker(store(), values(), Zstd())


@cache
def reader() -> Reader:
    from aws.sketches import DDSketches
    from tidetable.expired import PresentCatalog
    from tidetable.query import Reader, Seal

    present = PresentCatalog(catalog(), config(), clock())
    seal = Seal(cache(catalog().secret))
    return Reader(present, store(), _LateReader(_archive_reader), unpacker(), seal, DDSketches(), pools)


class _LateOverflow:
    """The overflow queue, made when the first event overflows."""

    def __init__(self, make: Callable[[], Overflow]) -> None:
        self._make = make

    def send(self, stream: str, events: Sequence[Event], at: int) -> Sequence[Event]:
        """Queue the events."""
        return self._make().send(stream, events, at)


class _LateValues:
    """The bucket of large values, reached when the first is written or read."""

    def __init__(self, make: Callable[[], Values]) -> None:
        self._make = make

    def put(self, blob: Blob) -> bool:
        """Keep an object."""
        return self._make().put(blob)

    def get(self, key: str) -> bytes | None:
        """An object's body."""
        return self._make().get(key)


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

    return SqsOverflow(clients.sqs(), settings().overflow_queue_url, values(), Zstd())


@cache
def _values() -> Values:
    from aws import clients
    from aws.objects import S3Values

    return S3Values(clients.values, settings().archive_bucket)


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
