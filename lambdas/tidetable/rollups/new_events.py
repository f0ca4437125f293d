"""Add new late events to the cells of sealed buckets, without reading the buckets.

Ingest writes a late event that its table does not have together with a mark that names it, by one transaction
(``tidetable.ingest.marks``). So each event with such a mark is in its table, and in no cell that was computed before the
mark. The run that has the stream adds the event to the cells of all sealed buckets, and in the same transaction it
writes into the mark that the event is added. Then it removes the mark.

A bucket that is computed while such a mark comes may have its event or not. So who has computed a bucket replaces the
marks of new events in it by a usual mark, before the bucket counts: then it is computed anew. Only the run that has the
stream does any of this.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from tidetable.catalog import FENCED
from tidetable.errors import CollectionFull, PutRefused, TableMissing
from tidetable.events import Item
from tidetable.forms.field_columns import DATA, FieldColumns, make_columns
from tidetable.layout import Key
from tidetable.ports import Guarded, Mark, Put, RollupState, Transacted
from tidetable.query.model import RESERVE
from tidetable.rollup_model.bounds import CLOCKS, to_millis
from tidetable.rollup_model.cells import MAX_TEXTS, Bucket, is_removed, parse_cell, parse_names
from tidetable.rollup_model.cover import DefinitionVersion, list_versions
from tidetable.rollups.last_periods import cut_marked
from tidetable.rollups.run import RefreshRun
from tidetable.rollups.services import BucketBlocked, BucketOver, Services, Unfinished
from tidetable.rollups.writing import find_table, make_cell_puts, read_present
from tidetable.times import from_text
from tidetable.values import count_item_bytes

# A bucket with more new events than this is computed anew. AWS: a transaction has at most 100 actions and 4 MB in total.
MOST_ADDED = 25
_MOST_ACTIONS, _MOST_BYTES = 100, 4_000_000


def add_new_events(run: RefreshRun, state: RollupState) -> None:
    """Add the new late events of a stream to its cells, until the stream's share of the run is used.

    Buckets that cannot take their events get a usual mark instead.
    """
    groups = defaultdict[tuple[datetime, datetime], list[Mark]](list)
    for mark in state.marks:
        if mark.event:
            groups[mark.bucket, mark.bucket + mark.length].append(mark)
    cut_marked(run, state, [mark for marks in groups.values() for mark in marks])
    for (start, end), marks in groups.items():
        if run.services.remaining() < RESERVE:
            raise Unfinished("the time is up")
        if run.share() <= 0:
            return
        waiting = [mark for mark in marks if not mark.is_added]
        is_marked = any(mark.meets(start, end) for mark in state.marks if not mark.event)
        # A former version, which knows no such marks, may have counted the event already.
        is_counted = any(mark.at <= to_millis(run.services.held_since + CLOCKS) for mark in waiting)
        is_being_read = any(run.is_being_read(mark, run.bucket_parts) for mark in marks)
        is_read = is_marked or is_counted or is_being_read or len(waiting) > MOST_ADDED
        if waiting and (is_read or not _add_to_cells(waiting, run, state)):
            _replace_marks(waiting, run.source, run.services)
        else:
            run.report.added += len(waiting)
        for mark in marks:
            run.services.rollups.clear_mark(run.source, mark)


def mark_new_events(source: str, start: datetime, end: datetime, services: Services) -> None:
    """Replace the marks of new events in a bucket that was just computed: nobody knows whether it has these events."""
    unknown = [mark for mark in services.rollups.read_marks(source, (start, end)) if mark.event and not mark.is_added]
    _replace_marks(unknown, source, services)
    for mark in unknown:
        services.rollups.clear_mark(source, mark)


def _replace_marks(marks: Sequence[Mark], source: str, services: Services) -> None:
    """Put a usual mark for the marks of new events. Their writers have ended, so it is no younger than they are."""
    newest = {(mark.bucket, mark.length): mark.at for mark in sorted(marks)}
    for (bucket, length), at in newest.items():
        services.rollups.put_marks(source, [bucket], at, length)


def _add_to_cells(marks: Sequence[Mark], run: RefreshRun, state: RollupState) -> bool:
    """Add new events to the cells of every sealed bucket that holds them; False if they cannot be added."""
    services = run.services
    now = services.clock.now()
    try:
        columns = _read_events(marks, run)
        if columns is None:
            return False
        puts = [
            Guarded(put, "newer")
            for definition in run.definitions
            for version in list_versions(definition, state)
            for bucket in dict.fromkeys(map(version.definition.floor, map(from_text, columns.times)))
            if version.start <= bucket < version.end and (definition.name, bucket) not in state.over
            for put in _make_puts(version, bucket, columns, now, services)
        ]
    except (BucketBlocked, BucketOver, TableMissing):
        return False
    if not puts:
        # No bucket with these events is sealed yet: sealing reads them.
        return True
    # Its version says that a mark is not added yet.
    puts += [Guarded(services.rollups.make_mark(run.source, mark._replace(is_added=True)), 1) for mark in marks]
    size = sum(count_item_bytes(guarded.put.item) for guarded in puts)
    if len(puts) > _MOST_ACTIONS or size > _MOST_BYTES:
        return False
    services.require_time()
    try:
        return services.reader.store.transact(puts) is Transacted.DONE
    except (CollectionFull, PutRefused, TableMissing):
        return False


def _read_events(marks: Sequence[Mark], run: RefreshRun) -> FieldColumns | None:
    """Read new events by their keys; None if any is missing, or its data is."""
    start, end = min(mark.bucket for mark in marks), max(mark.bucket + mark.length for mark in marks)
    reader, rows, damaged = run.services.reader, [], list[Item]()
    for entry in run.services.catalog.entries(run.source, start, end, consistent=True):
        keys = [Key(pk, sk) for table, pk, sk in (mark.event for mark in marks) if table == entry.table]
        found = list(reader.store.get_many(entry.table, keys).values()) if keys else []
        whole = reader.unpacker.complete_searched(found, entry.table, damaged.append)
        rows += [(*entry.layout.parse_names(item["pk"], item["sk"]), item["data"]) for item in whole]
    return make_columns(rows, (DATA,)) if len(rows) == len(marks) and not damaged else None


def _make_puts(
    version: DefinitionVersion, bucket: datetime, columns: FieldColumns, now: datetime, services: Services
) -> list[Put]:
    """Make the puts of the cells of a bucket with further events. Raises BucketOver if it is full then."""
    definition, sketches = version.definition, services.reader.sketches
    flags = [definition.floor(from_text(time)) == bucket for time in columns.times]
    content = Bucket(definition, sketches)
    content.add(columns.where(flags))
    entry = find_table(definition, bucket, services)
    if entry.state in FENCED:
        raise BucketBlocked(f"period {entry.period.label} of {entry.stream} may be archived at any moment")
    present = read_present(entry, bucket, services)
    held = {place: text for place, (event, text) in present.events.items() if not is_removed(event)}
    places = {entry.layout.make_sort_key(cell.time, cell.series, cell.id) for cell in content.make_events(bucket)}
    for place in places & held.keys():
        event, _ = present.events[place]
        content.merge_names(parse_names(definition, event))
        before = parse_cell(definition, event, sketches, definition.fields)
        if before is not None:
            content.merge(before)
    # A bucket also holds the names of its fields. The texts of its cells are longer than those of its groups.
    if len(places | held.keys()) > definition.max_groups or sum(map(len, held.values())) > MAX_TEXTS:
        raise BucketOver("the bucket may be over")
    return make_cell_puts(content.make_events(bucket), entry, present, now, services)
