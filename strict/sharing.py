"""The settings that a table shares with its copies in other Regions."""

from __future__ import annotations

from functools import partial

from strict.account import Account
from strict.regions import Member
from strict.rules import Rule
from strict.tables import Table, make_key_schema


def begin_copying(account: Account, table: Table, seconds: float) -> None:
    """Begin the change of a table's copies to the table's new settings. It ends 3 seconds after the table's change."""
    if account.regions is None or not account.enforces(Rule.COPY_SETTINGS):
        return
    for member in account.regions.find_other_members(table.name, account.region):
        target = account.regions.accounts[member.region]
        copy = target.tables[table.name]
        if copy.finish is not None:
            copy.finish()
        target.begin_change(
            copy, "UPDATING", seconds + 3, partial(_copy_settings, account, target, table, copy, member)
        )


def _copy_settings(account: Account, target: Account, table: Table, copy: Table, member: Member) -> None:
    """Give a copy the settings of its table. The table's own change has ended by now."""
    account.settle()
    now = target.clock.now()
    copy.on_demand, copy.write = table.on_demand, table.write
    copy.read = table.read if member.read is None or table.on_demand else member.read
    copy.maximum, copy.warm = dict(table.maximum), dict(table.warm)
    infrequent = table.infrequent if member.infrequent is None else member.infrequent
    if infrequent != copy.infrequent:
        copy.class_changes.append(now)
        copy.infrequent = infrequent
    copy.definitions = list(table.definitions)
    for name in copy.global_indexes.keys() - table.indexes.keys():
        target.engine.call(
            "UpdateTable", {"TableName": copy.name, "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": name}}]}
        )
        del copy.indexes[name]
    for name, index in table.global_indexes.items():
        if name not in copy.indexes:
            described = {"IndexName": name, "KeySchema": make_key_schema(index.keys), "Projection": index.projection}
            target.engine.call(
                "UpdateTable",
                {
                    "TableName": copy.name,
                    "AttributeDefinitions": copy.definitions,
                    "GlobalSecondaryIndexUpdates": [{"Create": described}],
                },
            )
            copy.indexes[name] = target.make_index(copy.name, copy.keys, described, {})
        copy.indexes[name].write, copy.indexes[name].read = index.write, index.read
        copy.indexes[name].maximum = dict(index.maximum)
    for resource in copy.list_resources():
        resource.apply(now, on_demand=copy.on_demand)
