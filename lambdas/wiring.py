"""Build the objects that the functions, the command line and the tests use, each at its first use.

So a function imports only what it needs: importing boto3 takes as long as a whole answer, and pyarrow takes longer.
This module has the objects that requests need; ``wiring_upkeep`` adds the objects of the other functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import settings
from aws import clients
from aws.dynamodb.catalog import LeanCatalog
from aws.dynamodb.store import LeanStore
from aws.http.client import LeanClient
from aws.zstd import Zstd
from machine import SystemClock, draw_name, draw_pause, make_pool

if TYPE_CHECKING:
    from aws.objects import S3Values
    from aws.operations import AwsOperations as Operations
    from doors.influx_door import InfluxDoor
    from doors.otlp_door import OtlpDoor
    from tidetable import ports
    from tidetable.config import Config
    from tidetable.copies.reader import Copies
    from tidetable.credentials import CredentialRing
    from tidetable.event_writing import Jitter
    from tidetable.ingest.circuit import Circuit
    from tidetable.ingest.marks import Marks
    from tidetable.ingest.recent_periods import RecentPeriods
    from tidetable.ingest.request import Ingest
    from tidetable.large.chunks import ChunkStore
    from tidetable.large.shrink import LargeValueServices
    from tidetable.large.unpack import Unpacker
    from tidetable.query import Reader, Seal
    from tidetable.query.past import KeptPages
    from tidetable.rollup_model.definition import Definition, QueryRollups

_Built = TypeVar("_Built")


class Pipeline:
    """The ports of a deployed pipeline, and the objects that its use cases build from them.

    A caller can replace any of them, as in ``Pipeline(clock=..., store=...)``; the other objects then use the
    replacements.
    """

    def __init__(self, **ports: Any) -> None:
        unknown = [name for name in ports if not isinstance(getattr(type(self), name, None), cached_property)]
        if unknown:
            raise TypeError(f"a pipeline has no {', '.join(unknown)}")
        vars(self).update(ports)

    def build(self, kind: Callable[..., _Built], **others: Any) -> _Built:
        """Build a use case from ``others``, and from the ports of this pipeline that have the names of its other fields."""
        fields: Mapping[str, Any] = kind.__annotations__
        names = (name for name in fields if name not in others and hasattr(type(self), name))
        return kind(**{name: getattr(self, name) for name in names}, **others)

    # Objects that several functions share.

    @cached_property
    def config(self) -> Config:
        return settings.read_config()

    @cached_property
    def stage(self) -> str:
        return settings.read_settings().stage

    @cached_property
    def time_travel(self) -> bool:
        """True if the lifecycle may act as if it were another time: only on the local stage."""
        return settings.read_settings().allow_time_travel

    @cached_property
    def copies(self) -> Copies | None:
        """The copies that a reader in another Region may read; None in the Region of the stage."""
        return settings.find_copies()

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
    def store(self) -> ChunkStore:
        return LeanStore(self.dynamodb, settings.read_settings().catalog_table)

    @cached_property
    def catalog_reader(self) -> ports.CatalogReader:
        """The catalog for requests, which only read it."""
        return LeanCatalog(self.dynamodb, settings.read_settings().catalog_table)

    @cached_property
    def values(self) -> S3Values:
        from aws.objects import S3Values

        client = partial(clients.find_values_client, self.bucket_region)
        return S3Values(client, settings.read_settings().archive_bucket)

    @cached_property
    def bucket_region(self) -> str | None:
        """The Region of the bucket: a reader reads the bucket of its origin. None is the function's own Region."""
        return None if self.copies is None else self.copies.origin

    @cached_property
    def large(self) -> LargeValueServices:
        from tidetable.large.shrink import LargeValueServices

        return LargeValueServices(values=self.values, compressor=Zstd(), unique=draw_name)

    @cached_property
    def unpacker(self) -> Unpacker:
        from tidetable.large.unpack import Unpacker

        return Unpacker(store=self.store, values=self.values, compressor=Zstd())

    @cached_property
    def operations(self) -> Operations:
        """The lifecycle's plan and the stage's alarms, for operators."""
        from aws.operations import AwsOperations

        known = settings.read_settings()
        prefix = known.alarm_prefix or f"Tidetable-{self.stage}-Alarms"
        return AwsOperations(
            clients.find_functions_client, known.lifecycle_function, clients.find_cloudwatch_client, prefix
        )

    # Writing events.

    @cached_property
    def overflow(self) -> ports.Overflow:
        from aws.dynamodb.beats import LeanBeats
        from aws.overflow import SqsOverflow
        from tidetable.ingest.beat import BeatingOverflow

        known = settings.read_settings()
        queue = SqsOverflow(clients.find_sqs_client, known.overflow_queue_url, self.values, Zstd())
        return BeatingOverflow(queue, LeanBeats(self.dynamodb, known.rollups_table), self.large, self.clock)

    @cached_property
    def circuit(self) -> Circuit:
        from tidetable.ingest.circuit import Circuit

        return Circuit(self.clock)

    @cached_property
    def known(self) -> RecentPeriods:
        from tidetable.ingest.recent_periods import RecentPeriods

        return RecentPeriods(until_end=self.stage != "local")

    @cached_property
    def marks(self) -> Marks | None:
        """None if no stream has rollups, and no table is read for its series."""
        if not self.config.is_refreshed:
            return None
        from tidetable.ingest.marks import Marks

        return Marks(self.rollups, frozenset(stream.name for stream in self.config.listed))

    @cached_property
    def ingest(self) -> Ingest:
        from tidetable.ingest.request import Ingest

        return self.build(Ingest, catalog=self.catalog_reader)

    # Dialects.

    @cached_property
    def influx(self) -> InfluxDoor:
        from doors.influx_door import InfluxDoor
        from doors.parsers.lines import parse_line

        return InfluxDoor(parse_line)

    @cached_property
    def otlp(self) -> OtlpDoor:
        from doors.otlp_door import OtlpDoor
        from doors.parsers import otlp  # its libraries take 50 ms to import

        return OtlpDoor(otlp, self.config.doors.otlp_metrics, self.config.doors.otlp_logs)

    # The keys of callers.

    @cached_property
    def key_ring(self) -> CredentialRing:
        """The keys of callers, for the authorizer."""
        from aws.dynamodb.credentials import LeanCredentials
        from tidetable.credentials import CredentialRing

        keys = LeanCredentials(self.dynamodb, settings.read_settings().catalog_table)
        # In another Region, a change of a key may arrive after its count.
        return CredentialRing(keys.find, keys.count_changes if self.copies is None else None)

    # Rollups.

    @cached_property
    def rollups(self) -> ports.Rollups:
        from aws.dynamodb.rollups import LeanRollups

        return LeanRollups(self.dynamodb, settings.read_settings().rollups_table)

    @cached_property
    def definitions(self) -> Mapping[str, Sequence[Definition]]:
        """The rollups of each stream that has rollups."""
        from tidetable.rollup_model.definition import list_definitions

        return list_definitions(self.config.streams.values())

    @cached_property
    def rolled(self) -> QueryRollups | None:
        """The rollups from which queries read aggregates, and the last periods of series; None if no stream has either.

        None in a reader: a bucket could be sealed there before its cells and its marks have arrived from the other table.
        """
        if not self.config.is_refreshed or self.copies is not None:
            return None
        from tidetable.rollup_model.definition import QueryRollups

        return QueryRollups(self.rollups, self.definitions, frozenset(stream.name for stream in self.config.listed))

    # Reading events.

    @cached_property
    def archive_reader(self) -> ports.ArchiveReader:
        from aws.archive.clients import LambdaArchiveReader

        return LambdaArchiveReader(clients.find_functions_client, settings.read_settings().archive_reader_function)

    @cached_property
    def table_reader(self) -> ports.Tables:
        """Describes tables while a caller waits. The control plane's own client could retry for half a minute."""
        from aws.dynamodb.tables import DynamoTables

        return DynamoTables(clients.find_dynamodb_client())

    @cached_property
    def seal(self) -> Seal:
        from tidetable.query import Seal

        return Seal(cache(self.catalog_reader.secret))

    @cached_property
    def kept_pages(self) -> KeptPages[Any]:
        """The pages of closed time that this process keeps for some seconds."""
        from tidetable.query.past import KeptPages

        return KeptPages()

    @cached_property
    def encode_table(self) -> ports.TableEncoder:
        from aws.arrow import encode_stream

        return encode_stream

    @cached_property
    def reader(self) -> Reader:
        from aws.sketches import DDSketches
        from tidetable.archive_expiry import show_present
        from tidetable.query import Reader

        catalog = show_present(self.catalog_reader, self.config, self.clock, self.copies)
        return self.build(Reader, catalog=catalog, archive=self.archive_reader, sketches=DDSketches())


_served: list[Pipeline] = []


def get_pipeline(make: Callable[[], Pipeline] = Pipeline) -> Pipeline:
    """Return the pipeline that this process serves: the deployed one, which ``make`` builds, or a test's."""
    if not _served:
        _served.append(make())
    return _served[-1]


@contextmanager
def serve_pipeline(other: Pipeline) -> Iterator[Pipeline]:
    """Serve another pipeline for a while."""
    _served.append(other)
    try:
        yield other
    finally:
        _served.remove(other)
