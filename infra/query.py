"""The read path: the query function, and the reader of archived periods that it calls."""

from __future__ import annotations

from constructs import Construct

from .copies import Copied
from .function import Common, Function
from .objects import ARCHIVES, LARGE, LISTINGS
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
        storage.allow_catalog(self.function, "Query")
        prefixes = [LARGE]
        if isinstance(storage, Storage):
            # A reader has no copy of the rollups' state, so it answers no listings.
            storage.allow_rollups(self.function, "Query")
            storage.allow_objects(self.function, ["PutObject"], LISTINGS)
            prefixes.append(LISTINGS)
        storage.allow_objects(self.function, ["GetObject"], *prefixes)
        storage.allow_listing(self.function, *prefixes)
        self.function.allow_actions("lambda", ["InvokeFunction"], self.reader.function_arn)
