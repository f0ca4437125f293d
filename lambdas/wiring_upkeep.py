"""Build the objects that ingest and query do not need, in a module that functions with a waiting caller do not load."""

from __future__ import annotations

from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

import settings
import wiring
from aws import clients
from aws.dynamodb.catalog import LeanCatalog
from aws.http.client import LeanClient
from wiring_drain import DrainPipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from aws.archive.s3 import S3PartReader
    from aws.gateway_credentials import GatewayCredentials
    from aws.meters import CloudWatchMeters
    from aws.notices import EventBus
    from aws.objects import S3Objects
    from bill.kept import KeptAnswers
    from tidetable import ports
    from tidetable.activity import Gauges
    from tidetable.archive import Exporter, Restorer
    from tidetable.archive.ports import Completer, Format, TableSource
    from tidetable.credentials import CredentialStore
    from tidetable.feed.changes import StreamRecord
    from tidetable.feed.feeds import Feeds
    from tidetable.feed.mappings import FollowedFeeds
    from tidetable.lake.lake_tables import LakeTables
    from tidetable.lake.reconcile import Reconciler
    from tidetable.large.sweep import Sweeper
    from tidetable.large.sweep_ports import Store
    from tidetable.lifecycle import LifecycleRun
    from tidetable.ports.feeds import Mappings
    from tidetable.rollups.services import Services
    from tidetable.work.claim import WorkRecords
    from tidetable.work.schedule import WorkQueue


class Upkeep(DrainPipeline):
    """A pipeline with the ports and the use cases of the functions that no caller waits for."""

    @cached_property
    def dynamodb(self) -> LeanClient:
        """The client of functions that no caller waits for: they write and read more at once, and keep more connections."""
        return LeanClient.of_process(connections=32)

    # The keys of callers.

    @cached_property
    def keys(self) -> CredentialStore:
        """The keys of callers, for the command line and for a deployment."""
        from aws.dynamodb.credentials import LeanCredentials

        return LeanCredentials(self.dynamodb, self.catalog_table)

    @cached_property
    def gateway_keys(self) -> GatewayCredentials:
        from aws.gateway_credentials import GatewayCredentials

        return GatewayCredentials(clients.find_gateway_client, self.clock.sleep)

    @cached_property
    def meters(self) -> CloudWatchMeters:
        """CloudWatch's counts of the stage's consumed units and of its traffic."""
        from aws.meters import CloudWatchMeters

        return CloudWatchMeters(clients.find_cloudwatch_client, self.stage, settings.read_settings().metrics_namespace)

    @cached_property
    def gauges(self) -> Gauges:
        """CloudWatch's counts of the stage by the minute."""
        return self.meters

    @cached_property
    def activities(self) -> KeptAnswers:
        from bill.kept import KeptAnswers

        return KeptAnswers()

    @cached_property
    def bills(self) -> KeptAnswers:
        from bill.kept import KeptAnswers

        return KeptAnswers()

    # The feed of changes.

    @cached_property
    def read_records(self) -> Callable[[Mapping[str, Any]], Sequence[StreamRecord]]:
        from aws.feed_records import read_records

        return read_records

    @cached_property
    def feeds(self) -> Feeds:
        from aws.feed_targets import FeedDeadLetters, make_target
        from tidetable.feed.feeds import Feeds

        letters = FeedDeadLetters(clients.find_sqs_client, settings.read_settings().feed_dead_letter_queue_url)
        return self.build(
            Feeds,
            catalog=self.catalog_reader,
            letters=letters,
            make_target=lambda arn, stream: make_target(arn, stream, clients.find_target_client),
        )

    @cached_property
    def mappings(self) -> Mappings | None:
        """The event source mappings of the feed's function; None if the environment does not name that function."""
        from aws.mappings import LambdaMappings

        function = settings.read_settings().feed_function
        return LambdaMappings(clients.find_mappings_client, function) if function else None

    @cached_property
    def followed(self) -> FollowedFeeds:
        from tidetable.feed.mappings import FollowedFeeds

        return FollowedFeeds()

    # Rollups.

    def refresher(self, remaining: Callable[[], float]) -> Services:
        """Return the services of one run of the refresher; ``remaining`` returns the seconds that the run has left."""
        from tidetable.rollups.services import Services

        return self.build(Services, remaining=remaining)

    # The life of tables.

    @cached_property
    def catalog(self) -> ports.Catalog:
        return LeanCatalog(self.dynamodb, self.catalog_table)

    @cached_property
    def work(self) -> WorkRecords:
        """The records of background work, in the catalog's table."""
        from aws.dynamodb.work import LeanWork

        return LeanWork(self.dynamodb, self.catalog_table)

    @cached_property
    def work_queue(self) -> WorkQueue:
        """The queue of messages to the workers of this kind of function."""
        from aws.work_queue import SqsWorkQueue

        return SqsWorkQueue(clients.find_sqs_client, settings.read_settings().work_queue_url)

    @cached_property
    def catalog_table(self) -> str:
        """The name of the catalog's table."""
        return settings.read_settings().catalog_table

    @cached_property
    def tables(self) -> ports.Tables:
        from aws.dynamodb.tables import DynamoTables

        return DynamoTables(clients.find_control_plane_client(), clients.find_control_plane_client)

    @cached_property
    def scaling(self) -> ports.Scaling:
        from aws.dynamodb.scaling import ApplicationScaling

        return ApplicationScaling(clients.find_scaling_client)

    @cached_property
    def archiver(self) -> ports.Archiver:
        from aws.archive.clients import LambdaArchiver

        return LambdaArchiver(clients.find_functions_client, settings.read_settings().archiver_function)

    @cached_property
    def event_bus(self) -> EventBus:
        from aws.notices import EventBus

        return EventBus(clients.find_eventbridge_client())

    def begin_run(self, owner: str, remaining: Callable[[], float]) -> LifecycleRun:
        """Begin a run of the lifecycle. ``owner`` holds its leases, ``remaining`` returns the seconds that it has left."""
        from tidetable.lifecycle import LifecycleRun

        return self.build(LifecycleRun, owner=owner, remaining=remaining, find_rollups=lambda: self.rollups)

    # Archives, and the bucket.

    @cached_property
    def objects(self) -> S3Objects:
        from aws.objects import S3Objects

        return S3Objects(clients.find_s3_client(self.bucket_region), settings.read_settings().archive_bucket)

    @cached_property
    def stored_values(self) -> Store:
        """The bucket's large values, for the sweep: it may wait longer than a caller."""
        from aws.objects import S3Values

        return S3Values(clients.find_s3_client, settings.read_settings().archive_bucket)

    @cached_property
    def sweeper(self) -> Sweeper:
        from tidetable.large.sweep import Sweeper

        return self.build(Sweeper, objects=self.stored_values, notes=self.objects)

    @cached_property
    def source(self) -> TableSource:
        from aws.archive.scan import RawScan

        return RawScan(clients.find_dynamodb_client())

    @cached_property
    def format(self) -> Format:
        from aws.archive.parquet import Parquet

        return Parquet()

    @cached_property
    def complete(self) -> Completer:
        from aws.large.pages import complete_page

        return partial(complete_page, self.unpacker)

    @cached_property
    def exporter(self) -> Exporter:
        from tidetable.archive import Exporter

        return self.build(Exporter)

    @cached_property
    def restorer(self) -> Restorer:
        from tidetable.archive import Restorer

        notes = None if self.marks is None else self.marks.notes
        return self.build(Restorer, archive=self.exporter, notes=notes)

    # The Iceberg tables.

    @cached_property
    def lake_tables(self) -> LakeTables:
        from aws.iceberg.iceberg_tables import IcebergTables
        from tidetable.names import name_lake_database

        return IcebergTables(
            client=clients.find_glue_client,
            database=name_lake_database(self.stage),
            root=f"s3://{settings.read_settings().archive_bucket}/",
            objects=self.objects,
            store=self.stored_values,
            keep_snapshots=self.config.lake.keep_snapshots,
        )

    @cached_property
    def lake(self) -> Reconciler:
        from tidetable.lake.reconcile import Reconciler

        return self.build(Reconciler)

    @cached_property
    def lake_queue(self) -> WorkQueue:
        """The queue of messages to the workers of the Iceberg tables."""
        from aws.work_queue import SqsWorkQueue

        return SqsWorkQueue(clients.find_sqs_client, settings.read_settings().lake_queue_url)

    @cached_property
    def part_reader(self) -> S3PartReader:
        from aws.archive.s3 import S3PartReader

        return S3PartReader(self.objects)


def pipeline() -> Upkeep:
    """Return the pipeline that this process serves: the deployed pipeline, unless a test serves another ``Upkeep``."""
    return cast("Upkeep", wiring.get_pipeline(Upkeep))
