"""Changes of a stream's configuration that are worth a look, as lines of tidetable.toml.

All functions here are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import NamedTuple

import msgspec

from tidetable.bill.workload import Workload
from tidetable.config import Step, TableClass


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
        yield Idea("packs", "many small events share an item, and a write unit", f'[streams.{name}.pack]\nspan = "1h"')
    else:
        yield Idea("no packs", "an item for each event", f"[streams.{name}]\npack = false")
    if capacity.on_demand(capacity.ladder[0]):
        yield Idea("provisioned", "units for this load, fewer for old tables", _provision(workload))
    else:
        yield Idea(
            "on demand",
            "each event and each query is paid for, and idle tables cost their storage alone",
            _write_capacity(name, "on-demand", (Step(age=0), _make_infrequent(Step(age=1)))),
        )
        if capacity.late_step is None:
            lowered = Step(age="late", write=1, read=capacity.ladder[0].read)
            ladder = (capacity.ladder[0], lowered, *capacity.ladder[1:])
            yield Idea(
                "a step for late events",
                "tables whose period is over need fewer write units",
                _write_capacity(name, capacity.mode, ladder),
            )
    if all(step.table_class is TableClass.STANDARD for step in capacity.ladder):
        first = [step for step in capacity.ladder if step.rung < (1, False)]
        later = [step for step in capacity.ladder if step.rung >= (1, False)] or [
            msgspec.structs.replace(first[-1], age=1)
        ]
        ladder = (*first, *map(_make_infrequent, later))
        yield Idea(
            "a cheap class for old tables",
            "infrequent-access stores for less, and its units cost a quarter more",
            _write_capacity(name, capacity.mode, ladder),
        )
    if stream.rollup:
        yield Idea("no rollups", "aggregates are computed from events", f"[streams.{name}]\nrollup = []")
    else:
        rollup = f'[[streams.{name}.rollup]]\nname = "hours"\nevery = "1h"\nby = ["series"]\nretention = "365d"'
        yield Idea(
            "a rollup",
            "aggregates over long ranges read a cell per hour and series; those reads are not in this bill",
            rollup,
        )


def _provision(workload: Workload) -> str:
    """Make a ladder with the units that the workload needs."""
    stream, peak = workload.stream, max(workload.events_per_second)
    write, read = (
        max(1, ceil(units)) for units in (peak * workload.event_units, workload.reads_per_second * workload.read_units)
    )
    owners = [index for index in stream.index if not index.local]
    own = {index.name: (max(1, ceil(peak * workload.count_units_in(index))), read) for index in owners}
    old = max(1, ceil(workload.old_reads_per_second * workload.read_units / max(workload.kept_days, 1)))
    lines = [f"[streams.{stream.name}.capacity]", 'mode = "provisioned"']
    for age, units in (("0", (write, read)), ('"late"', (1, read)), ("1", (1, old))):
        lines += [
            f"[[streams.{stream.name}.capacity.ladder]]",
            f"age = {age}",
            f"write = {units[0]}",
            f"read = {units[1]}",
        ]
        if own:
            each = {name: (index_write if age == "0" else 1, units[1]) for name, (index_write, _) in own.items()}
            tables = [f"{name} = {{ write = {writes}, read = {reads} }}" for name, (writes, reads) in each.items()]
            lines.append(f"index = {{ {', '.join(tables)} }}")
        if age == "1":
            lines.append('class = "infrequent-access"')
    return "\n".join(lines)


def _make_infrequent(step: Step) -> Step:
    cold: Step = msgspec.structs.replace(step, table_class=TableClass.INFREQUENT)
    return cold


def _write_capacity(name: str, mode: str, ladder: Sequence[Step]) -> str:
    """Write the lines of a ladder."""
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
