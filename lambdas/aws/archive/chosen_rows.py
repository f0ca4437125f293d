"""The rows of a row group that meet all conditions: chosen by Arrow, before anything becomes an object of Python."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial, reduce
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from aws.archive.key_columns import NEWEST_VERSION, list_version_columns
from aws.archive.render import concatenate, join_pieces, quote_name
from aws.archive.rows import Note, PartRows, join_chunks, read_note
from aws.dynamodb.wire import plain
from tidetable.conditions import ANY, Condition, NameConditions
from tidetable.exact_json import decode_json, encode_json
from tidetable.forms.field_columns import DATA
from tidetable.layout import Layout, find_plain

_TEXT = pa.string()


class RowChoice(NamedTuple):
    """Which rows to choose: with ``start <= time < end`` in microseconds, and all conditions. Without ``every_version``, only
    the newest version of each event is chosen. ``ids`` says if the ids are needed.
    """

    start: int
    end: int
    names: NameConditions
    conditions: Sequence[Condition]
    every_version: bool = False
    ids: bool = True

    @property
    def by_id(self) -> NameConditions:
        """The conditions on ids alone."""
        return self.names._replace(series=(), series_prefix="")


class OpenPart(NamedTuple):
    """The file of a part. ``plan`` is told which ranges of bytes are read next."""

    file: pq.ParquetFile
    plan: Callable[[Iterable[tuple[int, int]]], None] = lambda _: None

    @property
    def note(self) -> Note:
        return read_note(self.file.schema_arrow)

    def plan_groups(self, numbers: Iterable[int], columns: Collection[str] | None = None) -> None:
        """Say which row groups are decoded next, and which of their columns; None stands for all."""
        ranges = []
        for number in numbers:
            group = self.file.metadata.row_group(number)
            for column in map(group.column, range(group.num_columns)):
                if columns is None or column.path_in_schema in columns:
                    start = column.dictionary_page_offset or column.data_page_offset
                    ranges.append((start, start + column.total_compressed_size))
        self.plan(ranges)


def list_columns(note: Note, layout: Layout, choice: RowChoice, fields: Iterable[str]) -> list[str]:
    """List the columns that are read for some paths of data."""
    paths = [*fields, *(condition.field for condition in choice.conditions)]
    # An id that is not kept is computed from all columns.
    whole = DATA in paths or (note.ids is not None and (choice.ids or choice.by_id != ANY))
    wanted = note.columns.keys() if whole else {path.partition(".")[0] for path in paths} & note.columns.keys()
    ids = ["id", "id_hex"] if choice.ids or choice.by_id != ANY else []
    return ["time", "series", *ids, *sorted(wanted), "data", *list_version_columns(layout)]


def choose_rows(
    part: OpenPart, number: int, layout: Layout, choice: RowChoice, columns: Sequence[str] | None = None
) -> tuple[pa.Table, pa.Array]:
    """Return the chosen rows of a row group, and the times of all rows of the range, in microseconds.

    If series are chosen, times and series are decoded before the other columns: most row groups have none of their rows.
    """
    file, versions = part.file, list_version_columns(layout)
    by_series, by_id = choice.names._replace(ids=(), id_prefix=""), choice.by_id
    table = file.read_row_group(number, columns=["time", "series", *versions] if by_series != ANY else columns)
    micros = join_chunks(table.column("time")).cast(pa.int64())
    chosen = pc.and_(pc.greater_equal(micros, choice.start), pc.less(micros, choice.end))
    if not choice.every_version:
        for version in map(table.column, versions):
            chosen = pc.and_(chosen, pc.equal(join_chunks(version), NEWEST_VERSION))
    looked = micros.filter(chosen)
    if by_series != ANY:
        series = join_chunks(table.column("series"))
        chosen = pc.and_(chosen, _check_each(series, lambda text: by_series.hold(text, "")))
        if not pc.any(chosen).as_py():
            schema = file.schema_arrow
            kept = schema if columns is None else pa.schema(map(schema.field, columns), schema.metadata)
            return kept.empty_table(), looked
        table = file.read_row_group(number, columns=columns)
    table = table.filter(chosen)
    if by_id != ANY or choice.conditions:
        rows = PartRows(table, layout)
        checks = [
            _check_each(render_values(rows, condition.field), partial(_holds, condition))
            for condition in choice.conditions
        ]
        if by_id != ANY:
            checks.append(_check_each(rows.ids, lambda text: by_id.hold("", text)))
        table = table.filter(reduce(pc.and_, checks))
    return table, looked


def _holds(condition: Condition, text: str) -> bool:
    """Check a condition on a value, which is JSON."""
    return condition._replace(field="value").holds({"value": decode_json(text)})


def _check_each(texts: pa.Array, holds: Callable[[str], bool]) -> pa.Array:
    """Check texts, each different text once. A missing text is not chosen."""
    encoded = texts.dictionary_encode()
    flags = pa.array([holds(text) for text in encoded.dictionary.to_pylist()], pa.bool_())
    return pc.fill_null(flags.take(encoded.indices), fill_value=False)


def render_values(rows: PartRows, path: str) -> pa.Array:
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
