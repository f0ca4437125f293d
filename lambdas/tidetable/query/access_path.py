"""Choose how a query reads a period: through its table, an index or a read replica."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec.structs import replace

from tidetable.conditions import Condition, NameConditions, read_numbers
from tidetable.layout import WHOLE, Index, Layout
from tidetable.layout.hierarchy import join_levels, make_level, make_text_level
from tidetable.layout.index import MAX_VALUE_BYTES

# The values that a query names may have at most this many ranges. AWS bills at least half a unit per range, so more
# values become a filter.
MAX_PARTITIONS = 200
# At most this many heads (beginnings of sort keys) in an index that is sorted by levels: each head is one range per
# partition.
MAX_HEADS = 30


# A gathered range has all events of its value in a whole bucket, series or period. A table is read only in the query's
# range of time. Nobody has counted how many events have a value: a tenth is assumed.
GATHERED_SHARE = 0.1


class AccessPath(msgspec.Struct, frozen=True):
    """A way to read a period. ``index`` is None for the table; ``partitions`` are the logical partitions of an index.

    ``conditions`` must still be checked after reading. ``heads`` are the beginnings of sort keys in an index that is
    sorted by levels. If the heads name all levels, the events of one head are in the order of time. Otherwise the
    path ``gathers``: a query that needs the order of time must read a range to its end.
    """

    index: Index | None
    partitions: Sequence[str]
    conditions: tuple[Condition, ...]
    heads: Sequence[str] = ("",)
    gathers: bool = False


def choose_access_path(
    layout: Layout,
    names: NameConditions,
    conditions: tuple[Condition, ...],
    *,
    consistent: bool,
    low: bool,
    share: float = 1.0,
) -> AccessPath | None:
    """Choose the cheapest path to read a period without a scan of its table; None if there is no such path.

    A table that is partitioned by series is read by the named series; without named series, by an index over the fields
    of the conditions. A table that is partitioned by time can always be read. DynamoDB reads global indexes eventually,
    so a ``consistent`` query does not use them. A query of ``low`` priority uses the read replica instead of the table.
    A local index has the table's own partitions, in an order that answers a condition. ``share`` is the part of a
    bucket that the query reads, or of a period if there are no buckets. For a small share, the table costs less than a
    range that must be gathered.
    """
    by_series = layout.partition_by == "series"
    readable = not by_series or bool(names.series)
    replica = layout.replica if low and not consistent else None
    paths: list[AccessPath] = []
    # Indexes answer conditions; one over all events is for a table that cannot be read otherwise.
    if conditions and not (by_series and names.series) and not consistent:
        paths += _find_indexed(layout.indexes, conditions)
        paths += _find_sorted([index for index in layout.indexes if not index.local], conditions)
    if conditions and readable and replica is None:
        paths += _find_sorted([index for index in layout.indexes if index.local], conditions)
    if readable and share < GATHERED_SHARE:
        paths = [path for path in paths if not path.gathers]
    if paths:
        # Prefer a path that need not gather, then the fewest conditions left to check. Of equal paths, a global index
        # comes first: it has fewer partitions than a local index, which has one per bucket.
        return min(paths, key=lambda path: (path.gathers, len(path.conditions)))
    if by_series and not names.series:
        whole = next((index for index in layout.indexes if index.timely and index.partition_by == WHOLE), None)
        return None if whole is None or consistent else AccessPath(whole, [whole.name_partition(WHOLE)], conditions)
    return AccessPath(replica, (), conditions)


def _find_indexed(indexes: Sequence[Index], conditions: tuple[Condition, ...]) -> Iterator[AccessPath]:
    """Find the paths through indexes whose partition key has a condition of equality; indexes with a kind come first."""
    for index in sorted(indexes, key=lambda index: not index.kind):
        if index.timely and index.partition_by != WHOLE:
            path = _find_by_value(index, conditions)
            if path is not None:
                yield path


def _find_by_value(index: Index, conditions: tuple[Condition, ...]) -> AccessPath | None:
    """Find the path through a global index by an equality on its partition key; None without such an equality."""
    if index.partition_by == WHOLE:
        return AccessPath(index, [index.name_partition(WHOLE)], conditions)
    used = _find_used(index, {condition.field: condition for condition in reversed(conditions) if condition.equals})
    if not used:
        return None
    partitions = name_partitions(index, used[-1].texts(), used[0].texts()[0] if len(used) > 1 else "")
    # A single value is always searched in the index, however many suffixes the index has.
    if len(partitions) > 1 and len(partitions) * index.shards > MAX_PARTITIONS:
        return None
    # A number in an unusual form, such as 1.0, is also searched in the partition of its usual form 1, which may hold
    # the text 1. So a condition with such a number is checked again.
    implied = {condition for condition in used if set(condition.texts()) == set(condition.values)}
    return AccessPath(index, partitions, tuple(other for other in conditions if other not in implied))


def _find_sorted(indexes: Sequence[Index], conditions: tuple[Condition, ...]) -> Iterator[AccessPath]:
    """Find the paths through the indexes that are sorted by levels, if the conditions name at least the first level."""
    for index in indexes:
        if not index.levels:
            continue
        # A local index has the partitions of its table. The planner finds them.
        path = AccessPath(index, (), conditions) if index.local else _find_by_value(index, conditions)
        named_heads = None if path is None else _find_heads(index.levels, conditions)
        if path is None or named_heads is None:
            continue
        heads, implied, whole = named_heads
        # A number may also stand for the text of its digits. That gives two heads, which are never too many.
        most = max(MAX_PARTITIONS, 2 * index.shards)
        if len(heads) > MAX_HEADS or len(heads) * len(path.partitions) * index.shards > most:
            continue
        other_conditions = tuple(condition for condition in path.conditions if condition not in implied)
        yield replace(path, conditions=other_conditions, heads=heads, gathers=not whole)


def _find_heads(
    levels: Sequence[str], conditions: tuple[Condition, ...]
) -> tuple[list[str], set[Condition], bool] | None:
    """Find the heads that the conditions give, the conditions that these heads imply, and True if all levels are named.

    None if the conditions do not name the first level: a sort key cannot be searched by a later level alone.
    """
    heads, implied = [""], set[Condition]()
    for field in levels:
        named = [condition for condition in conditions if condition.field == field]
        equal = next((condition for condition in named if condition.equals), None)
        condition = equal or next((condition for condition in named if condition.operator == "prefix"), None)
        if condition is None:
            return (heads, implied, False) if implied else None
        implied.add(condition)
        if equal is None:
            return [head + make_text_level(condition.values[0]) for head in heads], implied, False
        heads = [head + join_levels([level]) for head in heads for level in make_levels(equal)]
    return heads, implied, True


def make_levels(condition: Condition) -> list[str]:
    """Make the levels that meet an equality: each text, and the number or boolean that the text may stand for."""
    levels: list[str] = []
    for text in condition.values:
        levels.append(make_text_level(text))
        levels += [make_level(number) for number in read_numbers(text)]
        levels += [make_level(text == "true")] if text in ("true", "false") else []
    return list(dict.fromkeys(levels))


def _find_used(index: Index, equal: dict[str, Condition]) -> list[Condition]:
    """Find the conditions that an index answers, the condition on the value last; empty if the index is of no use."""
    if not index.kind:
        return [equal[index.partition_by]] if index.partition_by in equal else []
    kind = equal.get(index.kind)
    if kind is None or len(kind.texts()) != 1:
        return []
    field = dict(index.kinds).get(kind.texts()[0])
    return [kind, equal[field]] if field in equal else []


def name_partitions(index: Index, values: Sequence[str], kind: str = "") -> list[str]:
    """Name the logical partitions of some values.

    A value that is too long for a key has no partition, because no indexed event has it.
    """
    partitions = [index.name_partition(value, kind) for value in values]
    return [partition for partition in partitions if len(partition.encode()) <= MAX_VALUE_BYTES]


def suggest_index(stream: str, layout: Layout, conditions: Sequence[Condition]) -> str:
    """Suggest an index, or other conditions, with which a stream by series can answer a query without series."""
    table = f"[[streams.{stream}.index]]"
    equal = [condition for condition in conditions if condition.equals]
    skipped = next((text for index in layout.indexes if (text := _find_skipped(index, conditions)) is not None), None)
    if skipped is not None:
        return skipped
    if any(len(condition.values) > 1 for condition in equal):
        return f"ask for fewer values at once, of a field that is the partition_by of an index ({table})"
    if equal:
        field = equal[0].field
        return f'an index to the stream: {table} with partition_by = "{field}" would serve where.{field} without a scan'
    filtered = f" (where.{conditions[0].field}:{conditions[0].operator} is applied after reading)" if conditions else ""
    served = [text for index in layout.indexes if (text := _describe_served(index))]
    others = f"; {', '.join(served)} is served now" if served else ""
    whole = f'{table} with partition_by = "{WHOLE}", sorted by time, would serve it without a scan'
    return f"an index over all events: {whole}{filtered}{others}"


def _describe_served(index: Index) -> str:
    """Describe the conditions that an index needs; empty if it does not need conditions, or does not list events."""
    if index.local or not (index.timely or index.levels):
        return ""
    return " with ".join(f"where.{field}" for field in (*list_key_fields(index), *index.levels[:1]))


def list_key_fields(index: Index) -> list[str]:
    """List the field whose values are the partitions of an index; empty if the index does not have such a field."""
    return [index.partition_by] if index.partition_by not in ("", WHOLE) else []


def _find_skipped(index: Index, conditions: Sequence[Condition]) -> str | None:
    """Say which conditions are missing, so that later levels of a global index cannot be searched; None if none is."""
    fields = {condition.field for condition in conditions if condition.equals or condition.operator == "prefix"}
    named = [field for field in index.levels if field in fields]
    if index.local or index.kind or not named:
        return None
    before = index.levels[: index.levels.index(named[0])]
    lacking = [f"where.{field}" for field in (*list_key_fields(index), *before) if field not in fields]
    if not lacking:
        return None
    order = ", ".join(index.levels)
    return (
        f"{' and '.join(lacking)}: the index {index.name} is sorted by {order} in this order, so where.{named[0]} alone is"
        f' not a range of it; an index with sort_by = ["{named[0]}"] would serve it'
    )
