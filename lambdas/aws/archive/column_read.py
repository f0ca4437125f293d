"""Read all events of a range of an archived period: filtered and written as JSON by Arrow, without an object per event.

A page has the first events in the order of time. Its end is chosen by the bounds of row groups in time, so that memory
holds about as many events as a page, however many parts the period has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from aws.archive.chosen_rows import OpenPart, RowChoice, choose_rows, list_columns, render_values
from aws.archive.key_columns import make_places, render_times
from aws.archive.range_read import RowGroup, list_groups, name_damage
from aws.archive.render import concatenate, escape_json, quote_name
from aws.archive.rows import PartRows, join_chunks
from tidetable.archive.manifest import Manifest, Part
from tidetable.exact_json import encode_json
from tidetable.forms.field_columns import DATA
from tidetable.forms.portions import find_portion_end
from tidetable.layout import Layout
from tidetable.ports import WholeRange
from tidetable.times import from_micros, from_text, to_micros, to_text

# The events of a page, and the bytes of its texts. AWS: an answer of a function has at most 6 MB, and pages are
# compressed, to a third of this for most data.
_MOST_EVENTS, _MOST_BYTES = 100_000, 8_000_000
# The bytes of an event's time, and of its series, which is a number.
_LEAST_BYTES = 36
_TEXT = pa.string()
_PLACES = [("time", "ascending"), ("place", "ascending")]


class ColumnsPage(NamedTuple):
    """The columns of a page as JSON, and the number of its events."""

    text: str
    events: int


class _Group(NamedTuple):
    """A row group of a part."""

    part: Part
    file: OpenPart
    at: RowGroup


def read_page(
    keys: WholeRange, manifest: Manifest, open_part: Callable[[Part], OpenPart], *, most_bytes: int = _MOST_BYTES
) -> ColumnsPage:
    """Read the first events of a range, and return them as JSON: see ``tidetable.archive.wire.decode_columns``."""
    start, end = (to_micros(from_text(text)) for text in (keys.start, keys.end))
    closed = manifest.find_parts(start, end, keys.names.series, keys.names.series_prefix)
    numbers = {part.key: number for number, (part, _) in enumerate(closed)}
    groups, edge, most = list[_Group](), end, _MOST_EVENTS
    while True:
        spans = [group.at.span for group in groups] + [(first, last + 1, part.events) for part, (first, last) in closed]
        if DATA in keys.fields and groups:
            # Whole events may be large: about as many are read as a page holds.
            size = sum(group.at.bytes for group in groups) / sum(group.at.rows for group in groups)
            most = min(_MOST_EVENTS, int(most_bytes / size) + 1)
        edge = find_portion_end(spans, start, end, most)
        # Only parts that may have events of the page are opened. Their row groups say more exactly where the page ends.
        opened = [part for part, (first, _) in closed if first < edge]
        if not opened:
            break
        closed = [(part, span) for part, span in closed if span[0] >= edge]
        for part in opened:
            with name_damage(part.key):
                file = open_part(part)
                every = list_groups(file, keys.conditions, keys.names)
                groups += [_Group(part, file, group) for group in every if group.overlaps(start, end)]
    read, unread = list[tuple[pa.Table, pa.Array]](), keys.skip + most
    # Pages divide the events of one time, so each page must have the row groups in the same order.
    groups = [group for group in groups if group.at.overlaps(start, edge)]
    groups.sort(key=lambda group: (numbers[group.part.key], group.at.number))
    for _, of_part in groupby(groups, key=lambda group: group.part.key):
        some = list(of_part)
        file, choice = some[0].file, RowChoice(start, edge, keys.names, keys.conditions, ids=keys.ids)
        columns = list_columns(file.note, manifest.layout, choice, keys.fields)
        file.plan_groups([group.at.number for group in some], columns)
        for group in some:
            # The events of a single time come in the order of row groups: it need not be read to its end.
            if edge > start + 1 or unread >= 0:
                with name_damage(group.part.key):
                    read.append(_read_group(group, keys, manifest.layout, choice, columns))
                unread -= len(read[-1][0])
        # What was fetched of a part is not needed while the others are read.
        file.plan_groups(())
    if not read:
        facts = {"reached": None if edge >= end else to_text(from_micros(edge)), "skip": 0, "read": 0}
        return ColumnsPage(_write_json(facts, keys), 0)
    table = pa.concat_tables([some for some, _ in read]).combine_chunks()
    # The sort is stable, so pages divide the events of one time in the order of parts and rows.
    table = table.take(pc.sort_indices(table.column("time"))).slice(keys.skip)
    count = _count_fitting(table, most_bytes)
    reached, skip = (None if edge >= end else edge), 0
    if count < len(table):
        times = table.column("time")
        reached = times[count].as_py()
        shown = pc.sum(pc.equal(times.slice(0, count), reached)).as_py() or 0
        skip = shown + (keys.skip if shown and reached == start else 0)
    looked = sum(len(times) if reached is None else pc.sum(pc.less(times, reached)).as_py() or 0 for _, times in read)
    facts = {"reached": None if reached is None else to_text(from_micros(reached)), "skip": skip, "read": looked}
    return ColumnsPage(_write_json(facts, keys, table.slice(0, count)), count)


def _read_group(
    group: _Group, keys: WholeRange, layout: Layout, choice: RowChoice, columns: Sequence[str]
) -> tuple[pa.Table, pa.Array]:
    """Read the chosen events of a row group, and the times of all that were looked at."""
    table, times = choose_rows(group.file, group.at.number, layout, choice, columns)
    rows = PartRows(table, layout)
    arrays = {"time": join_chunks(table.column("time")).cast(pa.int64()), "series": join_chunks(table.column("series"))}
    arrays |= {"id": rows.ids} if keys.ids else {}
    return pa.table(arrays | {f"value {path}": render_values(rows, path) for path in keys.fields}), times


def _count_fitting(table: pa.Table, most_bytes: int) -> int:
    """Count the first events of a page whose texts have ``most_bytes`` together, at least one, at most ``_MOST_EVENTS``."""
    sizes = pa.chunked_array([pa.array([_LEAST_BYTES] * len(table), pa.int64())])
    for name in table.column_names:
        if name not in ("time", "series"):
            sizes = pc.add(sizes, pc.fill_null(pc.binary_length(table.column(name)), 4))
    fitting = pc.sum(pc.less_equal(pc.cumulative_sum(sizes), most_bytes)).as_py() or 0
    return min(max(fitting, 1), _MOST_EVENTS, len(table))


def _write_json(facts: Mapping[str, Any], keys: WholeRange, table: pa.Table | None = None) -> str:
    """Write a page as JSON. Arrow joins the texts of each column."""
    lists = dict.fromkeys(("times", "names", "which", "ids"), "[]")
    values = dict.fromkeys(keys.fields, "[]")
    if table is not None and len(table):
        if keys.ids:
            # The first and the last event of a time are found by the order of all events.
            table = table.take(pc.sort_indices(table.append_column("place", make_places(table)), _PLACES))
        columns = {name: join_chunks(table.column(name)) for name in table.column_names}
        series = columns["series"].dictionary_encode()
        times = render_times(pc.cast(columns["time"], pa.timestamp("us")))
        lists["times"] = _join(concatenate('"', times, '"'))
        lists["names"] = _join(concatenate('"', escape_json(series.dictionary), '"'))
        lists["which"] = _join(pc.cast(series.indices, _TEXT))
        if keys.ids:
            lists["ids"] = _join(concatenate('"', escape_json(columns["id"]), '"'))
        values = {path: _join(columns[f"value {path}"]) for path in keys.fields}
    members = [f"{quote_name(name)}:{encode_json(fact).decode()}" for name, fact in facts.items()]
    members += [f"{quote_name(name)}:{text}" for name, text in lists.items()]
    inner = ",".join(f"{quote_name(path)}:{text}" for path, text in values.items())
    return f'{{{",".join(members)},"values":{{{inner}}}}}'


def _join(texts: pa.Array) -> str:
    """Join JSON texts to a list; a missing text is null."""
    listed = pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), pc.fill_null(texts, "null"))
    return f"[{pc.binary_join(listed, ',')[0].as_py()}]"
