"""Write the cells of a bucket as packs of the rollup's own stream. A cell's copy with the greatest ``at`` counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import attrgetter
from typing import NamedTuple

from tidetable.batch import Batch
from tidetable.catalog import FENCED, Entry, find_entry_at
from tidetable.errors import PutRefused, TableThrottled
from tidetable.events import Event, Item
from tidetable.exact_json import decode_json
from tidetable.forms.choose import choose_form
from tidetable.groups import group_by_size
from tidetable.packs import open_item, walk_packs
from tidetable.packs.numbers import settle_text
from tidetable.ports import EventStore, Guarded, KeyRange, Put, RangeRead, Transacted
from tidetable.query.ranges import follow_page
from tidetable.rollup_model.bounds import to_millis
from tidetable.rollup_model.cells import FIELDS_ID, is_removed, make_removed_cell
from tidetable.rollup_model.definition import Definition
from tidetable.rollups.services import BucketBlocked, BucketOver, Services, Superseded
from tidetable.times import MOMENT, from_text, to_text
from tidetable.values import MAX_ITEM_BYTES, count_item_bytes

_PAGE = 100
# The cells that are written between two looks at the time: three rounds of 16 requests.
_AT_ONCE = 48
# AWS: a transaction has at most 100 actions and 4 MB in total. A pack has up to 64 KB, a cell with an item of its own
# up to 400 KB.
_TRANSACTED, _TRANSACTED_BYTES = 25, 4_000_000


class Present(NamedTuple):
    """The cells of a bucket that its table holds.

    For the sort key of a cell: its event, and its data as canonical text. ``at`` is the instant (epoch milliseconds) at
    which the newest copy of these cells was made; 0 if there are no cells.
    """

    events: dict[str, tuple[Event, str]]
    at: int


def find_table(definition: Definition, bucket: datetime, services: Services) -> Entry:
    """Find the catalog's entry of the period for a bucket's cells.

    Raises BucketBlocked if the period's table cannot be written.
    """
    entries = services.catalog.entries(definition.stream, bucket, bucket, consistent=True)
    entry = find_entry_at(entries, bucket)
    if entry is None:
        raise BucketBlocked(
            f"{definition.stream} has no table for {to_text(bucket)}: backfill {definition.source}, or rebuild the rollup"
        )
    if not entry.writable:
        raise BucketBlocked(
            f"period {entry.period.label} of {definition.stream} is {entry.state}: once it is archived, restore it"
            f" by bin/tidetable restore {definition.stream} {entry.period.label}"
        )
    return entry


def read_present(entry: Entry, bucket: datetime, services: Services) -> Present:
    """Read the cells of a bucket from its table, with strong consistency."""
    layout, unpacker = entry.layout, services.reader.unpacker
    low, high = layout.make_edge(bucket), layout.make_edge(bucket + MOMENT)
    span = choose_form(layout).span
    items = list(_read_items(entry, bucket, services.reader.store))
    packs = sorted((open_item(item, layout, unpacker.compressor) for item in items), key=attrgetter("newest"))
    events = {}
    for run in walk_packs(packs, span=max(span, 1), ascending=True, low=low, high=high):
        for place, copy in zip(run.places, run.copies, strict=True):
            text = copy.value
            if not isinstance(text, str):
                text = settle_text(unpacker.complete_searched([text], entry.table)[0]["data"])
            time, series, id = layout.parse_names("", place)
            events[place] = Event(series, from_text(time), id, decode_json(text)), text
    return Present(events, max((int(item.get("at", 0)) for item in items), default=0))


def count_units(definition: Definition, bucket: datetime, services: Services) -> int:
    """Count the write units that the cells of a bucket took, one at least; one if they cannot be read from a table."""
    entry = find_entry_at(services.catalog.entries(definition.stream, bucket, bucket), bucket)
    if entry is None or not entry.live:
        return 1
    try:
        sizes = [count_item_bytes(item) for item in _read_items(entry, bucket, services.reader.store)]
    except BucketBlocked:
        return 1
    return max(sum(-(-size // 1024) for size in sizes), 1)


def _read_items(entry: Entry, bucket: datetime, store: EventStore) -> Iterator[Item]:
    low, high = choose_form(entry.layout).find_key_range(bucket, bucket + MOMENT)
    logical = entry.layout.name_partition(bucket, "")
    ranges = [KeyRange(entry.table, f"{logical}#{number}", low, high) for number in range(entry.layout.shards)]
    while ranges:
        pages = store.query_many([RangeRead(keys, _PAGE) for keys in ranges], ascending=True, consistent=True)
        following = []
        for keys, page in zip(ranges, pages, strict=True):
            if page is None:
                raise BucketBlocked(f"table {entry.table} does not exist")
            yield from page.items
            if page.more:
                following.append(follow_page(keys, page))
        ranges = following


def write_cells(
    definition: Definition,
    entry: Entry,
    cells: Sequence[Event],
    present: Present,
    read_at: datetime,
    services: Services,
) -> None:
    """Replace the cells of a bucket by ``cells``, which were computed from the events that were read at ``read_at``.

    Only cells that changed are written. A cell whose group has no events any more is replaced by an empty cell. Raises
    TableThrottled if some cells were perhaps not written, BucketBlocked if the table does not accept writes any more,
    and Superseded if another run wrote later cells. Raises BucketOver if DynamoDB would refuse a cell: then no cell is
    written.
    """
    places = {entry.layout.make_sort_key(cell.time, cell.series, cell.id) for cell in cells}
    removals = [
        make_removed_cell(event)
        for place, (event, _) in present.events.items()
        if place not in places and not is_removed(event) and _is_of(definition, event)
    ]
    puts = make_cell_puts([*cells, *removals], entry, present, read_at, services)
    if entry.state in FENCED:
        _write_transactions(puts, entry, services)
    else:
        for first in range(0, len(puts), _AT_ONCE):
            services.require_time()
            _write_some(puts[first : first + _AT_ONCE], entry, services)


def _write_some(puts: Sequence[Put], entry: Entry, services: Services) -> None:
    written = services.reader.store.write_each(puts, "newer")
    for reason in written.refused.values():
        raise BucketOver(f"DynamoDB refuses a cell: {reason}")
    if written.conflicts:
        raise Superseded(f"cells of {entry.stream} were written by another run")
    if written.missing_tables:
        raise BucketBlocked(f"table {entry.table} does not exist")
    if written.unwritten:
        raise TableThrottled(entry.table)


def _write_transactions(puts: Sequence[Put], entry: Entry, services: Services) -> None:
    """Write to a closed table in transactions: its archive may begin at any time, which forbids further cells."""
    for transaction in group_by_size(puts, lambda put: count_item_bytes(put.item), _TRANSACTED_BYTES, _TRANSACTED):
        services.require_time()
        try:
            outcome = services.reader.store.transact([Guarded(put, "newer") for put in transaction], entry)
        except PutRefused as error:
            raise BucketOver(f"DynamoDB refuses a cell: {error}") from error
        if outcome is Transacted.FENCED:
            raise BucketBlocked(f"period {entry.period.label} of {entry.stream} is being archived")
        if outcome is Transacted.CONFLICT:
            raise Superseded(f"cells of {entry.stream} were written by another run")


def make_cell_puts(
    cells: Sequence[Event], entry: Entry, present: Present, read_at: datetime, services: Services
) -> list[Put]:
    """Make the puts of the cells that differ from the present cells. They count instead of the present cells.

    Raises BucketOver if DynamoDB would refuse a cell.
    """
    layout, unknown = entry.layout, (None, "")
    changed = [
        cell
        for cell in cells
        if present.events.get(layout.make_sort_key(cell.time, cell.series, cell.id), unknown)[1]
        != settle_text(cell.data)
    ]
    at, compressor = max(to_millis(read_at), present.at + 1), services.reader.unpacker.compressor
    form, batch = choose_form(layout), Batch.of(changed, at)
    made = form.make_puts(batch, range(len(changed)), entry.table, compressor, lambda item: Put(entry.table, item))
    for put in made.puts:
        # A pack is never too large.
        if "data" in put.item and (size := count_item_bytes(put.item)) > MAX_ITEM_BYTES:
            raise BucketOver(f"a cell takes {size} bytes as an item; DynamoDB holds at most {MAX_ITEM_BYTES}")
    return made.puts


def _is_of(definition: Definition, event: Event) -> bool:
    """True if a cell belongs to this definition; a list of field names belongs to every definition."""
    return event.id == FIELDS_ID or event.id.startswith(definition.key)
