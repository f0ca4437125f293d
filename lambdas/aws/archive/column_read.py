"""Read all events of a range of an archived period: filtered and written as JSON by Arrow, without an object per event.

A page has the first events in the order of time. Its end is chosen by the bounds of row groups in time, so that memory
holds about as many events as a page, however many parts the period has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC
from functools import partial, reduce
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aws.archive.key_columns import NEWEST_VERSION, list_version_columns, make_places, read_ids, render_times
from aws.archive.range_read import may_match, name_damage
from aws.archive.render import concatenate, escape_json, join_pieces, quote_name
from aws.archive.rows import PartRows, join_chunks, read_note
from aws.dynamodb.wire import plain
from tidetable.archive.manifest import Manifest, Part
from tidetable.conditions import ANY, Condition
from tidetable.exact_json import decode_json, encode_json
from tidetable.forms.field_columns import DATA
from tidetable.forms.portions import find_portion_end
from tidetable.layout import Layout, find_plain
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
    """A row group of a part, with its bounds in time, in microseconds."""

    part: Part
    file: pq.ParquetFile
    number: int
    first: int
    last: int
    rows: int
    bytes: int

    @property
    def span(self) -> tuple[int, int, int]:
        return self.first, self.last + 1, self.rows

    def overlaps(self, start: int, end: int) -> bool:
        return self.first < end and start <= self.last


def read_page(
    keys: WholeRange, manifest: Manifest, open_part: Callable[[Part], pq.ParquetFile], *, most_bytes: int = _MOST_BYTES
) -> ColumnsPage:
    """Read the first events of a range, and return them as JSON: see ``tidetable.archive.wire.decode_columns``."""
    start, end = (to_micros(from_text(text)) for text in (keys.start, keys.end))
    low, high = (manifest.layout.make_edge(from_text(text)) for text in (keys.start, keys.end))
    groups = list[_Group]()
    for part in manifest.find_parts(low, high):
        with name_damage(part.key):
            groups += [group for group in _list_groups(part, open_part(part), keys) if group.overlaps(start, end)]
    most = _MOST_EVENTS
    if DATA in keys.fields and groups:
        # Whole events may be large: about as many are read as a page holds.
        size = sum(group.bytes for group in groups) / sum(group.rows for group in groups)
        most = min(most, int(most_bytes / size) + 1)
    edge = find_portion_end([group.span for group in groups], start, end, most)
    read, unread = list[tuple[pa.Table, pa.Array]](), keys.skip + most
    for group in groups:
        # The events of a single time come in the order of row groups: it need not be read to its end.
        if group.overlaps(start, edge) and (edge > start + 1 or unread >= 0):
            with name_damage(group.part.key):
                read.append(_read_group(group, keys, manifest.layout, start, edge))
            unread -= len(read[-1][0])
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


def _list_groups(part: Part, file: pq.ParquetFile, keys: WholeRange) -> Iterator[_Group]:
    note = read_note(file.schema_arrow)
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        times = group.column(0).statistics
        if may_match(group, note, keys.conditions):
            first, last = (to_micros(time.replace(tzinfo=UTC)) for time in (times.min, times.max))
            yield _Group(part, file, number, first, last, group.num_rows, group.total_byte_size)


def _read_group(group: _Group, keys: WholeRange, layout: Layout, start: int, edge: int) -> tuple[pa.Table, pa.Array]:
    """Read the events of a row group before ``edge`` that meet all conditions, and the times of all that were looked at."""
    paths = dict.fromkeys([*keys.fields, *(condition.field for condition in keys.conditions)])
    note = read_note(group.file.schema_arrow)
    wanted = note.columns.keys() if DATA in paths else {path.partition(".")[0] for path in paths} & note.columns.keys()
    has_ids = keys.ids or keys.names.ids or keys.names.id_prefix
    names = ["time", "series", *(["id", "id_hex"] if has_ids else []), *sorted(wanted), "data"]
    table = group.file.read_row_group(group.number, columns=[*names, *list_version_columns(layout)])
    micros = pc.cast(join_chunks(table.column("time")), pa.int64())
    chosen = pc.and_(pc.greater_equal(micros, start), pc.less(micros, edge))
    for versions in map(table.column, list_version_columns(layout)):
        chosen = pc.and_(chosen, pc.equal(versions, NEWEST_VERSION))
    table, micros = table.filter(chosen), micros.filter(chosen)
    ids = read_ids({name: join_chunks(table.column(name)) for name in ("id", "id_hex")}) if has_ids else None
    arrays = {"time": micros, "series": join_chunks(table.column("series"))} | ({} if ids is None else {"id": ids})
    rows = PartRows(table, layout)
    arrays |= {f"value {path}": _render_values(rows, path) for path in paths}
    return pa.table(arrays).filter(_check(arrays, keys)), micros


def _check(arrays: Mapping[str, pa.Array], keys: WholeRange) -> pa.Array:
    """Mark the events that meet all conditions."""
    by_series, by_id = keys.names._replace(ids=(), id_prefix=""), keys.names._replace(series=(), series_prefix="")
    checks = [_check_each(arrays["series"], lambda text: by_series.hold(text, ""))]
    if by_id != ANY:
        checks.append(_check_each(arrays["id"], lambda text: by_id.hold("", text)))
    checks += [
        _check_each(arrays[f"value {condition.field}"], partial(_holds, condition)) for condition in keys.conditions
    ]
    return reduce(pc.and_, checks)


def _holds(condition: Condition, text: str) -> bool:
    """Check a condition on a value, which is JSON."""
    return condition._replace(field="value").holds({"value": decode_json(text)})


def _check_each(texts: pa.Array, holds: Callable[[str], bool]) -> pa.Array:
    """Check texts, each different text once. A missing text is not chosen."""
    encoded = texts.dictionary_encode()
    flags = pa.array([holds(text) for text in encoded.dictionary.to_pylist()], pa.bool_())
    return pc.fill_null(flags.take(encoded.indices), fill_value=False)


def _render_values(rows: PartRows, path: str) -> pa.Array:
    """Render the values at a path as JSON; null where there is none. The empty path is the whole data."""
    if path == DATA:
        pieces = [concatenate(f"{quote_name(name)}:", text) for name, text in rows.render_fields().items()]
        texts = concatenate("{", join_pieces(pieces, len(rows)), "}")
    else:
        texts = rows.render_fields([path]).get(path, pa.nulls(len(rows), _TEXT))
    # The values that no column could store exactly are beside the columns.
    others = rows.find_others("" if path == DATA else f"{quote_name(path.partition('.')[0])}:")
    replaced = []
    for _, data in rows.read_data(set(pc.indices_nonzero(others).to_pylist())):
        values = {name: plain(value) for name, value in data.items()}
        value = values if path == DATA else find_plain(values, path)
        replaced.append(None if value is None else encode_json(value).decode())
    return pc.replace_with_mask(texts, others, pa.array(replaced, _TEXT))


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
