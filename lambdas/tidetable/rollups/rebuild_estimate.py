"""What a bucket of a rebuild will read and write, as far as the records and the last sealed bucket tell it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tidetable.catalog import Entry
from tidetable.ports.rollups import RollupState, Span
from tidetable.rollup_model.cover import DefinitionVersion, find_present
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.rebuild import choose_range
from tidetable.rollups.services import Services
from tidetable.rollups.writing import count_units
from tidetable.times import to_text


def estimate_rebuild(
    version: DefinitionVersion,
    definitions: Sequence[Definition],
    state: RollupState,
    span: Span,
    services: Services,
) -> dict[str, Any]:
    """Estimate the units per bucket of the rebuild of a span; it has the buckets of ``[from, to)``.

    ``cell_units`` are the write units of the last sealed bucket. If a bucket is computed from the cells of a finer rollup,
    ``finer`` is its stream, and ``read_units`` are those of its cells. Otherwise ``read_units`` are one for each request
    that reads a bucket's events from a table, and the events' own units are to be added.
    """
    definition = version.definition
    first, last = choose_range(version, *span)
    finer = max(
        (other for other in definitions if other.can_feed(definition)), key=lambda other: other.every, default=None
    )
    if finer is not None:
        # AWS: a read unit reads four times as many bytes as a write unit writes.
        units = definition.every / finer.every * _measure_last(finer, state, services) / 4
    else:
        entries = services.catalog.entries(definition.source, first, last, consistent=True)
        units = max((_count_requests(entry, definition, services) for entry in entries[-1:] if entry.live), default=0.0)
    return {
        "from": to_text(first),
        "to": to_text(last),
        "cell_units": _measure_last(definition, state, services),
        "finer": None if finer is None else finer.stream,
        "read_units": units,
    }


def _measure_last(definition: Definition, state: RollupState, services: Services) -> int:
    version = find_present(definition, state)
    return 1 if version is None else count_units(definition, version.end - definition.every, services)


def _count_requests(entry: Entry, definition: Definition, services: Services) -> float:
    layout = entry.layout
    if layout.partition_by == "series":
        noted = services.rollups.read_notes(definition.source, entry.period.label, consistent=False)
        return float(max(len(noted.series), 1) * layout.shards)
    return layout.shards * max(definition.every.total_seconds() / layout.bucket, 1.0)
