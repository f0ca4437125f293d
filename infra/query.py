"""The read path: the query function, and the reader of archived periods that it calls."""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from . import allocator
from .copies import Copied
from .function import Common, Function
from .objects import ARCHIVES, LARGE
from .storage import Storage
from .tables import allow_tables


class Query(Construct):
    """The functions that answer queries."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        common: Common,
        *,
        slim: lambda_.Code,
        archive: lambda_.Code,
        storage: Storage | Copied,
    ) -> None:
        super().__init__(scope, id)
        # A reader has no copy of the rollups' state.
        rollups = storage.rollups if isinstance(storage, Storage) else None
        self.reader = Function(
            self,
            "ArchiveReader",
            common,
            handler="archive_reader",
            code=archive,
            timeout=Duration.seconds(25),
            memory=1769,  # a whole processor, for decompression
            environment={"TIDETABLE_ARCHIVE_BUCKET": storage.bucket.bucket_name},
        )
        storage.allow_objects(self.reader, ["GetObject"], ARCHIVES)
        self.function = Function(
            self,
            "Function",
            common,
            handler="query",
            code=slim,
            timeout=Duration.seconds(28),
            memory=1024,
            environment={
                **allocator.ENVIRONMENT,
                "TIDETABLE_ARCHIVE_READER_FUNCTION": self.reader.function_name,
                "TIDETABLE_ARCHIVE_BUCKET": storage.bucket.bucket_name,
                **({"TIDETABLE_ROLLUPS_TABLE": rollups.table_name} if rollups is not None else {}),
            },
            snap_start=common.config.api.snap_start,
            answers=True,
        )
        allow_tables(self.function, common, ["Query", "GetItem", "BatchGetItem", "DescribeTable"])
        storage.allow_objects(self.function, ["GetObject"], LARGE)
        storage.allow_listing(self.function, LARGE)
        states = [rollups.table_arn] if rollups is not None else []
        self.function.allow_actions(["dynamodb:Query"], storage.catalog.table_arn, *states)
        self.function.allow_actions(["lambda:InvokeFunction"], self.reader.function_arn)
