"""Handle UpdateTable: a request may change only one concern, and each concern has its own limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from strict.account import Account, read_sides
from strict.budgets import check_class_change, check_decrease, format_time
from strict.checks import check_concurrency, check_idle, check_units
from strict.concerns import check_units_fit, find_concerns, read_requested_maxima, read_requested_units
from strict.copies import Copies, check_copies
from strict.refusals import Refusal, refuse_invalid, refuse_over_limit
from strict.rules import Rule
from strict.sharing import begin_copying
from strict.tables import Resource, Table

Request = Mapping[str, Any]

SWITCHES = 4
SWITCHES_WINDOW = timedelta(hours=24)
PROTECTION_COOLDOWN = timedelta(seconds=15)

_CAPACITY = frozenset({"BillingMode", "ProvisionedThroughput"})
_ACCEPTED = (
    _CAPACITY,
    frozenset({"BillingMode", "OnDemandThroughput"}),
    frozenset({"BillingMode", "StreamSpecification"}),
    # The units of a table and of its indexes are one concern. The maxima of a table and of its indexes are one concern,
    # too.
    _CAPACITY | {"index units"},
    frozenset({"OnDemandThroughput", "index units"}),
)


class Update:
    """Changes a table as an UpdateTable request says."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._copies = Copies(account)

    def __call__(self, table: Table, request: Request) -> None:
        """Check the change, send it to the engine and begin it; Refusal if the service would refuse it."""
        account = self._account
        concerns = find_concerns(request)
        accepted = bool(concerns) and (len(concerns) == 1 or any(concerns <= pair for pair in _ACCEPTED))
        if account.enforces(Rule.ONE_CONCERN) and not accepted:
            raise refuse_invalid(
                "One or more parameter values were invalid: Only one of the following can be changed in one UpdateTable "
                f"request: {', '.join(sorted(concerns)) or 'no change'}"
            )
        self._check_stream(table, request)
        if "ReplicaUpdates" in request:
            self._copies(table, request)
            return
        check_idle(account, table)
        check_copies(account, table)
        check_concurrency(account)
        copied = account.regions is not None and bool(account.regions.find_members(table.name))
        seconds, finish = 0.0, list[Callable[[], object]]()
        for change in (
            self._change_capacity,
            self._change_class,
            self._change_protection,
            self._change_warm_throughput,
            self._change_stream,
            self._change_index,
        ):
            duration, effects = change(table, request)
            seconds = max(seconds, duration)
            finish += effects
        if "SSESpecification" in request:
            seconds = max(seconds, account.timings.encryption)
        if copied:
            seconds = max(seconds, account.timings.copy_update)
        account.engine.call("UpdateTable", request)
        now = account.clock.now

        def finish_all() -> None:
            for effect in finish:
                effect()
            for resource in table.list_resources():
                resource.apply(now(), on_demand=table.on_demand)

        account.begin_change(table, "UPDATING", seconds, finish_all)
        if copied and concerns != {"DeletionProtectionEnabled"}:
            begin_copying(account, table, seconds)

    def _change_capacity(self, table: Table, request: Request) -> _Effect:
        """Check a change of billing mode, of units (also of indexes), or of on-demand maxima; return its effect."""
        account = self._account
        on_demand = request.get("BillingMode", "PAY_PER_REQUEST" if table.on_demand else "PROVISIONED") != "PROVISIONED"
        requested, maxima = read_requested_units(table, request), read_requested_maxima(table, request)
        if on_demand == table.on_demand and not requested and not maxima:
            return _NO_EFFECT
        check_units_fit(table, requested, maxima, on_demand=on_demand)
        check_units(account, requested)
        now = account.clock.now()
        if on_demand == table.on_demand:
            self._check_change(table, requested)
            self._note_decreases(table, requested, now)
        elif on_demand:
            self._note_switch(table, now)
        drops = on_demand != table.on_demand and account.enforces(Rule.SWITCH_DROPS_MAXIMA)

        def finish() -> None:
            table.on_demand = on_demand
            for resource in table.list_resources():
                resource.maximum = maxima.get(resource.name, {} if drops else resource.maximum)
                unchanged = (0, 0) if on_demand else (resource.write, resource.read)
                resource.write, resource.read = requested.get(resource.name, unchanged)

        timings = account.timings
        if on_demand == table.on_demand:
            return timings.capacity, [finish]
        return timings.to_on_demand if on_demand else timings.to_provisioned, [finish]

    def _check_change(self, table: Table, requested: Mapping[str, tuple[int, int]]) -> None:
        same = requested and all(
            requested.get(resource.name) in (None, (resource.write, resource.read))
            for resource in table.list_resources()
        )
        if same and self._account.enforces(Rule.NO_EMPTY_CHANGE):
            raise refuse_invalid(
                "The provisioned throughput for the table will not change. The requested value equals the current value. "
                f"Current ReadCapacityUnits provisioned for the table: {table.read}. Requested ReadCapacityUnits: {table.read}. "
                f"Current WriteCapacityUnits provisioned for the table: {table.write}. "
                f"Requested WriteCapacityUnits: {table.write}."
            )

    def _note_decreases(self, table: Table, requested: Mapping[str, tuple[int, int]], now: datetime) -> None:
        lowered = [resource for resource in table.list_resources() if _is_decrease(resource, requested)]
        for resource in lowered:
            check_decrease(self._account, resource)
        for resource in lowered:
            resource.decreases.append(now)

    def _note_switch(self, table: Table, now: datetime) -> None:
        recent = [switch for switch in table.switches if switch > now - SWITCHES_WINDOW]
        if len(recent) >= SWITCHES and self._account.enforces(Rule.BILLING_MODE_SWITCHES):
            last, following = format_time(recent[-1]), format_time(recent[0] + SWITCHES_WINDOW)
            raise refuse_over_limit(
                f"Subscriber limit exceeded: Update to PayPerRequest mode are limited to {SWITCHES} times in 24 hours "
                f"window. Last update at {last}. Next update can be made at {following}"
            )
        table.switches.append(now)

    def _check_stream(self, table: Table, request: Request) -> None:
        """Refuse every change of a stream while the table has copies, whatever the table's state."""
        account = self._account
        copied = account.regions is not None and bool(account.regions.find_members(table.name))
        if "StreamSpecification" in request and copied and account.enforces(Rule.STREAM_STAYS):
            raise refuse_invalid(
                "One or more parameter values were invalid: Disabling Stream is not allowed for a Global Table replica."
            )

    def _change_class(self, table: Table, request: Request) -> _Effect:
        if "TableClass" not in request:
            return _NO_EFFECT
        infrequent = request["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
        if infrequent == table.infrequent:
            return _NO_EFFECT
        account, now = self._account, self._account.clock.now()
        check_class_change(account, table)
        table.class_changes.append(now)

        def finish() -> None:
            table.infrequent = infrequent

        return account.timings.table_class, [finish]

    def _change_protection(self, table: Table, request: Request) -> _Effect:
        if "DeletionProtectionEnabled" not in request:
            return _NO_EFFECT
        account, now = self._account, self._account.clock.now()
        last = table.protection_changed
        if last is not None and now < last + PROTECTION_COOLDOWN and account.enforces(Rule.PROTECTION_COOLDOWN):
            raise Refusal(
                "ThrottlingException", "Deletion protection was changed recently; wait before changing it again"
            )
        table.protection_changed = now
        table.protected = request["DeletionProtectionEnabled"]
        return account.timings.protection, []

    def _change_warm_throughput(self, table: Table, request: Request) -> _Effect:
        if "WarmThroughput" not in request:
            return _NO_EFFECT
        requested = read_sides(request["WarmThroughput"])
        lowered = [side for side, units in requested.items() if units < table.warm.get(side, 0)]
        if lowered and self._account.enforces(Rule.WARM_ONLY_RISES):
            raise refuse_invalid(
                "One or more parameter values were invalid: Decreasing WarmThroughput is not supported; "
                f"{lowered[0]}UnitsPerSecond is {table.warm[lowered[0]]}"
            )

        def finish() -> None:
            table.warm = table.warm | requested

        return self._account.timings.warm, [finish]

    def _change_stream(self, table: Table, request: Request) -> _Effect:
        if "StreamSpecification" not in request:
            return _NO_EFFECT
        enabled = request["StreamSpecification"]["StreamEnabled"]
        if self._account.enforces(Rule.STREAM_ONCE) and enabled == (table.stream is not None):
            has = "already has an enabled stream" if enabled else "does not have a stream to disable"
            raise refuse_invalid(f"Table {has}: TableName: {table.name}")

        def finish() -> None:
            table.stream = request["StreamSpecification"] if enabled else None
            table.stream_since = self._account.clock.now()

        return self._account.timings.stream, [finish]

    def _change_index(self, table: Table, request: Request) -> _Effect:
        account = self._account
        finishing: list[Callable[[], object]] = []
        for change in request.get("GlobalSecondaryIndexUpdates", ()):
            (named,) = change.values()
            known = table.indexes.get(named["IndexName"])
            if known is not None and known.local and account.enforces(Rule.LOCAL_STAYS):
                raise refuse_invalid(
                    "One or more parameter values were invalid: local secondary indexes are made and deleted with their table: "
                    f"{named['IndexName']}"
                )
            if "Create" in change:
                described = change["Create"]
                index = account.make_index(
                    table.name, table.keys, described, described.get("ProvisionedThroughput", {})
                )
                index.status = "CREATING"
                table.indexes[described["IndexName"]] = index
                table.definitions = list(request.get("AttributeDefinitions", table.definitions))
                finishing.append(partial(setattr, index, "status", "ACTIVE"))
            elif "Delete" in change:
                name = change["Delete"]["IndexName"]
                table.indexes[name].status = "DELETING"
                finishing.append(partial(table.indexes.pop, name))
        return (account.timings.index, finishing) if finishing else _NO_EFFECT


# The duration of a change in seconds, and its effects when it ends.
_Effect = tuple[float, list[Callable[[], object]]]
_NO_EFFECT: _Effect = (0.0, [])


def _is_decrease(resource: Resource, requested: Mapping[str, tuple[int, int]]) -> bool:
    write, read = requested.get(resource.name, (resource.write, resource.read))
    return write < resource.write or read < resource.read
