"""Events of a table with their earlier versions, fetched as a page takes them.

An event may have any number of versions, and each up to 100 KB in its item. So versions are fetched a batch at a time, and
none beyond what an answer holds: a page that is full fetches nothing more, whatever the rest of its range has.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidetable.catalog import Entry
from tidetable.events import Item
from tidetable.keys import Key
from tidetable.large import Unpacker
from tidetable.large.forms import earlier_keys
from tidetable.ports import EventStore
from tidetable.query.answer import MAX_ANSWER_BYTES
from tidetable.query.rows import Row, Shape, row_of

# AWS: BatchGetItem takes 100 keys.
BATCH = 100


def rows_with_versions(
    items: Sequence[Item], entry: Entry, shape: Shape, store: EventStore, unpacker: Unpacker
) -> Iterator[Row]:
    """The row of each item, in order, with its earlier versions, latest first; ``left_out`` counts those that no answer holds."""
    for group in _groups(items):
        if len(group) == 1 and _earlier(group[0]) > BATCH:
            yield _row_of_many(group[0], entry, shape, store, unpacker)
            continue
        keys = {Key(item["pk"], item["sk"]): earlier_keys(item) for item in group if _earlier(item)}
        found = store.get_many(entry.table, [key for some in keys.values() for key in some]) if keys else {}
        for item in group:
            mine = keys.get(Key(item["pk"], item["sk"]), [])
            yield row_of(item, entry, shape, [unpacker.eased(found[key]) for key in mine if key in found])


def _groups(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Items that have a batch of earlier versions together, or one item that has more by itself."""
    group: list[Item] = []
    count = 0
    for item in items:
        if group and count + _earlier(item) > BATCH:
            yield group
            group, count = [], 0
        group.append(item)
        count += _earlier(item)
    if group:
        yield group


def _earlier(item: Item) -> int:
    """How many earlier versions an event has."""
    return int(item.get("version", 1)) - 1


def _row_of_many(item: Item, entry: Entry, shape: Shape, store: EventStore, unpacker: Unpacker) -> Row:
    row, keys = row_of(item, entry, shape), earlier_keys(item)
    size, earlier = row.own_size(shape), list[Row]()
    for start in range(0, len(keys), BATCH):
        batch = keys[start : start + BATCH]
        found = store.get_many(entry.table, batch)
        for number, key in enumerate(batch, start=start):
            if key not in found:
                continue
            one = row_of(unpacker.eased(found[key]), entry, shape)
            size += one.own_size(shape)
            if size > MAX_ANSWER_BYTES:
                row.earlier, row.left_out = tuple(earlier), len(keys) - number
                return row
            earlier.append(one)
    row.earlier = tuple(earlier)
    return row
