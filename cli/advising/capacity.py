"""Rules about capacity: on demand or provisioned, the number of units, and a step for late events.

All functions here are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil

import msgspec

from bill.lines import write_ladder, write_table
from cli.advising.finding import Finding
from cli.advising.measured import Measured, Throttling
from tidetable.config import Capacity, LadderStep, Units
from tidetable.config.capacity import LATE

# The peak of five minutes should take 70 percent of the units, which is also AWS's default target for auto scaling.
TARGET = 0.7
# Units are not lowered if they are at most this many times the needed units: nobody should change units every week.
_KEPT = 1.5
# A saving below these limits (dollars per month, share of the bill) is not reported.
MIN_DOLLARS, MIN_SHARE = 5.0, 0.1
_NO_THROTTLING = Throttling(0.0, 0, 0.0)


@dataclass(frozen=True)
class _Plan:
    """A capacity, and its price per month."""

    capacity: Capacity
    dollars: float


def choose_capacity(measured: Measured, *, enough: bool) -> tuple[Capacity, Finding | None]:
    """Choose the cheapest capacity: on demand, provisioned, other units, or a step for late events.

    ``enough`` is true if enough days were measured to judge a saving; to judge throttling, fewer days suffice. Return
    the advised capacity and the finding, or the present capacity and None if no change is worth it.
    """
    capacity = measured.stream.capacity
    if capacity.autoscaling is not None or capacity.most is not None:
        return capacity, None  # Auto scaling finds the units, and a maximum is a decision about the bill.
    # Former tables may have been provisioned: their throttles do not show anything about on-demand tables.
    throttled = not capacity.begins_on_demand and measured.find_shortages().enough
    if not (enough or throttled):
        return capacity, None
    plans = [_plan_on_demand(measured), *_plan_provisioned(measured)] if enough else [_plan_raised_units(measured)]
    best = min(plans, key=lambda plan: plan.dollars)
    saving = measured.dollars - best.dollars
    worth = enough and saving >= max(MIN_DOLLARS, MIN_SHARE * measured.dollars)
    if not (worth or throttled) or best.capacity == capacity:
        return capacity, None
    return best.capacity, _describe_finding(measured, best, saving)


def _plan_on_demand(measured: Measured) -> _Plan:
    steps: list[LadderStep] = []
    for step in measured.stream.capacity.ladder:
        if not steps or steps[-1].table_class is not step.table_class:
            steps.append(LadderStep(age=step.age, table_class=step.table_class))
    return _price_plan(measured, Capacity(mode="on-demand", ladder=tuple(steps)))


def _plan_raised_units(measured: Measured) -> _Plan:
    """Plan the present ladder with more units where it throttles.

    It never lowers units: a few hours cannot justify that.
    """
    now, present = measured.stream.capacity.ladder[0], measured.stream.capacity.late_step
    fitted = _make_first_step(measured, now)
    index = dict(fitted.index)
    for name, own in fitted.index.items():
        write, read = _find_units(now, name) or (1, 1)
        index[name] = Units(write=max(write, own.write), read=max(read, own.read))
    write, read = (max(units or 1, other or 1) for units, other in ((now.write, fitted.write), (now.read, fitted.read)))
    first = msgspec.structs.replace(now, write=write, read=read, index=index)
    lowered = (_make_late_step(measured, first, present),) if present is not None else ()
    rest = (step for step in measured.stream.capacity.ladder[1:] if not step.is_late)
    return _price_plan(measured, Capacity(mode="provisioned", ladder=(first, *lowered, *rest)))


def _plan_provisioned(measured: Measured) -> Iterator[_Plan]:
    """Plan the ladder with units for the measured peaks, and the same ladder with a step for late events."""
    capacity = measured.stream.capacity
    first_step = capacity.ladder[0] if not capacity.begins_on_demand else None
    first = _make_first_step(measured, first_step)
    if first_step is not None:
        rest = [step for step in capacity.ladder[1:] if not step.is_late]
    else:
        classes = {step.age: step.table_class for step in capacity.ladder[1:]}
        rest = [
            LadderStep(age=age, mode="on-demand", table_class=kind)
            for age, kind in ({1: first.table_class} | classes).items()
        ]
        rest.sort(key=lambda step: step.rung)
    present = capacity.late_step if first_step is not None else None
    if present is None:
        yield _price_plan(measured, Capacity(mode="provisioned", ladder=(first, *rest)))
    lowered = _make_late_step(measured, first, present)
    yield _price_plan(measured, Capacity(mode="provisioned", ladder=(first, lowered, *rest)))


def _make_first_step(measured: Measured, present: LadderStep | None) -> LadderStep:
    write, read = _size_table(measured, "", (present.write, present.read) if present else None)
    units = {
        index.name: _size_table(measured, index.name, _find_units(present, index.name))
        for index in measured.stream.index
    }
    same = {name: own for name, own in units.items() if own != (write, read) or (present and name in present.index)}
    index = {name: Units(write=own[0], read=own[1]) for name, own in same.items()}
    return LadderStep(age=0, write=write, read=read, index=index)


def _size_table(measured: Measured, index: str, present: tuple[int | None, int | None] | None) -> tuple[int, int]:
    """Compute the write and read units of the tables, or of an index; ``present`` are those of the present step."""
    (write, read), lacking = present or (None, None), measured.find_shortages(index)
    needed = _size_units(measured.find_peak("Write", index), write, lacking.writes)
    return needed, _size_units(measured.find_peak("Read", index), read, lacking.reads)


def _find_units(step: LadderStep | None, index: str) -> tuple[int, int] | None:
    if step is None:
        return None
    own = step.index.get(index)
    return (own.write, own.read) if own is not None else (step.write or 1, step.read or 1)


def _make_late_step(measured: Measured, first: LadderStep, present: LadderStep | None) -> LadderStep:
    """Make a step for late events: the present step, raised if it throttles, or a new step with units for the measured
    late events.
    """
    if present is not None:
        write, late = present.write, measured.find_shortages().late
        if late.enough:
            write = _size_units(measured.find_peak("Write", late=True), write, late)
        return msgspec.structs.replace(present, write=min(write or 1, first.write or 1))
    write = min(_size_units(measured.find_peak("Write", late=True), None, _NO_THROTTLING), first.write or 1)
    index: Mapping[str, Units] = {
        policy.name: Units(
            write=_size_units(measured.find_peak("Write", policy.name, late=True), None, _NO_THROTTLING),
            read=(_find_units(first, policy.name) or (1, 1))[1],
        )
        for policy in measured.stream.index
    }
    return LadderStep(age=LATE, write=write, read=first.read, index=index, table_class=first.table_class)


def _size_units(peak: float, present: int | None, throttling: Throttling) -> int:
    """Compute the units for a peak. Throttled requests are sent and counted again, so they raise the present units at
    most to twice as many, or by ten.
    """
    needed = max(1, ceil(peak / TARGET))
    if present is None:
        return needed
    if throttling.enough:
        needed = max(1, ceil((peak + throttling.rate) / TARGET))
        return max(present, min(needed, max(2 * present, present + 10)))
    return needed if present > _KEPT * needed else present


def _price_plan(measured: Measured, capacity: Capacity) -> _Plan:
    capacity = msgspec.structs.replace(capacity, warm=measured.stream.capacity.warm)
    return _Plan(capacity, measured.price_stream(measured.change_stream(capacity=capacity)))


def _describe_finding(measured: Measured, plan: _Plan, saving: float) -> Finding:
    before, after = measured.stream.capacity, plan.capacity
    changed = [own for own in after.ladder if own not in before.ladder] if after.mode == before.mode else []
    if before.mode != after.mode:
        rule = "mode"
        text = "take on-demand tables" if after.mode == "on-demand" else "take provisioned tables with this ladder"
    elif all(own.is_late for own in changed):
        rule = "late"
        text = 'change the step age = "late"' if before.late_step is not None else 'add a step age = "late"'
    else:
        rule, text = "units", "change the units of the ladder"
    return Finding(
        rule,
        text,
        tuple(_list_evidence(measured, plan)),
        saving,
        write_ladder(measured.stream.name, after.ladder, after.mode if rule == "mode" else None),
        # If demand was throttled, it is an estimate; and a single week may not be usual.
        "medium" if measured.find_shortages().enough or measured.days < 13 else "high",
    )


def _list_evidence(measured: Measured, plan: _Plan) -> Iterator[str]:
    first = measured.stream.capacity.ladder[0]
    for operation, provisioned in (("Write", first.write), ("Read", first.read)):
        peak = measured.find_peak(operation)  # type: ignore[arg-type]
        known = f"{provisioned:,} provisioned" if provisioned is not None else "on demand"
        used = f", {peak / provisioned:.0%} of them" if provisioned else ""
        yield f"{operation.lower()} units per second: {peak:,.1f} at the peak, {known}{used}"
    units = measured.count_units("Write")
    share = measured.count_units("Write", late=True) / units if units else 0.0
    mean, trickle = measured.mean_writes, measured.find_peak("Write", late=True)
    yield f"write units per second on average: {mean:,.1f}; after the period's end {trickle:,.1f} at most, {share:.2%} of all"
    for name, throttling in zip(("writes", "reads", "late writes"), measured.find_shortages(), strict=True):
        if throttling.events:
            yield f"throttled {name}: {throttling.events:,.0f} in {throttling.hours} hours, by too few provisioned units"
    yield f"DynamoDB per month: ${measured.dollars:,.2f} now, ${plan.dollars:,.2f} then"


def raise_maximum(measured: Measured) -> Iterator[Finding]:
    """Advise a higher maximum if on-demand tables are throttled at their own maximum."""
    most = measured.stream.capacity.most
    if most is None:
        return
    units = {"write": most.write, "read": most.read}
    evidence = []
    for operation, key in (("Write", "write"), ("Read", "read")):
        throttling = measured.find_throttling(operation, "MaxOnDemandThroughput", late=None)  # type: ignore[arg-type]
        needed = ceil((measured.find_peak(operation) + throttling.rate) / TARGET)  # type: ignore[arg-type]
        # The maximum may have been raised since then. If it is high enough now, it is not raised again.
        if throttling.enough and needed > units[key]:
            evidence.append(
                f"throttled {key}s at max.{key} = {units[key]:,}: {throttling.events:,.0f} in {throttling.hours} hours"
            )
            units[key] = min(needed, 2 * units[key])
    if evidence:
        lines = write_table(measured.stream.name, "capacity", {"max": units})
        yield Finding(
            "maximum", "raise max, at which these tables are throttled", tuple(evidence), None, lines, "medium"
        )
