"""Which way into a period a query takes: its table, an index, or a read replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidetable.conditions import Condition, Names
from tidetable.keys import WHOLE, Index, Layout
from tidetable.keys.index import MAX_VALUE_BYTES

# AWS bills half a unit for each range at the least: a query that names many values names them to a filter instead.
MAX_PARTITIONS = 200


@dataclass(frozen=True, slots=True)
class Access:
    """The way into a period. ``index`` is None for the table; ``partitions`` are the logical partitions of an index.

    ``conditions`` are those that the way itself does not answer.
    """

    index: Index | None
    partitions: Sequence[str]
    conditions: tuple[Condition, ...]


def access_to(
    layout: Layout, names: Names, conditions: tuple[Condition, ...], *, consistent: bool, low: bool
) -> Access | None:
    """The cheapest way into a period that is not a scan; None if there is none.

    A table partitioned by series is read by series, if any are named; else the index over what is asked for; a table
    partitioned by time as it is. DynamoDB reads indexes eventually, so a ``consistent`` query takes none; one of ``low``
    priority takes the read replica where it would take the table.
    """
    by_series = layout.partition_by == "series"
    if not (by_series and names.series) and not consistent:
        indexed = next(_indexed(layout.indexes, conditions), None)
        if indexed is not None:
            return indexed
        whole = next((index for index in layout.indexes if index.timely and index.partition_by == WHOLE), None)
        if by_series and whole is not None:
            return Access(whole, [whole.logical(WHOLE)], conditions)
    if by_series and not names.series:
        return None
    return Access(layout.replica if low and not consistent else None, (), conditions)


def _indexed(indexes: Sequence[Index], conditions: tuple[Condition, ...]) -> Iterator[Access]:
    """The indexes that answer equality of what they are partitioned by; those of kinds, too, which say more, first."""
    equal = {condition.field: condition for condition in reversed(conditions) if condition.equals}
    for index in sorted(indexes, key=lambda index: not index.kind):
        if index.timely and index.partition_by != WHOLE:
            used = _used(index, equal)
            kind = used[0].texts()[0] if len(used) > 1 else ""
            partitions = logical_partitions(index, used[-1].texts(), kind) if used else []
            # A value by itself is always looked for in an index, however many suffixes that has.
            if used and (len(partitions) <= 1 or len(partitions) * index.shards <= MAX_PARTITIONS):
                # A number in another form than its usual one is also looked for where text of that form is.
                implied = {condition for condition in used if set(condition.texts()) == set(condition.values)}
                yield Access(index, partitions, tuple(other for other in conditions if other not in implied))


def _used(index: Index, equal: dict[str, Condition]) -> list[Condition]:
    """The conditions that an index answers, that on the value last; none if it does not answer these."""
    if not index.kind:
        return [equal[index.partition_by]] if index.partition_by in equal else []
    kind = equal.get(index.kind)
    if kind is None or len(kind.texts()) != 1:
        return []
    field = dict(index.kinds).get(kind.texts()[0])
    return [kind, equal[field]] if field in equal else []


def logical_partitions(index: Index, values: Sequence[str], kind: str = "") -> list[str]:
    """The logical partitions of some values; of one that is too long for a key no event is in the index."""
    partitions = [index.logical(value, kind) for value in values]
    return [partition for partition in partitions if len(partition.encode()) <= MAX_VALUE_BYTES]


def needed_index(stream: str, layout: Layout, conditions: Sequence[Condition]) -> str:
    """What would serve a query of a stream partitioned by series that names no series."""
    if layout.pack is not None:
        return f"a stream that is partitioned by time: no index sees into the packs of {stream}"
    table = f"[[streams.{stream}.index]]"
    equal = [condition for condition in conditions if condition.equals]
    if any(len(condition.values) > 1 for condition in equal):
        return f"fewer values at once, of a field that {table} with partition_by is over"
    if equal:
        field = equal[0].field
        return f'an index to the stream: {table} with partition_by = "{field}" would serve where.{field} without a scan'
    filtered = f" (where.{conditions[0].field}:{conditions[0].operator} is applied after reading)" if conditions else ""
    served = [f"where.{index.partition_by}" for index in layout.indexes if index.timely and index.partition_by]
    others = f"; {', '.join(served)} is served now" if served else ""
    whole = f'{table} with partition_by = "{WHOLE}", sorted by time, would serve it without a scan'
    return f"an index over all events: {whole}{filtered}{others}"
