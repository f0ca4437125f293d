"""Hydrate items: add data that an index lacks, and data that is stored elsewhere.

Then check the conditions that DynamoDB could not check. Every use case of the read side passes its items through this
module, so that each of these steps is written once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

from tidetable.catalog import Entry
from tidetable.events import Item
from tidetable.large.unpack import group_items, lack_searched
from tidetable.layout import Key
from tidetable.ports import ItemColumns
from tidetable.query.index_scans import IndexScan
from tidetable.query.model import Projection
from tidetable.query.rows import Row
from tidetable.query.scans import LiveScan
from tidetable.query.session import ReadSession
from tidetable.values import count_item_bytes


def read_base_items(
    items: Sequence[Item], scan: IndexScan, session: ReadSession, *, consistent: bool = False
) -> list[Item]:
    """Read items of an index from its table, without items that are deleted or have another key in the index now.

    For a moment, an index may hold an event twice: under its old key and under its new key. It is returned once.
    """
    index = scan.index
    entries = [(Key(item["pk"], item["sk"]), (item[index.pk], item[index.sk])) for item in items]
    if not entries:
        return []
    keys = list(dict.fromkeys(key for key, _ in entries))
    base = fetch_items(session, scan.entry.table, keys, consistent=consistent)
    current = ((base[key], index_key) for key, index_key in entries if key in base)
    return [item for item, index_key in current if (item.get(index.pk), item.get(index.sk)) == index_key]


def fetch_items(
    session: ReadSession, table: str, keys: Sequence[Key], *, consistent: bool = True
) -> Mapping[Key, Item]:
    """Fetch the existing items with these keys, and add the read units to the cost."""
    items = session.reader.store.get_many(table, keys, consistent=consistent)
    session.cost.add_fetch([count_item_bytes(items[key]) if key in items else 0 for key in keys], consistent=consistent)
    return items


def match_conditions(
    columns: ItemColumns, scan: LiveScan, session: ReadSession, fields: Sequence[str] = ()
) -> ItemColumns:
    """Return the events that meet the scan's conditions.

    If ``fields`` are named, they have only these fields of their data. An event whose data is needed and is missing or
    damaged becomes a gap.

    DynamoDB has already filtered plain events, which have an item each: callers keep these as text. It cannot filter by
    data that is compressed, stored elsewhere or in a pack. The contents of the returned columns are either all text or
    all items.
    """
    items = scan.add_data(columns.items())
    if not (scan.conditions or fields):
        return ItemColumns.of([session.reader.unpacker.inflate_or_keep(item) for item in items])
    if lack_searched(items):
        groups = group_items(items)
        return ItemColumns.of([item for group in groups for item in _match_items(group, scan, session, fields)])
    if columns.are_text:
        # Texts that DynamoDB has not filtered come from packs. They stay texts.
        return columns.where([_meets_conditions(scan, item) for item in items])
    return ItemColumns.of([item for item in items if _meets_conditions(scan, item)])


def _match_items(items: Sequence[Item], scan: LiveScan, session: ReadSession, fields: Sequence[str]) -> Iterator[Item]:
    """Return the items that meet the conditions. If ``fields`` are named, they have only these fields of their data.

    Without ``fields``, an item whose data is stored elsewhere is returned unchanged.
    """
    note_lost = partial(session.note_lost, scan.entry)
    wholes = session.reader.unpacker.complete_searched(items, scan.entry.table, note_lost, session.cost)
    tops = {field.partition(".")[0] for field in fields}
    for item, whole in zip(items, wholes, strict=True):
        if not _meets_conditions(scan, whole):
            continue
        data = whole.get("data", {})
        if tops:
            yield {**item, "data": {name: data[name] for name in tops if name in data}}
        else:
            yield item if "out" in item else whole


def _meets_conditions(scan: LiveScan, item: Item) -> bool:
    data = item.get("data", {})
    return all(condition.holds(data) for condition in scan.conditions)


def make_whole_row(item: Item, entry: Entry, projection: Projection, session: ReadSession) -> Row:
    """Make the row of an item with all of its data."""
    row = Row.of(session.reader.unpacker.inflate_or_keep(item), entry, projection)
    complete_rows([row], session)
    return row


def complete_rows(rows: Iterable[Row], session: ReadSession) -> list[str]:
    """Give rows and their earlier versions all of their data; return the reasons why data is missing or damaged.

    A row that lost data is marked as incomplete. The read units of data outside of items are added to the cost.
    """
    losses: list[str] = []
    partial: defaultdict[str, list[Row]] = defaultdict(list)
    for row in rows:
        for version in (row, *row.earlier):
            if version.partial:
                partial[version.entry.table].append(version)
    for table, table_rows in partial.items():
        items = [row.item for row in table_rows]
        wholes = table_rows[0].projection.complete_items(items, table, session.reader.unpacker)
        wholes.add_cost(session.cost)
        for index, (row, item) in enumerate(zip(table_rows, wholes.items, strict=True)):
            row.complete(item, incomplete=index in wholes.missing)
        losses += wholes.missing.values()
    return losses
