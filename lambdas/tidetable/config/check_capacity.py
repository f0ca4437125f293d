"""Checks of a stream's capacity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

from msgspec.structs import asdict

from tidetable.config.bounds import MAX_UNITS, check_bounds
from tidetable.config.capacity import LATE, Autoscaling, Capacity, LadderStep, TableClass
from tidetable.config.model import Stream

# AWS: every on-demand table can serve these units at once, so a smaller warm throughput is refused.
_ON_DEMAND_UNITS = {"write": 4_000, "read": 12_000}


def check_capacity(stream: Stream) -> Iterator[str]:
    """Yield the problems of a stream's capacity. Each begins with its key, without the path of the stream."""
    capacity = stream.capacity
    ages = [step.age for step in capacity.ladder]
    if not ages or ages[0] != 0:
        yield ".capacity.ladder: the first step has age = 0, the table that is being written"
        return
    if LATE in ages[2:]:
        yield '.capacity.ladder: age = "late" stands directly after age = 0, and once; move or remove the other'
    elif any(later.rung <= earlier.rung for earlier, later in pairwise(capacity.ladder)):
        yield f".capacity.ladder: ages must rise from step to step; they are {ages}"
    classes = [step.table_class for step in capacity.ladder]
    if sum(before is not after for before, after in pairwise(classes)) > 1:
        yield ".capacity.ladder: the class changes more than once; AWS allows two changes in 30 days and one is kept in reserve"
    if classes[0] is TableClass.INFREQUENT:
        yield '.capacity.ladder: a table that is being written is cheaper in class = "standard"; change class at a later age'
    modes = [capacity.on_demand(step) for step in capacity.ladder]
    if sum(before is not after for before, after in pairwise(modes)) > 1:
        yield ".capacity.ladder: the billing mode changes more than once; one change is kept in reserve for a restore"
    for step in capacity.ladder:
        yield from _check_step(step, stream, on_demand=capacity.on_demand(step))
    late = capacity.late_step
    if late is not None:
        yield from _check_late_step(late, capacity)
    yield from _check_beginning(capacity)


def _check_late_step(late: LadderStep, capacity: Capacity) -> Iterator[str]:
    """Check the step for late events: it must change the table, and have at most the write units of the first step."""
    at, first = f".capacity.ladder (age = {late.age})", capacity.ladder[0]
    if capacity.on_demand(late) and capacity.begins_on_demand and late.table_class is first.table_class:
        yield (
            f"{at}: an on-demand table costs only what it uses, so this step changes nothing; remove it, or give it"
            ' mode = "provisioned" and units, or class = "infrequent-access"'
        )
    if first.write is None or late.write is None:
        return
    most = capacity.find_most_writes(first.write)
    if late.write > most:
        yield f"{at}.write: {late.write} is more than the {most} of age = 0, and this step lowers tables; write {most} or less"
    for name, own in late.index.items():
        most = capacity.find_most_writes(first.index[name].write if name in first.index else first.write)
        if own.write > most:
            yield f"{at}.index.{name}.write: {own.write} is more than the {most} of age = 0; write {most} at the most"


def _check_step(step: LadderStep, stream: Stream, *, on_demand: bool) -> Iterator[str]:
    at = f".capacity.ladder (age = {step.age})"
    if on_demand:
        if step.write is not None or step.read is not None or step.index:
            yield f'{at}: on-demand tables have no units; remove write, read and index or set mode = "provisioned"'
        return
    for side, units in (("write", step.write), ("read", step.read)):
        if units is None:
            yield f"{at}.{side}: missing; provisioned tables need units per second, at least 1"
        else:
            yield from _check_units(at, {side: units})
    for index, own in step.index.items():
        named = next((policy for policy in stream.index if policy.name == index), None)
        if named is None:
            yield f"{at}.index.{index}: the stream has no index of this name"
        elif named.local:
            yield f"{at}.index.{index}: a local index takes its units from the table; remove it here, and raise write and read"
        yield from _check_units(f"{at}.index.{index}", asdict(own))


def _check_beginning(capacity: Capacity) -> Iterator[str]:
    """Check the keys that only the first step may have."""
    first, on_demand = capacity.ladder[0], capacity.begins_on_demand
    if capacity.most is not None:
        if not on_demand:
            yield '.capacity.max: only tables that are made in mode = "on-demand" have maxima; remove it'
        yield from _check_units(".capacity.max", asdict(capacity.most))
    if capacity.warm is not None:
        least = _ON_DEMAND_UNITS if on_demand else {"write": first.write or 1, "read": first.read or 1}
        for side, units in asdict(capacity.warm).items():
            if not least[side] <= units <= MAX_UNITS:
                yield (
                    f".capacity.warm.{side}: {units} is not within {least[side]}, which the table can serve anyway, and"
                    f" {MAX_UNITS}"
                )
    if capacity.autoscaling is not None and on_demand:
        yield ".capacity.autoscaling: on-demand tables follow their traffic by themselves; remove it"
    elif capacity.autoscaling is not None:
        yield from _check_scaling(capacity.autoscaling, first)


def _check_scaling(scaling: Autoscaling, first: LadderStep) -> Iterator[str]:
    if not scaling.sides:
        yield ".capacity.autoscaling: says neither write nor read; give one of them min and max"
    for side, scaled in scaling.sides.items():
        at, units = f".capacity.autoscaling.{side}", getattr(first, side) or 0
        yield from _check_units(at, {"min": scaled.min, "max": scaled.max})
        if not scaled.min <= units <= scaled.max:
            within = f"{scaled.min} to {scaled.max}"
            yield f"{at}: the first step's {units} units, with which the table begins, are not within {within}"
        yield from check_bounds(f"{at}.target", scaled.target, 20, 90, " percent, AWS's limits")
    for index, own in first.index.items():
        for side, scaled in scaling.sides.items():
            units = getattr(own, side)
            if units > scaled.max:
                yield (
                    f".capacity.ladder (age = {first.age}).index.{index}.{side}: {units} is more than the {scaled.max} of"
                    f" autoscaling.{side}.max, to which auto scaling would lower it"
                )


def _check_units(at: str, units: Mapping[str, int]) -> Iterator[str]:
    for key, value in units.items():
        yield from check_bounds(f"{at}.{key}", value, 1, MAX_UNITS, " units per second")
