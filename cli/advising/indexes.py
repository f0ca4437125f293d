"""Rules about indexes that are unused, missing, or written too often. All functions here are pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import ceil

import msgspec

from bill.lines import write_indexes
from bill.prices import price_reads
from cli.advising.capacity import MIN_DOLLARS
from cli.advising.finding import Finding
from cli.advising.history import Use
from cli.advising.measured import Measured
from tidetable.config.stream import IndexPolicy
from tidetable.periods import LONGEST

# Queries that return more than half of the events that they read gain little from an index, and an index has limits of
# its own.
_SELECTIVE = 0.5
_MIN_REFUSED = 100
_NOT_DATA = {"series", "id"}


def advise_unused(measured: Measured) -> Iterator[Finding]:
    """Advise to remove an index that was written but never read."""
    stream = measured.stream
    for index in stream.index:
        written = measured.count_units("Write", index.name)
        reads = (hour.read for own in measured.history.resources if own.index == index.name for hour in own.hours)
        if not written or any(units > 0 for units in reads):
            continue
        others = tuple(own for own in stream.index if own.name != index.name)
        ladder = tuple(
            msgspec.structs.replace(step, index={name: own for name, own in step.index.items() if name != index.name})
            for step in stream.capacity.ladder
        )
        capacity = msgspec.structs.replace(stream.capacity, ladder=ladder)
        saving = measured.dollars - measured.price_stream(measured.change_stream(index=others, capacity=capacity))
        if saving < MIN_DOLLARS:
            continue
        evidence = (
            f"{written * measured.month:,.0f} write units per month, and no read unit in {measured.days:.0f} days",
            "a report that runs less often may use the index: existing tables keep it",
        )
        lines = write_indexes(stream.name, others)
        confidence = "high" if measured.days >= 28 else "medium"
        yield Finding("unused_index", f"remove the index {index.name}", evidence, saving, lines, confidence)  # type: ignore[arg-type]


def advise_missing(measured: Measured) -> Iterator[Finding]:
    """Advise an index for a field by which queries search for few events among many."""
    stream, uses = measured.stream, measured.history.uses
    if not uses or stream.pack is not None:
        return
    remaining_uses: Sequence[Use] = [use for use in uses if use.route == "events"]
    while best := _find_best(measured, remaining_uses):
        field, finding = best
        yield finding
        remaining_uses = [use for use in remaining_uses if field not in _find_fields(measured, use)]


def _find_best(measured: Measured, uses: Sequence[Use]) -> tuple[str, Finding] | None:
    by_field: defaultdict[str, list[Use]] = defaultdict(list)
    for use in uses:
        for field in _find_fields(measured, use):
            by_field[field].append(use)
    findings = [
        (field, finding)
        for field, some in by_field.items()
        if (finding := _judge_field(measured, field, some)) is not None
    ]
    return max(findings, key=lambda pair: pair[1].saving or 0.0, default=None)


def _find_fields(measured: Measured, use: Use) -> list[str]:
    """Find the fields of data that a query compares with values, but that do not partition an index."""
    indexed = {
        field
        for index in measured.stream.index
        for field in (
            [index.partition_by] if isinstance(index.partition_by, str) else (index.partition_by or {}).values()
        )
    }
    compared = [
        field for field, _, operator in (text.rpartition(":") for text in use.conditions) if operator in ("eq", "in")
    ]
    return [field for field in compared if field not in indexed | _NOT_DATA]


def _judge_field(measured: Measured, field: str, uses: Sequence[Use]) -> Finding | None:
    stream = measured.stream
    refused = sum(use.queries for use in uses if use.refused)
    wasteful = [use for use in uses if not use.refused and use.read and use.returned <= _SELECTIVE * use.read]
    index = IndexPolicy(name=f"by_{re.sub('[^a-z0-9_]', '_', field.lower())}"[:63], partition_by=field)
    cost = measured.price_stream(measured.change_stream(index=(*stream.index, index))) - measured.dollars
    units = sum(use.units for use in wasteful)
    left = sum(use.units * use.returned / use.read + _compute_least_units(measured, use) for use in wasteful)
    on_demand = stream.capacity.begins_on_demand
    saving = price_reads(max(0.0, units - left) / measured.seconds, on_demand=on_demand) - cost
    if saving < MIN_DOLLARS and refused < _MIN_REFUSED:
        return None
    evidence = []
    if wasteful:
        queries, read, returned = (
            sum(getattr(use, name) for use in wasteful) for name in ("queries", "read", "returned")
        )
        evidence += [
            f"{queries:,} queries compare {field}: they read {read / queries:,.0f} events each to show {returned / queries:,.1f}",
            f"they take {units * measured.month:,.0f} read units per month; with the index about {left * measured.month:,.0f}",
        ]
    if refused:
        evidence.append(f"{refused:,} queries that compare {field} were refused: no index answers them")
    evidence.append(
        f"the index costs up to ${cost:,.2f} per month, less if only some events have the field, or if the index"
        " holds only some fields"
    )
    lines = write_indexes(stream.name, (*stream.index, index))
    return Finding("new_index", f"add an index by {field}", tuple(evidence), saving, lines, "medium")


def _compute_least_units(measured: Measured, use: Use) -> float:
    """Compute the least read units with an index: half a unit per period, because an index has one range per period."""
    key, period = measured.stream.key, measured.stream.period
    ranges = key.shards
    if key.bucket is not None:
        ranges *= ceil(LONGEST[period] / key.bucket)
    return 0.5 * max(use.queries, use.requests / ranges)


def advise_hot(measured: Measured) -> Iterator[Finding]:
    """Advise more shards for an index in which one value is written too often: such an index throttles its table."""
    for index in measured.stream.index:
        hot = measured.find_throttling("Write", "KeyRangeThroughput", index.name, late=None, shards=index.shards)
        if not hot.enough:
            continue
        changed = tuple(
            msgspec.structs.replace(own, shards=2 * own.shards) if own.name == index.name else own
            for own in measured.stream.index
        )
        evidence = (
            f"{hot.events:,.0f} writes were throttled in {hot.hours} hours by one partition's limit in the index",
            "an index that takes too little throttles the writes of its table",
        )
        lines = write_indexes(measured.stream.name, changed)
        text = f"take {2 * index.shards} shards for the index {index.name}"
        yield Finding("index_shards", text, evidence, None, lines, "low")
