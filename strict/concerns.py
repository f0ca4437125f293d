"""Find the concerns of an UpdateTable request: the kinds of settings that it changes, its units and its maxima."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from strict.account import read_sides
from strict.refusals import refuse_invalid
from strict.tables import Table

Request = Mapping[str, Any]


def find_concerns(request: Request) -> frozenset[str]:
    """Find the concerns that a request changes: settings, index units, or single indexes."""
    settings = {
        "BillingMode",
        "ProvisionedThroughput",
        "OnDemandThroughput",
        "TableClass",
        "DeletionProtectionEnabled",
        "SSESpecification",
        "WarmThroughput",
        "StreamSpecification",
        "ReplicaUpdates",
    }
    concerns = settings & request.keys()
    for change in request.get("GlobalSecondaryIndexUpdates", ()):
        concerns.add(
            "index units" if "Update" in change else f"index {change.get('Create', change.get('Delete'))['IndexName']}"
        )
    return frozenset(concerns)


def read_requested_units(table: Table, request: Request) -> dict[str, tuple[int, int]]:
    """Read the requested (write, read) units, by the name of the table or index."""
    requested = {}
    if "ProvisionedThroughput" in request:
        requested[table.name] = _read_units(request["ProvisionedThroughput"])
    for change in request.get("GlobalSecondaryIndexUpdates", ()):
        update = change.get("Update", {})
        if "ProvisionedThroughput" in update:
            requested[table.indexes[update["IndexName"]].name] = _read_units(update["ProvisionedThroughput"])
    return requested


def read_requested_maxima(table: Table, request: Request) -> dict[str, dict[str, int]]:
    """Read the maxima that a request sets, by the name of the table or index."""
    maxima = {}
    if "OnDemandThroughput" in request:
        maxima[table.name] = read_sides(request["OnDemandThroughput"])
    for change in request.get("GlobalSecondaryIndexUpdates", ()):
        update = change.get("Update", {})
        if "OnDemandThroughput" in update:
            maxima[table.indexes[update["IndexName"]].name] = read_sides(update["OnDemandThroughput"])
    return maxima


def check_units_fit(
    table: Table, requested: Mapping[str, tuple[int, int]], maxima: Mapping[str, Any], *, on_demand: bool
) -> None:
    if maxima and not on_demand:
        raise refuse_invalid(
            "One or more parameter values were invalid: MaxReadRequestUnits for OnDemandThroughput cannot be specified when "
            "the table BillingMode is PROVISIONED"
        )
    wrong = "One or more parameter values were invalid: "
    if on_demand and requested:
        raise refuse_invalid(
            f"{wrong}Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"
        )
    if not on_demand and table.on_demand and table.name not in requested:
        raise refuse_invalid(f"{wrong}ReadCapacityUnits and WriteCapacityUnits must both be specified")
    missing = [name for name, index in table.global_indexes.items() if index.name not in requested]
    if not on_demand and table.on_demand and missing:
        raise refuse_invalid(f"{wrong}ProvisionedThroughput must be specified for index: {missing[0]}")


def _read_units(throughput: Mapping[str, int]) -> tuple[int, int]:
    return throughput["WriteCapacityUnits"], throughput["ReadCapacityUnits"]
