"""Builds the real objects, once per process; the tests build the same use cases with other parts."""

from __future__ import annotations

import random
import time
from datetime import UTC, datetime
from functools import cache

from aws import clients
from aws.archive.clients import LambdaArchiver, LambdaArchiveReader
from aws.catalog import DynamoCatalog
from aws.notices import EventBus
from aws.overflow import SqsOverflow
from aws.scaling import ApplicationScaling
from aws.store import DynamoStore
from aws.tables import DynamoTables
from settings import config, settings
from tidetable.ingest.drain import Drain
from tidetable.ingest.request import Ingest
from tidetable.lifecycle import Reconciler
from tidetable.ports import Archiver, ArchiveReader, Catalog, Clock, EventStore, Overflow, Scaling, Tables
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
def catalog() -> Catalog:
    return DynamoCatalog(clients.dynamodb(), settings().catalog_table)


@cache
def store() -> EventStore:
    return DynamoStore(clients.dynamodb(), settings().catalog_table)


@cache
def tables() -> Tables:
    return DynamoTables(clients.dynamodb())


@cache
def scaling() -> Scaling:
    return ApplicationScaling(clients.scaling)


@cache
def overflow() -> Overflow:
    return SqsOverflow(clients.sqs(), settings().overflow_queue_url)


@cache
def archiver() -> Archiver:
    return LambdaArchiver(clients.functions, settings().archiver_function)


@cache
def archive_reader() -> ArchiveReader:
    return LambdaArchiveReader(clients.functions(25), settings().archive_reader_function)


@cache
def ingest() -> Ingest:
    return Ingest(config(), catalog(), store(), overflow(), clock(), jitter)


@cache
def drain() -> Drain:
    return Drain(config(), catalog(), store(), clock(), jitter)


@cache
def event_bus() -> EventBus:
    return EventBus(clients.events())


@cache
def reconciler() -> Reconciler:
    return Reconciler(config(), settings().stage, catalog(), tables(), scaling(), archiver(), clock())


@cache
def reader() -> Reader:
    return Reader(catalog(), store(), archive_reader())
