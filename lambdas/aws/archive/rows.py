"""Rows of a part, converted back to items and events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC
from decimal import Decimal
from functools import cached_property
from itertools import repeat
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Raw

from aws.archive.data_columns import Column
from aws.archive.derived_ids import derive_ids
from aws.archive.index_columns import derive_wire, find_derived_indexes, render_derived
from aws.archive.key_columns import KeyColumns, list_version_columns, read_ids, read_versions, render_times
from aws.archive.render import (
    Parts,
    concatenate,
    escape_json,
    join_parts,
    list_leaf,
    quote_name,
    render_canonical,
)
from aws.dynamodb.wire import decode_item, plain
from tidetable.archive.digest import ItemsDigest
from tidetable.archive.manifest import IdRule
from tidetable.archive.ports import ArchivedRows
from tidetable.archive.reading import ArchivedEvent
from tidetable.batch import Batch
from tidetable.events import Event
from tidetable.exact_json import is_usual
from tidetable.layout import Layout

NOTE = b"tidetable"
_TEXT = pa.string()


class Note(msgspec.Struct, frozen=True):
    """The file's metadata: the fields of ``data`` that are columns, and their types.

    ``derived`` are the indexes whose derived attributes the file omits. ``ids`` is the rule of the ids that it omits.
    """

    columns: dict[str, str]
    derived: tuple[str, ...]
    ids: IdRule | None = None

    def all(self) -> list[Column]:
        """Return the columns in the order of their names."""
        return [Column(name, self.columns[name]) for name in sorted(self.columns)]


def read_note(schema: pa.Schema) -> Note:
    """Read the note of a part; ValueError for a Parquet file that this pipeline did not write."""
    metadata = schema.metadata or {}
    if NOTE not in metadata:
        raise ValueError("it is not a part of an archive: another program wrote this Parquet file")
    return msgspec.json.decode(metadata[NOTE], type=Note)


class PartRows:
    """Rows of a part, converted back to items, events or facts."""

    def __init__(self, table: pa.Table, layout: Layout) -> None:
        self._note = read_note(table.schema)
        self._arrays = {name: join_chunks(table.column(name)) for name in table.column_names}
        self._count = len(table)
        self._layout = layout
        self._derived = find_derived_indexes(layout, self._note.derived)

    @cached_property
    def _keys(self) -> Mapping[str, pa.Array]:
        return KeyColumns(self._layout, self._derived).restore(self._arrays | {"id": self.ids})

    @cached_property
    def ids(self) -> pa.Array:
        """The ids as text. An id that the part does not keep is computed from its event, which is completely in columns."""
        ids = read_ids(self._arrays)
        if self._note.ids is None or not ids.null_count:
            return ids
        missing = ids.is_null()
        rows = pc.indices_nonzero(missing)
        fields = {name: (column, texts.take(rows)) for name, (column, texts) in self._fields.items()}
        times = render_times(self._arrays["time"].take(rows).cast(pa.timestamp("us")))
        return pc.replace_with_mask(
            ids, missing, derive_ids(self._note.ids, times, self._arrays["series"].take(rows), fields)
        )

    @cached_property
    def _fields(self) -> Mapping[str, tuple[Column, pa.Array]]:
        """The columns that are fields of data, if they were read."""
        present = (column for column in self._note.all() if column.name in self._arrays)
        return {column.name: (column, column.text(self._arrays[column.name])) for column in present}

    @cached_property
    def _at(self) -> pa.Array:
        return pc.cast(pc.cast(self._arrays["accepted_at"], pa.int64()), _TEXT)

    def __len__(self) -> int:
        return self._count

    def render_fields(self, names: Iterable[str] | None = None) -> dict[str, pa.Array]:
        """Render the columns of data as JSON, by name and in order; null where a row has no value in the column."""
        fields = self._fields if names is None else {name: self._fields[name] for name in names if name in self._fields}
        rendered = {}
        for name, (column, texts) in fields.items():
            if column.letter == "S":
                texts = concatenate('"', escape_json(texts), '"')
            rendered[name] = pc.cast(texts, _TEXT)
        return rendered

    def find_others(self, text: str) -> pa.Array:
        """Mark the rows with values beside the columns, whose text contains this text."""
        rest = self._arrays["data"]
        return pc.and_(pc.not_equal(rest, "{}"), pc.match_substring(rest, text))

    def count_into(self, facts: ItemsDigest) -> None:
        """Add the rows' facts: by columns for rows that columns describe completely, row by row for the others."""
        arrays, keys = self._arrays, self._keys
        plain = pc.and_(pc.equal(arrays["data"], "{}"), arrays["attributes"].is_null())
        plain_rows = pc.indices_nonzero(plain)
        count = len(plain_rows)

        def take_plain(values: pa.Array) -> pa.Array:
            return values if count == self._count else values.take(plain_rows)

        fields: dict[str, Parts] = {}
        numbers = {}
        for name, (column, texts) in self._fields.items():
            values = take_plain(texts)
            if column.letter == "N":
                numbers[name] = values
            values = escape_json(values) if column.letter == "S" else values
            fields[name] = [f"{quote_name(name)}:", *list_leaf(column.letter, values)]
        data = join_parts(list(fields.values()), count)
        pieces: dict[str, Parts] = {
            "at": ['"at":', *list_leaf("N", take_plain(self._at))],
            "data": ['"data":{"M":{', data, "}}"],
        }
        chosen_keys = {name: take_plain(array) for name, array in keys.items()}
        for name, values in chosen_keys.items():
            pieces[name] = [f'"{name}":', *list_leaf("S", escape_json(values))]
        for index in self._derived:
            rendered = {name: concatenate(*parts) for name, parts in fields.items()} if index.project else {}
            derived = render_derived(
                index, chosen_keys[index.pk], rendered, lambda name: numbers.get(name, pa.nulls(count, _TEXT))
            )
            pieces |= {name: [texts] for name, texts in derived}
        texts = join_parts([pieces[name] for name in sorted(pieces)], count, "{", "}")
        texts = texts.cast(pa.binary()).to_pylist()
        other_rows = pc.indices_nonzero(pc.invert(plain)).to_pylist()
        if other_rows:
            texts += map(render_canonical, self.wire(set(other_rows)))
        add_facts(facts, texts, keys["pk"], keys["sk"])

    def wire(self, only: set[int] | None = None) -> Iterator[dict[str, Any]]:
        """Return the items in DynamoDB JSON: for every row, or only for the rows with the numbers in ``only``."""
        keys = {name: array.to_pylist() for name, array in self._keys.items()}
        attributes = self._arrays["attributes"].to_pylist()
        at = self._at.to_pylist()
        for row, data in self.read_data(only):
            item: dict[str, Any] = {
                name: {"S": values[row]} for name, values in keys.items() if values[row] is not None
            }
            if at[row] is not None:
                item["at"] = {"N": at[row]}
            item["data"] = {"M": data}
            for index in self._derived:
                if index.pk in item:
                    item |= derive_wire(index, data) or {}
            if attributes[row] is not None:
                item |= msgspec.json.decode(attributes[row])
            yield item

    def read_batch(self) -> ArchivedRows:
        """Read the usual events as a batch, and each other row as a whole item."""
        usual = pc.and_(self._arrays["attributes"].is_null(), self._at.is_valid())
        if list_version_columns(self._layout) or self._layout.indexes:
            usual = pa.repeat(pa.scalar(value=False), self._count)
        odd_rows = pc.indices_nonzero(pc.invert(usual)).to_pylist()
        batch = Batch(
            render_times(self._arrays["time"].cast(pa.timestamp("us"))).to_pylist(),
            self._arrays["series"].to_pylist(),
            self.ids.to_pylist(),
            self._read_datas() if len(odd_rows) < self._count else [{}] * self._count,
            pc.fill_null(self._arrays["accepted_at"].cast(pa.int64()), 0).to_pylist(),
        )
        return ArchivedRows(batch, dict(zip(odd_rows, map(decode_item, self.wire(set(odd_rows))), strict=True)))

    def _read_datas(self) -> list[dict[str, Any]]:
        """Read each row's data; numbers of columns stay as they are written."""
        columns = [_read_values(column, texts) for column, texts in self._fields.values()]
        rows = zip(*columns, strict=True) if columns else repeat((), self._count)
        datas = [dict(zip(self._fields, row, strict=True)) for row in rows]
        if any(texts.null_count for _, texts in self._fields.values()):
            datas = [{name: value for name, value in data.items() if value is not None} for data in datas]
        rest = self._arrays["data"]
        for row in pc.indices_nonzero(pc.not_equal(rest, "{}")).to_pylist():
            datas[row] |= decode_item(msgspec.json.decode(rest[row].as_py()))
        return datas

    def events(self) -> Iterator[ArchivedEvent]:
        """Read the events in the order of their sort keys."""
        versions = read_versions(self._layout, self._arrays, self._at)
        times, series = (self._arrays[name].to_pylist() for name in ("time", "series"))
        ids = self.ids.to_pylist()
        for row, data in self.read_data(None):
            values = {name: plain(value) for name, value in data.items()}
            event = Event(series[row], times[row].astimezone(UTC), ids[row], values)
            yield event, versions[row] if versions is not None else None

    def read_data(self, only: set[int] | None) -> Iterator[tuple[int, dict[str, Any]]]:
        """Read each row's ``data`` in DynamoDB JSON: values of columns, and values that no column could store exactly."""
        fields = [(name, column.letter, texts.to_pylist()) for name, (column, texts) in self._fields.items()]
        rest = self._arrays["data"].to_pylist()
        for row in range(self._count):
            if only is not None and row not in only:
                continue
            data: dict[str, Any] = {
                name: {letter: values[row]} for name, letter, values in fields if values[row] is not None
            }
            if rest[row] != "{}":
                data |= msgspec.json.decode(rest[row])
            yield row, data


def fill_ids(table: pa.Table, layout: Layout) -> pa.Table:
    """Return rows whose column ``id`` has every id as text, also those that the part does not keep."""
    at, packed = (table.schema.get_field_index(name) for name in ("id", "id_hex"))
    ids = PartRows(table, layout).ids
    return table.set_column(at, "id", ids).set_column(packed, "id_hex", pa.nulls(len(table), pa.binary()))


def _read_values(column: Column, texts: pa.Array) -> Sequence[Any]:
    """Read the values of a column; None where a row has none."""
    values: list[Any] = texts.to_pylist()
    if column.letter != "N":
        return values
    numbers = [value for value in values if value is not None]
    read = Raw if is_usual("".join([f"{number}\n" for number in numbers]).encode()) else Decimal
    return [None if value is None else read(value) for value in values]


def join_chunks(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def add_facts(facts: ItemsDigest, texts: list[bytes], pk: pa.Array, sk: pa.Array) -> None:
    """Take items into account: their canonical texts, and their keys."""
    partitions = Counter({entry["values"]: entry["counts"] for entry in pk.value_counts().to_pylist()})
    edges = pc.min_max(sk).as_py()
    facts.add(texts, partitions, edges["min"], edges["max"])
