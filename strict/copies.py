"""Change copies in other Regions, as UpdateTable does (global tables of version 2019.11.21)."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from strict.account import Account
from strict.budgets import check_class_change, check_decrease
from strict.checks import check_concurrency, check_idle, check_protection, check_table_quota, check_units
from strict.refusals import refuse_in_use, refuse_invalid
from strict.regions import Member, Regions
from strict.rules import Rule
from strict.tables import Table, make_key_schema

Request = Mapping[str, Any]

# A table from which a copy was made can be deleted after this time, or earlier if the copy is deleted first.
SOURCE_STAYS = timedelta(hours=24)
_VIEW = "NEW_AND_OLD_IMAGES"


def check_copies(account: Account, table: Table) -> None:
    """Refuse a change of a table while a copy of it is being made or deleted."""
    if account.regions is None or not account.enforces(Rule.COPY_CHANGING):
        return
    account.regions.settle()
    for member in account.regions.find_other_members(table.name, account.region):
        copy = account.regions.accounts[member.region].tables.get(table.name)
        if copy is not None and copy.status in ("CREATING", "DELETING"):
            raise refuse_in_use("The resource which you are attempting to change is in use.")


def check_source(account: Account, name: str, region: str) -> None:
    """Refuse the deletion of a Region's table if a copy was made from it within the last 24 hours and still exists."""
    if account.regions is None or not account.enforces(Rule.COPY_SOURCE):
        return
    since = account.clock.now() - SOURCE_STAYS
    for member in account.regions.find_members(name).values():
        if member.source == region and member.added > since:
            raise refuse_invalid(
                "Replica cannot be deleted because it has acted as a source region for new replica(s) being added to the "
                "table in the last 24 hours."
            )


def describe_copies(account: Account, table: Table) -> dict[str, Any]:
    """Describe a table's copies as members of DescribeTable's answer; empty if the table has no copies."""
    if account.regions is None:
        return {}
    account.regions.settle()
    others = account.regions.find_other_members(table.name, account.region)
    if not others:
        return {}
    members = [member for member in others if not account.hides_copy(member.listed)]
    replicas = [_describe_copy(account.regions, table, member) for member in members]
    return {"GlobalTableVersion": "2019.11.21", "Replicas": replicas}


def _describe_copy(regions: Regions, table: Table, member: Member) -> dict[str, Any]:
    account = regions.accounts[member.region]
    copy = account.tables.get(table.name)
    status = copy.status if copy is not None else "DELETING"
    if copy is not None and status == "ACTIVE" and account.is_inaccessible(copy):
        status = "INACCESSIBLE_ENCRYPTION_CREDENTIALS"
    described: dict[str, Any] = {"RegionName": member.region, "ReplicaStatus": status}
    if copy is None:
        return described
    described["ReplicaArn"] = copy.arn
    described["ReplicaTableClassSummary"] = {"TableClass": _name_class(infrequent=copy.infrequent)}
    if member.read is not None:
        described["ProvisionedThroughputOverride"] = {"ReadCapacityUnits": member.read}
    key = (copy.encryption or {}).get("KMSMasterKeyId")
    if key is not None:
        described["KMSMasterKeyId"] = key
    if copy.global_indexes:
        described["GlobalSecondaryIndexes"] = [{"IndexName": name} for name in copy.global_indexes]
    return described


class Copies:
    """Makes, changes and deletes the copies of a table, as a request's ``ReplicaUpdates`` says."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def __call__(self, table: Table, request: Request) -> None:
        """Check the change and begin it; Refusal if the service would refuse it."""
        account, regions = self._account, self._account.regions
        if regions is None:
            raise refuse_invalid(
                "Region is not supported: this strict service has one Region; connect it with strict.regions"
            )
        actions = [next(iter(update.items())) for update in request["ReplicaUpdates"]]
        if len({kind for kind, _ in actions}) > 1 and account.enforces(Rule.ONE_COPY_ACTION):
            raise refuse_invalid("Update table operation with more than one type of replica actions not allowed.")
        if len(actions) > 1 and account.enforces(Rule.ONE_COPY_ACTION):
            raise refuse_invalid(
                "Update table operation with more than one create or delete replica actions not allowed"
            )
        acts = {"Create": self._create_copy, "Update": self._update_copy, "Delete": self._delete_copy}
        for kind, action in actions:
            region = action["RegionName"]
            if region == account.region:
                raise refuse_invalid("Cannot add or delete the local region through ReplicaUpdates.")
            if region not in regions.accounts:
                raise refuse_invalid(
                    f"Region {region} is not supported. The latest version of global tables are only supported in the "
                    f"following regions: {sorted(regions.accounts)}"
                )
            acts[kind](regions, table, region, action)

    def _create_copy(self, regions: Regions, table: Table, region: str, action: Request) -> None:
        account, target = self._account, regions.accounts[region]
        regions.settle()
        self._check_settings(table, action)
        if table.name in target.tables and account.enforces(Rule.COPY_NAME):
            raise refuse_invalid(
                f"Failed to create a the new replica of table with name: '{table.name}' because one or more replicas "
                "already existed as tables."
            )
        self._check_ready(table)
        check_table_quota(target)
        now, timings = account.clock.now(), account.timings
        copy = self._make_table(table, target, action)
        check_units(target, {resource.name: (resource.write, resource.read) for resource in copy.list_resources()})
        target.engine.call("CreateTable", _describe_creation(table))
        target.tables[copy.name] = copy
        copy.seen_from = now + timedelta(seconds=timings.copy_seen)
        for resource in copy.list_resources():
            resource.apply(now, on_demand=copy.on_demand)
        listed = now + timedelta(seconds=timings.copy_listed)
        member = Member(region, account.region, now, listed)
        member.read = action.get("ProvisionedThroughputOverride", {}).get("ReadCapacityUnits")
        member.infrequent = copy.infrequent if "TableClassOverride" in action else None
        regions.join(table.name, Member(account.region, "", table.created, now), member)
        seconds = timings.copy_filled if table.count else timings.copy
        copy.backups_from = now + timedelta(seconds=seconds + timings.backups)
        if not account.enforces(Rule.COPY_STREAM):
            # Without this rule, the double turns a stream on, as the service does.
            table.stream = copy.stream = table.stream or {"StreamEnabled": True, "StreamViewType": _VIEW}
        account.begin_change(table, "UPDATING", min(seconds, timings.copy), lambda: None)
        target.begin_change(copy, "CREATING", seconds, partial(regions.fill_copy, copy, account.region, region))

    def _check_settings(self, table: Table, action: Request) -> None:
        """Refuse a copy if the table lacks the stream, the capacity mode or the key that a table with copies needs."""
        account = self._account
        if account.enforces(Rule.COPY_STREAM) and (table.stream or {}).get("StreamViewType") != _VIEW:
            raise refuse_invalid(
                f"One or more parameter values were invalid: Table {table.name} needs a stream with the view type {_VIEW} "
                "before a replica is added"
            )
        for resource in table.list_resources():
            if not table.on_demand and resource.name not in account.autoscaled and account.enforces(Rule.COPY_CAPACITY):
                kind = "Table" if resource is table else "GSI"
                raise refuse_invalid(f"{kind} write capacity should either be Pay-Per-Request or AutoScaled.")
        key = (table.encryption or {}).get("KMSMasterKeyId")
        if (key is None) != ("KMSMasterKeyId" not in action) and account.enforces(Rule.COPY_KEY):
            raise refuse_invalid(
                "KMSMasterKeyId must be specified for each replica"
                if key is not None
                else "KMSMasterKeyId cannot be specified: the table is encrypted with a key that DynamoDB owns"
            )

    def _make_table(self, table: Table, target: Account, action: Request) -> Table:
        """Make the new copy. It has the table's settings or the action's overrides, no tags and no protection."""
        infrequent = table.infrequent
        if "TableClassOverride" in action:
            infrequent = action["TableClassOverride"] == "STANDARD_INFREQUENT_ACCESS"
        key = action.get("KMSMasterKeyId")
        copy = Table(
            name=table.name,
            keys=table.keys,
            write=table.write,
            read=action.get("ProvisionedThroughputOverride", {}).get("ReadCapacityUnits", table.read),
            throughput=target.make_throughput(table.name),
            created=target.clock.now(),
            region=target.region,
            definitions=list(table.definitions),
            on_demand=table.on_demand,
            infrequent=infrequent,
            stream=table.stream,
            warm=dict(table.warm),
            maximum=dict(table.maximum),
            encryption={**(table.encryption or {}), "KMSMasterKeyId": key} if key else table.encryption,
        )
        for name, index in table.indexes.items():
            units = {"WriteCapacityUnits": index.write, "ReadCapacityUnits": index.read}
            described = {"IndexName": name, "KeySchema": make_key_schema(index.keys), "Projection": index.projection}
            copy.indexes[name] = target.make_index(table.name, table.keys, described, units, local=index.local)
        return copy

    def _update_copy(self, regions: Regions, table: Table, region: str, action: Request) -> None:
        """Give a copy its own read units or its own table class."""
        account, target = self._account, regions.accounts[region]
        member = self._find_member(regions, table, region)
        overrides = action.keys() & {"TableClassOverride", "ProvisionedThroughputOverride"}
        if not overrides:
            raise refuse_invalid("There are no actions specified in the Replica Update Action of the request.")
        self._check_ready(table)
        copy = target.tables[table.name]
        check_idle(target, copy)
        read = action.get("ProvisionedThroughputOverride", {}).get("ReadCapacityUnits", copy.read)
        if "ProvisionedThroughputOverride" in action:
            if copy.on_demand:
                raise refuse_invalid("ReadCapacityUnits cannot be specified when BillingMode is PAY_PER_REQUEST")
            check_units(target, {copy.name: (copy.write, read)})
            if read < copy.read:
                check_decrease(target, copy)
                copy.decreases.append(account.clock.now())
            # A caller clears the override by sending the table's own units.
            member.read = read if read != table.read else None
        infrequent = copy.infrequent
        if "TableClassOverride" in action:
            infrequent = action["TableClassOverride"] == "STANDARD_INFREQUENT_ACCESS"
            if infrequent != copy.infrequent:
                check_class_change(target, copy)
                copy.class_changes.append(account.clock.now())
            member.infrequent = infrequent if infrequent != table.infrequent else None

        def finish() -> None:
            copy.read, copy.infrequent = read, infrequent
            copy.apply(account.clock.now(), on_demand=copy.on_demand)

        account.begin_change(table, "UPDATING", account.timings.copy_update, lambda: None)
        target.begin_change(copy, "UPDATING", account.timings.copy_update, finish)

    def _delete_copy(self, regions: Regions, table: Table, region: str, _: Request) -> None:
        account, target = self._account, regions.accounts[region]
        regions.settle()
        member = self._find_member(regions, table, region)
        check_source(account, table.name, region)
        self._check_ready(table)
        copy = target.tables[table.name]
        check_protection(target, copy)
        timings = account.timings
        member.gone = account.clock.now() + timedelta(seconds=timings.copy_delete - timings.copy_lingers)
        account.begin_change(table, "UPDATING", timings.copy_update, lambda: None)
        target.begin_change(copy, "DELETING", timings.copy_delete, target.make_remover(copy))

    def _find_member(self, regions: Regions, table: Table, region: str) -> Member:
        member = regions.find_members(table.name).get(region)
        if member is None or self._account.hides_copy(member.listed):
            raise refuse_invalid(
                "Update global table operation failed because one or more replicas were not part of the global table. "
                f"Please retry the request without these replicas: [{region}]."
            )
        return member

    def _check_ready(self, table: Table) -> None:
        check_idle(self._account, table)
        check_copies(self._account, table)
        check_concurrency(self._account)


def _describe_creation(table: Table) -> dict[str, Any]:
    """Make the request of CreateTable that creates a copy in the engine. The engine's units do not matter."""
    request: dict[str, Any] = {
        "TableName": table.name,
        "KeySchema": make_key_schema(table.keys),
        "AttributeDefinitions": table.definitions,
        "BillingMode": "PAY_PER_REQUEST",
    }
    for index_name, index in table.indexes.items():
        described = {"IndexName": index_name, "KeySchema": make_key_schema(index.keys), "Projection": index.projection}
        kind = "LocalSecondaryIndexes" if index.local else "GlobalSecondaryIndexes"
        request.setdefault(kind, []).append(described)
    return request


def _name_class(*, infrequent: bool) -> str:
    return "STANDARD_INFREQUENT_ACCESS" if infrequent else "STANDARD"
