"""UpdateTable: one concern at a time, each with limits of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from strict.account import Account, sides
from strict.checks import check_concurrency, check_idle, check_units
from strict.refusals import Refusal, invalid, over_limit
from strict.rules import Rule
from strict.tables import Resource, Table

Request = Mapping[str, Any]

DECREASES_AT_ONCE = 4
DECREASES_A_DAY = 27
DECREASE_SPACING = timedelta(hours=1)
SWITCHES = 4
SWITCHES_WINDOW = timedelta(hours=24)
CLASS_CHANGES = 2
CLASS_WINDOW = timedelta(days=30)
PROTECTION_COOLDOWN = timedelta(seconds=15)

_CAPACITY = frozenset({"BillingMode", "ProvisionedThroughput"})
_ACCEPTED = (
    _CAPACITY,
    frozenset({"BillingMode", "OnDemandThroughput"}),
    frozenset({"BillingMode", "StreamSpecification"}),
    # Units of a table and of its indexes are one concern; so are their maxima.
    _CAPACITY | {"index units"},
    frozenset({"OnDemandThroughput", "index units"}),
)


class Update:
    """The change of a table that a request asks for."""

    def __init__(self, account: Account) -> None:
        self._account = account

    def __call__(self, table: Table, request: Request) -> None:
        """Check the change, hand it to the engine and let it be under way; Refusal if the service would refuse it."""
        account = self._account
        concerns = _concerns(request)
        accepted = len(concerns) == 1 or any(concerns <= pair for pair in _ACCEPTED)
        if account.enforces(Rule.ONE_CONCERN) and not accepted:
            raise invalid(
                "One or more parameter values were invalid: Only one of the following can be changed in one UpdateTable "
                f"request: {', '.join(sorted(concerns)) or 'nothing was given'}"
            )
        check_idle(account, table)
        check_concurrency(account)
        seconds, finish = 0.0, list[Callable[[], object]]()
        for change in (self._capacity, self._class, self._protection, self._warm, self._stream, self._index):
            longest, end = change(table, request)
            seconds = max(seconds, longest)
            finish += end
        if "SSESpecification" in request:
            seconds = max(seconds, account.timings.encryption)
        account.engine.call("UpdateTable", request)
        now = account.clock.now

        def finished() -> None:
            for end in finish:
                end()
            for one in table.resources():
                one.apply(now(), on_demand=table.on_demand)

        account.begin(table, "UPDATING", seconds, finished)

    def _capacity(self, table: Table, request: Request) -> _Change:
        """Billing mode, units of the table and of its indexes, and on-demand maxima."""
        account = self._account
        on_demand = request.get("BillingMode", "PAY_PER_REQUEST" if table.on_demand else "PROVISIONED") != "PROVISIONED"
        wanted, maxima = _wanted(table, request), _maxima(table, request)
        if on_demand == table.on_demand and not wanted and not maxima:
            return _NONE
        _check_units_fit(table, wanted, maxima, on_demand=on_demand)
        now = account.clock.now()
        if on_demand == table.on_demand:
            self._check_change(table, wanted)
            self._lower(table, wanted, now)
        elif on_demand:
            self._switch(table, now)
        check_units(account, wanted)

        drops = on_demand != table.on_demand and account.enforces(Rule.SWITCH_DROPS_MAXIMA)

        def finish() -> None:
            table.on_demand = on_demand
            for one in table.resources():
                one.maximum = maxima.get(one.name, {} if drops else one.maximum)
                one.write, one.read = wanted.get(one.name, (0, 0) if on_demand else (one.write, one.read))

        timings = account.timings
        if on_demand == table.on_demand:
            return timings.capacity, [finish]
        return timings.to_on_demand if on_demand else timings.to_provisioned, [finish]

    def _check_change(self, table: Table, wanted: Mapping[str, tuple[int, int]]) -> None:
        same = wanted and all(
            (one.write, one.read) == wanted.get(one.name, (one.write, one.read)) for one in table.resources()
        )
        if same and self._account.enforces(Rule.NO_EMPTY_CHANGE):
            raise invalid(
                "The provisioned throughput for the table will not change. The requested value equals the current value. "
                f"Current ReadCapacityUnits provisioned for the table: {table.read}. Requested ReadCapacityUnits: {table.read}. "
                f"Current WriteCapacityUnits provisioned for the table: {table.write}. "
                f"Requested WriteCapacityUnits: {table.write}."
            )

    def _lower(self, table: Table, wanted: Mapping[str, tuple[int, int]], now: datetime) -> None:
        lowered = [one for one in table.resources() if _lowers(one, wanted)]
        for one in lowered:
            self._check_decrease(one, now)
        for one in lowered:
            one.decreases.append(now)

    def _switch(self, table: Table, now: datetime) -> None:
        recent = [one for one in table.switches if one > now - SWITCHES_WINDOW]
        if len(recent) >= SWITCHES and self._account.enforces(Rule.BILLING_MODE_SWITCHES):
            raise over_limit(
                f"Subscriber limit exceeded: Update to PayPerRequest mode are limited to {SWITCHES} times in 24 hours window. "
                f"Last update at {_said(recent[-1])}. Next update can be made at {_said(recent[0] + SWITCHES_WINDOW)}"
            )
        table.switches.append(now)

    def _check_decrease(self, one: Resource, now: datetime) -> None:
        if not self._account.enforces(Rule.DECREASES):
            return
        today = one.decreases_on(now)
        if len(today) < DECREASES_AT_ONCE:
            return
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        following = midnight if len(today) >= DECREASES_A_DAY else min(today[-1] + DECREASE_SPACING, midnight)
        if now < following:
            raise over_limit(
                "Subscriber limit exceeded: Provisioned throughput decreases are limited within a given UTC day. After the "
                f"first {DECREASES_AT_ONCE} decreases, each subsequent decrease in the same UTC day can be performed at most "
                f"once every {DECREASE_SPACING.seconds} seconds. Number of decreases today: {len(today)}. Last decrease at "
                f"{_said(today[-1])}. Next decrease can be made at {_said(following)}"
            )

    def _class(self, table: Table, request: Request) -> _Change:
        if "TableClass" not in request:
            return _NONE
        infrequent = request["TableClass"] == "STANDARD_INFREQUENT_ACCESS"
        if infrequent == table.infrequent:
            return _NONE
        account, now = self._account, self._account.clock.now()
        recent = [one for one in table.class_changes if one > now - CLASS_WINDOW]
        if len(recent) >= CLASS_CHANGES and account.enforces(Rule.CLASS_CHANGES):
            raise over_limit(
                "Subscriber limit exceeded: Table class updates are limited to 2 times in a trailing 30 day window"
            )
        table.class_changes.append(now)

        def finish() -> None:
            table.infrequent = infrequent

        return account.timings.table_class, [finish]

    def _protection(self, table: Table, request: Request) -> _Change:
        if "DeletionProtectionEnabled" not in request:
            return _NONE
        account, now = self._account, self._account.clock.now()
        last = table.protection_changed
        if last is not None and now < last + PROTECTION_COOLDOWN and account.enforces(Rule.PROTECTION_COOLDOWN):
            raise Refusal(
                "ThrottlingException", "Deletion protection was changed recently; wait before changing it again"
            )
        table.protection_changed = now
        table.protected = request["DeletionProtectionEnabled"]
        return account.timings.protection, []

    def _warm(self, table: Table, request: Request) -> _Change:
        if "WarmThroughput" not in request:
            return _NONE
        wanted = sides(request["WarmThroughput"])
        lowered = [side for side, units in wanted.items() if units < table.warm.get(side, 0)]
        if lowered and self._account.enforces(Rule.WARM_ONLY_RISES):
            raise invalid(
                "One or more parameter values were invalid: Decreasing WarmThroughput is not supported; "
                f"{lowered[0]}UnitsPerSecond is {table.warm[lowered[0]]}"
            )

        def finish() -> None:
            table.warm = table.warm | wanted

        return self._account.timings.warm, [finish]

    def _stream(self, table: Table, request: Request) -> _Change:
        if "StreamSpecification" not in request:
            return _NONE

        def finish() -> None:
            table.stream = request["StreamSpecification"]

        return self._account.timings.stream, [finish]

    def _index(self, table: Table, request: Request) -> _Change:
        account = self._account
        finishing: list[Callable[[], object]] = []
        for change in request.get("GlobalSecondaryIndexUpdates", ()):
            if "Create" in change:
                described = change["Create"]
                index = account.index(table.name, table.keys, described, described.get("ProvisionedThroughput", {}))
                index.status = "CREATING"
                table.indexes[described["IndexName"]] = index
                table.definitions = list(request.get("AttributeDefinitions", table.definitions))
                finishing.append(partial(setattr, index, "status", "ACTIVE"))
            elif "Delete" in change:
                name = change["Delete"]["IndexName"]
                table.indexes[name].status = "DELETING"
                finishing.append(partial(table.indexes.pop, name))
        return (account.timings.index, finishing) if finishing else _NONE


# How long the change takes, and what is true at its end.
_Change = tuple[float, list[Callable[[], object]]]
_NONE: _Change = (0.0, [])


def _concerns(request: Request) -> frozenset[str]:
    """What a request would change."""
    plain = {
        "BillingMode",
        "ProvisionedThroughput",
        "OnDemandThroughput",
        "TableClass",
        "DeletionProtectionEnabled",
        "SSESpecification",
        "WarmThroughput",
        "StreamSpecification",
    }
    found = plain & request.keys()
    for change in request.get("GlobalSecondaryIndexUpdates", ()):
        found.add(
            "index units" if "Update" in change else f"index {change.get('Create', change.get('Delete'))['IndexName']}"
        )
    return frozenset(found)


def _wanted(table: Table, request: Request) -> dict[str, tuple[int, int]]:
    """The units asked for, write and read, by the resource's name."""
    wanted = {}
    if "ProvisionedThroughput" in request:
        wanted[table.name] = _units(request["ProvisionedThroughput"])
    for change in request.get("GlobalSecondaryIndexUpdates", ()):
        update = change.get("Update", {})
        if "ProvisionedThroughput" in update:
            wanted[table.indexes[update["IndexName"]].name] = _units(update["ProvisionedThroughput"])
    return wanted


def _maxima(table: Table, request: Request) -> dict[str, dict[str, int]]:
    """The maxima that a request sets, by the resource's name."""
    maxima = {}
    if "OnDemandThroughput" in request:
        maxima[table.name] = sides(request["OnDemandThroughput"])
    for change in request.get("GlobalSecondaryIndexUpdates", ()):
        update = change.get("Update", {})
        if "OnDemandThroughput" in update:
            maxima[table.indexes[update["IndexName"]].name] = sides(update["OnDemandThroughput"])
    return maxima


def _check_units_fit(
    table: Table, wanted: Mapping[str, tuple[int, int]], maxima: Mapping[str, Any], *, on_demand: bool
) -> None:
    if maxima and not on_demand:
        raise invalid(
            "One or more parameter values were invalid: MaxReadRequestUnits for OnDemandThroughput cannot be specified when "
            "the table BillingMode is PROVISIONED"
        )
    wrong = "One or more parameter values were invalid: "
    if on_demand and wanted:
        raise invalid(
            f"{wrong}Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST"
        )
    if not on_demand and table.on_demand and table.name not in wanted:
        raise invalid(f"{wrong}ReadCapacityUnits and WriteCapacityUnits must both be specified")
    missing = [name for name, index in table.indexes.items() if index.name not in wanted]
    if not on_demand and table.on_demand and missing:
        raise invalid(f"{wrong}ProvisionedThroughput must be specified for index: {missing[0]}")


def _units(given: Mapping[str, int]) -> tuple[int, int]:
    return given["WriteCapacityUnits"], given["ReadCapacityUnits"]


def _lowers(one: Resource, wanted: Mapping[str, tuple[int, int]]) -> bool:
    write, read = wanted.get(one.name, (one.write, one.read))
    return write < one.write or read < one.read


def _said(at: datetime) -> str:
    return at.strftime("%A, %B %d, %Y at %I:%M:%S %p Coordinated Universal Time")
