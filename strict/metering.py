"""Compute the units that a read or a write of an item costs, and check if its table and its indexes have these units
now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from json.encoder import encode_basestring_ascii as quote_name
from typing import Any

from strict.account import Account
from strict.expressions import meets_condition, update_item
from strict.refusals import Refusal
from strict.rules import Rule
from strict.tables import Index, Resource, Table
from strict.throughput import Lane, Side
from strict.units import ITEM_BYTES, Wire, index_units, measure_item, put_units

Reason = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Charge:
    """Units to pay on the write side or the read side of one table or index, at one partition key (as text)."""

    resource: Resource
    side: Side
    units: float
    key: str


class Meter:
    """Charges reads and writes."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def compute_charges(self, table: Table, old: Wire | None, new: Wire | None, factor: int = 1) -> list[Charge]:
        """Compute the charges for a write that replaces the item ``old`` by the item ``new``."""
        item = new or old or {}
        charges = [Charge(table, "Write", factor * put_units(old, new), render_partition_key(table.keys[0], item))]
        for index in table.indexes.values():
            before, after = index.project(old), index.project(new)
            units = index_units(before, after, index.keys)
            if units:
                key = render_partition_key(index.keys[0], after or before or {})
                charges.append(Charge(self.find_payer(table, index), "Write", factor * units, key))
        return charges

    def find_payer(self, table: Table, resource: Resource) -> Resource:
        """Find the resource whose units a table or an index uses. A local index uses the units of its table."""
        local = isinstance(resource, Index) and resource.local
        return table if local and self._account.enforces(Rule.LOCAL_UNITS) else resource

    def find_refusals(self, table: Table, charges: Iterable[Charge]) -> list[Reason]:
        """Find the reasons why the charges cannot be paid now; empty if they can be paid."""
        now = self._account.clock.now()
        reasons = []
        for charge in charges:
            lane, partition = self._find_lane(table, charge)
            reason = lane.find_refusal(charge.units, partition, now)
            if reason is not None:
                reasons.append(reason)
        return reasons

    def take_charges(self, table: Table, charges: Iterable[Charge]) -> None:
        """Take the charges' units from their resources."""
        now = self._account.clock.now()
        for charge in charges:
            lane, partition = self._find_lane(table, charge)
            lane.take(charge.units, partition, now)

    def count_change(self, table: Table, old: Wire | None, new: Wire | None) -> None:
        """Update the sizes and counts of the table and its indexes."""
        table.size += (measure_item(new) if new else 0) - (measure_item(old) if old else 0)
        table.count += bool(new) - bool(old)
        for index in table.indexes.values():
            before, after = index.project(old), index.project(new)
            index.size += (measure_item(after) if after else 0) - (measure_item(before) if before else 0)
            index.count += bool(after) - bool(before)
        grown = measure_collection_growth(table, old, new)
        if grown:
            key = render_partition_key(table.keys[0], new or old or {})
            table.collections[key] = table.collections.get(key, 0) + grown

    def report_consumed(
        self, request: Mapping[str, Any], charges: Iterable[tuple[Table, Charge]]
    ) -> list[dict[str, Any]]:
        """Report ConsumedCapacity by table, with the detail that ``ReturnConsumedCapacity`` wants; empty for NONE."""
        detail = request.get("ReturnConsumedCapacity", "NONE")
        if detail == "NONE":
            return []
        units: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for table, charge in charges:
            units[table.name][charge.resource.name] += charge.units
        return [_describe_consumed_capacity(name, own, indexes=detail == "INDEXES") for name, own in units.items()]

    def _find_lane(self, table: Table, charge: Charge) -> tuple[Lane, int]:
        throughput = charge.resource.throughput
        lane = throughput.write if charge.side == "Write" else throughput.read
        partition = throughput.find_partition(charge.key, self._account.clock.now(), on_demand=table.on_demand)
        return lane, partition

    def is_too_large(self, table: Table, item: Wire) -> bool:
        """True if the service refuses an item because of its size, in which its entries in local indexes count."""
        if not self._account.enforces(Rule.ITEM_BYTES):
            return False
        local = [index for index in table.indexes.values() if index.local]
        counted = local if self._account.enforces(Rule.LOCAL_ENTRIES) else ()
        entries = (index.project(item) for index in counted)
        return measure_item(item) + sum(measure_item(entry) for entry in entries if entry) > ITEM_BYTES

    def makes_too_large(self, table: Table, request: Mapping[str, Any], old: Wire | None) -> bool:
        """True if an update makes an item larger than an item may be.

        False if the service refuses the update for another reason, such as its condition, or if only the engine can
        read the expression: then the engine decides.
        """
        try:
            return meets_condition(request, old) and self.is_too_large(table, update_item(request, old))
        except (NotImplementedError, Refusal):
            return False

    def find_factor(self) -> int:
        """Return the factor by which a transaction's units are multiplied."""
        return 2 if self._account.enforces(Rule.TRANSACTION_COSTS) else 1


def _describe_consumed_capacity(table: str, units: Mapping[str, float], *, indexes: bool) -> dict[str, Any]:
    answer: dict[str, Any] = {"TableName": table, "CapacityUnits": sum(units.values())}
    if indexes:
        answer["Table"] = {"CapacityUnits": units.get(table, 0.0)}
        by_index = {name.rpartition("/")[2]: {"CapacityUnits": own} for name, own in units.items() if name != table}
        if by_index:
            answer["GlobalSecondaryIndexes"] = by_index
    return answer


def measure_collection_growth(table: Table, old: Wire | None, new: Wire | None) -> int:
    """Measure the bytes that a change adds to an item collection; 0 without local indexes, because then there is no
    limit.
    """
    local = [index for index in table.indexes.values() if index.local]
    if not local:
        return 0
    images = [(old, new), *((index.project(old), index.project(new)) for index in local)]
    return sum(
        (measure_item(after) if after else 0) - (measure_item(before) if before else 0) for before, after in images
    )


def render_partition_key(name: str, item: Mapping[str, Any]) -> str:
    """Write an item's partition key as text, from which its hash is computed."""
    value = item.get(name)
    if value is None:
        return "null"
    ((kind, inner),) = value.items()
    return f'{{"{kind}": {quote_name(inner)}}}'


def omit_capacity_option(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request without ReturnConsumedCapacity: this package computes that answer, not the engine."""
    return {name: value for name, value in request.items() if name != "ReturnConsumedCapacity"}
