"""Hydrate items: add versions, data that an index lacks, and data that is stored elsewhere.

Then check the conditions that DynamoDB could not check. Every use case of the read side passes its items through this
module, so that each of these steps is written once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from tidetable.catalog import Entry
from tidetable.events import Item
from tidetable.keys import Key
from tidetable.large.forms import list_earlier_keys
from tidetable.large.whole import Unpacker, group_items
from tidetable.ports import GET_CHUNKS, GET_ITEMS, Columns, EventStore
from tidetable.query.model import Cost, Projection
from tidetable.query.page import Room
from tidetable.query.rows import Row
from tidetable.query.scans import IndexScan, LiveScan, PackScan
from tidetable.values import count_item_bytes


def read_base_items(
    items: Sequence[Item], scan: IndexScan, store: EventStore, cost: Cost, *, consistent: bool = False
) -> list[Item]:
    """Read items of an index from its table, without items that are deleted or have another key in the index now.

    For a moment, an index may hold an event twice: under its old key and under its new key. It is returned once.
    """
    index = scan.index
    entries = [(Key(item["pk"], item["sk"]), (item[index.pk], item[index.sk])) for item in items]
    if not entries:
        return []
    keys = list(dict.fromkeys(key for key, _ in entries))
    base = _fetch_items(store, scan.entry.table, keys, cost, consistent=consistent)
    current = ((base[key], index_key) for key, index_key in entries if key in base)
    return [item for item, index_key in current if (item.get(index.pk), item.get(index.sk)) == index_key]


def _fetch_items(
    store: EventStore, table: str, keys: Sequence[Key], cost: Cost, *, consistent: bool = True
) -> Mapping[Key, Item]:
    """Fetch the existing items with these keys, and add the read units to the cost."""
    items = store.get_many(table, keys, consistent=consistent)
    cost.add_fetch([count_item_bytes(items[key]) if key in items else 0 for key in keys], consistent=consistent)
    return items


def match_conditions(
    columns: Columns,
    scan: LiveScan,
    unpacker: Unpacker,
    cost: Cost,
    fields: Sequence[str] = (),
    note_lost: Callable[[Item], None] = lambda _: None,
) -> Columns:
    """Return the events that meet the scan's conditions.

    If ``fields`` are named, they have only these fields of their data. ``note_lost`` is called with the item of each
    event whose data is needed and is missing or damaged.

    DynamoDB has already filtered plain events, which have an item each: callers keep these as text. It cannot filter by
    data that is compressed, stored elsewhere or in a pack. The contents of the returned columns are either all text or
    all items.
    """
    filtered, narrowed = not isinstance(scan, PackScan), bool(scan.conditions or fields)
    items: Sequence[Item] = columns.items()
    if isinstance(scan, IndexScan):
        items = [scan.with_data(item) for item in items]
    if not narrowed:
        return Columns.of([unpacker.inflate_or_keep(item) for item in items])
    if any("out" in item or "z" in item for item in items):
        groups = group_items(items, cold=False)
        return Columns.of(
            [item for group in groups for item in _match_packed(group, scan, unpacker, cost, fields, note_lost)]
        )
    if filtered or fields:
        return Columns.of([item for item in items if _meets(scan, item)])
    # Events of packs that are text stay text.
    return columns.where([_meets(scan, item) for item in items])


def _match_packed(
    items: Sequence[Item],
    scan: LiveScan,
    unpacker: Unpacker,
    cost: Cost,
    fields: Sequence[str],
    note_lost: Callable[[Item], None],
) -> Iterator[Item]:
    """Return the items that meet the conditions. If ``fields`` are named, they have only these fields of their data.

    Without ``fields``, an item whose data is stored elsewhere is returned unchanged.
    """
    wholes = unpacker.complete_items([unpacker.inflate_or_keep(item) for item in items], scan.entry.table, cold=False)
    cost.add_fetch(wholes.chunks, consistent=True, most=GET_CHUNKS)
    for number in wholes.missing:
        note_lost(items[number])
    tops = {field.partition(".")[0] for field in fields}
    for item, whole in zip(items, wholes.items, strict=True):
        if not _meets(scan, whole):
            continue
        data = whole.get("data", {})
        if tops:
            yield {**item, "data": {name: data[name] for name in tops if name in data}}
        else:
            yield item if "out" in item else whole


def _meets(scan: LiveScan, item: Item) -> bool:
    data = item.get("data", {})
    return all(condition.holds(data) for condition in scan.conditions)


def complete_rows(rows: Iterable[Row], unpacker: Unpacker, projection: Projection, cost: Cost) -> list[str]:
    """Give rows and their earlier versions all of their data; return the reasons why data is missing or damaged.

    A row that lost data is marked as incomplete. The read units of chunks are added to the cost.
    """
    losses: list[str] = []
    partial: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for version in (row, *row.earlier):
            if version.partial:
                partial[version.entry.table].append(version)
    for table, table_rows in partial.items():
        wholes = unpacker.complete_items([row.item for row in table_rows], table, cold=projection.wants_cold)
        cost.add_fetch(wholes.chunks, consistent=True, most=GET_CHUNKS)
        for index, (row, item) in enumerate(zip(table_rows, wholes.items, strict=True)):
            row.complete(item, incomplete=index in wholes.missing)
        losses += wholes.missing.values()
    return losses


def make_rows_with_versions(
    items: Sequence[Item], entry: Entry, projection: Projection, store: EventStore, unpacker: Unpacker, cost: Cost
) -> Iterator[Row]:
    """Yield the row of each item, in order, with earlier versions, the latest first.

    ``left_out`` counts the versions that a row lacks. An event may have any number of versions, each with up to 100 KB
    in its item. So versions are fetched in batches, and only as many as an answer holds: when a page is full, no more
    versions are fetched.
    """
    for group in _group_items(items):
        if len(group) == 1 and _count_earlier(group[0]) > GET_ITEMS:
            row = Row.of(group[0], entry, projection)
            keys = list_earlier_keys(group[0])
            batches = (keys[start : start + GET_ITEMS] for start in range(0, len(keys), GET_ITEMS))
            take_earlier(row, keys, _fetch_versions(batches, row, projection, store, unpacker, cost), projection)
            yield row
            continue
        keys_of = {Key(item["pk"], item["sk"]): list_earlier_keys(item) for item in group if _count_earlier(item)}
        keys = [key for keys in keys_of.values() for key in keys]
        versions = _fetch_items(store, entry.table, keys, cost) if keys else {}
        for item in group:
            row = Row.of(item, entry, projection)
            keys = keys_of.get(Key(item["pk"], item["sk"]), [])
            row.earlier = tuple(
                Row.of(unpacker.inflate_or_keep(versions[key]), entry, projection) for key in keys if key in versions
            )
            yield row


def _fetch_versions(
    batches: Iterable[Sequence[Key]],
    row: Row,
    projection: Projection,
    store: EventStore,
    unpacker: Unpacker,
    cost: Cost,
) -> Iterator[Row | None]:
    for batch in batches:
        items = _fetch_items(store, row.entry.table, batch, cost)
        for key in batch:
            item = items.get(key)
            yield None if item is None else Row.of(unpacker.inflate_or_keep(item), row.entry, projection)


def take_earlier(row: Row, keys: Sequence[Key], versions: Iterable[Row | None], projection: Projection) -> None:
    """Give a row the earlier versions that fit into an answer with it.

    In ``versions``, None is a version that does not exist any more. ``keys`` are the keys of all earlier versions.
    ``left_out`` counts the keys of versions that do not fit: reading stops at the first of them.
    """
    room, earlier, number = Room(), list[Row](), -1
    room.take(row.measure_own_size(projection))
    for number, version in enumerate(versions):
        if version is not None and not room.take(version.measure_own_size(projection)):
            number -= 1
            break
        if version is not None:
            earlier.append(version)
    row.earlier, row.left_out = tuple(earlier), len(keys) - number - 1


def _group_items(items: Sequence[Item]) -> Iterator[list[Item]]:
    """Group items so that the earlier versions of a group fit into one batch.

    An item with more versions is a group of its own.
    """
    group: list[Item] = []
    count = 0
    for item in items:
        if group and count + _count_earlier(item) > GET_ITEMS:
            yield group
            group, count = [], 0
        group.append(item)
        count += _count_earlier(item)
    if group:
        yield group


def _count_earlier(item: Item) -> int:
    return int(item.get("version", 1)) - 1
