"""The read path: the query function, and the reader of archived periods that it calls."""

from __future__ import annotations

from constructs import Construct

from .copies import Copied
from .function import Common, Function
from .objects import ARCHIVES, LARGE
from .storage import Storage
from .tables import allow_tables


class Query(Construct):
    """The functions that answer queries."""

    def __init__(self, scope: Construct, id: str, common: Common, storage: Storage | Copied) -> None:
        super().__init__(scope, id)
        self.reader = Function(self, "ArchiveReader", common, "archive_reader", storage.bucket_variable)
        storage.allow_objects(self.reader, ["GetObject"], ARCHIVES)
        self.variables = storage.variables | {"TIDETABLE_ARCHIVE_READER_FUNCTION": self.reader.function_name}
        self.function = Function(self, "Function", common, "query", self.variables)
        allow_tables(self.function, common, ["Query", "GetItem", "BatchGetItem", "DescribeTable"])
        storage.allow_objects(self.function, ["GetObject"], LARGE)
        storage.allow_listing(self.function, LARGE)
        # A reader has no copy of the rollups' state.
        states = [storage.rollups.table_arn] if isinstance(storage, Storage) else []
        self.function.allow_actions("dynamodb", ["Query"], storage.catalog.table_arn, *states)
        self.function.allow_actions("lambda", ["InvokeFunction"], self.reader.function_arn)
