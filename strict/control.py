"""The control plane: creating, describing, updating and deleting tables within the service's limits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from strict.account import Account, read_sides
from strict.checks import check_concurrency, check_idle, check_protection, check_rate, check_table_quota, check_units
from strict.copies import check_source, describe_copies
from strict.engines import Document
from strict.refusals import Refusal, refuse_in_use, refuse_invalid, refuse_missing_table, refuse_over_limit
from strict.rules import Rule
from strict.tables import Table, read_keys
from strict.updates import Update

Request = Mapping[str, Any]


class Control:
    """Creating, describing, updating and deleting tables, and their tags."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._update = Update(account)

    def create_table(self, request: Request) -> Document:
        """Answer CreateTable."""
        account, name = self._account, request["TableName"]
        account.settle()
        if name in account.tables:
            raise refuse_in_use(f"Table already exists: {name}")
        self._check_quotas(request)
        keys = read_keys(request["KeySchema"])
        units = request.get("ProvisionedThroughput", {})
        on_demand = request.get("BillingMode") == "PAY_PER_REQUEST"
        table = Table(
            name=name,
            keys=keys,
            write=0 if on_demand else units["WriteCapacityUnits"],
            read=0 if on_demand else units["ReadCapacityUnits"],
            throughput=account.make_throughput(name),
            created=account.clock.now(),
            region=account.region,
            definitions=list(request["AttributeDefinitions"]),
            on_demand=on_demand,
            infrequent=request.get("TableClass") == "STANDARD_INFREQUENT_ACCESS",
            protected=request.get("DeletionProtectionEnabled", False),
            stream=request.get("StreamSpecification"),
            tags={tag["Key"]: tag["Value"] for tag in request.get("Tags", ())},
            warm=read_sides(request.get("WarmThroughput", {})),
            maximum=read_sides(request.get("OnDemandThroughput", {})),
            encryption=request.get("SSESpecification"),
        )
        for index in request.get("GlobalSecondaryIndexes", ()):
            table.indexes[index["IndexName"]] = account.make_index(
                name, keys, index, index.get("ProvisionedThroughput", {})
            )
        for index in request.get("LocalSecondaryIndexes", ()):
            table.indexes[index["IndexName"]] = account.make_index(name, keys, index, {}, local=True)
        self._check_new(table)
        account.engine.call("CreateTable", request)
        account.tables[name] = table
        account.hide_table(table)
        for resource in table.list_resources():
            resource.apply(account.clock.now(), on_demand=on_demand)
        self._begin_creation(table)
        return {"TableDescription": self._describe(table)}

    def describe_table(self, request: Request) -> Document:
        """Answer DescribeTable."""
        table = self._account.find(request["TableName"])
        if self._account.is_hidden(table.seen_from):
            raise refuse_missing_table(table.name)
        return {"Table": self._describe(table)}

    def update_table(self, request: Request) -> Document:
        """Answer UpdateTable, with the figures from before the change."""
        account = self._account
        table = account.find(request["TableName"])
        self._check_made(table)
        answer = self._describe(table)
        self._update(table, request)
        answer["TableStatus"] = table.status
        if not account.enforces(Rule.STALE_ANSWER):
            answer["ProvisionedThroughput"] |= request.get("ProvisionedThroughput", {})
        return {"TableDescription": answer}

    def update_continuous_backups(self, request: Request) -> Document:
        """Answer UpdateContinuousBackups without the engine, because some engines do not have backups."""
        table = self._account.find(request["TableName"])
        self._check_made(table)
        early = table.backups_from is not None and self._account.clock.now() < table.backups_from
        if table.status == "CREATING" or (early and self._account.enforces(Rule.BACKUPS_COME_LATER)):
            raise Refusal(
                "ContinuousBackupsUnavailableException",
                f"Backups are being enabled for the table: {table.name}. Please retry later",
            )
        enabled = request["PointInTimeRecoverySpecification"]["PointInTimeRecoveryEnabled"]
        table.recoverable = enabled
        status = "ENABLED" if enabled else "DISABLED"
        recovery = {"PointInTimeRecoveryStatus": status}
        return {
            "ContinuousBackupsDescription": {
                "ContinuousBackupsStatus": "ENABLED",
                "PointInTimeRecoveryDescription": recovery,
            }
        }

    def delete_table(self, request: Request) -> Document:
        """Answer DeleteTable."""
        account = self._account
        table = account.find(request["TableName"])
        check_idle(account, table)
        check_protection(account, table)
        check_source(account, table.name, account.region)
        check_concurrency(account)
        check_rate(account)
        account.begin_change(table, "DELETING", account.timings.delete, account.make_remover(table))
        return {"TableDescription": self._describe(table)}

    def _begin_creation(self, table: Table) -> None:
        """Begin the creation of a table."""
        account, timings = self._account, self._account.timings
        if account.is_inaccessible(table):
            account.begin_change(table, "CREATING", timings.create_without_key, account.make_remover(table))
            return
        seconds = timings.create_indexed if table.indexes else timings.create
        table.backups_from = account.clock.now() + timedelta(seconds=seconds + timings.backups)
        account.begin_change(table, "CREATING", seconds, lambda: None)

    def list_tags_of_resource(self, request: Request) -> Document:
        """Answer ListTagsOfResource, in one page."""
        table = self._find_by_arn(request)
        if self._account.is_hidden(table.seen_from):
            raise refuse_missing_table(table.name)
        if self._account.is_hidden(table.tags_from):
            return {"Tags": []}
        return {"Tags": [{"Key": key, "Value": value} for key, value in table.tags.items()]}

    def tag_resource(self, request: Request) -> Document:
        """Answer TagResource."""
        self._find_by_arn(request).tags.update({tag["Key"]: tag["Value"] for tag in request["Tags"]})
        return {}

    def untag_resource(self, request: Request) -> Document:
        """Answer UntagResource."""
        table = self._find_by_arn(request)
        for key in request["TagKeys"]:
            table.tags.pop(key, None)
        return {}

    def _check_quotas(self, request: Request) -> None:
        account = self._account
        check_table_quota(account)
        check_concurrency(account)
        creating = [table for table in account.list_changing_tables() if table.indexes and table.status == "CREATING"]
        maximum = account.indexed_at_once
        if (
            (request.get("GlobalSecondaryIndexes") or request.get("LocalSecondaryIndexes"))
            and account.enforces(Rule.CONCURRENT_INDEXED)
            and len(creating) >= maximum
        ):
            raise refuse_over_limit(
                f"Subscriber limit exceeded: Only {maximum} tables with secondary indexes can be created simultaneously"
            )
        check_rate(account)

    def _check_new(self, table: Table) -> None:
        account = self._account
        check_units(account, {resource.name: (resource.write, resource.read) for resource in table.list_resources()})
        if not table.on_demand and account.enforces(Rule.WARM_COVERS_PROVISIONED):
            for resource in table.list_resources():
                what = "table" if resource is table else f"index {resource.name.rpartition('/')[2]}"
                for side, units in (("Write", resource.write), ("Read", resource.read)):
                    if resource.warm.get(side, units) < units:
                        raise refuse_invalid(
                            f"One or more parameter values were invalid: Requested {side}UnitsPerSecond for WarmThroughput "
                            f"for {what} is lower than its provisioned {side}CapacityUnits"
                        )

    def _describe(self, table: Table) -> Document:
        described = table.describe(self._account.clock.now(), self._account.without)
        if table.status == "ACTIVE" and self._account.is_inaccessible(table):
            described["TableStatus"] = "INACCESSIBLE_ENCRYPTION_CREDENTIALS"
        return described | describe_copies(self._account, table)

    def _find_by_arn(self, request: Request) -> Table:
        table = self._account.find(request["ResourceArn"].rpartition("/")[2])
        self._check_made(table)
        return table

    def _check_made(self, table: Table) -> None:
        """Raise a Refusal if the table is a copy that is still being made: only DescribeTable works for it."""
        account = self._account
        copied = account.regions is not None and account.region in account.regions.find_members(table.name)
        if copied and table.status == "CREATING" and account.enforces(Rule.COPY_ONLY_DESCRIBED):
            raise refuse_missing_table(table.name)
