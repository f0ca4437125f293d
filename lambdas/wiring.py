"""One bootstrap: the objects that the functions, the command line and the tests work with, each built at its first use.

So a function imports only what it needs: boto3's import alone takes as long as a whole answer, and pyarrow's longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import settings
from aws import clients
from aws.lean.catalog import LeanCatalog
from aws.lean.client import LeanClient
from aws.lean.store import LeanStore
from aws.zstd import Zstd
from machine import SystemClock, draw_name, draw_pause, make_pool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aws.archive.s3 import S3PartReader
    from aws.gateway_keys import GatewayKeys
    from aws.notices import EventBus
    from aws.objects import S3Objects
    from aws.operations import AwsOperations as Operations
    from tidetable import ports
    from tidetable.archive import Exporter, Restorer
    from tidetable.archive.ports import Completer, Format, TableSource
    from tidetable.bill.consumed import Meters
    from tidetable.config import Config
    from tidetable.credentials import KeyRing, Keys
    from tidetable.dialects.influx_door import InfluxDoor
    from tidetable.dialects.otlp_door import OtlpDoor
    from tidetable.feed.changes import Record
    from tidetable.feed.feeds import Feeds
    from tidetable.ingest.circuit import Circuit
    from tidetable.ingest.drain import Drain
    from tidetable.ingest.known import KnownPeriods
    from tidetable.ingest.marks import Marks
    from tidetable.ingest.request import Ingest
    from tidetable.ingest.routing import LargeValueServices
    from tidetable.ingest.writing import Jitter
    from tidetable.large.ports import Store
    from tidetable.large.sweep import Sweeper
    from tidetable.large.whole import Unpacker
    from tidetable.lifecycle import Reconciler
    from tidetable.ports.feeds import Mappings
    from tidetable.query import Reader, Seal
    from tidetable.rollups.definition import Definition, Rolled
    from tidetable.rollups.services import Services


class Pipeline:
    """The ports of a deployed pipeline, and what its use cases need of them.

    Every one can be replaced, as ``Pipeline(clock=..., store=...)``; the others are built from those.
    """

    def __init__(self, **ports: Any) -> None:
        unknown = [name for name in ports if not isinstance(getattr(type(self), name, None), cached_property)]
        if unknown:
            raise TypeError(f"a pipeline has no {', '.join(unknown)}")
        vars(self).update(ports)

    # What the functions share.

    @cached_property
    def config(self) -> Config:
        return settings.config()

    @cached_property
    def stage(self) -> str:
        return settings.settings().stage

    @cached_property
    def time_travel(self) -> bool:
        """True if the lifecycle may run as at another time: only on the local stage."""
        return settings.settings().allow_time_travel

    @cached_property
    def clock(self) -> ports.Clock:
        return SystemClock()

    @cached_property
    def jitter(self) -> Jitter:
        return draw_pause

    @cached_property
    def pools(self) -> ports.Pools:
        return make_pool

    @cached_property
    def dynamodb(self) -> LeanClient:
        return LeanClient.of_process()

    @cached_property
    def store(self) -> ports.EventStore:
        return LeanStore(self.dynamodb, settings.settings().catalog_table)

    @cached_property
    def catalog_reader(self) -> ports.CatalogReader:
        """The catalog as requests read it."""
        return LeanCatalog(self.dynamodb, settings.settings().catalog_table)

    @cached_property
    def values(self) -> ports.Values:
        from aws.objects import S3Values

        return S3Values(clients.values, settings.settings().archive_bucket)

    @cached_property
    def large(self) -> LargeValueServices:
        from tidetable.ingest.routing import LargeValueServices

        return LargeValueServices(self.values, Zstd(), draw_name)

    @cached_property
    def unpacker(self) -> Unpacker:
        from tidetable.large.whole import Unpacker

        return Unpacker(self.store, self.values, Zstd())

    @cached_property
    def operations(self) -> Operations:
        """What operators look at."""
        from aws.operations import AwsOperations

        return AwsOperations(clients.functions, settings.settings().lifecycle_function, clients.alarms, self.stage)

    @cached_property
    def meters(self) -> Meters:
        """What CloudWatch counts of the stage."""
        from aws.meters import CloudWatchMeters

        return CloudWatchMeters(clients.alarms, self.stage, settings.settings().metrics_namespace)

    # Writing events.

    @cached_property
    def overflow(self) -> ports.Overflow:
        from aws.overflow import SqsOverflow

        return SqsOverflow(clients.sqs, settings.settings().overflow_queue_url, self.values, Zstd())

    @cached_property
    def dead_letters(self) -> ports.DeadLetters:
        from aws.overflow import SqsDeadLetters

        return SqsDeadLetters(clients.sqs, settings.settings().dead_letter_queue_url)

    @cached_property
    def circuit(self) -> Circuit:
        from tidetable.ingest.circuit import Circuit

        return Circuit(self.clock)

    @cached_property
    def known(self) -> KnownPeriods:
        from tidetable.ingest.known import KnownPeriods

        return KnownPeriods()

    @cached_property
    def marks(self) -> Marks | None:
        """None if no stream has rollups."""
        if not self.config.rolled_up:
            return None
        from tidetable.ingest.marks import Marks

        return Marks(self.rollups)

    @cached_property
    def ingest(self) -> Ingest:
        from tidetable.ingest.request import Ingest

        services = self.catalog_reader, self.store, self.overflow, self.clock
        return Ingest(self.config, *services, self.jitter, self.circuit, self.large, self.known, self.marks)

    @cached_property
    def drain(self) -> Drain:
        from tidetable.ingest.drain import Drain, Pace

        services = self.catalog_reader, self.store, self.dead_letters, self.clock, self.jitter, self.large
        return Drain(self.config, *services, Pace(self.clock), self.marks)

    # Dialects.

    @cached_property
    def influx(self) -> InfluxDoor:
        from parsers.lines import parse_line
        from tidetable.dialects.influx_door import InfluxDoor

        return InfluxDoor(parse_line)

    @cached_property
    def otlp(self) -> OtlpDoor:
        from parsers import otlp  # its libraries take 50 ms to import
        from tidetable.dialects.otlp_door import OtlpDoor

        return OtlpDoor(otlp, self.config.doors.otlp_metrics, self.config.doors.otlp_logs)

    # The keys of callers.

    @cached_property
    def keys(self) -> Keys:
        """As the command line and a deployment change them."""
        from aws.keys import DynamoKeys

        return DynamoKeys(clients.dynamodb(), settings.settings().catalog_table)

    @cached_property
    def key_ring(self) -> KeyRing:
        """As the authorizer reads them."""
        from aws.lean.keys import LeanKeys
        from tidetable.credentials import KeyRing

        return KeyRing(LeanKeys(self.dynamodb, settings.settings().catalog_table).find)

    @cached_property
    def gateway_keys(self) -> GatewayKeys:
        from aws.gateway_keys import GatewayKeys

        return GatewayKeys(clients.gateway, self.clock.sleep)

    # Passing changes on.

    @cached_property
    def read_records(self) -> Callable[[Mapping[str, Any]], Sequence[Record]]:
        from aws.feed_records import read_records

        return read_records

    @cached_property
    def feeds(self) -> Feeds:
        from aws.feed_targets import FeedDeadLetters, make_target
        from tidetable.feed.feeds import Feeds

        letters = FeedDeadLetters(clients.sqs, settings.settings().feed_dead_letter_queue_url)
        services = self.catalog_reader, self.unpacker, letters, self.clock
        return Feeds(
            self.config, self.stage, *services, lambda arn, stream: make_target(arn, stream, clients.of_target)
        )

    @cached_property
    def mappings(self) -> Mappings | None:
        """The mappings of the feed's function; None where that is not known."""
        from aws.mappings import LambdaMappings

        function = settings.settings().feed_function
        return LambdaMappings(clients.mappings, function) if function else None

    # Rollups.

    @cached_property
    def rollups(self) -> ports.Rollups:
        from aws.lean.rollups import LeanRollups

        return LeanRollups(self.dynamodb, settings.settings().rollups_table)

    @cached_property
    def definitions(self) -> Mapping[str, Sequence[Definition]]:
        """The rollups of each stream that has any."""
        from tidetable.rollups.definition import definition_of

        streams = self.config.rolled_up
        return {stream.name: [definition_of(stream, rollup) for rollup in stream.rollup] for stream in streams}

    @cached_property
    def rolled(self) -> Rolled | None:
        """What aggregates are read from besides events; None if no stream has rollups."""
        if not self.config.rolled_up:
            return None
        from tidetable.rollups.definition import Rolled

        return Rolled(self.rollups, self.definitions)

    def refresher(self, remaining: Callable[[], float]) -> Services:
        """What a run of the refresher works with, which has so many seconds."""
        from tidetable.rollups.services import Services

        return Services(self.catalog, self.reader, self.rollups, self.clock, remaining)

    # Reading events.

    @cached_property
    def archive_reader(self) -> ports.ArchiveReader:
        from aws.archive.clients import LambdaArchiveReader

        return LambdaArchiveReader(clients.functions, settings.settings().archive_reader_function)

    @cached_property
    def table_reader(self) -> ports.Tables:
        """To describe tables while a caller waits: the control plane's client would try for half a minute."""
        from aws.tables import DynamoTables

        return DynamoTables(clients.dynamodb())

    @cached_property
    def seal(self) -> Seal:
        from tidetable.query import Seal

        return Seal(cache(self.catalog_reader.secret))

    @cached_property
    def encode_table(self) -> ports.TableEncoder:
        from aws.arrow import encode_stream

        return encode_stream

    @cached_property
    def reader(self) -> Reader:
        from aws.sketches import DDSketches
        from tidetable.expired import PresentCatalog
        from tidetable.query import Reader

        present = PresentCatalog(self.catalog_reader, self.config, self.clock)
        ports = self.store, self.archive_reader, self.unpacker, self.seal, DDSketches(), self.pools
        return Reader(present, *ports, self.rolled)

    # The life of tables.

    @cached_property
    def catalog(self) -> ports.Catalog:
        from aws.catalog import DynamoCatalog

        return DynamoCatalog(clients.dynamodb(), settings.settings().catalog_table)

    @cached_property
    def tables(self) -> ports.Tables:
        from aws.tables import DynamoTables

        return DynamoTables(clients.control_plane())

    @cached_property
    def scaling(self) -> ports.Scaling:
        from aws.scaling import ApplicationScaling

        return ApplicationScaling(clients.scaling)

    @cached_property
    def archiver(self) -> ports.Archiver:
        from aws.archive.clients import LambdaArchiver

        return LambdaArchiver(clients.functions, settings.settings().archiver_function)

    @cached_property
    def event_bus(self) -> EventBus:
        from aws.notices import EventBus

        return EventBus(clients.events())

    @cached_property
    def reconciler(self) -> Reconciler:
        from tidetable.lifecycle import Reconciler

        services = self.catalog, self.tables, self.scaling, self.archiver, self.clock, self.pools
        return Reconciler(self.config, self.stage, *services, lambda: self.rollups, self.mappings)

    # Archives, and the bucket.

    @cached_property
    def objects(self) -> S3Objects:
        from aws.objects import S3Objects

        return S3Objects(clients.s3(), settings.settings().archive_bucket)

    @cached_property
    def stored_values(self) -> Store:
        """The bucket's large values, as the sweep sees them: it may wait longer than a caller."""
        from aws.objects import S3Values

        return S3Values(clients.s3, settings.settings().archive_bucket)

    @cached_property
    def sweeper(self) -> Sweeper:
        from tidetable.large.sweep import Sweeper

        services = self.catalog, self.store, self.stored_values, self.objects, self.clock, self.pools
        return Sweeper(self.config, *services)

    @cached_property
    def source(self) -> TableSource:
        from aws.archive.scan import RawScan

        return RawScan(clients.dynamodb())

    @cached_property
    def format(self) -> Format:
        from aws.archive.parquet import Parquet

        return Parquet()

    @cached_property
    def completer(self) -> Completer:
        from aws.archive.whole import PageCompleter

        return PageCompleter(self.unpacker)

    @cached_property
    def exporter(self) -> Exporter:
        from tidetable.archive import Exporter

        services = self.source, self.objects, self.format, self.clock, self.completer, self.pools
        return Exporter(self.config, self.catalog, self.tables, *services, time_travel=self.time_travel)

    @cached_property
    def restorer(self) -> Restorer:
        from tidetable.archive import Restorer

        notes = None if self.marks is None else self.marks.notes
        return Restorer(self.stage, self.exporter, self.tables, self.store, self.jitter, self.large, notes)

    @cached_property
    def part_reader(self) -> S3PartReader:
        from aws.archive.s3 import S3PartReader

        return S3PartReader(self.objects)


_served: list[Pipeline] = []


def pipeline() -> Pipeline:
    """The pipeline that this process serves: the deployed one, unless a test serves another."""
    if not _served:
        _served.append(Pipeline())
    return _served[-1]


@contextmanager
def serving(other: Pipeline) -> Iterator[Pipeline]:
    """Serve another pipeline for a while."""
    _served.append(other)
    try:
        yield other
    finally:
        _served.remove(other)
