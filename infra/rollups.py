"""The refresher of rollups: its function, its schedule and its queue, in a stage whose streams have rollups."""

from __future__ import annotations

from aws_cdk import Duration
from constructs import Construct, IConstruct

from .function import Common, Function
from .objects import LARGE
from .query import Query
from .storage import Storage
from .tables import allow_tables
from .work import Work

_EVERY = Duration.minutes(1)


class Rollups(Construct):
    """The function that seals and reseals the buckets of rollups: its scheduled run wakes workers, by messages."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        common: Common,
        *,
        storage: Storage,
        query: Query,
        work: Work,
        after: IConstruct,
    ) -> None:
        super().__init__(scope, id)
        self.function = Function(self, "Function", common, "refresher", query.variables)
        # The next run does the work that a failed run did not do. So Lambda must not repeat the failed run beside the
        # next one.
        self.function.configure_async_invoke(retry_attempts=0)
        allow_tables(self.function, common, ["Query", "Scan", "GetItem", "BatchGetItem", "BatchWriteItem", "PutItem"])
        storage.allow_objects(self.function, ["GetObject"], LARGE)
        storage.allow_listing(self.function, LARGE)
        # The refresher claims streams, and puts and deletes pauses. A table may be archived at any moment, so each write
        # to such a table checks the table's entry in the catalog, as a condition.
        storage.allow_catalog(self.function, "Query", "PutItem", "UpdateItem", "DeleteItem", "ConditionCheckItem")
        storage.allow_rollups(self.function, "Query", "PutItem", "UpdateItem", "DeleteItem")
        self.function.allow_actions("lambda", ["InvokeFunction"], query.reader.function_arn)
        work.add_queue("Light", self.function)
        self.schedule = self.function.schedule_runs(self, "Schedule", _EVERY, "Wakes the workers of rollups")
        # The schedule starts after the rollups' tables are made.
        self.schedule.node.add_dependency(after)
