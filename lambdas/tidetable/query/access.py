"""How a query reads a period: through its table, an index, or a read replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from tidetable.conditions import Condition, Names, read_numbers
from tidetable.keys import WHOLE, Index, Layout
from tidetable.keys.hierarchy import join_levels, make_level, make_text_level
from tidetable.keys.index import MAX_VALUE_BYTES

# AWS bills half a unit for each range at the least: a query that names many values names them to a filter instead.
MAX_PARTITIONS = 200
# So many beginnings of sort keys of an index that is sorted by levels: each is a range in every partition.
MAX_HEADS = 30


# A gathered range has its value's events of the whole bucket, series or period; a table is read only as far as a query's range
# goes. Which share of the events has a value nobody has counted: it is taken for a tenth.
GATHERED_SHARE = 0.1


class Access(msgspec.Struct, frozen=True):
    """The way into a period. ``index`` is None for the table; ``partitions`` are the logical partitions of an index.

    ``conditions`` are those that must still be checked after reading. ``heads`` are the beginnings of the sort keys of an index
    that is sorted by levels. The events of a head are in the order of time, unless the way ``gathers``: then the heads do
    not name all levels, and a query that needs an order must read all of a range.
    """

    index: Index | None
    partitions: Sequence[str]
    conditions: tuple[Condition, ...]
    heads: Sequence[str] = ("",)
    gathers: bool = False


def choose_access(
    layout: Layout, names: Names, conditions: tuple[Condition, ...], *, consistent: bool, low: bool, share: float = 1.0
) -> Access | None:
    """The cheapest way into a period that is not a scan; None if there is none.

    A table partitioned by series is read by series, if any are named; else by the index over the fields of its conditions; a
    table partitioned by time as it is. DynamoDB reads global indexes eventually, so a ``consistent`` query takes none; a query
    of ``low`` priority takes the read replica where it would take the table. A local index is the table's own partitions, in an
    order that answers a condition. ``share`` is the part of a bucket, or of a period without buckets, that the query reads:
    of a small share a table costs less than a range that must be gathered.
    """
    by_series = layout.partition_by == "series"
    readable = not by_series or bool(names.series)
    replica = layout.replica if low and not consistent else None
    ways: list[Access] = []
    if not (by_series and names.series) and not consistent:
        ways += _find_indexed(layout.indexes, conditions)
        ways += _find_sorted([index for index in layout.indexes if not index.local], conditions)
    if readable and replica is None:
        ways += _find_sorted([index for index in layout.indexes if index.local], conditions)
    if readable and share < GATHERED_SHARE:
        ways = [way for way in ways if not way.gathers]
    if ways:
        # The way that answers most. Of several a global index has fewer partitions than the buckets of a local one.
        return min(ways, key=lambda way: (way.gathers, len(way.conditions)))
    if by_series and not names.series:
        whole = next((index for index in layout.indexes if index.timely and index.partition_by == WHOLE), None)
        return None if whole is None or consistent else Access(whole, [whole.logical(WHOLE)], conditions)
    return Access(replica, (), conditions)


def _find_indexed(indexes: Sequence[Index], conditions: tuple[Condition, ...]) -> Iterator[Access]:
    """The indexes whose partition key the conditions name by equality; indexes that also name a kind come first."""
    for index in sorted(indexes, key=lambda index: not index.kind):
        if index.timely and index.partition_by != WHOLE:
            way = _find_by_value(index, conditions)
            if way is not None:
                yield way


def _find_by_value(index: Index, conditions: tuple[Condition, ...]) -> Access | None:
    """The way by equality of what a global index is partitioned by; None if the conditions do not name it."""
    if index.partition_by == WHOLE:
        return Access(index, [index.logical(WHOLE)], conditions)
    used = _find_used(index, {condition.field: condition for condition in reversed(conditions) if condition.equals})
    kind = used[0].texts()[0] if len(used) > 1 else ""
    partitions = name_partitions(index, used[-1].texts(), kind) if used else []
    # A value by itself is always looked for in an index, however many suffixes that has.
    if not used or (len(partitions) > 1 and len(partitions) * index.shards > MAX_PARTITIONS):
        return None
    # A number in another form than its usual one is also looked for where text of that form is.
    implied = {condition for condition in used if set(condition.texts()) == set(condition.values)}
    return Access(index, partitions, tuple(other for other in conditions if other not in implied))


def _find_sorted(indexes: Sequence[Index], conditions: tuple[Condition, ...]) -> Iterator[Access]:
    """The indexes, sorted by levels, whose first level the conditions name."""
    for index in indexes:
        if not index.levels:
            continue
        # The partitions of a local index are the table's, which the planner knows.
        way = Access(index, (), conditions) if index.local else _find_by_value(index, conditions)
        named_heads = None if way is None else _find_heads(index.levels, conditions)
        if way is None or named_heads is None:
            continue
        heads, implied, whole = named_heads
        # A number stands for the text of its digits, too: that is two heads, and never too many.
        if len(heads) > MAX_HEADS or len(heads) * len(way.partitions) * index.shards > max(
            MAX_PARTITIONS, 2 * index.shards
        ):
            continue
        other_conditions = tuple(condition for condition in way.conditions if condition not in implied)
        yield replace(way, conditions=other_conditions, heads=heads, gathers=not whole)


def _find_heads(
    levels: Sequence[str], conditions: tuple[Condition, ...]
) -> tuple[list[str], set[Condition], bool] | None:
    """The beginnings of sort keys that the conditions name, which of them they imply, and whether they name every level.

    None if they name not even the first level: the key cannot be searched by a later one.
    """
    heads, implied = [""], set[Condition]()
    for field in levels:
        equal = next((condition for condition in conditions if condition.field == field and condition.equals), None)
        if equal is not None:
            heads = [head + join_levels([level]) for head in heads for level in make_levels(equal)]
            implied.add(equal)
            continue
        begins = next(
            (condition for condition in conditions if condition.field == field and condition.operator == "prefix"), None
        )
        if begins is not None:
            heads = [head + make_text_level(begins.values[0]) for head in heads]
            implied.add(begins)
        return (heads, implied, False) if implied else None
    return heads, implied, True


def make_levels(condition: Condition) -> list[str]:
    """The levels of the values that meet a condition of equality: the text, and what else the text may stand for."""
    levels: list[str] = []
    for text in condition.values:
        levels.append(make_text_level(text))
        levels += [make_level(number) for number in read_numbers(text)]
        levels += [make_level(text == "true")] if text in ("true", "false") else []
    return list(dict.fromkeys(levels))


def _find_used(index: Index, equal: dict[str, Condition]) -> list[Condition]:
    """The conditions that an index answers, the condition on the value last; empty if it cannot answer the query."""
    if not index.kind:
        return [equal[index.partition_by]] if index.partition_by in equal else []
    kind = equal.get(index.kind)
    if kind is None or len(kind.texts()) != 1:
        return []
    field = dict(index.kinds).get(kind.texts()[0])
    return [kind, equal[field]] if field in equal else []


def name_partitions(index: Index, values: Sequence[str], kind: str = "") -> list[str]:
    """The logical partitions of some values. A value that is too long for a key has none: no event in the index has it."""
    partitions = [index.logical(value, kind) for value in values]
    return [partition for partition in partitions if len(partition.encode()) <= MAX_VALUE_BYTES]


def suggest_index(stream: str, layout: Layout, conditions: Sequence[Condition]) -> str:
    """The setting, such as an index, that would answer a query without series in a stream partitioned by series."""
    if layout.pack is not None:
        return f"a stream that is partitioned by time: an index cannot hold the events in the packs of {stream}"
    table = f"[[streams.{stream}.index]]"
    equal = [condition for condition in conditions if condition.equals]
    skipped = next((text for index in layout.indexes if (text := _find_skipped(index, conditions)) is not None), None)
    if skipped is not None:
        return skipped
    if any(len(condition.values) > 1 for condition in equal):
        return f"fewer values at once, of a field that {table} with partition_by is over"
    if equal:
        field = equal[0].field
        return f'an index to the stream: {table} with partition_by = "{field}" would serve where.{field} without a scan'
    filtered = f" (where.{conditions[0].field}:{conditions[0].operator} is applied after reading)" if conditions else ""
    served = [text for index in layout.indexes if (text := _describe_served(index))]
    others = f"; {', '.join(served)} is served now" if served else ""
    whole = f'{table} with partition_by = "{WHOLE}", sorted by time, would serve it without a scan'
    return f"an index over all events: {whole}{filtered}{others}"


def _describe_served(index: Index) -> str:
    """The conditions that an index needs; empty if it needs none, or does not list events."""
    if index.local or not (index.timely or index.levels):
        return ""
    by = [index.partition_by] if index.partition_by not in ("", WHOLE) else []
    return " with ".join(f"where.{field}" for field in (*by, *index.levels[:1]))


def _find_skipped(index: Index, conditions: Sequence[Condition]) -> str | None:
    """The missing conditions without which later levels of a global index cannot be searched; None if nothing is missing."""
    fields = {condition.field for condition in conditions if condition.equals or condition.operator == "prefix"}
    by = () if index.partition_by in ("", WHOLE) else (index.partition_by,)
    named = [field for field in index.levels if field in fields]
    if index.local or index.kind or not named:
        return None
    before = index.levels[: index.levels.index(named[0])]
    lacking = [f"where.{field}" for field in (*by, *before) if field not in fields]
    if not lacking:
        return None
    order = ", ".join(index.levels)
    return (
        f"{' and '.join(lacking)}: the index {index.name} is sorted by {order} in this order, so where.{named[0]} alone is"
        f' not a range of it; an index with sort_by = ["{named[0]}"] would serve it'
    )
