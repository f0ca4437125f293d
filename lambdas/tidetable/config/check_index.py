"""Checks of a stream's indexes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping

from tidetable.config.bounds import check_bounds, find_repeated
from tidetable.config.model import Stream
from tidetable.config.stream import IndexPolicy
from tidetable.layout import TIME, WHOLE

# AWS: 20 global secondary indexes per table.
MAX_INDEXES = 20
# AWS: 5 local secondary indexes per table.
MAX_LOCAL = 5
_NAME = re.compile(r"[a-z][a-z0-9_]{2,62}")
# A field is copied into the item once per index that names it, and each copy counts towards DynamoDB's 400 KB.
MAX_PROJECTED = 20
MAX_KINDS = 50
# Each level takes space in the sort key: AWS allows 1,024 bytes for all levels, the time, the series and the id.
MAX_LEVELS = 8


def check_indexes(stream: Stream) -> Iterator[str]:
    """Yield the problems of a stream's indexes. Each begins with its key."""
    count, local = len(stream.global_indexes), len(stream.local_indexes)
    if count > MAX_INDEXES:
        yield f".index: {count} indexes; AWS allows {MAX_INDEXES} per table"
    if local > MAX_LOCAL:
        yield f".index: {local} local indexes; AWS allows {MAX_LOCAL} per table: make some of them global with partition_by"
    for name in find_repeated([index.name for index in stream.index]):
        yield f".index: two indexes are named {name!r}; rename one of them"
    for index in stream.index:
        yield from _check_index(index, stream.cold)
    if sum(index.replica for index in stream.index) > 1:
        yield ".index: two indexes are replicas; keep one, from which queries with priority = low are answered"


def _check_index(index: IndexPolicy, cold: Collection[str]) -> Iterator[str]:
    at = f".index.{index.name}"
    if not _NAME.fullmatch(index.name):
        yield f"{at}.name: a name is 3 to 63 of a-z, 0-9 and _, and begins with a letter; rename it"
    if index.replica:
        if index != IndexPolicy(name=index.name, replica=True):
            yield f"{at}.replica: a replica has the table's own keys and holds everything; remove the other settings"
        return
    if index.local:
        yield from _check_local(at, index)
    else:
        yield from _check_partition(at, index)
    yield from check_bounds(f"{at}.shards", index.shards, 1, 256, "; every query of a value reads each of them")
    yield from _check_order(at, index)
    project = index.project
    if isinstance(project, tuple) and (
        not 1 <= len(project) <= MAX_PROJECTED or find_repeated(project) or not all(project)
    ):
        yield f'{at}.project: write "all", "keys", or 1 to {MAX_PROJECTED} fields of data, each once'
    elif isinstance(project, tuple) and (path := next((name for name in project if "." in name), None)):
        yield f'{at}.project: "{path}" is a path, but an index holds whole fields: name "{path.partition(".")[0]}"'
    fields = {
        *_list_fields(index),
        *(project if isinstance(project, tuple) else ()),
        *((index.sort_by,) if isinstance(index.sort_by, str) else index.sort_by),
        index.kind or "",
    }
    for field in sorted(fields):
        if field.partition(".")[0] in cold:
            yield f"{at}: {field} is a cold field, and an index cannot hold it; remove it here or from cold"


def _check_local(at: str, index: IndexPolicy) -> Iterator[str]:
    """Check a local index: it has the table's partitions, so it must not set partitions of its own."""
    if index.partition_by is not None or index.kind is not None or index.shards != 1:
        yield (
            f"{at}.local: a local index has the partitions and the shards of the table; remove partition_by, kind and"
            " shards, or local"
        )
    if index.sort_by == TIME:
        yield (
            f"{at}.sort_by: a local index in the order of time would be the table itself; name a field that holds"
            ' numbers, such as "score", or a list of fields, such as ["country", "region"]'
        )


def _check_order(at: str, index: IndexPolicy) -> Iterator[str]:
    by = index.sort_by
    if isinstance(by, str):
        if not _is_path(by):
            yield (
                f'{at}.sort_by: write "{TIME}", a field of data that holds numbers, such as "score", or a list of fields that'
                ' hold text, such as ["country", "region"]'
            )
    elif not 1 <= len(by) <= MAX_LEVELS or find_repeated(by) or not all(map(_is_path, by)):
        yield f'{at}.sort_by: name 1 to {MAX_LEVELS} fields of data, each once, such as ["country", "region", "city"]'


def _check_partition(at: str, index: IndexPolicy) -> Iterator[str]:
    by = index.partition_by
    if isinstance(by, Mapping):
        if not index.kind:
            yield f'{at}.kind: missing; name the field that tells the kinds of events apart, such as "type"'
        if not 1 <= len(by) <= MAX_KINDS or not all(by):
            yield f"{at}.partition_by: name 1 to {MAX_KINDS} kinds of events, each with the field by which queries find it"
    elif index.kind is not None:
        yield f'{at}.partition_by: with kind, name a field for each kind, such as {{ order = "customer", refund = "order" }}'
    elif by is None:
        yield f'{at}.partition_by: missing; name a field of data such as "status", or "{WHOLE}" for all events'
    if not all(_is_path(field) and (field != WHOLE or by == WHOLE) for field in _list_fields(index)) or (
        index.kind is not None and not _is_path(index.kind)
    ):
        yield f'{at}.partition_by: name a field of data, such as "status" or "place.state"'


def _list_fields(index: IndexPolicy) -> list[str]:
    by = index.partition_by
    return list(by.values()) if isinstance(by, Mapping) else [] if by is None else [by]


def _is_path(field: str) -> bool:
    return all(field.split("."))
