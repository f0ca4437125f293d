"""Changes of a stream's configuration that are worth a look, as lines of tidetable.toml.

All functions here are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import NamedTuple

import msgspec

from bill.workload import Workload
from tidetable.config import LadderStep, TableClass, Units
from tidetable.config.stream import PackPolicy
from tidetable.durations import Duration

_PACKS = PackPolicy(span=Duration(hours=1))


class Idea(NamedTuple):
    """A change of a stream: its name, the reason for it, and its lines of tidetable.toml."""

    name: str
    why: str
    toml: str


def list_ideas(workload: Workload) -> Iterator[Idea]:
    """Yield changes that are worth a look. The configuration may not allow all of them."""
    stream = workload.stream
    capacity, name = stream.capacity, stream.name
    if stream.pack is None:
        # By series, packs save nothing if the events of a request are of different series.
        if workload.change_stream(pack=_PACKS).event_units < workload.event_units:
            yield Idea(
                "packs", "many small events share an item, and a write unit", f'[streams.{name}.pack]\nspan = "1h"'
            )
    else:
        yield Idea("no packs", "an item for each event", f"[streams.{name}]\npack = false")
    if capacity.begins_on_demand:
        toml = _write_capacity(name, "provisioned", _make_ladder(workload))
        yield Idea("provisioned", "units for this load, fewer for old tables", toml)
    else:
        yield Idea(
            "on demand",
            "each event and each query is paid for, and idle tables cost their storage alone",
            _write_capacity(name, "on-demand", (LadderStep(age=0), _make_infrequent(LadderStep(age=1)))),
        )
        if capacity.late_step is None:
            lowered = LadderStep(age="late", write=1, read=capacity.ladder[0].read)
            yield Idea(
                "a step for late events",
                "tables whose period is over need fewer write units",
                _write_capacity(name, capacity.mode, (capacity.ladder[0], lowered, *capacity.ladder[1:])),
            )
    if all(step.table_class is TableClass.STANDARD for step in capacity.ladder):
        first = [step for step in capacity.ladder if step.rung < (1, False)]
        later = list(capacity.ladder[len(first) :]) or [msgspec.structs.replace(first[-1], age=1)]
        yield Idea(
            "a cheap class for old tables",
            "infrequent-access stores for less, and its units cost a quarter more",
            _write_capacity(name, capacity.mode, (*first, *map(_make_infrequent, later))),
        )
    if stream.rollup:
        yield Idea("no rollups", "aggregates are computed from events", f"[streams.{name}]\nrollup = []")
    else:
        yield Idea(
            "a rollup",
            "aggregates over long ranges read a cell per hour and series; those reads are not in this bill",
            f'[[streams.{name}.rollup]]\nname = "hours"\nevery = "1h"\nby = ["series"]\nretention = "365d"',
        )


def _make_ladder(workload: Workload) -> list[LadderStep]:
    """Make a ladder with the units that the workload needs."""
    peak, indexes = max(workload.events_per_second), workload.stream.global_indexes
    read = _round_up(workload.reads_per_second * workload.read_units)
    old = _round_up(workload.old_reads_per_second * workload.read_units / max(workload.kept_days, 1))
    own = {index.name: Units(write=_round_up(peak * workload.count_units_in(index)), read=read) for index in indexes}
    late, closed = ({index.name: Units(write=1, read=units) for index in indexes} for units in (read, old))
    return [
        LadderStep(age=0, write=_round_up(peak * workload.event_units), read=read, index=own),
        LadderStep(age="late", write=1, read=read, index=late),
        _make_infrequent(LadderStep(age=1, write=1, read=old, index=closed)),
    ]


def _round_up(units: float) -> int:
    """Round units up to a number that a table can be provisioned with: at least 1."""
    return max(1, ceil(units))


def _make_infrequent(step: LadderStep) -> LadderStep:
    cold: LadderStep = msgspec.structs.replace(step, table_class=TableClass.INFREQUENT)
    return cold


def _write_capacity(name: str, mode: str, ladder: Sequence[LadderStep]) -> str:
    lines = [f"[streams.{name}.capacity]", f'mode = "{mode}"']
    for step in ladder:
        lines += [f"[[streams.{name}.capacity.ladder]]", f'age = "{step.age}"' if step.is_late else f"age = {step.age}"]
        lines += [f'mode = "{step.mode}"'] if step.mode is not None else []
        lines += [f"{side} = {units}" for side in ("write", "read") if (units := getattr(step, side)) is not None]
        if step.index:
            units_of = [f"{index} = {{ write = {own.write}, read = {own.read} }}" for index, own in step.index.items()]
            lines.append(f"index = {{ {', '.join(units_of)} }}")
        lines += [f'class = "{step.table_class.value}"'] if step.table_class is not TableClass.STANDARD else []
    return "\n".join(lines)
